"""Loops on real tensors, compared exactly with the same commands run one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.concrete.eager import (
    ADDITION,
    CONVOLVE,
    IDENTITY,
    PRODUCT,
    affine,
    elements,
    graph,
    noise,
    number,
    room,
    rooms,
    run,
    tensor,
)

from nnc.concrete import Carry, ConcreteGraph, CountBelow, MultiviewKind, NonZero, Place
from nnc.concrete.body import ExecKey
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import GraphError, ShapeError, UnknownKeyError
from nnc.ops.elementwise.pointwise import CAST, CastAttrs, less
from nnc.ops.rules import NoAttrs

IMAGE = (1, 4, 4, 2)


@pytest.fixture(autouse=True, params=["reference", "llvm"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops in Python, and loops that the backend runs by itself where it can."""
    monkeypatch.setattr("tests.concrete.eager.BACKEND", request.param)


def power(test: CountBelow | Callable[[Tensor], bool], place: str) -> tuple[ConcreteGraph, Tensor]:
    """x ← 2 · x from x = 1 with a single breakpoint at the start or the end of the body."""
    root, body = graph(), graph()
    x = tensor([1.0])
    before, after = body.add_noop(name="start"), body.add_noop(name="end")
    work = body.add(affine(2.0), [x], [x], after=[before])
    body.connect(work, after)
    root.while_loop(body, test, inputs=[body.count], breakpoints=[before if place == "start" else after])
    return root, x


@pytest.mark.parametrize(("place", "iterations"), [("start", 5), ("end", 6)])
def test_what_stands_before_the_breakpoint_runs_once_more(place: str, iterations: int) -> None:
    root, x = power(CountBelow(5), place)
    root.run()
    assert number(x) == 2.0**iterations


def test_a_python_test_sees_the_count_from_zero() -> None:
    counts: list[int] = []

    def below_four(count: Tensor) -> bool:
        counts.append(int(count.numpy().item()))
        return counts[-1] < 4

    root, x = power(below_four, "end")
    root.run()
    assert counts == [0, 1, 2, 3, 4]
    assert number(x) == 2.0**5


def test_a_loop_may_run_no_iteration_and_may_run_again() -> None:
    root, x = power(CountBelow(0), "start")
    root.run()
    assert number(x) == 1.0
    again, y = power(CountBelow(3), "start")
    again.run()
    again.run()
    assert number(y) == 2.0**6


def test_without_breakpoints_the_test_comes_first() -> None:
    root, body = graph(), graph()
    x = tensor([1.0])
    body.add(affine(2.0), [x], [x])
    root.while_loop(body, CountBelow(5))
    root.run()
    assert number(x) == 2.0**5


def test_a_product_carried_through_five_iterations() -> None:
    """z1 = z0 · x five times, then z2 = z1 · y; a second, empty graph takes part in nothing."""
    x, y, z0, z2 = tensor([0.92]), tensor([3.2]), tensor([1.0]), room(1)
    root, body = graph(), graph()
    graph("unused")
    carried = Carry(z0)
    z1 = body.multiview(rooms(2, 1))
    start = body.add_noop()
    body.add(PRODUCT, [carried, x], [z1], after=[start])
    body.carry_over(z1, carried)
    loop = root.while_loop(body, CountBelow(5), breakpoints=[start])
    root.add(PRODUCT, [z1, y], [z2], after=[loop])
    root.run()
    expected = z0
    for _ in range(5):
        expected = run(PRODUCT, expected, x)
    assert elements(z2) == elements(run(PRODUCT, expected, y))
    assert number(z2) == pytest.approx(0.92**5 * 3.2)


