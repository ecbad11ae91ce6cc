"""A graph with everything fixed before memory exists: order, live ranges, streams, and the same of its bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from nnc.classes import dataclass
from nnc.core.running.dispatch import Claim
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.compiler.place.concurrency import Concurrency
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges
from nnc.symbolic.compiler.place.memory import NOTHING, ArenaLayout
from nnc.symbolic.compiler.place.slots import Slots
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGraph:
    """What a caller compiles, or a body; `inner` are those of the bodies of its execs.

    The roots `kept` hold their values behind the last step. The first `tested` execs are those that a loop's test
    needs. The blocks of the roots `lent` lie in memory of the graph around. Without `concurrency` each step waits for
    the one in front of it. The `layout` is that of the graph alone, with all blocks of its bodies; no plan of any order
    and sharing that was tried needs less than `bound` bytes. On one stream the arena takes `serial_bytes`. Who runs an
    exec is one of `claims` where it is known from other sizes. The layout was `searched`, or made in one pass.
    """

    graph: SymbolicGraph
    order: tuple[ExecKey, ...]
    uses: Uses
    lives: LiveRanges
    inner: Mapping[ExecKey, tuple[PlannedGraph, ...]]
    backend: str
    kept: frozenset[TensorKey] = frozenset()
    tested: int = 0
    slots: Slots = field(default_factory=Slots)
    lent: frozenset[TensorKey] = frozenset()
    concurrency: Concurrency | None = None
    layout: ArenaLayout = NOTHING
    bound: int = 0
    serial_bytes: int = 0
    claims: Mapping[ExecKey, Claim] = field(default_factory=dict)
    searched: bool = True

    @property
    def arena(self) -> int:
        """Bytes of the graph alone."""
        return self.layout.plan.arena_bytes

    def inputs(self) -> tuple[TensorKey, ...]:
        """The roots in the arena whose value comes from outside before each run."""
        lives = self.lives.of
        return tuple(root for root, life in lives.items() if life.outside and life.nbytes and life.roots[0] == root)

    def size(self) -> int:
        """How many execs there are, those of bodies too."""
        return len(self.order) + sum(body.size() for bodies in self.inner.values() for body in bodies)

    @property
    def streams(self) -> int:
        """How many streams the execs are on."""
        return 1 if self.concurrency is None else self.concurrency.streams

    def touches(self, root: TensorKey) -> bool:
        """Does any exec read or write it?"""
        return any(root in self.uses.touched(key) for key in self.order)

    def lender(self, life: LiveRange) -> TensorKey | None:
        """The root of a block that lies in memory of the graph around; None for a block of this graph."""
        return next((root for root in life.roots if root in self.lent), None)
