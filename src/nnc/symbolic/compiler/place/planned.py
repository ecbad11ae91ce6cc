"""A graph with everything fixed before memory exists: order, lives, offsets, streams, and the same of its bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnc.symbolic.compiler.place.concurrency import Concurrency
from nnc.symbolic.compiler.place.liveness import LiveRanges
from nnc.symbolic.compiler.place.memory import ArenaLayout
from nnc.symbolic.compiler.place.slots import Slots, aligned
from nnc.symbolic.ir import ExecKey, SymbolicGraph, TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGraph:
    """A graph with everything fixed before memory exists; `inner` are those of the bodies of its execs.

    The roots `kept` hold their values behind the last step. The first `tested` execs are those that a loop's test
    needs. Without `concurrency` each step waits for the one in front of it.
    """

    graph: SymbolicGraph
    order: tuple[ExecKey, ...]
    lives: LiveRanges
    layout: ArenaLayout
    inner: Mapping[ExecKey, tuple[PlannedGraph, ...]]
    backend: str
    kept: frozenset[TensorKey] = frozenset()
    tested: int = 0
    concurrency: Concurrency | None = None
    slots: Slots = field(default_factory=Slots)

    def inputs(self) -> tuple[TensorKey, ...]:
        """The roots in the arena whose value comes from outside before each run."""
        lives = self.lives.of
        return tuple(root for root, life in lives.items() if life.outside and life.nbytes and life.roots[0] == root)

    @property
    def streams(self) -> int:
        """How many streams the execs are on."""
        return 1 if self.concurrency is None else self.concurrency.streams

    @property
    def nbytes(self) -> int:
        """Bytes of the arena, rounded up to the alignment of blocks."""
        return aligned(self.layout.plan.arena_bytes)