def test_the_initial_value_survives_for_use_after_the_loop() -> None:
    x, y, z = tensor([0.92]), tensor([3.2]), tensor([1.2])
    root, body = graph(), graph()
    carried = Carry(z)
    step = body.multiview(rooms(2, 1))
    body.add(PRODUCT, [carried, x], [step])
    body.carry_over(step, carried)
    loop = root.while_loop(body, CountBelow(5))
    product, total = room(1), room(1)
    second = root.add(PRODUCT, [step, y], [product], after=[loop])
    root.add(ADDITION, [product, z], [total], after=[second])
    root.run()
    assert number(z) == pytest.approx(1.2)
    assert number(total) == pytest.approx(1.2 * 0.92**5 * 3.2 + 1.2)


def test_breakpoint_at_the_end_with_one_less_gives_as_many_iterations() -> None:
    """z = 0.3 · x + 1.1 five times from 0.88, into memory that was there before."""
    x, z = tensor([0.88]), room(1)
    root, body = graph(), graph()
    xx, zz = body.multiview([x, z]), body.multiview([z, x])
    body.add(affine(0.3, 1.1), [xx], [zz])
    end = body.add_noop(after=body.destinations())
    root.while_loop(body, CountBelow(4), breakpoints=[end])
    expected = tensor([0.88])
    for _ in range(5):
        expected = run(affine(0.3, 1.1), expected)
    root.run()
    assert elements(z) == elements(expected)


def test_convolutions_from_an_initial_value_that_is_kept() -> None:
    x0, w, kernel_bias = noise(1, *IMAGE), noise(2, 3, 3, 2, 2), noise(3, 2)
    root, body = graph(), graph()
    buffers = rooms(2, *IMAGE)
    x = body.multiview([x0, *buffers], MultiviewKind.K1N)
    y = body.multiview(buffers)
    body.add(CONVOLVE, [x, w, kernel_bias], [y])
    loop = root.while_loop(body, CountBelow(5))
    z = room(*IMAGE)
    root.add(ADDITION, [x0, y], [z], after=[loop])
    root.run()
    expected = x0
    for _ in range(5):
        expected = run(CONVOLVE, expected, w, kernel_bias)
    np.testing.assert_array_equal(elements(z), elements(run(ADDITION, x0, expected)))


def test_a_loop_within_a_loop() -> None:
    """Five times: x convolved five times, plus x, becomes x."""
    x0, w = noise(1, *IMAGE), noise(2, 3, 3, 2, 2)
    root, outer, inner = graph(), graph(), graph()
    carried = Carry(x0)
    buffers = rooms(2, *IMAGE)
    x = inner.multiview([carried, *buffers], MultiviewKind.K1N)
    y = inner.multiview(buffers)
    inner.add(CONVOLVE, [x, w, None], [y])
    z = outer.multiview(rooms(2, *IMAGE))
    loop = outer.while_loop(inner, CountBelow(5))
    outer.add(ADDITION, [carried, y], [z], after=[loop])
    outer.carry_over(z, carried)
    root.while_loop(outer, CountBelow(5))
    root.run()
    expected = x0
    for _ in range(5):
        convolved = expected
        for _ in range(5):
            convolved = run(CONVOLVE, convolved, w, None)
        expected = run(ADDITION, expected, convolved)
    assert z.current is not None
    np.testing.assert_array_equal(elements(z.current), elements(expected))


def test_two_carry_overs_that_form_a_chain() -> None:
    """y = conv(x1); x2 = x0 + y; x0 ← x1; x1 ← x2: three buffers take turns."""
    a, b, w = noise(1, *IMAGE), noise(2, *IMAGE), noise(3, 3, 3, 2, 2)
    root, body = graph(), graph()
    x0, x1 = Carry(a), Carry(b)
    y, x2 = room(*IMAGE), body.multiview(rooms(3, *IMAGE))
    first = body.add(CONVOLVE, [x1, w, None], [y])
    body.add(ADDITION, [x0, y], [x2], after=[first])
    body.carry_over(x1, x0)
    body.carry_over(x2, x1)
    root.while_loop(body, CountBelow(5))
    root.run()
    older, newer = a, b
    for _ in range(5):
        older, newer = newer, run(ADDITION, older, run(CONVOLVE, newer, w, None))
    assert x2.current is not None
    np.testing.assert_array_equal(elements(x2.current), elements(newer))


