"""What the execs of one compilation touch, and the bytes that are alive at each step of an order of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nnc.symbolic.compile.inplace import Pair, shareable
from nnc.symbolic.ir import ExecKey, SymbolicGraph, TensorKey


@dataclass(frozen=True, slots=True)
class Needs:
    """Roots in and out per exec, pairs (in, out) that may share memory, and how many bytes each root takes.

    `scratch` is the memory that an exec's kernel has for itself while it runs.
    """

    reads: Mapping[ExecKey, tuple[TensorKey, ...]]
    writes: Mapping[ExecKey, tuple[TensorKey, ...]]
    pairs: Mapping[ExecKey, tuple[Pair, ...]]
    nbytes: Mapping[TensorKey, int]
    kept: frozenset[TensorKey]
    scratch: Mapping[ExecKey, int] = field(default_factory=dict)

    def touched(self, key: ExecKey) -> tuple[TensorKey, ...]:
        """Roots that the exec reads or writes."""
        return tuple(dict.fromkeys((*self.reads[key], *self.writes[key])))


def needs_of(
    graph: SymbolicGraph,
    execs: Sequence[ExecKey],
    free: Iterable[TensorKey],
    kept: Iterable[TensorKey],
    scratch: Mapping[ExecKey, int] | None = None,
) -> Needs:
    """Roots that `free` names cost nothing (their memory is somebody else's); `kept` ones live to the end."""
    reads: dict[ExecKey, tuple[TensorKey, ...]] = {}
    writes: dict[ExecKey, tuple[TensorKey, ...]] = {}
    for key in execs:
        record = graph.execs[key]
        reads[key] = tuple(dict.fromkeys(graph.root(tensor) for tensor in record.inputs if tensor is not None))
        writes[key] = tuple(dict.fromkeys(graph.root(tensor) for tensor in record.outputs))
    roots = {root for roots in (*reads.values(), *writes.values()) for root in roots}
    outside = set(free)
    nbytes = {root: 0 if root in outside else graph.tensors[root].spec.nbytes for root in roots}
    pairs = {
        key: tuple(pair for pair in shareable(graph, graph.execs[key]) if nbytes[pair[0]] and nbytes[pair[1]])
        for key in execs
    }
    return Needs(reads, writes, pairs, nbytes, frozenset(kept), scratch or {})


def bytes_by_step(order: Sequence[ExecKey], needs: Needs) -> list[int]:
    """Bytes alive during each step; an output that may take over a dying input's memory does."""
    touched = [needs.touched(key) for key in order]
    last = {root: step for step, roots in enumerate(touched) for root in roots}
    alive = 0
    born: set[TensorKey] = set()
    during = []
    for step, (key, roots) in enumerate(zip(order, touched, strict=True)):
        fresh = {root for root in roots if root not in born}
        dying = {root for root in roots if last[root] == step and root not in needs.kept}
        born |= fresh
        alive += sum(needs.nbytes[root] for root in fresh)
        during.append(alive + needs.scratch.get(key, 0) - _shared(needs, key, fresh, dying))
        alive -= sum(needs.nbytes[root] for root in dying)
    return during


def peak_bytes(order: Sequence[ExecKey], needs: Needs) -> int:
    """max over steps of the bytes alive."""
    return max(bytes_by_step(order, needs), default=0)


def _shared(needs: Needs, key: ExecKey, fresh: set[TensorKey], dying: set[TensorKey]) -> int:
    shared = 0
    sources, targets = set(dying), set(fresh)
    for source, target in needs.pairs[key]:
        if source in sources and target in targets:
            sources.remove(source)
            targets.remove(target)
            shared += needs.nbytes[source]
    return shared
