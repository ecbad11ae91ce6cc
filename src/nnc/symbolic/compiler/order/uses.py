"""What the execs of one compilation touch, and the bytes that are alive at each step of an order of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nnc.symbolic.compiler.order.inplace import Pair, shareable
from nnc.symbolic.ir import ExecKey, SymbolicGraph, TensorKey


@dataclass(frozen=True, slots=True)
class Uses:
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


def uses_of(
    graph: SymbolicGraph,
    execs: Sequence[ExecKey],
    free: Iterable[TensorKey],
    kept: Iterable[TensorKey],
    scratch: Mapping[ExecKey, int] | None = None,
) -> Uses:
    """Roots that `free` names cost nothing (their memory is somebody else's); `kept` ones live to the end."""
    reads: dict[ExecKey, tuple[TensorKey, ...]] = {}
    writes: dict[ExecKey, tuple[TensorKey, ...]] = {}
    for key in execs:
        record = graph.execs[key]
        reads[key] = graph.roots(record.inputs)
        writes[key] = graph.roots(record.outputs)
    roots = {root for roots in (*reads.values(), *writes.values()) for root in roots}
    outside = set(free)
    nbytes = {root: 0 if root in outside else graph.tensors[root].spec.nbytes for root in roots}
    pairs = {
        key: tuple(pair for pair in shareable(graph, graph.execs[key]) if nbytes[pair[0]] and nbytes[pair[1]])
        for key in execs
    }
    return Uses(reads, writes, pairs, nbytes, frozenset(kept), scratch or {})


class Profile:
    """An order and the bytes alive during each of its steps; an output that may take over a dying input's memory does.

    Bytes outside a stretch of the order do not depend on how the stretch is arranged.
    """

    def __init__(self, order: Sequence[ExecKey], uses: Uses) -> None:
        self.uses = uses
        self.order = list(order)
        self._touched = {key: uses.touched(key) for key in order}
        self._first: dict[TensorKey, int] = {}
        self._last: dict[TensorKey, int] = {}
        self._place(0, order)
        self._alive = [0]
        self.during = self._walk(0, order, self._alive)

    def stretch(self, start: int, part: Sequence[ExecKey]) -> list[int]:
        """The bytes alive during each step if the order were `part` from `start` on; `part` holds the execs there."""
        return self._walk(start, part, [self._alive[start]])

    def put(self, start: int, part: Sequence[ExecKey], during: Sequence[int]) -> None:
        """Let the order be `part` from `start` on, with the bytes that `stretch` found."""
        alive = [self._alive[start]]
        self._walk(start, part, alive)
        self._alive[start : start + len(alive)] = alive
        self.order[start : start + len(part)] = part
        self.during[start : start + len(part)] = during
        self._place(start, part)

    def _place(self, start: int, part: Sequence[ExecKey]) -> None:
        """Note the first and the last step of each root, where these are in the stretch."""
        stop = start + len(part)
        roots = {root for key in part for root in self._touched[key]}
        ends = {root: self._last.get(root, -1) for root in roots}
        begins = {root for root in roots if self._first.get(root, stop) >= start}
        for step, key in enumerate(part, start):
            for root in self._touched[key]:
                if root in begins:
                    self._first[root] = step
                    begins.remove(root)
                if ends[root] < stop:
                    self._last[root] = step

    def _walk(self, start: int, part: Sequence[ExecKey], alive: list[int]) -> list[int]:
        """The bytes during each step of the stretch; those behind each are appended to `alive`."""
        uses, stop = self.uses, start + len(part)
        last = {root: step for step, key in enumerate(part, start) for root in self._touched[key]}
        born: set[TensorKey] = set()
        during = []
        for step, key in enumerate(part, start):
            touched = self._touched[key]
            fresh = {root for root in touched if self._first[root] >= start and root not in born}
            dying = {
                root for root in touched if last[root] == step and self._last[root] < stop and root not in uses.kept
            }
            born |= fresh
            grown = alive[-1] + sum(uses.nbytes[root] for root in fresh)
            during.append(grown + uses.scratch.get(key, 0) - _shared(uses, key, fresh, dying))
            alive.append(grown - sum(uses.nbytes[root] for root in dying))
        return during


def bytes_by_step(order: Sequence[ExecKey], uses: Uses) -> list[int]:
    """Bytes alive during each step of an order."""
    return Profile(order, uses).during


def peak_bytes(order: Sequence[ExecKey], uses: Uses) -> int:
    """max over steps of the bytes alive."""
    return max(bytes_by_step(order, uses), default=0)


def _shared(uses: Uses, key: ExecKey, fresh: set[TensorKey], dying: set[TensorKey]) -> int:
    shared = 0
    sources, targets = set(dying), set(fresh)
    for source, target in uses.pairs[key]:
        if source in sources and target in targets:
            sources.remove(source)
            targets.remove(target)
            shared += uses.nbytes[source]
    return shared