def test_three_carry_overs_all_read_after_the_loop() -> None:
    """x3 = x0 + 1.2 · conv(x1); x0 ← x1 ← x2 ← x3; then z = y + x3 + x2 + x1 + x0."""
    start = [noise(seed, *IMAGE) for seed in (1, 2, 3)]
    w = noise(4, 3, 3, 2, 2)
    root, body = graph(), graph()
    x0, x1, x2 = map(Carry, start)
    y, scaled, x3 = room(*IMAGE), room(*IMAGE), body.multiview(rooms(4, *IMAGE))
    first = body.add(CONVOLVE, [x1, w, None], [y])
    second = body.add(affine(1.2), [y], [scaled], after=[first])
    third = body.add(ADDITION, [x0, scaled], [x3], after=[second])
    for source, target in ((x1, x0), (x2, x1), (x3, x2)):
        body.carry_over(source, target)
    last: ExecKey = root.while_loop(body, CountBelow(4), breakpoints=[third])
    total = y
    for place in (x3, x2, x1, x0):
        output = room(*IMAGE)
        last = root.add(ADDITION, [total, place], [output], after=[last])
        total = output
    root.run()
    values = list(start)
    for iteration in range(5):
        convolved = run(CONVOLVE, values[1], w, None)
        newest = run(ADDITION, values[0], run(affine(1.2), convolved))
        if iteration < 4:
            values = [values[1], values[2], newest]
    expected = convolved
    for value in (newest, values[2], values[1], values[0]):
        expected = run(ADDITION, expected, value)
    np.testing.assert_array_equal(elements(total), elements(expected))


def test_carrying_over_moves_no_bytes() -> None:
    first, buffers = tensor([3.0]), rooms(2, 1)
    seen: list[int] = []
    root, body = graph(), graph()
    carried = Carry(first)
    output = body.multiview(buffers)

    def look(place: Tensor) -> bool:
        seen.append(place.address)
        return len(seen) < 4

    body.add(affine(2.0), [carried], [output])
    body.carry_over(output, carried)
    root.while_loop(body, look, inputs=[carried])
    root.run()
    a, b = (one.address for one in buffers)
    assert seen == [first.address, a, b, a]


def test_all_that_follows_any_breakpoint_waits_for_the_test() -> None:
    """Two breakpoints on separate chains: the successors of both, not of the first alone, belong to the rest."""
    root, body = graph(), graph()
    a, b, c, d, e = (tensor([1.0]) for _ in range(5))
    upper = body.add(affine(1.0, 1.0), [a], [a])
    lower = body.add(affine(1.0, 1.0), [b], [b])
    body.add(affine(1.0, 1.0), [c], [c], after=[upper])
    body.add(affine(1.0, 1.0), [d], [d], after=[lower])
    body.add(affine(1.0, 1.0), [e], [e])
    root.while_loop(body, CountBelow(3), breakpoints=[upper, lower])
    root.run()
    assert [number(one) for one in (a, b, c, d, e)] == [5.0, 5.0, 4.0, 4.0, 4.0]


def test_a_breakpoint_in_the_middle() -> None:
    root, body = graph(), graph()
    a, b = tensor([1.0]), tensor([1.0])
    first = body.add(affine(2.0), [a], [a])
    body.add(ADDITION, [a, b], [b], after=[first])
    root.while_loop(body, CountBelow(3), breakpoints=[first])
    root.run()
    assert (number(a), number(b)) == (16.0, 15.0)


def test_the_count_is_a_tensor_for_the_body() -> None:
    """Sum of 0 … 5 by a command that reads the count."""
    root, body = graph(), graph()
    as_float, total = Tensor.empty(spec([])), tensor(0.0)
    first = body.add(Command(CAST, CastAttrs(F32)), [body.count], [as_float])
    body.add(ADDITION, [as_float, total], [total], after=[first])
    root.while_loop(body, CountBelow(6))
    root.run()
    assert number(total) == 15.0
    assert body.count.numpy().item() == 6


