"""Loops that a backend runs by itself: to the bit what Python makes of them, and they end as the others do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.concrete.eager import ADDITION, IDENTITY, affine, elements, noise, room, rooms, tensor

from nnc import ops
from nnc.concrete import Carry, ConcreteGraph, CountBelow, MultiviewKind, NonZero, Tape
from nnc.concrete.joined import LoweredLoop
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.dtype import DTYPES, DType
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import CancelledError, IndexRangeError, UsageError
from nnc.ops.indexing.indexing import INDEX_SELECT, AxisAttrs
from nnc.ops.movement.copy import contiguous
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, while_loop

Step = Callable[..., tuple[Symbol, ...]]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each loop that began whether a backend ran it."""
    found: list[bool] = []
    run = LoweredLoop.run

    def note(self: LoweredLoop, *arguments: object) -> bool:
        found.append(run(self, *arguments))  # type: ignore[arg-type]  # as they came
        return found[-1]

    monkeypatch.setattr(LoweredLoop, "run", note)
    return found


def graph() -> ConcreteGraph:
    """An empty graph whose commands run natively."""
    return ConcreteGraph(backend="llvm")


def repeated(step: Step, state: int, trips: int, side: int) -> list[np.ndarray]:
    """The state after so many steps, and the gradient of its sum with respect to the matrix that all steps read."""
    graph, matrix = SymbolicGraph(), spec((side, side))
    w, *starts = [graph.input(matrix) for _ in range(state + 1)]
    with while_loop(graph, CountBelow(trips)) as loop:
        carried = [loop.carry(symbol) for symbol in starts]
        for symbol, value in zip(carried, step(*carried, loop.capture(w)), strict=True):
            loop.next(symbol, value)
    results = [loop.result(symbol) for symbol in carried]
    slopes = backward(graph, [ops.reduce_sum(result) for result in results], [w])
    draw = np.random.default_rng(0)
    given = {symbol: draw.uniform(-0.3, 0.3, (side, side)).astype(np.float32) for symbol in (w, *starts)}
    return compile(graph, [*results, *slopes], backend="llvm")(given, *results, *slopes)


STEPS: dict[str, tuple[int, Step]] = {
    "product": (1, lambda x, w: (x @ w,)),
    "shift": (2, lambda x, y, w: (y, x @ w)),
    "rotation": (3, lambda x, y, z, w: (y, z, x + w)),
    "fibonacci": (2, lambda a, b, w: (b, a * w + b)),
    "gate": (2, lambda h, c, w: (ops.sigmoid(h @ w) * ops.tanh(c + h), c * 0.5 + h)),
}


@pytest.mark.parametrize("trips", [1, 2, 9])
@pytest.mark.parametrize("name", STEPS)
def test_results_and_gradients_are_those_of_the_loop_in_python(
    name: str, trips: int, joined: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, step = STEPS[name]
    native = repeated(step, state, trips, 5)
    assert joined
    assert all(joined)
    monkeypatch.setattr(LoweredLoop, "run", lambda self, access, check: False)
    for found, want in zip(native, repeated(step, state, trips, 5), strict=True):
        np.testing.assert_array_equal(found, want)


def test_several_workers_give_the_same_bits(joined: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for workers in (1, 2):
        monkeypatch.setattr(SETTINGS, "environment_threads", str(workers))
        found.append(repeated(*reversed(STEPS["gate"]), 4, 96))
    assert all(joined)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, float("nan")])
def test_an_element_of_any_type_decides(dtype: DType, value: float, joined: list[bool]) -> None:
    if not dtype.is_float and value != value:
        value = 1.0
    root, body = graph(), graph()
    x, goes_on, last = tensor([1.0]), Tensor.empty(spec([1], dtype)), Tensor.zeros(spec([1], dtype))
    goes_on.numpy()[...] = value
    body.add(affine(2.0), [x], [x])
    body.add(IDENTITY, [last], [goes_on])
    root.while_loop(body, NonZero(goes_on))
    root.run()
    assert joined == [True]
    assert elements(x).item() == (1.0 if value == 0 else 2.0)


@pytest.mark.parametrize("kind", MultiviewKind)
@pytest.mark.parametrize("at_breakpoint", [False, True])
def test_multiviews_turn_with_the_count_and_stay_where_they_were(
    kind: MultiviewKind, at_breakpoint: bool, joined: list[bool]
) -> None:
    ends = []
    for tape in (None, Tape()):
        root, body = graph(), graph()
        views, total = [tensor([10.0**place]) for place in range(4)], tensor([0.0])
        view = body.multiview(views, kind)
        key = body.add(ADDITION, [total, view], [total])
        root.while_loop(body, CountBelow(6), breakpoints=[key] if at_breakpoint else ())
        root.run(tape=tape)
        ends.append((elements(total).item(), views.index(view.current)))  # type: ignore[arg-type]
    assert joined == [True, False]
    assert ends[0] == ends[1]


