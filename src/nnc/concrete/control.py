"""What decides: when a `while` goes on, and which branch a `case..of` takes.

    while   CountBelow(n)   NonZero(place)   PythonTest(function, inputs)
    case    Selector(place)   PythonChoice(function, inputs)   TapedChoice(node)

The Python ones call a function of tensors; the others are data, which a backend may run by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias, assert_never

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete.counter import Counter, Index
from nnc.concrete.multiview import Place
from nnc.concrete.tape import Node, TapeAccess
from nnc.core.values.device import CPU
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError, ShapeError, UsageError

PASS_THROUGH = -1


@checked
@dataclass(frozen=True, slots=True)
class CountBelow:
    """Go on while the loop's count < limit."""

    limit: int


@checked
@dataclass(frozen=True, slots=True, eq=False)
class NonZero:
    """Go on while the single element of `place` is not zero (or True); IndexRangeError beyond `at_most` iterations."""

    place: Place
    at_most: int | None = None

    def __post_init__(self) -> None:
        _check_single("while", self.place)


@checked
@dataclass(frozen=True, slots=True, eq=False)
class PythonTest:
    """Go on while `function(*inputs)` is true."""

    function: Callable[..., object]
    inputs: tuple[Place, ...] = ()


@checked
@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """Take the branch that the single integer in `place` names.

    With a `count` branches have the numbers below it; any other integer takes the branch of that number, the bypass,
    or is an IndexRangeError where there is none.
    """

    place: Place
    count: int | None = None
    has_bypass: bool = False

    def __post_init__(self) -> None:
        _check_single("case..of", self.place)


@checked
@dataclass(frozen=True, slots=True, eq=False)
class PythonChoice:
    """Take the branch that `function(*inputs)` names."""

    function: Callable[..., object]
    inputs: tuple[Place, ...] = ()


@checked
@dataclass(frozen=True, slots=True, eq=False)
class TapedChoice:
    """Take the branch that the forward case..of took, as the tape recalls it."""

    forward: Node


Test: TypeAlias = CountBelow | NonZero | PythonTest
Choice: TypeAlias = Selector | PythonChoice | TapedChoice


def holds(test: Test, counter: Counter, access: TapeAccess, index: Index) -> bool:
    """Whether the loop goes on."""
    match test:
        case CountBelow():
            return counter.count < test.limit
        case NonZero():
            goes_on = bool(access.read(test.place, index).to(CPU).numpy().item())
            if goes_on and test.at_most is not None and counter.count >= test.at_most:
                raise beyond()
            return goes_on
        case PythonTest():
            return bool(test.function(*(access.read(place, index) for place in test.inputs)))
        case _:
            assert_never(test)


def beyond() -> IndexRangeError:
    """The error of a loop that goes on behind its last iteration."""
    return IndexRangeError("while", got="a loop that goes on", need="an end within at_most", fix="raise at_most")


def choose(choice: Choice, offset: int, access: TapeAccess, index: Index) -> int:
    """The index of the branch: what the choice says + offset."""
    match choice:
        case Selector():
            return _bounded(choice, _integer(access.read(choice.place, index))) + offset
        case PythonChoice():
            return _integer(choice.function(*(access.read(place, index) for place in choice.inputs))) + offset
        case TapedChoice():
            if access.tape is None:
                raise UsageError("case..of", got="a run without a tape", need="the tape of the forward run")
            return access.tape.number(choice.forward, index)
        case _:
            assert_never(choice)


def _bounded(choice: Selector, number: int) -> int:
    """The number of the branch."""
    if choice.count is None or 0 <= number < choice.count:
        return number
    if not choice.has_bypass:
        need = f"0 ≤ choice < {choice.count}"
        raise IndexRangeError("case..of", got="a choice without a branch", need=need, fix="bypass=")
    return choice.count


def _integer(value: object) -> int:
    number = value.to(CPU).numpy().item() if isinstance(value, Tensor) and value.spec.elements == 1 else value
    try:
        return operator.index(number)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        raise UsageError("case..of", got=f"a choice of type {type(value).__name__}", need="an integer") from None


def _check_single(subject: str, place: Place) -> None:
    if place.spec.elements != 1:
        raise ShapeError(subject, got=str(place.spec), need="a tensor of one element")
