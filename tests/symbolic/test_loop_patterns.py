"""Loop patterns: how many buffers the state of a loop takes, that no byte of it is copied, and that no bit differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from tests.symbolic.evaluation import Array, inputs_of, random_arrays, values_of

from nnc.concrete import CountBelow
from nnc.concrete.body import ConcreteBody, Exec, all_bodies
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.ops import reduce_sum
from nnc.ops.elementwise.pointwise import less, sigmoid, tanh
from nnc.ops.indexing.indexing import index_select
from nnc.ops.movement.copy import contiguous
from nnc.symbolic import Compiled, Loop, Symbol, SymbolicGraph, case_of, compile, while_loop

pytestmark = pytest.mark.usefixtures("debug")

SHAPE = (8, 8)
NBYTES = 8 * 8 * 8
COUNT_BYTES = 64
Step = Callable[..., tuple[Symbol, ...]]


def lstm(h: Symbol, c: Symbol, w: Symbol) -> tuple[Symbol, ...]:
    gate = sigmoid(h @ w)
    cell = gate * c + h
    return gate * tanh(cell), cell


def momentum(x: Symbol, v: Symbol, w: Symbol) -> tuple[Symbol, ...]:
    velocity = v * 0.9 - x @ w
    return x + velocity, velocity


def sometimes(x: Symbol, w: Symbol) -> tuple[Symbol, ...]:
    """x w while the sum of x is below a bound; else x passes."""
    return case_of(
        x.graph, (lambda total: 0 if total.numpy() < 9.0 else -1, [reduce_sum(x)]), [lambda x: x @ w], [x], bypass=[x]
    )


def permuting(*orders: Sequence[int]) -> Step:
    """The state in the order that its first value says."""

    def step(*given: Symbol) -> tuple[Symbol, ...]:
        *state, _ = given
        choice = (lambda total: int(total.numpy() * 1000) % len(orders), [reduce_sum(state[0])])
        branches = [lambda *xs, order=order: tuple(xs[place] for place in order) for order in orders]
        return case_of(state[0].graph, choice, branches, state)

    return step


def beside_untouched(x: Symbol, y: Symbol, w: Symbol) -> tuple[Symbol, ...]:
    """(x w, y) while the sum of x is below a bound; else both pass."""
    choice = (lambda total: 0 if total.numpy() < 9.0 else -1, [reduce_sum(x)])
    return case_of(x.graph, choice, [lambda x, y: (x @ w, y)], [x, y], bypass=[x, y])


def product_behind(step: Step) -> Step:
    """(x, y…) <- (x w, y…) of the step."""

    def behind(*given: Symbol) -> tuple[Symbol, ...]:
        first, *others = step(*given)
        return first @ given[-1], *others

    return behind


@dataclass(frozen=True)
class Pattern:
    """A step of the state, how many values the state has, how many buffers are enough, and bytes beside them."""

    name: str
    step: Step
    state: int
    buffers: int
    beside: int = 0


PATTERNS = (
    Pattern("increment", lambda x, w: (x + 1.0,), 1, 1),
    Pattern("product", lambda x, w: (x @ w,), 1, 2),
    Pattern("swap", lambda x, y, w: (y, x), 2, 2),
    Pattern("shift", lambda x, y, w: (y, x @ w), 2, 3),
    Pattern("leapfrog", lambda u, before, w: (u @ w - before, u), 2, 3),
    Pattern("rotate 3", lambda x, y, z, w: (y, z, x + w), 3, 3),
    Pattern("delay 4", lambda a, b, c, d, w: (b, c, d, a @ w), 4, 5),
    Pattern("fibonacci", lambda a, b, w: (b, a + b), 2, 2),
    Pattern("lstm", lstm, 2, 3),
    Pattern("momentum", momentum, 2, 3),
    # Where the value ends depends on the run, so its result is a buffer beside the two that take turns.
    # The sum that decides is a scalar.
    Pattern("pass through", sometimes, 1, 3, 64),
    # Two buffers for values, which branches do not move, and two for results.
    Pattern("swap or not", permuting((0, 1), (1, 0)), 2, 4, 64),
    Pattern("three in any order", permuting((1, 2, 0), (2, 0, 1), (0, 2, 1)), 3, 6, 64),
    Pattern("swap or not, product", product_behind(permuting((0, 1), (1, 0))), 2, 5),
    Pattern("one of two untouched", beside_untouched, 2, 5, 64),
    # What is no parameter may stay where it is without moving pointers, so that results are found in place.
    Pattern("sums, both untouched", lambda x, y, w: permuting((0, 1), (0, 1))(x + 1.0, y + 1.0, w), 2, 2, 64),
)
NAMES = [pattern.name for pattern in PATTERNS]


def loop_of(pattern: Pattern, graph: SymbolicGraph, test: CountBelow | None, trips: int) -> tuple[Loop, list[Symbol]]:
    """The state's symbols in a loop with w; without a test the count is compared in the body."""
    *starts, w = inputs_of(graph, [SHAPE] * (pattern.state + 1))
    with while_loop(graph, test, at_most=None if test else trips) as loop:
        state = [loop.carry(symbol) for symbol in starts]
        if test is None:
            loop.go_on_while(less(loop.count, loop.capture(graph.input(spec((), "i64"), "limit"))))
        for symbol, value in zip(state, pattern.step(*state, loop.capture(w)), strict=True):
            loop.next(symbol, value)
    return loop, [*starts, w, *(loop.result(symbol) for symbol in state)]


