"""`x[index] = value` in functions that are compiled."""

from __future__ import annotations

from typing import Any

import pytest

import nnc
from nnc.errors import AttributeValueError


def test_assigned_arguments_are_values_of_the_function_alone() -> None:
    """`x[index] = value` gives the function's own name another value: the program still reads the argument."""

    def first(x: Any) -> Any:
        x[0] = 0.5
        return (x * x).sum()

    x = nnc.tensor([-1.0, 2.0, 3.0])
    assert nnc.compile(first)(x).item() == 13.25
    assert nnc.grad(nnc.compile(first))(x).tolist() == [0.0, 4.0, 6.0]
    assert x.tolist() == [-1.0, 2.0, 3.0]


def test_masks_that_only_a_run_knows_choose_places() -> None:
    @nnc.compile
    def changed(x: Any, mask: Any) -> Any:
        x[mask] = 0.5
        return x, x.at[mask].add(2.0), x.at[x > 2.0].multiply(10.0)

    x = nnc.tensor([-1.0, 2.0, 3.0])
    assert [y.tolist() for y in changed(x, x < 0)] == [[0.5, 2.0, 3.0], [2.5, 2.0, 3.0], [0.5, 2.0, 30.0]]
    rows = nnc.compile(lambda x, mask: x.at[mask].set(nnc.tensor([7.0, 8.0])))
    assert rows(nnc.ones((2, 2)), nnc.tensor([True, False])).tolist() == [[7.0, 8.0], [1.0, 1.0]]
    with pytest.raises(AttributeValueError, match="whose values only a run knows"):
        nnc.compile(lambda x: x.at[x > 0].set(nnc.tensor([1.0, 2.0])))(x)
