from __future__ import annotations

import numpy as np
import pytest

from nnc.core.values.dtype import BF16, BOOL, F16, F32, I8, I32, I64, U8, DType
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph
from nnc.errors import DTypeError
from nnc.symbolic import SymbolicGraph, compile

MISFITS: tuple[tuple[object, DType, str], ...] = (
    ([1, 300], U8, r"300 at \[1\] into u8; need whole numbers from 0 to 255"),
    ([[1, 2], [3, -1]], U8, r"-1 at \[1, 1\] into u8"),
    (2**40, I32, "got 1099511627776 into i32"),
    (np.array([1, -129], np.int64), I8, r"-129 at \[1\] into i8"),
    (np.array([2**40]), I32, r"1099511627776 at \[0\]"),
    (np.array([1j]), F32, "c128 into f32.*need real numbers"),
)
FLOAT_MISFITS: tuple[tuple[object, DType, str], ...] = (
    (300.0, U8, "300.0 into u8"),
    ([1.0, 1.5], I32, r"1.5 at \[1\] into i32"),
    ([np.nan], I64, r"nan at \[0\]"),
    ([2.0**63], I64, r"at \[0\] into i64"),
    (np.array([np.inf], np.float16), I8, "inf"),
)


@pytest.mark.parametrize(("values", "dtype", "told"), [*MISFITS, *FLOAT_MISFITS])
def test_a_tensor_is_not_made_of_values_that_its_type_cannot_hold(values: object, dtype: DType, told: str) -> None:
    with pytest.raises(DTypeError, match=f"from_numpy: .*{told}"):
        Tensor.from_numpy(values, dtype)
    with pytest.raises(DTypeError, match=told):
        DynamicGraph(backend="reference").constant(values, dtype)


@pytest.mark.parametrize(("values", "dtype", "told"), MISFITS)
def test_nothing_is_written_where_one_value_does_not_fit(values: object, dtype: DType, told: str) -> None:
    tensor = Tensor.zeros(TensorSpec(np.shape(values), dtype))
    with pytest.raises(DTypeError, match=f"copy_from: .*{told}"):
        tensor.copy_from(values)
    assert not tensor.numpy().any()
    graph = SymbolicGraph()
    x = graph.input(TensorSpec(np.shape(values), dtype), "x")
    compiled = compile(graph, [x + x], backend="reference")
    with pytest.raises(DTypeError, match=told):
        compiled.write(x, values)


def test_what_fits_is_converted() -> None:
    for values, dtype in (
        ([0, 255], U8), (np.array([-(2**31), 2**31 - 1]), I32), ([1.0, -3.0], I8), (np.array([2.0**62]), I64),
        (np.array([7], np.uint8), I8), ([True, False], U8), ([], U8), (np.zeros((0,), np.float32), I32),
    ):  # fmt: skip
        np.testing.assert_array_equal(Tensor.from_numpy(values, dtype).numpy(), np.asarray(values))


def test_floats_are_rounded_and_truths_are_what_is_not_zero() -> None:
    assert Tensor.from_numpy([1e10], F16).numpy()[0] == np.inf
    assert Tensor.from_numpy([257], BF16).numpy()[0] == 256
    assert Tensor.from_numpy([0, 2], BOOL).numpy().tolist() == [False, True]


def test_an_item_of_integers_is_exact() -> None:
    item = DynamicGraph(backend="reference").constant(np.array([2**53 + 1])).item()
    assert isinstance(item, int)
    assert item == 2**53 + 1
