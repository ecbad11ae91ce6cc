"""Rows that need a graph: loops, branches, tensors written by ranges, gradients on the way.

Unrolled, a loop is its iterations one after another, and what a test decides is a choice between values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.symbolic.rows.operators import OF_FLOATS, PLAIN
from tests.symbolic.rows.scope import Row, Scope, Step, has_axes, is_any, is_float

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, F64, I64
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.ops.elementwise.pointwise import AFFINE, AffineAttrs, tanh
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, backward, case_of, while_loop

MOST_TRIPS = 3
COUNT, SYMBOL, FUNCTION, VALUES = range(4)


@dataclass(frozen=True)
class Recipe:
    """A loop: what it carries, what else its body reads, how often it runs at most, and what its test reads.

    What it gives back of each carried value is that value, the next one (its commands run in front of the test, once
    more than the rest), or the rows of all iterations.
    """

    carried: tuple[Symbol, ...]
    around: tuple[Symbol, ...]
    trips: int
    test: int
    given_back: int
    bounded: bool
    captured: bool
    step: Step

    def iterate(self, scope: Scope, values: Sequence[Symbol], count: Symbol, around: Sequence[Symbol]) -> list[Symbol]:
        """One iteration: from carried values to the next ones."""
        floats = [ops.cast(count, symbol.spec.dtype) for symbol in self.carried[:1] if is_float(symbol)]
        inner = scope.inner([*around, count, *floats, *values], count.graph, closed=self.captured)
        inner.run(self.step.inner)
        return [
            _other(inner, self.step.second + 5 * place, symbol, value)
            for place, (symbol, value) in enumerate(zip(self.carried, values, strict=True))
        ]

    def goes_on(self, values: Sequence[Symbol], count: Symbol) -> Symbol:
        """The test as a tensor: the count, and for some loops what is carried."""
        below = ops.less(count, ops.scalar_like(count, self.trips))
        floats = [value for value in values if is_float(value)]
        if self.test != VALUES or not floats:
            return below
        total = ops.cast(ops.reduce_mean(floats[0]), F64)
        return ops.logical_and(below, ops.less(total, ops.scalar_like(total, 0.25)))

    def gives_next(self, place: int) -> bool:
        """Whether the result is the next value."""
        return (self.given_back + place) % 3 == 1

    def gives_rows(self, place: int) -> bool:
        """Whether the values of all iterations are a result."""
        return (self.given_back + place) % 5 == 2 and self.bounded and self.trips > 0


def _other(scope: Scope, number: int, like: Symbol, fallback: Symbol) -> Symbol:
    """An operand with the spec of `like`."""
    found = scope.alike(number, like.spec)
    return fallback if found is None else found


def _recipe(scope: Scope, a: Symbol, step: Step) -> Recipe:
    option = step.option
    carried = [a]
    for place in range(option % 3):
        carried.append(scope.choose(step.second + 3 * place, is_any))
    around = tuple(scope.choose(step.first + place, is_any) for place in range(2))
    test = (COUNT, COUNT, SYMBOL, FUNCTION, VALUES)[option // 12 % 5]
    bounded = test == COUNT or option // 60 % 4 > 0
    return Recipe(
        tuple(carried),
        around,
        option // 3 % (MOST_TRIPS + 1),
        test,
        option // 240,
        bounded,
        bool(option // 7 % 2),
        step,
    )


def _loop(scope: Scope, a: Symbol, step: Step) -> Sequence[Symbol]:
    recipe = _recipe(scope, a, step)
    if scope.unrolled:
        return _unrolled_loop(recipe, scope)
    assert scope.graph is not None
    trips, counts = recipe.trips, recipe.test == COUNT
    test, at_most = (CountBelow(trips), None) if counts else (None, trips if recipe.bounded else None)
    with while_loop(scope.graph, test, at_most=at_most) as loop:
        symbols = [loop.carry(symbol) for symbol in recipe.carried]
        around = [loop.capture(symbol) for symbol in recipe.around] if recipe.captured else recipe.around
        following = [loop.body.symbol(loop.body.own(one)) for one in recipe.iterate(scope, symbols, loop.count, around)]
        if recipe.test == FUNCTION:
            loop.go_on_while(lambda count: _number(count) < trips, loop.count)
        elif not counts:
            loop.go_on_while(recipe.goes_on(symbols, loop.count))
        for symbol, value in zip(symbols, following, strict=True):
            loop.next(symbol, value)
    found = []
    for place, (symbol, value) in enumerate(zip(symbols, following, strict=True)):
        found.append(loop.result(value if recipe.gives_next(place) else symbol))
        if recipe.gives_rows(place):
            found.append(loop.rows(value if recipe.gives_next(place) else symbol))
    return [*found, loop.exit_count]


def _number(tensor: Tensor) -> int:
    return int(tensor.numpy().item())


def _unrolled_loop(recipe: Recipe, scope: Scope) -> Sequence[Symbol]:
    """Every iteration there may be; where the test reads values, those behind its end leave all as it is."""
    values, active, reads = list(recipe.carried), None, recipe.test == VALUES
    exit_count = _whole_number(values[0], 0 if reads else recipe.trips)
    rows: list[list[Symbol]] = [[] for _ in values]
    for trip in range(recipe.trips):
        index = _whole_number(values[0], trip)
        if reads:
            holds = recipe.goes_on(values, index)
            active = holds if active is None else ops.logical_and(active, holds)
            exit_count = exit_count + ops.cast(active, I64)
        following = recipe.iterate(scope, values, index, recipe.around)
        for place, (new, old) in enumerate(zip(following, values, strict=True)):
            kept = new if recipe.gives_next(place) else old
            zero = ops.fill_like(kept, 0.0)
            rows[place].append(kept if active is None else ops.where(active, kept, zero))
        values = [
            new if active is None else ops.where(active, new, old) for new, old in zip(following, values, strict=True)
        ]
    last = recipe.iterate(scope, values, exit_count, recipe.around)
    found = []
    for place, (symbol, value) in enumerate(zip(values, last, strict=True)):
        found.append(ops.contiguous(value if recipe.gives_next(place) else symbol))
        if recipe.gives_rows(place):
            found.append(ops.concatenate([ops.reshape(row, (1, *row.shape)) for row in rows[place]]))
    return [*found, exit_count]


def _whole_number(like: Symbol, value: int) -> Symbol:
    """A constant i64[] in the graph of `like`."""
    return like.apply(Command(FILL, FillAttrs(float(value), TensorSpec((), I64))), ())[0]


def _branches(scope: Scope, a: Symbol, step: Step) -> Sequence[Symbol]:
    """Two branches, perhaps none of them; the choice hangs on values, on a constant or on a function's answer."""
    operands = [a, scope.choose(step.second, is_any)]
    wanted = operands[: 1 + step.option % 2]
    passes, middle = step.option // 2 % 2, len(step.inner) // 2
    choice = _choice(scope, step, passes)
    parts = (step.inner[:middle], step.inner[middle:])

    def branch(part: Sequence[Step], *values: Symbol) -> tuple[Symbol, ...]:
        inner = scope.inner([*scope.operands[-3:], *values], values[0].graph, closed=False)
        inner.run(part)
        return tuple(_other(inner, step.first + place, like, values[place]) for place, like in enumerate(wanted))

    if scope.unrolled:
        values = [branch(part, *operands) for part in parts]
        bypass = [*wanted] if passes else values[0]
        results = []
        for place in range(len(wanted)):
            first = ops.where(ops.equal(choice, _whole_number(a, 0)), values[0][place], bypass[place])
            results.append(ops.where(ops.equal(choice, _whole_number(a, 1)), values[1][place], first))
        return results
    assert scope.graph is not None
    functions: list[Callable[..., tuple[Symbol, ...]]] = [
        lambda *values, part=part: branch(part, *values) for part in parts
    ]
    asked = (_number, [choice]) if step.option // 8 % 4 == 0 else choice
    return case_of(scope.graph, asked, functions, operands, bypass=wanted if passes else None)