def eager(pattern: Pattern, arrays: Sequence[Array], trips: int) -> list[Array]:
    """The same step compiled by itself, again and again."""
    graph = SymbolicGraph()
    *state, w = inputs_of(graph, [SHAPE] * (pattern.state + 1))
    results = pattern.step(*state, w)
    values = list(arrays[:-1])
    for _ in range(trips):
        values = values_of(graph, results, dict(zip((*state, w), (*values, arrays[-1]), strict=True)))
    return values


def copied_bytes(body: ConcreteBody) -> int:
    """Bytes that the copies in the bodies of loops and branches write, in one iteration."""
    inner = all_bodies(body)[1:]
    records = [record for one in inner for _, record in one.execs.items() if isinstance(record, Exec)]
    return sum(
        place.spec.nbytes for record in records if record.command.op is contiguous for place in record.outputs if place
    )


def compiled_pattern(pattern: Pattern, trips: int, given: bool) -> tuple[Compiled, list[Symbol], list[Array]]:
    graph = SymbolicGraph()
    _, symbols = loop_of(pattern, graph, CountBelow(trips), trips)
    starts, w, results = symbols[: pattern.state], symbols[pattern.state], symbols[pattern.state + 1 :]
    arrays = random_arrays([SHAPE] * (pattern.state + 1), 3, 0.0, 0.2)
    bound = {w: Tensor.from_numpy(arrays[-1])}
    if given:
        bound.update((symbol, Tensor.from_numpy(array)) for symbol, array in zip(starts, arrays, strict=False))
    return compile(graph, results, given=bound, backend="reference"), [*starts, *results], arrays


@pytest.mark.parametrize("trips", [0, 1, 5, 6])
@pytest.mark.parametrize("pattern", PATTERNS, ids=NAMES)
def test_initial_values_results_and_rooms_are_the_same_buffers(pattern: Pattern, trips: int) -> None:
    compiled, symbols, arrays = compiled_pattern(pattern, trips, given=False)
    starts, results = symbols[: pattern.state], symbols[pattern.state :]
    assert compiled.memory().arena == pattern.buffers * NBYTES + pattern.beside
    assert copied_bytes(compiled.allocate().body) == 0
    for _ in range(2):
        found = compiled(dict(zip(starts, arrays, strict=False)), *results)
        expected = eager(pattern, arrays, trips)
        assert [value.tolist() for value in found] == [value.tolist() for value in expected]


