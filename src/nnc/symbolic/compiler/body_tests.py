"""Tests of loops and choices of branches, as functions on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.concrete import Place, Selector
from nnc.concrete.control import beyond
from nnc.core.values.device import CPU
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError
from nnc.symbolic.control import CaseAttrs


def integer(tensor: Tensor) -> int:
    """The only element."""
    return int(tensor.to(CPU).numpy().item())


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


def chooser(attrs: CaseAttrs, inputs: Sequence[Place]) -> Selector | Callable[..., int]:
    """What takes a branch: an integer as data, which a library can have, or a function."""
    count, has_bypass = len(attrs.branches), attrs.otherwise is not None
    if attrs.function is None:
        return Selector(inputs[0], count, has_bypass)
    return choice(attrs.function, count, has_bypass)
