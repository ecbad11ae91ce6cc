"""Memory of somebody else's: what a gradient needs and finds written is an error that names the line which read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc.errors import UsageError

HERE = Path(__file__).name


def gradient(y: nnc.Variable, x: nnc.Variable) -> list[float]:
    (found,) = y.graph.backward([y], [x])
    return found.numpy().tolist()


def written(x: nnc.Variable) -> nnc.Variable:
    return (x * x).sum()


def of_a_part(x: nnc.Variable) -> nnc.Variable:
    return x[0] * x[1]


@pytest.mark.parametrize("function", [written, of_a_part])
def test_a_write_to_what_a_gradient_needs_is_an_error(function: Callable[[nnc.Variable], nnc.Variable]) -> None:
    memory = np.ones(2)
    x = nnc.variable(memory, share=True)
    y = function(x)
    memory[:] = 5.0
    with pytest.raises(UsageError, match=f"written since {HERE}:.* read it") as caught:
        gradient(y, x)
    assert HERE in caught.value.origin


def test_a_write_to_a_constant_that_a_gradient_needs_is_an_error() -> None:
    memory = np.ones(2)
    w = nnc.variable([2.0, 3.0], "f64")
    y = (w * nnc.tensor(memory, share=True)).sum()
    memory[0] = 7.0
    with pytest.raises(UsageError, match="shared memory"):
        gradient(y, w)


def test_memory_may_be_filled_again_for_each_step() -> None:
    memory = np.zeros(2)
    x = nnc.variable(memory, share=True)
    for value in (1.0, 2.0, 3.0):
        memory[:] = value
        assert gradient(written(x), x) == [2 * value] * 2


def test_an_older_reader_of_what_a_newer_one_found_changed_is_an_error() -> None:
    memory = np.ones(2)
    x = nnc.variable(memory, share=True)
    old = written(x)
    memory[:] = 4.0
    new = written(x)
    assert gradient(new, x) == [8.0, 8.0]
    with pytest.raises(UsageError, match="shared memory"):
        gradient(old, x)


def test_a_write_to_what_no_gradient_needs_is_none_of_its_business() -> None:
    memory = np.ones(2)
    x = nnc.variable(memory, share=True)
    y = (x + 1.0).sum()
    memory[:] = 9.0
    assert gradient(y, x) == [1.0, 1.0]


def test_a_write_through_dlpack_is_noticed_too() -> None:
    x = nnc.variable([1.0, 2.0])
    y = written(x)
    np.from_dlpack(x)[:] = 3.0
    with pytest.raises(UsageError, match="shared memory"):
        gradient(y, x)
    assert gradient(written(x), x) == [6.0, 6.0]
