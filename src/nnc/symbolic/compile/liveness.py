"""Liveness over a fixed serial order, and in-place folding.

life of a root = [step of its first write, step after its last use), in steps of the order
what comes from outside, wholly or in part, lives from step 0; a wanted output lives to the end
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nnc.ops.rules import INPLACE
from nnc.symbolic.compile.inplace import Pair, choose_pairs, shareable
from nnc.symbolic.compile.needs import Needs
from nnc.symbolic.ir import ExecKey, ExecSymbol, SymbolicGraph, TensorKey


@dataclass(slots=True)
class Life:
    """A block of memory: roots that take it over from each other, and from which step to which it is needed.

    The scratch memory of a kernel is a block without roots that lives for one step.
    """

    roots: list[TensorKey]
    lower: int
    upper: int
    nbytes: int


@dataclass(slots=True)
class Lives:
    """Every planned root's block (several roots may share one after folding), and scratch memory by step."""

    steps: int
    of: dict[TensorKey, Life] = field(default_factory=dict)
    workspaces: dict[int, Life] = field(default_factory=dict)

    def blocks(self) -> tuple[Life, ...]:
        """Distinct blocks that take memory, in order of birth."""
        distinct = {id(life): life for life in (*self.of.values(), *self.workspaces.values()) if life.nbytes}
        return tuple(sorted(distinct.values(), key=lambda life: (life.lower, life.roots[:1])))


def find_lives(graph: SymbolicGraph, order: Sequence[ExecKey], needs: Needs, bound: frozenset[TensorKey]) -> Lives:
    """Lives of all roots that the order touches, except `bound` ones, whose memory is somebody else's."""
    lives = Lives(len(order))
    for step, key in enumerate(order):
        for root in (*needs.reads[key], *needs.writes[key]):
            if root in bound:
                continue
            life = lives.of.setdefault(root, Life([root], step, step + 1, graph.tensors[root].spec.nbytes))
            life.upper = step + 1
    for root, life in lives.of.items():
        if life.lower and not _is_wholly_written(graph, root):
            life.lower = 0
        if root in needs.kept:
            life.upper = len(order) + 1
    return lives


def _is_wholly_written(graph: SymbolicGraph, root: TensorKey) -> bool:
    """False when some places of `root` come from outside; written places are disjoint, so counting them is enough."""
    written = [key for writer in graph.writers(root) for key in graph.execs[writer].outputs if graph.root(key) == root]
    return sum(graph.tensors[key].spec.elements for key in written) >= graph.tensors[root].spec.elements


def fold_inplace(graph: SymbolicGraph, order: Sequence[ExecKey], lives: Lives) -> int:
    """Let outputs take over the memory of inputs that die at the same exec; returns how many did.

    Where an exec leaves a choice, as many bytes as possible are taken over.
    """
    return sum(_fold_exec(graph, graph.execs[key], step, lives) for step, key in enumerate(order))


def _fold_exec(graph: SymbolicGraph, record: ExecSymbol, step: int, lives: Lives) -> int:
    possible = [pair for pair in shareable(graph, record) if _may_fold(record, pair, step, lives)]
    chosen = choose_pairs(possible, lambda pair: lives.of[pair[1]].nbytes)
    for source, target in chosen:
        old, new = lives.of[source], lives.of[target]
        old.roots.extend(new.roots)
        old.upper = new.upper
        for root in new.roots:
            lives.of[root] = old
    return len(chosen)


def _may_fold(record: ExecSymbol, pair: Pair, step: int, lives: Lives) -> bool:
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
    found: dict[TensorKey, TensorKey] = {}
    for source, target in _enforced_pairs(graph, execs):
        if source in given and target not in carries and source not in carries.values():
            found[target] = source
    return found


def _enforced_pairs(graph: SymbolicGraph, execs: Iterable[ExecKey]) -> Iterator[tuple[TensorKey, TensorKey]]:
    """(input, output) symbols that must share memory."""
    for key in execs:
        record = graph.execs[key]
        for source, target in INPLACE[record.command.op](record.command.attrs).enforced:
            taken = record.inputs[source]
            if taken is not None:
                yield taken, record.outputs[target]