@pytest.mark.parametrize("trips", [1, 6])
@pytest.mark.parametrize("pattern", PATTERNS, ids=NAMES)
def test_initial_values_of_the_caller_are_left_alone(pattern: Pattern, trips: int) -> None:
    compiled, symbols, arrays = compiled_pattern(pattern, trips, given=True)
    before = [array.copy() for array in arrays]
    found = compiled({}, *symbols[pattern.state :])
    assert [value.tolist() for value in found] == [value.tolist() for value in eager(pattern, before, trips)]
    assert [array.tolist() for array in arrays] == [array.tolist() for array in before]
    assert copied_bytes(compiled.allocate().body) == 0


@pytest.mark.parametrize("pattern", PATTERNS, ids=NAMES)
def test_a_count_that_only_the_run_knows_copies_nothing_within_the_loop(pattern: Pattern) -> None:
    graph = SymbolicGraph()
    loop, symbols = loop_of(pattern, graph, None, 9)
    limit = graph.symbol(next(key for key in loop.outside.inputs_of(graph.execs) if graph.tensors[key].name == "limit"))
    starts, w, results = symbols[: pattern.state], symbols[pattern.state], symbols[pattern.state + 1 :]
    arrays = random_arrays([SHAPE] * (pattern.state + 1), 3, 0.0, 0.2)
    compiled = compile(graph, results, given={w: Tensor.from_numpy(arrays[-1])}, backend="reference")
    assert copied_bytes(compiled.allocate().body) == 0
    for trips in (0, 4, 9):
        found = compiled({**dict(zip(starts, arrays, strict=False)), limit: np.array(trips)}, *results)
        assert [value.tolist() for value in found] == [value.tolist() for value in eager(pattern, arrays, trips)]


def recurrent(steps: int) -> tuple[Compiled, SymbolicGraph, list[Symbol], Symbol]:
    """h ← tanh(x[t] u + h w) over all steps, from the rows of a given sequence."""
    graph = SymbolicGraph()
    xs, u, w, h0 = inputs_of(graph, [(steps, 4, 8), SHAPE, SHAPE, (4, 8)])
    with while_loop(graph, CountBelow(steps)) as loop:
        h = loop.carry(h0)
        loop.next(h, tanh(index_select(xs, loop.count) @ u + h @ w))
    given = {symbol: Tensor.zeros(symbol.spec) for symbol in (xs, u, w, h0)}
    result = loop.result(h)
    return compile(graph, [result], given=given, backend="reference"), graph, [xs, u, w, h0], result


def test_a_recurrent_network_takes_the_memory_of_one_step() -> None:
    arenas = {steps: recurrent(steps)[0].memory().arena for steps in (1, 1000)}
    graph = SymbolicGraph()
    x, u, w, h = inputs_of(graph, [(4, 8), SHAPE, SHAPE, (4, 8)])
    step = tanh(x @ u + h @ w)
    given = {symbol: Tensor.zeros(symbol.spec) for symbol in (u, w, h)}
    alone = compile(graph, [step], given=given, backend="reference").memory().arena
    assert arenas[1000] == arenas[1]
    # Beside the step itself: the state that it reads, and the loop count.
    assert arenas[1000] <= alone + 4 * 8 * 8 + COUNT_BYTES


def test_a_recurrent_network_of_many_steps_is_its_python_loop() -> None:
    steps = 40
    compiled, _, symbols, result = recurrent(steps)
    xs, u, w, h = random_arrays([symbol.shape for symbol in symbols], 5, -0.5, 0.5)
    for symbol, array in zip(symbols, (xs, u, w, h), strict=True):
        compiled.write(symbol, array)
    (found,) = compiled({}, result)
    for x in xs:
        h = np.tanh(x @ u + h @ w)
    np.testing.assert_allclose(found, h, rtol=1e-12)