def _choice(scope: Scope, step: Step, passes: int) -> Symbol:
    """0 or 1; with a bypass −1 as well. Not a number is the smallest."""
    found = scope.choose(step.first + 1, is_float)
    assert found is not None
    if step.option // 4 % 4 == 3:
        return _whole_number(found, step.option // 16 % 2)
    total = ops.cast(ops.reduce_sum(found), F32)
    above = [ops.cast(ops.greater(total, ops.scalar_like(total, low)), I64) for low in (-0.5, 0.5)]
    return ops.affine(above[0] + above[1], 1.0, -1.0) if passes else above[0]


def _written_by_ranges(scope: Scope, a: Symbol, step: Step) -> Sequence[Symbol]:
    """A tensor that several commands write side by side; some of it comes from outside at times, or is its fill."""
    b = scope.alike(step.second, a.spec)
    parts = [a, b] if step.option % 3 else [a, b, a]
    command = _WRITERS[step.second % 3 if is_float(a) else 0]
    fill = float(step.second % 2) if step.option % 4 == 1 else None
    if not isinstance(a, Symbol):
        written = [part.apply(command, [part])[0] for part in parts]
        first = written[0] if fill is None else ops.fill_like(a, fill)
        return [ops.concatenate([first, *written[1:]], step.option % len(a.shape))]
    axis, start, size = step.option % len(a.shape), 0, a.shape[step.option % len(a.shape)]
    graph = max((part.graph for part in parts), key=lambda graph: len(graph.around()))
    shape = (*a.shape[:axis], size * len(parts), *a.shape[axis + 1 :])
    if TensorSpec(shape).elements > 128:
        return []
    whole = graph.input(replace(a.spec, shape=shape), fill=fill)
    from_outside = scope.outside is not None and step.option % 4 == 0
    if from_outside:
        assert scope.outside is not None
        scope.outside.append(whole)
    for place, part in enumerate(parts):
        if place or not (from_outside or fill is not None):
            graph.apply(command, [part], [ops.slice_axis(whole, axis, start, start + size)])
        start += size
    return [whole]


_WRITERS = (Command(contiguous, NoAttrs()), Command(tanh, NoAttrs()), Command(AFFINE, AffineAttrs(0.5, 0.25)))


def _slope(scope: Scope, a: Symbol, step: Step) -> Sequence[Symbol]:
    """d(sum of a) / dx for an earlier x of the same graph."""
    x = scope.choose(step.second, is_float)
    if not scope.closed:
        return []
    assert scope.graph is not None
    return backward(scope.graph, [a], [x])


RANGES = Row("ranges", has_axes(1, 4, is_any), _written_by_ranges)
# On floats alone, without control: for symbols and for eager variables.
FLOATS: tuple[Row, ...] = (*(row for row in PLAIN if row.name in OF_FLOATS), RANGES, RANGES)
# Unrolled, two carried values may be one symbol, so that a gradient inside of a body means something else.
UNROLLABLE: tuple[Row, ...] = (
    *PLAIN,
    *(Row("loop", is_any, _loop),) * 5,
    *(Row("branches", is_float, _branches),) * 4,
    *(RANGES,) * 4,
)
ALL: tuple[Row, ...] = (*UNROLLABLE, *(Row("slope", is_float, _slope),) * 2)
