"""One plan for all graphs: what a caller compiles, the branches of a `case_of`, and the bodies of loops.

    execs → plans of their bodies → uses → order → live ranges → what shares memory → slots → layout

The layout judges: outputs take over what ends at their execs unless the plan is smaller without it, inputs of
concatenations are computed in their places where it is no larger for it, and other values share the slots of a loop
unless it is smaller without that. Blocks of bodies are laid out among those of the graph around (`timeline`). A branch
computes its results where they are wanted, and may write over operands that end with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, partial

from nnc.classes import dataclass
from nnc.core.running.dispatch import Claim
from nnc.ops.rules import INPLACE
from nnc.symbolic.compiler.order.choose import choose_order, predecessors
from nnc.symbolic.compiler.order.known import KnownOrders
from nnc.symbolic.compiler.order.uses import Uses, peak_bytes, uses_of
from nnc.symbolic.compiler.place.body_lives import (
    bytes_of,
    drop_count,
    handed_on,
    in_one_block,
    keep_unwritten,
    lendable,
    moved_results,
    one_to_one,
)
from nnc.symbolic.compiler.place.boundary import Boundary
from nnc.symbolic.compiler.place.concatenation import concatenate_in_place, sites
from nnc.symbolic.compiler.place.concurrency import Concurrency, run_side_by_side
from nnc.symbolic.compiler.place.liveness import (
    LiveRange,
    LiveRanges,
    ends_at,
    find_live_ranges,
    fold_inplace,
)
from nnc.symbolic.compiler.place.memory import PLACES, PLACES_OF_A_TRIAL, lay_out
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.scratch import kernel_scratch
from nnc.symbolic.compiler.place.slots import (
    Slots,
    assign_slots,
    computed_places,
    join_equals,
    live_through,
    permute_in_place,
    runs_once,
    trips,
    use_outer_memory,
)
from nnc.symbolic.compiler.place.timeline import block_spans
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import Body, SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# At most this many concatenations, and as many execs that write in place, are tried the other way: fewer where a plan
# is large, as the time for a plan grows with the pairs of blocks.
TRIALS = 32
TRIED_PAIRS = 1 << 21
NO_CLAIMS: Mapping[ExecKey, Claim] = {}


def plan(
    graph: SymbolicGraph,
    boundary: Boundary,
    backend: str,
    *,
    streams: int = 1,
    trials: int = TRIALS,
    capacity: int | None = None,
    known: dict[ExecKey, BodyPlans] | None = None,
    orders: KnownOrders | None = None,
    claims: Mapping[ExecKey, Claim] = NO_CLAIMS,
    places: int = PLACES,
    most: int | None = None,
) -> PlannedGraph:
    """The graph with all that is fixed before memory exists.

    At most `trials` in-place sites are tried both ways; a plan within the `capacity` is good enough, and the planner's
    searches put blocks somewhere at most `places` times. Plans of bodies
    that are `known` from plans of this graph for other boundaries are not made again, and `orders` not looked for that
    are known from other sizes; nor are backends asked for `claims` that are. Where no plan of the order comes near the
    limit of `most` bytes, nothing is searched.
    """
    known = {} if known is None else known
    with_bodies = [key for key in boundary.execs if bodies_of(graph.execs[key].command)]
    inner = {key: known.setdefault(key, BodyPlans(graph.execs[key], backend)) for key in with_bodies}
    scratch = {
        key: inner[key].scratch if key in inner else kernel_scratch(graph, key, backend, claims)
        for key in boundary.execs
    }
    uses = uses_of(graph, boundary.execs, boundary.outside, boundary.kept, scratch)
    order = choose_order(graph, boundary.execs, uses, boundary.carried, boundary.early, orders)
    # Of what is alive at the peak concatenations in place save a half at most, and bodies may find memory around them.
    is_far = most is not None and not inner and peak_bytes(order, uses) > 2 * most
    trials, places = (0, 0) if is_far else (trials, places)
    planner = Planner(graph, boundary, backend, order, uses, inner, capacity, claims, places)
    planned = replace(planner.choose(trials), searched=not is_far)
    if streams > 1:
        before = predecessors(graph, boundary.execs, uses, boundary.carried)
        concurrency = run_side_by_side(order, before, uses, planner.unfolded(), streams)
        planned = replace(planner.choose(trials, concurrency), serial_bytes=planned.arena, searched=not is_far)
    return planned


@dataclass(frozen=True, slots=True, eq=False)
class Planner:
    """An order of execs, and how what shares memory in it is found."""

    graph: SymbolicGraph
    boundary: Boundary
    backend: str
    order: tuple[ExecKey, ...]
    uses: Uses
    inner: Mapping[ExecKey, BodyPlans]
    capacity: int | None
    claims: Mapping[ExecKey, Claim]
    places: int

    def choose(self, trials: int, concurrency: Concurrency | None = None) -> PlannedGraph:
        """The smallest plan over what may share memory, with the lowest bound of all that were tried."""
        best = self.arranged(concurrency)
        bound, permuted = best.bound, True
        joined: set[int] = set()
        apart: set[int] = set()
        shared = True
        trials = min(trials, TRIED_PAIRS // max(len(best.layout.spans) ** 2, 1))
        loop = self.boundary.loop
        if loop is not None and trials:
            shared, best, bound = self._slotted(loop, best, concurrency)
            if best.lives.permuted:
                other = self.arranged(concurrency, permuted=False)
                other_shared, other, other_bound = self._slotted(loop, other, concurrency, permuted=False)
                bound = min(bound, other_bound)
                if other.arena + moved_results(loop, other) < best.arena + moved_results(loop, best):
                    shared, permuted, best = other_shared, False, other
        arranged = partial(self.arranged, concurrency, shared=shared, permuted=permuted, places=PLACES_OF_A_TRIAL)
        for step in sites(self.graph, self.order)[:trials]:
            trial = arranged({*joined, step})
            bound = min(bound, trial.bound)
            if trial.lives.in_place.get(step) and trial.arena <= best.arena:
                joined.add(step)
                best = trial
        folded = [step for step, key in enumerate(self.order) if self.uses.pairs[key] and not self._is_enforced(key)]
        for step in folded[:trials]:
            if best.arena == best.layout.plan.lower_bound:
                break
            trial = arranged(joined, {*apart, step})
            bound = min(bound, trial.bound)
            if trial.arena < best.arena:
                apart.add(step)
                best = trial
        return replace(best, bound=bound)

    def _slotted(
        self, loop: WhileAttrs, best: PlannedGraph, concurrency: Concurrency | None, *, permuted: bool = True
    ) -> tuple[bool, PlannedGraph, int]:
        """Whether other values share the slots, with the smaller plan, and the lower bound of both."""
        trial = self.arranged(concurrency, shared=False, permuted=permuted)
        # At the same size, what may lie anywhere in the only iteration leaves more to the graph around.
        once = trips(loop) == 1 and runs_once(loop, len(self.boundary.early))
        is_smaller = trial.arena < best.arena + once
        return not is_smaller, trial if is_smaller else best, min(best.bound, trial.bound)

    def unfolded(self) -> LiveRanges:
        """The live ranges of all roots, each with a block of its own."""
        boundary = self.boundary
        lives = find_live_ranges(self.graph, self.order, self.uses, boundary.outside)
        keep_unwritten(self.graph, boundary.kept, lives, boundary.outside)
        if boundary.loop is not None:
            live_through(boundary.loop, self.graph, lives, len(boundary.early))
        return lives

    def arranged(
        self,
        concurrency: Concurrency | None = None,
        joined: Collection[int] = (),
        apart: Collection[int] = (),
        *,
        shared: bool = True,
        permuted: bool = True,
        places: int | None = None,
    ) -> PlannedGraph:
        """With a layout: outputs have taken over what ends at their execs, but for the steps `apart`.

        The inputs of the concatenations `joined` are computed in their places. Carried values that branches hand on in
        an order of their own stay in their blocks where they may be `permuted`.
        """
        graph, order, boundary = self.graph, self.order, self.boundary
        is_over = ends_at if concurrency is None else concurrency.is_over
        lives = self.unfolded()
        fold_inplace(graph, order, lives, is_over, apart, boundary.may_join)
        if boundary.loop is not None:
            join_equals(boundary.loop, lives)
            if permuted:
                permute_in_place(boundary.loop, order, lives)
        inner = dict(self._bodies(lives, is_over))
        for step, key in enumerate(order):
            if key not in inner and (nbytes := self.uses.scratch[key]):
                lives.workspaces[step] = LiveRange([], step, step + 1, nbytes, memory=self._memory(key))
        concatenate_in_place(graph, order, lives, joined, is_over)
        slots = Slots()
        if boundary.loop is not None:
            once = runs_once(boundary.loop, len(boundary.early))
            slots = assign_slots(boundary.loop, order, lives, boundary.operands, once=once, shared=shared)
        planned = PlannedGraph(
            graph,
            order,
            self.uses,
            lives,
            inner,
            self.backend,
            boundary.kept | boundary.outside,
            len(boundary.early),
            slots,
            boundary.lent,
            concurrency,
            claims=self.claims,
        )
        spans, starts = block_spans(planned)
        for span in spans:
            if span.step is not None:
                lives.inside.setdefault(span.step, []).append(span.life)
        interference = None if concurrency is None else concurrency.interference
        layout = lay_out(spans, interference, self.capacity, self.places if places is None else places, starts)
        return replace(planned, layout=layout, bound=layout.plan.lower_bound, serial_bytes=layout.plan.arena_bytes)

    def _memory(self, key: ExecKey) -> str:
        """Where the kernel of an exec has its scratch memory: beside what it writes."""
        return str(self.graph.tensors[self.graph.execs[key].outputs[0]].spec.device)

    def _is_enforced(self, key: ExecKey) -> bool:
        command = self.graph.execs[key].command
        return bool(INPLACE[command.op](command.attrs).enforced)

    # ---- bodies

    def _bodies(
        self, lives: LiveRanges, is_over: Callable[[LiveRange, int], bool]
    ) -> Iterator[tuple[ExecKey, tuple[PlannedGraph, ...]]]:
        """The plans of the bodies of each exec, with the memory that the blocks around lend them."""
        boundary = self.boundary
        kept_by_loop = frozenset[TensorKey]()
        if boundary.loop is not None:
            kept_by_loop = handed_on(self.graph, self.order, boundary.loop) - boundary.operands
        for step, key in enumerate(self.order):
            if key not in self.inner:
                continue
            plans, record = self.inner[key], self.graph.execs[key]

            def may_write(root: TensorKey, step: int = step) -> bool:
                life = lives.of[root]
                return root not in kept_by_loop and ends_at(life, step) and is_over(life, step)

            if plans.loop is not None:
                drop_count(lives.of.get(record.outputs[0]), step)
                lent = lendable(record, lives, may_write) & plans.read_once()
                body = plans.iteration(lent)
                lives.outer[step] = use_outer_memory(
                    record, step, body.slots, lives, may_write, boundary.may_join, sorted(lent)
                )
                yield key, (body,)
            else:
                yield key, self._lend(plans, record, step, lives, lendable(record, lives, may_write))

    def _lend(
        self,
        plans: BodyPlans,
        record: ExecSymbol,
        step: int,
        lives: LiveRanges,
        lent: frozenset[int],
    ) -> tuple[PlannedGraph, ...]:
        """The branches with the blocks of operands that end here and of results that begin here.

        Where each branch ends up in the block of an operand with the same result, that goes on in the block.
        """
        operands = frozenset(place for place in lent if place >= plans.chosen)
        results = frozenset(place for place, key in enumerate(record.outputs) if key in lives.of)
        merged = frozenset(
            (place, other)
            for place, other in plans.merged(operands, results, None)
            if self._may_merge(lives, record.inputs[place], record.outputs[other], step)
        )
        if plans.merged(operands, results, merged) != merged:
            merged = frozenset()
        for place, other in sorted(merged):
            source = record.inputs[place]
            assert source is not None
            lives.take_over(source, record.outputs[other])
        return plans.branches(operands, results, merged)

    def _may_merge(self, lives: LiveRanges, source: TensorKey | None, target: TensorKey, step: int) -> bool:
        assert source is not None
        old, new = lives.of[source], lives.of[target]
        fits = (
            old is not new
            and (old.nbytes, old.memory) == (new.nbytes, new.memory)
            and new.lower == step
            and new.roots[0] == target
        )
        return fits and self.boundary.may_join(old, new)


@dataclass(eq=False)
class BodyPlans:
    """The plans of the bodies of an exec, each made once for the memory that is lent to it.

    Bodies of bodies are planned once for all of these: six `case_of` inside each other took 2,184 plans.
    """

    record: ExecSymbol
    backend: str
    _branches: dict[object, tuple[PlannedGraph, ...]] = field(default_factory=dict)
    _inner: defaultdict[int, dict[ExecKey, BodyPlans]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def chosen(self) -> int:
        """How many inputs a `case_of` chooses by."""
        attrs = self.record.command.attrs
        assert isinstance(attrs, CaseAttrs)
        return attrs.chosen

    @cached_property
    def loop(self) -> PlannedGraph | None:
        """The body of a loop to which nothing is lent."""
        return self.iteration(frozenset()) if isinstance(self.record.command.attrs, WhileAttrs) else None

    def iteration(self, operands: frozenset[int]) -> PlannedGraph:
        """The body of a loop with the blocks of these operands."""
        attrs = self.record.command.attrs
        assert isinstance(attrs, WhileAttrs)
        if operands not in self._branches:
            lent = frozenset(attrs.body.parameters[place] for place in operands)
            boundary = _loop_boundary(attrs, lent)
            self._branches[operands] = (plan(attrs.body.graph, boundary, self.backend, known=self._inner[0]),)
        return self._branches[operands][0]

    def read_once(self) -> frozenset[int]:
        """The operands that a loop reads in its only iteration."""
        attrs = self.record.command.attrs
        assert isinstance(attrs, WhileAttrs)
        body, boundary = attrs.body, _loop_boundary(attrs)
        if not runs_once(attrs, len(boundary.early)):
            return frozenset()
        kept = {body.graph.root(key) for key in (*body.results, *attrs.named())}
        parameters = enumerate(body.parameters)
        return frozenset(place for place, key in parameters if place >= attrs.carried and key not in kept)

    @property
    def scratch(self) -> int:
        """Bytes beside operands and outputs, as far as that is known before these have places."""
        if self.loop is not None:
            return self.loop.arena
        outputs = frozenset(range(len(self.record.outputs)))
        bodies = [body for _, body in bodies_of(self.record.command)]
        planned = self.branches(frozenset(), outputs, frozenset())
        return max(
            max(value.arena - bytes_of(body.graph, body.results), 0)
            for value, body in zip(planned, bodies, strict=True)
        )

    def branches(
        self, operands: frozenset[int], results: frozenset[int], merged: frozenset[tuple[int, int]] | None
    ) -> tuple[PlannedGraph, ...]:
        """The branches with blocks for these operands and results, some of which may be the same (None: any)."""
        key = (operands, results, merged)
        if key not in self._branches:
            self._branches[key] = tuple(
                plan(
                    body.graph,
                    self._boundary(body, operands, results, merged),
                    self.backend,
                    known=self._inner[place],
                )
                for place, (_, body) in enumerate(bodies_of(self.record.command))
            )
        return self._branches[key]

    def merged(
        self, operands: frozenset[int], results: frozenset[int], allowed: frozenset[tuple[int, int]] | None
    ) -> frozenset[tuple[int, int]]:
        """The operands and results, by place, that each branch has in the same block when no others are allowed to."""
        if not operands or not results:
            return frozenset()
        planned = self.branches(operands, results, allowed)
        bodies = [body for _, body in bodies_of(self.record.command)]
        return one_to_one(
            (place, other)
            for place in operands
            for other in results
            if all(
                in_one_block(value, body.parameters[place - self.chosen], body.results[other])
                for value, body in zip(planned, bodies, strict=True)
            )
        )

    def _boundary(
        self,
        body: Body,
        operands: frozenset[int],
        results: frozenset[int],
        merged: frozenset[tuple[int, int]] | None,
    ) -> Boundary:
        ending = frozenset(body.parameters[place - self.chosen] for place in operands)
        given = frozenset(body.parameters)
        lent = frozenset(body.results[place] for place in results) - given
        return Boundary(
            execs=tuple(body.graph.needed_for(body.results, given)),
            outside=(given | frozenset(body.results)) - ending - lent,
            kept=frozenset(body.results),
            operands=ending,
            results=lent,
            merged=None
            if merged is None
            else frozenset((body.parameters[value - self.chosen], body.results[other]) for value, other in merged),
        )


def _loop_boundary(attrs: WhileAttrs, operands: frozenset[TensorKey] = frozenset()) -> Boundary:
    """What the test and the results behind the loop read comes first; carried values that change have slots."""
    body, graph = attrs.body, attrs.body.graph
    moving = computed_places(attrs)
    computed = {body.parameters[place] for place in moving}
    early = (*attrs.asked(), *attrs.exits())
    late = (key for key in attrs.stacked() if key not in body.parameters)
    kept = [*(body.results[place] for place in moving), *late]
    given = frozenset([attrs.count, *body.parameters])
    return Boundary(
        execs=tuple(graph.needed_for([*kept, *early], given)),
        outside=given - computed - operands,
        kept=frozenset(graph.root(key) for key in kept),
        early=frozenset(graph.needed_for(early, given)),
        operands=operands,
        loop=attrs,
    )
