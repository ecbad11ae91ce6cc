"""Tests of loops and choices of branches, as functions on tensors."""

from __future__ import annotations

from collections.abc import Callable

from nnc.concrete.control import beyond
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError


def integer(tensor: Tensor) -> int:
    """The only element."""
    return int(tensor.numpy().item())


def bounded(function: Callable[..., object], last: int) -> Callable[..., bool]:
    """The test, with an error where it would let the loop go beyond its last iteration."""

    def test(count: Tensor, *tensors: Tensor) -> bool:
        goes_on = bool(function(*tensors))
        if goes_on and integer(count) >= last:
            raise beyond()
        return goes_on

    return test


def choice(function: Callable[..., int], count: int, has_bypass: bool) -> Callable[..., int]:
    """The branch to take: `count` stands for the bypass."""

    def choose(*tensors: Tensor) -> int:
        chosen = function(*tensors)
        if 0 <= chosen < count:
            return chosen
        if not has_bypass:
            raise IndexRangeError(
                "case..of", got="a choice without a branch", need=f"0 ≤ choice < {count}", fix="bypass="
            )
        return count

    return choose
