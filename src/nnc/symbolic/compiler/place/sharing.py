"""What shares memory, chosen with the plan as the judge.

outputs take over what ends at their execs, unless the plan is smaller without it
inputs of concatenations are computed in their places, where the plan is no larger for it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nnc.ops.rules import INPLACE
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.compiler.place.bodies import plan_workspaces
from nnc.symbolic.compiler.place.concatenation import concatenate_in_place, sites
from nnc.symbolic.compiler.place.concurrency import Concurrency
from nnc.symbolic.compiler.place.liveness import LiveRanges, ends_at, find_live_ranges, fold_inplace, live_range_of
from nnc.symbolic.compiler.place.memory import PLACES, PLACES_OF_A_TRIAL, ArenaLayout, lay_out
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.ir import ExecKey, SymbolicGraph, TensorKey

# So many concatenations, and so many execs that write in place, are tried the other way: fewer where a plan is large,
# as the time for a plan grows with the pairs of blocks.
TRIALS = 32
TRIED_PAIRS = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """An order of execs, and how its lives and plan are found."""

    graph: SymbolicGraph
    order: tuple[ExecKey, ...]
    uses: Uses
    bound: frozenset[TensorKey]
    kept: frozenset[TensorKey]
    inner: Mapping[ExecKey, tuple[PlannedGraph, ...]]
    scratch: Mapping[ExecKey, int]
    capacity: int | None

    def unfolded(self) -> LiveRanges:
        """The lives of all roots, each with a block of its own."""
        lives = find_live_ranges(self.graph, self.order, self.uses, self.bound)
        _keep_unwritten(self.graph, self.kept, lives, self.bound)
        return lives

    def lives(
        self, concurrency: Concurrency | None = None, joined: Collection[int] = (), apart: Collection[int] = ()
    ) -> LiveRanges:
        """The lives of blocks: outputs have taken over what ends at their execs, but for the steps `apart`.

        The inputs of the concatenations `joined` are computed in their places.
        """
        lives = self.unfolded()
        is_over = ends_at if concurrency is None else concurrency.is_over
        fold_inplace(self.graph, self.order, lives, is_over, apart)
        plan_workspaces(self.graph, self.order, self.inner, self.scratch, lives, is_over)
        concatenate_in_place(self.graph, self.order, lives, joined, is_over)
        return lives

    def lay_out(self, lives: LiveRanges, concurrency: Concurrency | None = None, places: int = PLACES) -> ArenaLayout:
        """The plan of the blocks, checked."""
        names = {root: self.graph.label(root) for root in lives.of}
        interference = None if concurrency is None else concurrency.interference
        return lay_out(lives, names, interference, self.capacity, places)

    def choose(self, trials: int, concurrency: Concurrency | None = None) -> tuple[LiveRanges, ArenaLayout]:
        """The smallest plan over what may share memory: outputs with inputs, and inputs with what they are parts of.

        Whatever may be written in place is, unless the plan is smaller without it. A concatenation finds its inputs in
        their places where the plan is no larger for it, which saves their copies.
        """
        lives = self.lives(concurrency)
        layout = self.lay_out(lives, concurrency)
        joined: set[int] = set()
        apart: set[int] = set()
        trials = min(trials, TRIED_PAIRS // max(len(layout.blocks) ** 2, 1))
        for step in sites(self.graph, self.order)[:trials]:
            found = self.lives(concurrency, {*joined, step})
            if found.in_place.get(step):
                trial = self.lay_out(found, concurrency, PLACES_OF_A_TRIAL)
                if trial.plan.arena_bytes <= layout.plan.arena_bytes:
                    joined.add(step)
                    lives, layout = found, trial
        folded = [step for step, key in enumerate(self.order) if self.uses.pairs[key] and not self._is_enforced(key)]
        for step in folded[:trials]:
            if layout.plan.arena_bytes == layout.plan.lower_bound:
                break
            found = self.lives(concurrency, joined, {*apart, step})
            trial = self.lay_out(found, concurrency, PLACES_OF_A_TRIAL)
            if trial.plan.arena_bytes < layout.plan.arena_bytes:
                apart.add(step)
                lives, layout = found, trial
        return lives, layout

    def _is_enforced(self, key: ExecKey) -> bool:
        command = self.graph.execs[key].command
        return bool(INPLACE[command.op](command.attrs).enforced)


def _keep_unwritten(
    graph: SymbolicGraph, kept: Iterable[TensorKey], lives: LiveRanges, bound: Collection[TensorKey]
) -> None:
    """A wanted output that no exec touches (an input passed through, a fill) still needs memory."""
    for root in kept:
        if root in lives.of or root in bound:
            continue
        record, end = graph.tensors[root], lives.steps
        if record.fill is None:
            lives.of[root] = live_range_of(graph, root, 0, end + 1)
            lives.of[root].outside = True
        else:
            lives.of[root] = live_range_of(graph, root, end, end + 1)
            lives.fills.setdefault(end, []).append(root)
