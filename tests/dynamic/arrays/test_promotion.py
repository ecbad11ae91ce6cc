"""Element types that meet: as PyTorch and NumPy have them where they agree, and not at all where it is asked."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import combinations_with_replacement

import ml_dtypes
import numpy as np
import pytest

import nnc
from nnc.core.settings import SETTINGS
from nnc.errors import DTypeError

TYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool")
# PyTorch's rules where NumPy has others: integers beside a float are of its type, f16 beside bf16 is f32.
OF_NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16} | {
    name: np.dtype({"i": "i", "u": "u", "b": "b"}[name[0]] + str(int(name[1:] or 8) // 8)) for name in TYPES[4:-1]
}


def expected(one: str, other: str) -> np.dtype[np.generic]:
    """By NumPy, and by PyTorch where the two differ."""
    floats = [name for name in (one, other) if name in TYPES[:4]]
    if {one, other} == {"f16", "bf16"}:
        return np.dtype(np.float32)
    if len(floats) == 1:
        return np.dtype(OF_NUMPY[floats[0]])
    return np.result_type(*(bool if name == "bool" else OF_NUMPY[name] for name in (one, other)))


@pytest.mark.parametrize(("one", "other"), [*combinations_with_replacement(TYPES, 2)])
@pytest.mark.parametrize("rule", [operator.add, operator.mul])
def test_any_two_types_meet(one: str, other: str, rule: Callable[[object, object], nnc.Variable]) -> None:
    a, b = nnc.tensor([1, 0, 1], dtype=one), nnc.tensor([1, 1, 0], dtype=other)
    for result in (rule(a, b), rule(b, a)):
        assert result.dtype.numpy == expected(one, other)
        want = rule(np.array([1, 0, 1], bool), np.array([1, 1, 0], bool)) if one == other == "bool" else None
        numbers = rule(np.array([1, 0, 1]), np.array([1, 1, 0])) if want is None else want
        np.testing.assert_array_equal(result.numpy().astype(np.float64), numbers)


@pytest.mark.parametrize("number", [True, np.True_])
def test_truth_values_beside_a_truth_value(number: bool) -> None:
    x = nnc.tensor([True, False])
    for result, want in ((x + number, [True, True]), (number + x, [True, True]), (x * number, [True, False])):
        assert (result.dtype.name, result.tolist()) == ("bool", want)


def test_where_types_are_strict_two_never_meet_and_numbers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "strict_types", True)
    x, y = nnc.tensor([1.0, 2.0]), nnc.tensor([1, 2])
    with pytest.raises(DTypeError, match=r"got f32\[2\], i64\[2\]; need one element type. Fix: astype\(\)"):
        _ = x + y
    assert (x * 2 + 1.5).dtype.name == "f32"
    assert (x + y.astype("f32")).tolist() == [2.0, 4.0]
