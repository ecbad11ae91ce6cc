"""Debug runs follow what is lent into loops and branches, and look at each iteration that differs from others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.dtype import I64
from nnc.core.values.spec import spec
from nnc.errors import VerificationError
from nnc.symbolic import Symbol, SymbolicGraph, case_of, compile, while_loop
from nnc.symbolic.compiler.check import lent_memory
from nnc.symbolic.compiler.check.lent_memory import MOST_TURNS, check_plan
from nnc.symbolic.compiler.place.liveness import LiveRange, OuterMemory
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import _SlotAssignment

pytestmark = pytest.mark.usefixtures("debug")


def loop_of(trips: int) -> tuple[SymbolicGraph, Symbol, Symbol]:
    """`a, b = b @ w, a @ w`, whose values are alive at once."""
    graph = SymbolicGraph()
    x, y, w = (graph.input(spec((4, 4)), name) for name in "xyw")
    with while_loop(graph, CountBelow(trips)) as loop:
        a, b = loop.carry(x), loop.carry(y)
        loop.next(a, ops.gemm(b, w))
        loop.next(b, ops.gemm(a, w))
    return graph, loop.result(a), loop.result(b)


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_a_slot_that_two_values_need_at_once_is_found_before_a_run(
    trips: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, *wanted = loop_of(trips)
    compile(graph, wanted, backend=backend).tensor(wanted[0])

    def is_free(self: _SlotAssignment, slot: int, life: LiveRange) -> bool:
        return not any(life.outside and other.outside for other in self.inside[slot])

    monkeypatch.setattr(_SlotAssignment, "_is_free", is_free)
    with pytest.raises(
        VerificationError, match="gemm of .* writes over .*, which it reads out of step|has written over"
    ):
        compile(graph, wanted, backend=backend).tensor(wanted[0])


def in_branch(turns: int = 2, depth: int = 0) -> PlannedGraph:
    """A loop within a branch, perhaps within loops: `x + zeros`, zeros by turns."""
    graph = SymbolicGraph()
    x, choice = graph.input(spec((2, 3)), "x"), graph.input(spec((), I64), "choice")

    def swapped(x: Symbol) -> tuple[Symbol, ...]:
        with while_loop(x.graph, CountBelow(turns)) as loop:
            a, b = loop.carry(x), loop.carry(ops.affine(x, 2.0))
            loop.next(a, b)
            loop.next(b, ops.sin(a))
        return ops.add(loop.result(a), loop.result(b)), loop.result(b)

    def inside(x: Symbol, choice: Symbol, depth: int) -> Symbol:
        if not depth:
            other, made = case_of(x.graph, choice, [lambda x: (ops.exp(x), ops.tanh(x)), swapped], [x])
            return other * made
        with while_loop(x.graph, CountBelow(3)) as loop:
            state = loop.carry(x)
            loop.next(state, inside(state, choice, depth - 1))
        return loop.result(state)

    return compile(graph, [inside(ops.sin(x), choice, depth)], backend="reference").planned


def one_block(planned: PlannedGraph) -> None:
    """Two values that a branch is lent memory for go on in each other, which the graph around knows nothing of."""
    first, *others = sorted(planned.lent & planned.lives.of.keys())
    planned.lives.take_over(
        first, next(root for root in others if planned.lives.of[root] is not planned.lives.of[first])
    )


def in_the_operand(planned: PlannedGraph) -> None:
    """A loop takes turns in the block of an operand that is read again behind it."""
    (step,) = (step for step, key in enumerate(planned.order) if key in planned.inner)
    lender = planned.graph.execs[planned.order[step]].inputs[0]
    assert lender is not None
    planned.lives.outer[step] = OuterMemory(dict.fromkeys(range(2), lender), {})


def left_elsewhere(planned: PlannedGraph) -> None:
    """A loop takes turns in memory of its own, and says that results are in a block of the graph around."""
    (step,) = (step for step, key in enumerate(planned.order) if key in planned.inner)
    planned.lives.outer[step] = OuterMemory({}, planned.lives.outer[step].placed)


def body_of(planned: PlannedGraph, *way: int) -> PlannedGraph:
    """The body of the first exec that has one, and so on."""
    for number in way:
        planned = next(iter(planned.inner.values()))[number]
    return planned


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (one_block, "are one block, and the graph around has them in two places"),
        (in_the_operand, "whose bytes .* has written over"),
        (left_elsewhere, "is not left where while of .* gives it"),
    ],
)
def test_what_is_wrong_in_a_body_is_found_wherever_it_stands(
    damage: Callable[[PlannedGraph], None], message: str, depth: int
) -> None:
    planned = in_branch(depth=depth)
    check_plan(planned)
    damage(body_of(planned, *[0] * depth, 1))
    with pytest.raises(VerificationError, match=message):
        check_plan(planned)


@pytest.mark.parametrize(("trips", "expected"), [(0, 1), (1, 2), (2, 3), (1001, 5)])
def test_no_iteration_is_looked_at_twice_nor_one_that_is_not_there(
    trips: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an odd number of turns the last is another one than those before: they begin anew behind all whole rounds."""
    graph = SymbolicGraph()
    x, y = graph.input(spec((4, 4)), "x"), graph.input(spec((4, 4)), "y")
    with while_loop(graph, CountBelow(trips)) as loop:
        a, b = loop.carry(x), loop.carry(y)
        loop.next(a, ops.gemm(b, b))
        loop.next(b, ops.gemm(a, a))
    planned = compile(graph, [loop.result(a)], backend="reference").planned
    assert turns_of(planned, monkeypatch) <= expected


def test_long_cycles_are_looked_at_for_some_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4)), "x")
    with while_loop(graph, CountBelow(1000)) as loop:
        carried = [loop.carry(ops.affine(x, float(number))) for number in range(12)]
        for begin, end in ((0, 5), (5, 12)):
            for place in range(begin, end):
                taken = carried[place + 1 if place + 1 < end else begin]
                loop.next(carried[place], ops.sin(taken) if place == begin else taken)
    planned = compile(graph, [loop.result(carried[0])], backend="reference").planned
    assert turns_of(planned, monkeypatch) == MOST_TURNS


def turns_of(planned: PlannedGraph, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many iterations the check of a plan looks at."""
    turns: list[int] = []
    iterate = lent_memory._Loop._iterate

    def counted(self: lent_memory._Loop, turn: lent_memory._Turn, *, is_last: bool) -> lent_memory._Turn | None:
        turns.append(turn.number)
        return iterate(self, turn, is_last=is_last)

    monkeypatch.setattr(lent_memory._Loop, "_iterate", counted)
    check_plan(planned)
    return len(turns)
