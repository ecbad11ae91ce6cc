"""Liveness over a fixed serial order, and in-place folding.

life of a root = [step of its first use, step after its last use), in steps of the order
a root that is read where nobody writes it is alive before step 0, unless it has a fill: then it is filled at its first
use, behind whoever held the bytes before; a wanted output lives to the end
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.core.values.device import HOST
from nnc.ops.rules import INPLACE
from nnc.symbolic.compiler.order.inplace import Pair, choose_pairs, shareable
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey
from nnc.symbolic.region import Region, covers


@dataclass(slots=True)
class LiveRange:
    """A block of memory: roots that take it over from each other, and from which step to which it is needed.

    The scratch memory of a kernel is a block without roots that lives for one step. A block that comes from outside
    holds its value before the first step. `memory` is the kind of memory: the device.
    """

    roots: list[TensorKey]
    lower: int
    upper: int
    nbytes: int
    outside: bool = False
    memory: str = HOST


@dataclass(frozen=True, slots=True)
class OuterMemory:
    """The blocks around a loop that give it memory, by a root of each: `roots` by memory, `placed` by result.

    Results that are not found where they are wanted are copied there.
    """

    roots: Mapping[int, TensorKey] = field(default_factory=dict)
    placed: Mapping[TensorKey, TensorKey] = field(default_factory=dict)


@dataclass(slots=True)
class LiveRanges:
    """Every planned root's block (several roots may share one after folding), and scratch memory by step.

    `fills` are the roots that get their fill at the beginning of a step, `outer` the blocks that a loop begins in, and
    `inside` the blocks of the bodies of a step.
    Roots that are parts of a concatenated one lie `shifts` bytes behind the beginning of its block; `parts` says of
    which root each is a part, and `in_place` which inputs a step finds in their places. Outputs `permuted` by a step
    are its operands in an order that the branch taken says, and continue their blocks.
    """

    steps: int
    of: dict[TensorKey, LiveRange] = field(default_factory=dict)
    workspaces: dict[int, LiveRange] = field(default_factory=dict)
    fills: dict[int, list[TensorKey]] = field(default_factory=dict)
    outer: dict[int, OuterMemory] = field(default_factory=dict)
    inside: dict[int, list[LiveRange]] = field(default_factory=dict)
    shifts: dict[TensorKey, int] = field(default_factory=dict)
    parts: dict[TensorKey, TensorKey] = field(default_factory=dict)
    in_place: dict[int, set[int]] = field(default_factory=dict)
    permuted: dict[int, Collection[TensorKey]] = field(default_factory=dict)

    def take_over(self, source: TensorKey, target: TensorKey) -> None:
        """Let the block of `target` go on in that of `source`."""
        old, new = self.of[source], self.of[target]
        old.roots.extend(new.roots)
        old.upper, old.nbytes = new.upper, max(old.nbytes, new.nbytes)
        for root in new.roots:
            self.of[root] = old

    def every_block(self) -> Iterator[LiveRange]:
        """The blocks of the graph and of its bodies, some of them several times."""
        yield from self.of.values()
        yield from self.workspaces.values()
        for inside in self.inside.values():
            yield from inside

    def of_host(self) -> list[LiveRange]:
        """Those in memory of the host."""
        return [life for life in self.every_block() if life.memory == HOST]

    def blocks(self) -> tuple[LiveRange, ...]:
        """Distinct blocks that take memory, in order of birth."""
        distinct = {id(life): life for life in (*self.of.values(), *self.workspaces.values()) if life.nbytes}
        return tuple(sorted(distinct.values(), key=lambda life: (life.lower, life.roots[:1])))


def find_live_ranges(
    graph: SymbolicGraph, order: Sequence[ExecKey], uses: Uses, bound: frozenset[TensorKey]
) -> LiveRanges:
    """LiveRanges of all roots that the order touches, except `bound` ones, whose memory is somebody else's."""
    lives = LiveRanges(len(order))
    first: dict[TensorKey, int] = {}
    for step, key in enumerate(order):
        for root in uses.touched(key):
            first.setdefault(root, step)
            if root not in bound:
                life = lives.of.setdefault(root, live_range_of(graph, root, step, step + 1))
                life.upper = step + 1
    written = {root for key in order for root in uses.writes[key]}
    for root, step in first.items():
        if graph.tensors[root].fill is not None and (root in written or root not in bound):
            if not _writes_cover(graph, root, [graph.region(root)]):
                lives.fills.setdefault(step, []).append(root)
        elif root in lives.of and not _writes_cover(graph, root, _places_read(graph, uses, root)):
            lives.of[root].lower, lives.of[root].outside = 0, True
    for root in uses.kept & lives.of.keys():
        lives.of[root].upper = len(order) + 1
    return lives


def live_range_of(graph: SymbolicGraph, root: TensorKey, lower: int, upper: int, *, outside: bool = False) -> LiveRange:
    """A block for one root."""
    spec = graph.tensors[root].spec
    return LiveRange([root], lower, upper, spec.nbytes, outside, str(spec.device))


