"""Loops and branches as small programs with known answers; loops are compared exactly with Python loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.symbolic.evaluation import Array, inputs_of, random_arrays, values_of

from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.ops import convolution, reshape, transpose
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import exp, log
from nnc.symbolic import Symbol, SymbolicGraph, case_of, compile, verify, while_loop

pytestmark = pytest.mark.usefixtures("debug")

IMAGE = (1, 5, 5, 2)
KERNEL = (3, 3, 2, 2)
SAME = Window((1, 1), ((1, 1), (1, 1)), (1, 1))


def eager(function: Callable[..., Symbol], *arrays: Array) -> Array:
    """One application of `function` by itself."""
    graph = SymbolicGraph()
    symbols = inputs_of(graph, [array.shape for array in arrays])
    return values_of(graph, [function(*symbols)], dict(zip(symbols, arrays, strict=True)))[0]


def convolve(x: Symbol, w: Symbol) -> Symbol:
    return convolution(x, w, window=SAME)


def images(count: int) -> list[Array]:
    return random_arrays([IMAGE] * count + [KERNEL], 4, -1.0, 1.0)


def test_a_product_of_five_then_another_factor() -> None:
    """z ← z x five times from 1, then z y; a loop beside it that carries nothing to anybody changes nothing."""
    graph = SymbolicGraph()
    x, y, z0 = inputs_of(graph, [(1,)] * 3)
    with while_loop(graph, CountBelow(5)) as loop:
        z = loop.carry(z0)
        loop.next(z, z * x)
    with while_loop(graph, CountBelow(5)) as other:
        unused = other.carry(z0)
        other.next(unused, unused)
    product = loop.result(z) * y
    verify(graph)
    (found,) = values_of(graph, [product], {x: np.array([0.92]), y: np.array([3.2]), z0: np.array([1.0])})
    assert found.item() == pytest.approx(0.92**5 * 3.2, rel=1e-14)


def test_the_initial_value_is_there_behind_the_loop() -> None:
    graph = SymbolicGraph()
    x, y, z0 = inputs_of(graph, [(1,)] * 3)
    with while_loop(graph, CountBelow(5)) as loop:
        z = loop.carry(z0)
        loop.next(z, z * x)
    total = loop.result(z) * y + z0
    compiled = compile(graph, [total], backend="reference")
    (found,) = compiled({x: [0.92], y: [3.2], z0: [1.2]}, total)
    assert found.item() == pytest.approx(1.2 * 0.92**5 * 3.2 + 1.2, rel=1e-14)


def test_a_breakpoint_at_the_end_between_memory_that_was_there_before() -> None:
    """z = 0.3 x + 1.1 from 0.88, five times for a count below 4."""
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(1,)])
    with while_loop(graph, CountBelow(4)) as loop:
        x = loop.carry(x0)
        z = x * 0.3 + 1.1
        loop.next(x, z)
    result = loop.result(z)
    source, target = Tensor.from_numpy(np.array([0.88])), Tensor.zeros(result.spec)
    compile(graph, [result], given={x0: source}, bind={result: target}, backend="reference").run()
    expected = 0.88
    for _ in range(5):
        expected = expected * 0.3 + 1.1
    assert target.numpy().item() == expected
    assert source.numpy().item() == 0.88


@pytest.mark.parametrize("part", ["first", "middle", "last"])
def test_what_stands_in_front_of_the_breakpoint_runs_once_more(part: str) -> None:
    """(a, b) ← (2 a, b + 2 a): three whole iterations, and what the wanted result needs of a fourth."""
    graph = SymbolicGraph()
    a0, b0 = inputs_of(graph, [(1,), (1,)])
    with while_loop(graph, CountBelow(3)) as loop:
        a, b = loop.carry(a0), loop.carry(b0)
        doubled = a * 2.0
        total = b + doubled
        loop.next(a, doubled)
        loop.next(b, total)
    results = {"first": (a, b), "middle": (doubled, b), "last": (doubled, total)}[part]
    found = values_of(graph, [loop.result(one) for one in results], {a0: np.ones(1), b0: np.ones(1)})
    expected = {"first": [8.0, 15.0], "middle": [16.0, 15.0], "last": [16.0, 31.0]}[part]
    assert [value.item() for value in found] == expected


def test_convolutions_plus_the_value_that_they_began_with() -> None:
    x0, w = images(1)
    graph = SymbolicGraph()
    start, kernel = inputs_of(graph, [IMAGE, KERNEL])
    with while_loop(graph, CountBelow(5)) as loop:
        x = loop.carry(start)
        loop.next(x, convolve(x, kernel))
    z = start + loop.result(x)
    compiled = compile(graph, [z], backend="reference")
    expected = x0
    for _ in range(5):
        expected = eager(convolve, expected, w)
    (found,) = compiled({start: x0, kernel: w}, z)
    assert found.tolist() == (x0 + expected).tolist()
    # The initial value, two slots (the second is that of the sum), and the kernel.
    assert compiled.memory().arena == 3 * -(-x0.nbytes // 64) * 64 + -(-w.nbytes // 64) * 64


def test_a_loop_of_convolutions_within_a_loop() -> None:
    x0, w = images(1)
    graph = SymbolicGraph()
    start, kernel = inputs_of(graph, [IMAGE, KERNEL])
    with while_loop(graph, CountBelow(5)) as outer:
        z = outer.carry(start)
        with while_loop(outer.body, CountBelow(5)) as inner:
            x = inner.carry(z)
            inner.next(x, convolve(x, outer.capture(kernel)))
        outer.next(z, z + inner.result(x))
    verify(graph)
    expected = x0
    for _ in range(5):
        value = expected
        for _ in range(5):
            value = eager(convolve, value, w)
        expected = expected + value
    assert values_of(graph, [outer.result(z)], {start: x0, kernel: w})[0].tolist() == expected.tolist()


def test_two_carried_values_in_a_chain() -> None:
    """x2 = x0 + conv(x1); x0 ← x1 ← x2."""
    *arrays, w = images(2)
    graph = SymbolicGraph()
    *starts, kernel = inputs_of(graph, [IMAGE, IMAGE, KERNEL])
    with while_loop(graph, CountBelow(5)) as loop:
        x0, x1 = map(loop.carry, starts)
        loop.next(x0, x1)
        loop.next(x1, x0 + convolve(x1, kernel))
    older, newer = arrays
    for _ in range(5):
        older, newer = newer, older + eager(convolve, newer, w)
    results = [loop.result(x0), loop.result(x1)]
    found = values_of(graph, results, dict(zip((*starts, kernel), (*arrays, w), strict=True)))
    assert [value.tolist() for value in found] == [older.tolist(), newer.tolist()]


def test_three_in_a_chain_all_read_behind_a_breakpoint_at_the_end() -> None:
    """x3 = x0 + 1.2 y, y = conv(x1); x0 ← x1 ← x2 ← x3; then y + x3 + x2 + x1 + x0."""
    *arrays, w = images(3)
    graph = SymbolicGraph()
    *starts, kernel = inputs_of(graph, [IMAGE, IMAGE, IMAGE, KERNEL])
    with while_loop(graph, CountBelow(4)) as loop:
        x0, x1, x2 = map(loop.carry, starts)
        y = convolve(x1, kernel)
        x3 = x0 + y * 1.2
        for symbol, value in ((x0, x1), (x1, x2), (x2, x3)):
            loop.next(symbol, value)
    last = [loop.result(symbol) for symbol in (y, x3, x2, x1, x0)]
    total = last[0] + last[1] + last[2] + last[3] + last[4]
    a, b, c = arrays
    for _ in range(4):
        a, b, c = b, c, a + eager(convolve, b, w) * 1.2
    convolved = eager(convolve, b, w)
    expected = convolved + (a + convolved * 1.2) + c + b + a
    given = dict(zip((*starts, kernel), (*arrays, w), strict=True))
    assert values_of(graph, [total], given)[0].tolist() == expected.tolist()


def test_views_of_a_result_lie_where_it_lies() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(2, 4)])
    with while_loop(graph, CountBelow(3)) as loop:
        x = loop.carry(x0)
        loop.next(x, x * 2.0)
    y = loop.result(x)
    strided = graph.alias(y.key, spec((2, 2), "f64"), 1, (4, 1))
    flat = graph.alias(y.key, spec((4,), "f64"), 4, (1,))
    total = strided + reshape(flat, (2, 2))
    compiled = compile(graph, [y, total], backend="reference")
    array = np.arange(8.0).reshape(2, 4)
    (found,) = compiled({x0: array}, total)
    base = compiled.tensor(y).address
    assert [compiled.tensor(one).address - base for one in (strided, flat)] == [8, 32]
    assert found.tolist() == (8 * array[:, 1:3] + 8 * array[1].reshape(2, 2)).tolist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-2.2, np.exp(-2.2)), (1.1, np.log(1.1)), (0.9, 1 / 0.9), (2.2, 1.1 * 2.2), (1001.0, 1001.0)],
)
def test_four_branches_and_a_bypass(value: float, expected: float) -> None:
    def choose(tensor: Tensor) -> int:
        number = float(tensor.numpy().item())
        return 0 if number < 0 else 2 if number < 1 else 1 if number < 2 else 3 if number < 1000 else -1

    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [(1,)])
    branches = (exp, log, lambda x: 1.0 / x, lambda x: x * 1.1)
    (y,) = case_of(graph, (choose, [x]), branches, [x], bypass=[x])
    assert values_of(graph, [y], {x: np.array([value])})[0].item() == pytest.approx(expected, rel=1e-15)


def piece(tensor: Tensor) -> int:
    value = float(tensor.numpy().item())
    return 0 if value < 0 else -1 if value < 1 else 1 if value < 2 else 2


PIECES = (lambda x: x * 0.0, lambda x: x * 0.5 + 0.5, lambda x: x * 0.0 + 1.5)


@pytest.mark.parametrize(("start", "expected"), [(1.226, (1 + 0.226 * 0.5**4) * 0.3), (0.8, 0.24)])
def test_a_piecewise_function_four_times(start: float, expected: float) -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(1,)])
    with while_loop(graph, CountBelow(4)) as loop:
        x = loop.carry(x0)
        (y,) = case_of(loop.body, (piece, [x]), PIECES, [x], bypass=[x])
        loop.next(x, y)
    found = values_of(graph, [loop.result(x) * 0.3], {x0: np.array([start])})
    assert found[0].item() == pytest.approx(expected, rel=1e-12)


def test_a_piecewise_function_of_a_product_within_the_loop() -> None:
    """x = 0.8 b is computed in the loop and passes or not: 2.5 → 2 → 1.5 → 1.2 → 1.1 → 0.88, then times 0.3."""
    graph = SymbolicGraph()
    (b0,) = inputs_of(graph, [(1,)])
    with while_loop(graph, CountBelow(4)) as loop:
        b = loop.carry(b0)
        x = b * 0.8
        (y,) = case_of(loop.body, (piece, [x]), PIECES, [x], bypass=[x])
        loop.next(b, y)
    value = 2.5
    for _ in range(4):
        x_value = value * 0.8
        value = x_value if x_value < 1 else 0.5 * x_value + 0.5 if x_value < 2 else 1.5
    found = values_of(graph, [loop.result(b) * 0.3], {b0: np.array([2.5])})
    assert found[0].item() == pytest.approx(value * 0.3, rel=1e-12)
    assert found[0].item() == pytest.approx(1.1 * 0.8 * 0.8 * 0.3, rel=1e-12)


def test_branches_of_products_share_their_temporaries() -> None:
    """Two layers of branches with temporaries of several sizes: each path is right, and the largest one is planned."""
    graph = SymbolicGraph()
    x, narrow, wide = inputs_of(graph, [(4, 4), (4, 2), (4, 16)])
    outer_choice, inner_choice = (graph.input(spec((), "i32"), name) for name in ("outer", "inner"))

    def through(layer: Symbol) -> Callable[[Symbol], Symbol]:
        return lambda x: (x @ layer) @ transpose(layer, (1, 0))

    def nested(x: Symbol) -> Symbol:
        bypass = [x]
        return case_of(x.graph, inner_choice, [through(narrow), through(wide)], [x], bypass=bypass)[0]

    (y,) = case_of(graph, outer_choice, [nested, lambda x: through(wide)(through(narrow)(x))], [x], bypass=[x])
    verify(graph)
    arrays = dict(zip((x, narrow, wide), random_arrays([(4, 4), (4, 2), (4, 16)]), strict=True))
    start, thin, thick = arrays.values()
    by_narrow = eager(lambda x, w: through(w)(x), start, thin)
    by_wide = eager(lambda x, w: through(w)(x), start, thick)
    by_both = eager(lambda x, w: through(w)(x), by_narrow, thick)
    paths = [(0, 0, by_narrow), (0, 1, by_wide), (0, 7, start), (1, 0, by_both), (-1, 0, start)]
    for outer, inner, expected in paths:
        given = {**arrays, outer_choice: np.array(outer), inner_choice: np.array(inner)}
        assert values_of(graph, [y], given)[0].tolist() == expected.tolist()
    bound = {symbol: Tensor.zeros(symbol.spec) for symbol in (x, narrow, wide, outer_choice, inner_choice)}
    statement = compile(graph, [y], given=bound, backend="reference").memory()
    assert statement.workspace < 2 * 4 * 16 * 8 + 2 * 4 * 4 * 8