def test_loops_in_loops_find_the_memory_of_each_turn(joined: list[bool]) -> None:
    """x, y = y, x + y in the outer loop; y is doubled three times in the inner one."""
    root, outer, inner = graph(), graph(), graph()
    a, b, c = tensor([1.0]), tensor([2.0]), room(1)
    x, y, z = Carry(a), Carry(b), Carry(c)
    doubled = inner.add(affine(2.0), [y], [y])
    assert doubled == 0
    loop = outer.while_loop(inner, CountBelow(3))
    outer.add(ADDITION, [x, y], [z], after=[loop])
    for source, target in ((y, x), (z, y), (x, z)):
        outer.carry_over(source, target)
    root.while_loop(outer, CountBelow(4))
    root.run()
    p, q = 1.0, 2.0
    for _ in range(4):
        q *= 8.0
        p, q = q, p + q
    assert (elements(x.current).item(), elements(y.current).item()) == (p, q)  # type: ignore[arg-type]
    assert joined == [True] * 4


def test_a_wrong_index_ends_the_loop_in_its_iteration(joined: list[bool]) -> None:
    root, body = graph(), graph()
    x, y, rows = noise(0, 3, 2), room(1, 2), body.multiview([Tensor.from_numpy(np.array([n])) for n in (0, 2, 5, 1)])
    body.add(Command(INDEX_SELECT, AxisAttrs(0)), [x, rows], [y])
    root.while_loop(body, CountBelow(4))
    for _ in range(2):
        with pytest.raises(IndexRangeError, match="an index outside its axis"):
            root.run()
        assert body.count.numpy().item() == 2
    assert not joined


def test_beyond_its_last_iteration_a_loop_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = []
    for python in (False, True):
        if python:
            monkeypatch.setattr(LoweredLoop, "run", lambda self, access, check: False)
        root, body = graph(), graph()
        x = tensor([1.0])
        body.add(affine(2.0), [x], [x])
        root.while_loop(body, NonZero(x, 5))
        with pytest.raises(IndexRangeError) as caught:
            root.run()
        messages.append((str(caught.value), elements(x).item(), body.count.numpy().item()))
    assert messages[0] == messages[1] == (messages[0][0], 32.0, 5)


def test_an_endless_loop_can_be_cancelled() -> None:
    root, body = graph(), graph()
    x = tensor([1.0])
    body.add(affine(1.0, 1.0), [x], [x])
    root.while_loop(body, NonZero(x))
    stop = threading.Timer(0.05, root.cancel)
    stop.start()
    with pytest.raises(CancelledError):
        root.run()
    stop.join()
    assert elements(x).item() > 1.0


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_moving_places_that_share_memory_are_refused_where_nodes_must_not(backend: str) -> None:
    """y = x · w where x and y are the same memory in the second iteration, and where they overlap in part."""

    def loop(first: Sequence[Tensor], moves: Sequence[tuple[int, int]]) -> ConcreteGraph:
        root, body = (ConcreteGraph(backend=backend) for _ in range(2))
        x, y = (Carry(one) for one in first)
        body.add(Command(GEMM, GemmAttrs()), [x, noise(1, 2, 2), None], [y])
        for source, target in moves:
            body.carry_over((x, y)[source], (x, y)[target])
        root.while_loop(body, CountBelow(3))
        return root

    loop(rooms(2, 2, 2), [(0, 1), (1, 0)]).run()
    with pytest.raises(UsageError, match="gemm: got output 0 over a part of input 0's memory"):
        loop(rooms(2, 2, 2), [(1, 0)]).run()
    whole = room(3, 2)
    halves = [whole.view(spec((2, 2)), offset, (2, 1)) for offset in (0, 2)]
    with pytest.raises(UsageError, match="gemm: got output 0 over a part of input 0's memory"):
        loop(halves, [(0, 1), (1, 0)]).run()


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_a_value_that_moves_may_be_copied_onto_itself(backend: str) -> None:
    """y = copy of x, and y is handed on to x: from the second iteration on they are one tensor."""
    root, body = (ConcreteGraph(backend=backend) for _ in range(2))
    first, second = rooms(2, 2, 2)
    first.numpy()[...] = [[1.0, 2.0], [3.0, 4.0]]
    x, y = Carry(first), Carry(second)
    body.add(Command(contiguous, NoAttrs()), [x], [y])
    body.carry_over(y, x)
    root.while_loop(body, CountBelow(3))
    root.run()
    np.testing.assert_array_equal(second.numpy(), [[1.0, 2.0], [3.0, 4.0]])


def test_places_in_place_may_move() -> None:
    root, body = graph(), graph()
    a, b = tensor([1.0]), tensor([5.0])
    x, y = Carry(a), Carry(b)
    body.add(affine(2.0), [x], [x])
    body.carry_over(x, y)
    body.carry_over(y, x)
    root.while_loop(body, CountBelow(3))
    root.run()
    assert (elements(a).item(), elements(b).item()) == (4.0, 10.0)


def test_memory_with_gaps_is_left_to_python(joined: list[bool]) -> None:
    wide = noise(0, 3, 4)
    gaps, whole = wide.view(spec((3, 2)), 0, (4, 1)), tensor(wide.numpy()[:, :2])
    for begun in (gaps, whole):
        root, body = graph(), graph()
        x, y = Carry(begun), Carry(room(3, 2))
        body.add(Command(ADDITION.op, NoAttrs()), [x, x], [y])
        body.carry_over(x, y)
        body.carry_over(y, x)
        root.while_loop(body, CountBelow(2))
        root.run()
    assert joined == [False, True]
    np.testing.assert_array_equal(gaps.numpy(), whole.numpy())