def _writes_cover(graph: SymbolicGraph, root: TensorKey, places: Sequence[Region]) -> bool:
    """False when some of these places of `root` may come from outside."""
    written = [key for writer in graph.writers(root) for key in graph.execs[writer].outputs if graph.root(key) == root]
    if sum(graph.tensors[key].spec.elements for key in written) >= graph.tensors[root].spec.elements:
        return True
    parts = [graph.region(key) for key in written]
    return all(covers(parts, place) for place in places)


def _places_read(graph: SymbolicGraph, uses: Uses, root: TensorKey) -> list[Region]:
    """The places of `root` that execs read, or all of it when it is wanted."""
    if root in uses.kept:
        return [graph.region(root)]
    users = (graph.execs[key] for key in graph.readers(root) if key in uses.reads)
    read = {key for user in users for key in user.inputs if key is not None and graph.root(key) == root}
    return [graph.region(key) for key in sorted(read)]


def ends_at(life: LiveRange, step: int) -> bool:
    """True when nobody uses the block behind `step` of a serial order."""
    return life.upper == step + 1


def fold_inplace(
    graph: SymbolicGraph,
    order: Sequence[ExecKey],
    lives: LiveRanges,
    is_over: Callable[[LiveRange, int], bool] = ends_at,
    apart: Collection[int] = (),
    may_join: Callable[[LiveRange, LiveRange], bool] = lambda old, new: True,
) -> int:
    """Let outputs take over the memory of inputs that are over behind the same exec; returns how many did.

    Where an exec leaves a choice, as many bytes as possible are taken over. An input is over behind one exec at most,
    so that no choice at one exec takes anything from another. At the steps `apart` nothing is taken over, and a block
    continues another one where these `may_join`.
    """
    steps = ((step, graph.execs[key]) for step, key in enumerate(order) if step not in apart)
    return sum(_fold_exec(graph, record, step, lives, is_over, may_join) for step, record in steps)


def _fold_exec(
    graph: SymbolicGraph,
    record: ExecSymbol,
    step: int,
    lives: LiveRanges,
    is_over: Callable[[LiveRange, int], bool],
    may_join: Callable[[LiveRange, LiveRange], bool],
) -> int:
    possible = [
        (source, target)
        for source, target in shareable(graph, record)
        if _may_fold(record, (source, target), step, lives)
        and is_over(lives.of[source], step)
        and may_join(lives.of[source], lives.of[target])
    ]
    chosen = choose_pairs(possible, lambda pair: lives.of[pair[1]].nbytes)
    for source, target in chosen:
        lives.take_over(source, target)
    return len(chosen)


def _may_fold(record: ExecSymbol, pair: Pair, step: int, lives: LiveRanges) -> bool:
    """Both are planned, the input's block ends here, and the output's begins here and holds nothing else."""
    old, new = lives.of.get(pair[0]), lives.of.get(pair[1])
    if old is None or new is None or old is new or new.roots != [pair[1]]:
        return False
    return old.upper == step + 1 and new.lower == step and all(lives.of.get(key) is not old for key in record.outputs)


def may_overwrite(graph: SymbolicGraph, record: ExecSymbol, new: TensorKey, old: TensorKey) -> bool:
    """May the exec that writes `new` do so in the memory of `old`, as far as its own reads are concerned?"""
    if new not in record.outputs:
        return False
    pairs = INPLACE[record.command.op](record.command.attrs).allowed
    allowed = {source for source, target in pairs if target == record.outputs.index(new)}
    readers = [position for position, key in enumerate(record.inputs) if key is not None and graph.root(key) == old]
    return all(position in allowed and record.inputs[position] == old for position in readers)


def carried_roots(
    graph: SymbolicGraph, carries: Mapping[TensorKey, TensorKey], bound: Collection[TensorKey]
) -> dict[TensorKey, TensorKey]:
    """The carries (new → old) whose writer may write straight into the old value's memory."""
    direct = {}
    for new, old in carries.items():
        writers = graph.writers(new)
        if new not in bound and len(writers) == 1 and may_overwrite(graph, graph.execs[writers[0]], new, old):
            direct[new] = old
    return direct


def enforced_carries(
    graph: SymbolicGraph,
    execs: Iterable[ExecKey],
    given: Collection[TensorKey],
    carries: Mapping[TensorKey, TensorKey],
) -> dict[TensorKey, TensorKey]:
    """Carries (new → given old) that operators enforce beside those asked for."""
    enforced: dict[TensorKey, TensorKey] = {}
    for source, target in _enforced_pairs(graph, execs):
        if source in given and target not in carries and source not in carries.values():
            enforced[target] = source
    return enforced


def _enforced_pairs(graph: SymbolicGraph, execs: Iterable[ExecKey]) -> Iterator[tuple[TensorKey, TensorKey]]:
    """(input, output) symbols that must share memory."""
    for key in execs:
        record = graph.execs[key]
        for source, target in INPLACE[record.command.op](record.command.attrs).enforced:
            taken = record.inputs[source]
            if taken is not None:
                yield taken, record.outputs[target]