def test_a_nested_body_sees_both_counts() -> None:
    root, outer, inner = graph(), graph(), graph()
    seen: list[tuple[int, int]] = []

    def note(i: Tensor, j: Tensor) -> bool:
        seen.append((int(i.numpy()), int(j.numpy())))
        return int(j.numpy()) < 1

    inner.add_noop()
    outer.while_loop(inner, note, inputs=[outer.count, inner.count])
    root.while_loop(outer, CountBelow(2))
    root.run()
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_tensor_decides() -> None:
    """Double x while it is below 100, as a command and no Python says."""
    root, body = graph(), graph()
    x, limit, below = tensor([1.0]), tensor([100.0]), Tensor.zeros(spec([1], "bool"))
    check = body.add(Command(less, NoAttrs()), [x, limit], [below])
    body.add(affine(2.0), [x], [x], after=[check])
    root.while_loop(body, NonZero(below), breakpoints=[check])
    root.run()
    assert number(x) == 128.0
    with pytest.raises(ShapeError, match="one element"):
        NonZero(room(2))


def test_loops_one_after_another_may_use_the_same_memory() -> None:
    root, first, second = graph(), graph(), graph()
    x = tensor([1.0])
    first.add(affine(2.0), [x], [x])
    second.add(affine(1.0, 1.0), [x], [x])
    one = root.while_loop(first, CountBelow(3))
    root.while_loop(second, CountBelow(4), after=[one])
    root.run()
    assert number(x) == 12.0


def test_an_error_ends_the_loop_and_the_next_run_starts_afresh() -> None:
    class Broken(Exception):
        pass

    fails = [True]

    def sometimes(count: Tensor) -> bool:
        if fails and int(count.numpy()) == 2:
            fails.clear()
            raise Broken
        return int(count.numpy()) < 3

    root, x = power(sometimes, "start")
    with pytest.raises(Broken):
        root.run()
    assert number(x) == 4.0
    root.run()
    assert number(x) == 32.0


def test_what_a_loop_needs() -> None:
    root, body = graph(), graph()
    root.while_loop(body)
    with pytest.raises(GraphError, match="without a test"):
        root.run()
    with pytest.raises(GraphError, match="inside a node already"):
        root.while_loop(body)
    with pytest.raises(GraphError, match="around this one"):
        body.while_loop(root)
    with pytest.raises(UnknownKeyError):
        body.set_while(CountBelow(1), breakpoints=[ExecKey(7)])
    carried = Carry(room(1))
    with pytest.raises(ShapeError, match="need one spec"):
        body.carry_over(room(2), carried)
    source: Place = room(1)
    body.carry_over(source, carried)
    with pytest.raises(GraphError, match="a second source"):
        body.carry_over(source, carried)


def test_the_graph_inside_a_node() -> None:
    root, body = graph(), graph()
    key = root.while_loop(body, CountBelow(1))
    assert root.subgraphs(key) == (body,)
    assert hash(root.subgraphs(key)[0]) == hash(body)
    assert root != body
    plain = root.add(IDENTITY, [room(1)], [room(1)])
    assert root.subgraphs(plain) == ()
    root.remove(key)
    root.while_loop(body, CountBelow(1))


def test_a_changed_body_is_prepared_again() -> None:
    root, x = power(CountBelow(2), "start")
    root.run()
    (body,) = root.subgraphs(root.execs.nodes()[0])
    work = next(key for key in body.execs if body.execs.in_edges(key) and body.execs.out_edges(key))
    body.set_command(work, affine(3.0))
    root.run()
    assert number(x) == 36.0
    body.set_while(CountBelow(1), breakpoints=body.body.breakpoints)
    root.run()
    assert number(x) == 108.0
