"""One row of the conformance table for each operator that is claimed, at the limits: bits on any number of workers,
denormal numbers, infinities and NaN, and strides that 32 bits cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conformance.cases import CASES, Case

from nnc.backends.llvm.backend import LlvmBackend
from nnc.backends.llvm.run import steps
from nnc.backends.reference.backend import ReferenceBackend
from nnc.core.running.dispatch import Backend, Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import F32, U8
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.graph import Op
from nnc.ops.elementwise.pointwise import add
from nnc.ops.indexing.order import SEARCHSORTED
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.movement import TRANSPOSE, TransposeAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer

Array = NDArray[Any]
LLVM, REFERENCE = LlvmBackend(), ReferenceBackend()
TINY = 1e-39


def elements(case: Case) -> int:
    return sum(spec.elements for spec in case.specs(F32) if spec is not None)


def largest() -> dict[Op[Any], Case]:
    """For each operator the claimed row of f32 with most elements."""
    found: dict[Op[Any], Case] = {}
    for case in CASES:
        specs = case.specs(F32)
        if F32 in case.dtypes and elements(case) > (elements(found[case.op]) if case.op in found else -1):
            results = infer(case.op, case.attrs, specs)
            if not LLVM.refusal(Command(case.op, case.attrs), specs, results):
                found[case.op] = case
    return found


LARGEST = [pytest.param(case, id=op.name) for op, case in largest().items()]


def compute(backend: Backend, command: AnyCommand, arrays: Sequence[Array | None]) -> list[Array]:
    inputs = tuple(None if array is None else Tensor.from_numpy(array.copy()) for array in arrays)
    specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
    results = infer(command.op, command.attrs, specs)
    kernel = backend.kernel(command, specs, results)
    size = kernel.workspace_bytes
    workspace = Tensor.empty(TensorSpec((size,), U8)) if size else None
    outputs = tuple(Tensor.empty(result) for result in results)
    backend.program([Call(kernel, inputs, outputs, workspace)])()
    return [output.numpy() for output in outputs]


def given(case: Case) -> list[Array | None]:
    return list(case.arrays(F32))


def agree(case: Case, arrays: Sequence[Array | None], smallest: float) -> None:
    """The reference and ours, down to the `smallest` difference; infinities and NaN at the same places."""
    command = Command(case.op, case.attrs)
    with np.errstate(all="ignore"):
        wanted = compute(REFERENCE, command, arrays)
    for one, other in zip(compute(LLVM, command, arrays), wanted, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, smallest, equal_nan=True)


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", LARGEST)
def test_any_number_of_workers_gives_the_same_bits(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SERIAL_NANOSECONDS", -1.0)
    found = []
    for workers in (1, 2, 5):
        monkeypatch.setattr(SETTINGS, "threads", workers)
        found.append([array.tobytes() for array in compute(LLVM, Command(case.op, case.attrs), given(case))])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("case", LARGEST)
def test_denormal_numbers(case: Case) -> None:
    arrays = given(case)
    for index, array in enumerate(arrays):
        if array is not None and array.dtype == np.float32:
            arrays[index] = (array * TINY).astype(np.float32)
            break
    agree(case, arrays, 1e-43)


@pytest.mark.turns(5)
@pytest.mark.parametrize("case", LARGEST)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan], ids=str)
def test_what_is_not_finite(case: Case, value: float) -> None:
    arrays = given(case)
    for array in arrays:
        if array is not None and array.dtype == np.float32 and array.size:
            array.reshape(-1)[array.size // 2] = value
            if case.op is SEARCHSORTED:
                array.sort(axis=-1)
            break
    agree(case, arrays, 1e-5)


STRIDE = 2**29 + 5  # elements: 2 GiB and some


@pytest.mark.parametrize(
    "command",
    [
        Command(contiguous, NoAttrs()),
        Command(add, NoAttrs()),
        Command(TRANSPOSE, TransposeAttrs((1, 0))),
        Command(REDUCE_SUM, ReduceAttrs((0,))),
        Command(GEMM, GemmAttrs(transpose_b=True)),
    ],
    ids=lambda command: command.op.name,
)
def test_strides_beyond_32_bits(command: AnyCommand) -> None:
    """Memory that is never touched is never there."""
    rows, columns = 2, 5
    whole = Tensor.from_numpy(np.zeros(STRIDE + columns, np.float32))
    x = whole.view(TensorSpec((rows, columns), F32), 0, (STRIDE, 1))
    x.numpy()[:] = np.arange(10).reshape(rows, columns)
    near = np.ascontiguousarray(x.numpy())
    count = 2 if command.op in (add, GEMM) else 1
    absent = (None,) * (command.op is GEMM)
    inputs = (*(x for _ in range(count)), *absent)
    specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
    (result,) = infer(command.op, command.attrs, specs)
    output = Tensor.empty(result)
    LLVM.program([Call(LLVM.kernel(command, specs, (result,)), inputs, (output,))])()
    (want,) = compute(REFERENCE, command, (*(near for _ in range(count)), *absent))
    np.testing.assert_array_equal(output.numpy(), want)
