"""Debug runs look at each iteration of a loop whose values take turns in slots."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.errors import VerificationError
from nnc.symbolic import Symbol, SymbolicGraph, compile, while_loop
from nnc.symbolic.compiler.check.turns import MOST_TURNS, turns
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges
from nnc.symbolic.compiler.place.slots import Slots, _SlotAssignment
from nnc.symbolic.records import TensorKey

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


def slots_of(moves: tuple[int, ...]) -> tuple[Slots, LiveRanges]:
    """A value in each slot."""
    keys = [TensorKey(number) for number in range(len(moves))]
    lives = LiveRanges(1, {key: LiveRange([key], 0, 1, 64, outside=True) for key in keys})
    return Slots((64,) * len(moves), {key: slot for slot, key in enumerate(keys)}, moves), lives


def test_each_iteration_has_its_own_offsets_until_slots_are_back() -> None:
    slots, lives = slots_of((1, 0, 2))
    found = [
        [placed[id(life)] for life in lives.of.values()]
        for placed, _ in turns(slots, lives, {}, lambda memory: 64 * memory, (), None)
    ]
    assert found == [[0, 64, 128], [64, 0, 128]]


@pytest.mark.parametrize(("trips", "expected"), [(1, 1), (2, 2), (None, 3), (0, 1)])
def test_no_iteration_is_looked_at_that_is_not_there(trips: int | None, expected: int) -> None:
    slots, lives = slots_of((1, 0))
    outside = frozenset(slots.of)
    found = list(turns(slots, lives, {}, lambda memory: 64 * memory, outside, trips))
    assert [elsewhere for _, elsewhere in found] == [outside, *[()] * (expected - 1)]


def test_long_cycles_are_looked_at_for_some_iterations_and_what_moves_lies_apart() -> None:
    slots, lives = slots_of((1, 2, 3, 4, 0, 6, 7, 5))
    found = [set(placed.values()) for placed, _ in turns(slots, lives, {}, lambda memory: None, (), None)]
    assert len(found) == MOST_TURNS
    assert all(len(places) == len(slots.sizes) for places in found)
    assert np.diff(sorted(found[0])).min() > 1 << 30
