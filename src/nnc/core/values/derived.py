"""Numbers that follow from sizes which a kernel reads when it runs; generators compute with them as with integers.

    derivation = Derivation();  rows = derivation.read(56)
    rows * 4 + 1       another derived number
    rows % 16 == 0     False, which is a condition of the code from here on
    f"{rows}"          "56", and `rows == 56` is a condition

Where a builder is given one it loads a word. What was computed is kept in order, as formulas: of other sizes that meet
all conditions the code is the same, and the formulas tell its words (docs/design/0032-kernels-read-sizes.md).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from nnc.classes import dataclass

Known = int | float | bool
Read = Callable[[int], int]
# Of the numbers that are known so far, by their places.
Function = Callable[[Sequence[Known]], Known]
CONSTANT, CALL = "constant", "call"
# What a call reads.
ALL = -1
# The name of the type of tables.
INTEGER = "i64"


def _negative(number: Any, _: object) -> Any:
    return -number


def _ceil(number: Any, _: object) -> int:
    result: int = math.ceil(number)
    return result


def _whether_at_most(left: Any, right: Any) -> int:
    return int(left <= right)


def _reciprocal(number: Any, _: object) -> int:
    return int((1 << RECIPROCAL_BITS) // max(number, 1) + 1)


def is_binary(number: float, _: object = None) -> bool:
    """Whether a number is a power of two, or the negative of one."""
    return math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


# n // d = n * reciprocal(d) >> 63 where n · d < 2^63: what is added to 1 / d is at most 2^-63.
RECIPROCAL_BITS = 63
# `Any`: of integers and of floats.
OPERATIONS: Mapping[str, Callable[[Any, Any], Known]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "quotient": operator.floordiv, "remainder": operator.mod, "negative": _negative, "ceil": _ceil,
    "reciprocal": _reciprocal,
    "smallest": min, "largest": max, "whether_at_most": _whether_at_most, "power_of_two": is_binary,
    "less": operator.lt, "at_most": operator.le, "equal": operator.eq,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """numbers[k] = operation(numbers[left], numbers[right]); `expected` of a condition.

    A constant is its own `left`, and that of a call is which function of all numbers so far.
    """

    operation: str
    left: Known
    right: int = 0
    expected: bool | None = None


class PreparedSteps:
    """Room for the steps of formulas as they are gone through; it is no field of the formulas."""

    __slots__ = ("_constants", "_rows")
    _rows: tuple[tuple[int, Callable[[Any, Any], Known], int, int, bool | None], ...]
    _constants: list[Known]


@dataclass(frozen=True, slots=True)
class Formulas(PreparedSteps):
    """What was computed of `sizes` numbers that are read, one step after another."""

    sizes: int
    steps: tuple[Step, ...]
    functions: tuple[Function, ...] = ()

    def at(self, sizes: Sequence[Known]) -> list[Known] | None:
        """All numbers at these sizes; None where they do not meet a condition."""
        if len(sizes) != self.sizes:
            return None
        try:
            rows = self._rows
        except AttributeError:
            rows = self._prepare()
        numbers: list[Known] = [*sizes, *self._constants]
        for place, operation, left, right, expected in rows:
            if right == ALL:
                numbers[place] = operation(numbers, None)
                continue
            result = operation(numbers[left], numbers[right])
            if expected is not None and result is not expected:
                return None
            numbers[place] = result
        return numbers

    def _prepare(self) -> tuple[tuple[int, Callable[[Any, Any], Known], int, int, bool | None], ...]:
        """The steps but for constants, each with its place."""
        rows = tuple(
            (place, _called(self.functions[int(step.left)]), 0, ALL, None)
            if step.operation == CALL
            else (place, OPERATIONS[step.operation], int(step.left), step.right, step.expected)
            for place, step in enumerate(self.steps, self.sizes)
            if step.operation != CONSTANT
        )
        # What is no constant is computed before it is read.
        object.__setattr__(self, "_constants", [step.left for step in self.steps])
        object.__setattr__(self, "_rows", rows)
        return rows


def _called(function: Function) -> Callable[[Any, Any], Known]:
    return lambda numbers, _: function(numbers)


class Derivation:
    """Formulas in the making. After `close` its numbers are plain ones, for tables that kept some."""

    __slots__ = ("_formulas", "_functions", "_places", "_steps", "closed", "sizes", "words")

    def __init__(self) -> None:
        self._functions: list[Function] = []
        self._formulas: Formulas | None = None
        self.sizes = 0
        self.closed = False
        # The place of each number that the code reads, with the name of its type.
        self.words: list[tuple[int, str]] = []
        self._steps: list[Step] = []
        self._places: dict[tuple[str, Known, int, type], int] = {}

    def read(self, size: int) -> int:
        """The next size, which stands where an integer is expected. Before all computing."""
        assert not self._steps, "sizes are read first"
        self.sizes += 1
        return cast("int", self.number(self.sizes - 1, size))

    def number(self, place: int, value: Known) -> Derived:
        """The number at a place."""
        return Derived(self, place, value)

    def word(self, number: Derived, kind: str) -> int:
        """Which word of the kernel holds this number, in this type."""
        key = (number.place, kind)
        if key not in self.words:
            self.words.append(key)
        return self.words.index(key)

    def reserve(self, numbers: Sequence[Known]) -> int:
        """The first of as many words one behind another, of integers."""
        first = len(self.words)
        self.words += [(self.place(number), INTEGER) for number in numbers]
        return first

    def close(self) -> Formulas:
        """The formulas; nothing is computed after them.

        Of what a table kept, numbers stay for as long as it is there, and what they were computed by does not.
        """
        if self._formulas is None:
            self.closed = True
            self._formulas = Formulas(self.sizes, tuple(self._steps), tuple(self._functions))
            self._steps, self._places, self._functions = [], {}, []
        return self._formulas

    def place(self, number: Known | Derived) -> int:
        """Where a number is among those that are known."""
        if isinstance(number, Derived):
            return number.place
        return self._step(CONSTANT, number, 0, None)

    def combine(self, operation: str, left: Derived, right: Derived) -> Derived:
        """A number of two."""
        value = OPERATIONS[operation](left.value, right.value)
        return self.number(self._step(operation, left.place, right.place, None), value)

    def called(self, function: Function, value: Known) -> Derived:
        """A number that a function makes of others, with its value now."""
        self._functions.append(function)
        return self.number(self._step(CALL, len(self._functions) - 1, 0, None), value)

    def condition(self, operation: str, left: Known | Derived, right: Known | Derived) -> bool:
        """A comparison, whose outcome the code depends on."""
        outcome = bool(OPERATIONS[operation](_plain(left), _plain(right)))
        self._step(operation, self.place(left), self.place(right), outcome)
        return outcome

    def _step(self, operation: str, left: Known, right: int, expected: bool | None) -> int:
        key = (operation, left, right, type(left))
        if key not in self._places:
            self._steps.append(Step(operation, left, right, expected))
            self._places[key] = self.sizes + len(self._steps) - 1
        return self._places[key]


def _plain(number: Any) -> Any:
    return number.value if isinstance(number, Derived) else number


class Derived:
    """A number that follows from sizes which are read, with its value at the sizes at hand."""

    __slots__ = ("derivation", "place", "value")

    def __init__(self, derivation: Derivation, place: int, value: Known) -> None:
        self.derivation = derivation
        self.place = place
        self.value = value

    @property
    def reciprocal(self) -> int:
        """What a division by it multiplies with: where an integer is expected."""
        return cast("int", self._combined("reciprocal", self))

    @property
    def pinned(self) -> Known:
        """The value; that it is this one is a condition of the code."""
        if not self.derivation.closed:
            self.derivation.condition("equal", self, self.value)
        return self.value

    def _combined(self, operation: str, other: object, *, swapped: bool = False) -> Any:
        if not isinstance(other, int | float | Derived):
            return NotImplemented
        left, right = (other, self) if swapped else (self, other)
        made = _open(left, right)
        if made is None:
            return OPERATIONS[operation](_plain(left), _plain(right))
        if (kept := _unchanged(operation, left, right)) is not None:
            return kept
        return made.combine(operation, _in(made, left), _in(made, right))

    def _compared(self, operation: str, other: object, *, swapped: bool = False) -> Any:
        if not isinstance(other, int | float | Derived):
            return NotImplemented
        left, right = (other, self) if swapped else (self, other)
        made = _open(left, right)
        if made is None or left is right:
            return OPERATIONS[operation](_plain(left), _plain(right))
        return made.condition(operation, _in(made, left), _in(made, right))

    def __add__(self, other: object) -> Any:
        return self._combined("add", other)

    def __radd__(self, other: object) -> Any:
        return self._combined("add", other, swapped=True)

    def __sub__(self, other: object) -> Any:
        return self._combined("subtract", other)

    def __rsub__(self, other: object) -> Any:
        return self._combined("subtract", other, swapped=True)

    def __mul__(self, other: object) -> Any:
        return self._combined("multiply", other)

    def __rmul__(self, other: object) -> Any:
        return self._combined("multiply", other, swapped=True)

    def __truediv__(self, other: object) -> Any:
        return self._combined("divide", other)

    def __rtruediv__(self, other: object) -> Any:
        return self._combined("divide", other, swapped=True)

    def __floordiv__(self, other: object) -> Any:
        return self._combined("quotient", other)

    def __rfloordiv__(self, other: object) -> Any:
        return self._combined("quotient", other, swapped=True)

    def __mod__(self, other: object) -> Any:
        return self._combined("remainder", other)

    def __rmod__(self, other: object) -> Any:
        return self._combined("remainder", other, swapped=True)

    def __neg__(self) -> Any:
        return self._combined("negative", self)

    def __ceil__(self) -> Any:
        return self._combined("ceil", self)

    def __lt__(self, other: object) -> Any:
        return self._compared("less", other)

    def __le__(self, other: object) -> Any:
        return self._compared("at_most", other)

    def __gt__(self, other: object) -> Any:
        return self._compared("less", other, swapped=True)

    def __ge__(self, other: object) -> Any:
        return self._compared("at_most", other, swapped=True)

    def __eq__(self, other: object) -> Any:
        return self._compared("equal", other)

    def __bool__(self) -> bool:
        return not self._compared("equal", 0)

    def __hash__(self) -> int:
        return hash(self.pinned)

    def __index__(self) -> int:
        return operator.index(cast("int", self.pinned))

    def __int__(self) -> int:
        return int(self.pinned)

    def __float__(self) -> float:
        return float(self.pinned)

    def __str__(self) -> str:
        return str(self.pinned)

    def __format__(self, form: str) -> str:
        return format(self.pinned, form)

    def __repr__(self) -> str:
        return f"Derived({self.value})"


def _open(*numbers: object) -> Derivation | None:
    """The derivation that two numbers belong to, if one is still made."""
    return next(
        (number.derivation for number in numbers if isinstance(number, Derived) and not number.derivation.closed), None
    )


def _in(made: Derivation, number: Known | Derived) -> Derived:
    """A number of this derivation: a plain one, or one of a closed derivation, is a constant."""
    if isinstance(number, Derived) and number.derivation is made:
        return number
    # That of another one that is still made holds for its value alone.
    value: Known = number.pinned if isinstance(number, Derived) else number
    return made.number(made.place(value), value)


def _unchanged(operation: str, left: Known | Derived, right: Known | Derived) -> Known | Derived | None:
    """What needs no computing: x + 0, x - 0, x · 1, x // 1."""
    if type(right) is int and right == UNCHANGING.get(operation):
        return left
    return right if operation in ("add", "multiply") and type(left) is int and left == UNCHANGING[operation] else None


UNCHANGING = {"add": 0, "subtract": 0, "multiply": 1, "quotient": 1}


def derived(number: object) -> Derived | None:
    """The number, if it follows from what is read."""
    return number if type(number) is Derived else None


def smallest(left: int, right: int) -> int:
    """min(left, right); which of them it is makes no condition."""
    return _extreme("smallest", left, right)


def largest(left: int, right: int) -> int:
    """max(left, right); which of them it is makes no condition."""
    return _extreme("largest", left, right)


def whether_at_most(left: int, right: int) -> int:
    """1 where left <= right, else 0; which of them it is makes no condition."""
    return _extreme("whether_at_most", left, right)


def _extreme(operation: str, left: object, right: object) -> int:
    if isinstance(left, Derived):
        return cast("int", left._combined(operation, right))
    if isinstance(right, Derived):
        return cast("int", right._combined(operation, left))
    return cast("int", OPERATIONS[operation](left, right))


def known(number: Known) -> bool:
    """Whether the code may depend on a number: one that is read makes no condition where this is asked first."""
    return derived(number) is None


def known_multiple(number: int, factor: int) -> bool:
    """Whether a number is a multiple of another one at all sizes."""
    return known(number) and number % factor == 0


@dataclass(frozen=True, slots=True)
class Blank:
    """What stands where a size is read, in the outline of a generator: all sizes are alike there."""


def blank() -> int:
    """It stands where an integer is expected."""
    return cast("int", Blank())
