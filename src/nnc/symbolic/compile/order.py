"""The serial order of execs: topological, and among the possible ones one with a low peak of live bytes.

Two candidates are compared: the order of appending, and a greedy one that always takes the ready exec which frees
the most bytes net of what it allocates. The lower peak wins; ties go to the order of appending.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnc.symbolic.ir import ExecKey, SymbolicGraph, TensorKey


@dataclass(frozen=True, slots=True)
class Needs:
    """What the execs of one compilation touch: roots in and out per exec, and how many bytes each root takes."""

    reads: Mapping[ExecKey, tuple[TensorKey, ...]]
    writes: Mapping[ExecKey, tuple[TensorKey, ...]]
    nbytes: Mapping[TensorKey, int]
    kept: frozenset[TensorKey]


def needs_of(
    graph: SymbolicGraph, execs: Sequence[ExecKey], free: Iterable[TensorKey], kept: Iterable[TensorKey]
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
    return Needs(reads, writes, nbytes, frozenset(kept))


def choose_order(
    graph: SymbolicGraph, execs: Sequence[ExecKey], needs: Needs, carries: Mapping[TensorKey, TensorKey]
) -> tuple[ExecKey, ...]:
    """An order in which each new value in `carries` is written after the last other read of the old one."""
    before = _predecessors(graph, execs, needs, carries)
    orders = (_walk(_AsAppended(before)), _walk(_LeastGrowth(before, needs)))
    return min(orders, key=lambda order: peak_bytes(order, needs))


def orderable(
    graph: SymbolicGraph, execs: Sequence[ExecKey], needs: Needs, carries: dict[TensorKey, TensorKey]
) -> dict[TensorKey, TensorKey]:
    """The carries that an order exists for; where two values swap places, the others are left to a copy."""
    while True:
        reached = set(_walk(_AsAppended(_predecessors(graph, execs, needs, carries))))
        if len(reached) == len(execs):
            return carries
        carries = {new: old for new, old in carries.items() if reached.issuperset(graph.writers(new))}


def peak_bytes(order: Sequence[ExecKey], needs: Needs) -> int:
    """max over steps of the bytes alive, without any sharing inside a step."""
    last = {root: step for step, key in enumerate(order) for root in (*needs.writes[key], *needs.reads[key])}
    alive = peak = 0
    born: set[TensorKey] = set()
    for step, key in enumerate(order):
        roots = dict.fromkeys((*needs.reads[key], *needs.writes[key]))
        alive += sum(needs.nbytes[root] for root in roots if root not in born)
        born.update(roots)
        peak = max(peak, alive)
        alive -= sum(needs.nbytes[root] for root in roots if last[root] == step and root not in needs.kept)
    return peak


def _predecessors(
    graph: SymbolicGraph, execs: Sequence[ExecKey], needs: Needs, carries: Mapping[TensorKey, TensorKey]
) -> dict[ExecKey, set[ExecKey]]:
    """Per exec those that come first: writers of what it reads, and readers of an old value that it overwrites."""
    writers: dict[TensorKey, list[ExecKey]] = {}
    readers: dict[TensorKey, list[ExecKey]] = {}
    for key in execs:
        for root in needs.writes[key]:
            writers.setdefault(root, []).append(key)
        for root in needs.reads[key]:
            readers.setdefault(root, []).append(key)
    chosen = set(execs)
    before = {key: {other for other in graph.execs.predecessors(key) if other in chosen} for key in execs}
    for new, old in carries.items():
        for writer in writers.get(new, ()):
            before[writer].update(reader for reader in readers.get(old, ()) if reader != writer)
    return before


def _walk(policy: _AsAppended) -> tuple[ExecKey, ...]:
    """Kahn's algorithm with the policy's queue; shorter than the graph when there is a cycle."""
    order: list[ExecKey] = []
    while policy.queue:
        key = policy.pop()
        if key is not None:
            order.append(key)
            policy.finish(key)
    return tuple(order)


class _AsAppended:
    """Ready execs, smallest key first."""

    def __init__(self, before: Mapping[ExecKey, set[ExecKey]]) -> None:
        self.queue: list[tuple[int, ExecKey]] = []
        self.waiting = {key: len(sources) for key, sources in before.items()}
        self.after: dict[ExecKey, list[ExecKey]] = {key: [] for key in before}
        for key, sources in before.items():
            for source in sources:
                self.after[source].append(key)
        for key, count in self.waiting.items():
            if not count:
                self.push(key)

    def push(self, key: ExecKey) -> None:
        """Queue a ready exec."""
        heapq.heappush(self.queue, (0, key))

    def pop(self) -> ExecKey | None:
        """The next exec, or None when the queue's head is out of date."""
        return heapq.heappop(self.queue)[1]

    def finish(self, key: ExecKey) -> None:
        """Count `key` as done and queue what waited for it alone."""
        for target in self.after[key]:
            self.waiting[target] -= 1
            if not self.waiting[target]:
                self.push(target)


class _LeastGrowth(_AsAppended):
    """Ready execs by bytes allocated minus bytes freed; re-queued when an input comes to its last reader."""

    def __init__(self, before: Mapping[ExecKey, set[ExecKey]], needs: Needs) -> None:
        self.needs = needs
        self.readers: dict[TensorKey, list[ExecKey]] = {}
        for key in before:
            for root in needs.reads[key]:
                self.readers.setdefault(root, []).append(key)
        self.left = {root: len(keys) for root, keys in self.readers.items()}
        self.born: set[TensorKey] = set()
        self.done: set[ExecKey] = set()
        super().__init__(before)

    def cost(self, key: ExecKey) -> int:
        """Bytes allocated by running `key`, minus bytes freed behind it."""
        needs = self.needs
        grown = sum(needs.nbytes[root] for root in needs.writes[key] if root not in self.born)
        freed = sum(needs.nbytes[root] for root in needs.reads[key] if self.left[root] == 1 and root not in needs.kept)
        return grown - freed

    def push(self, key: ExecKey) -> None:
        """Queue a ready exec at its present cost."""
        heapq.heappush(self.queue, (self.cost(key), key))

    def pop(self) -> ExecKey | None:
        """The exec of least growth, or None when the entry is stale; an exec that has become cheaper queues again."""
        cost, key = heapq.heappop(self.queue)
        if key in self.done:
            return None
        if cost == self.cost(key):
            return key
        self.push(key)
        return None

    def finish(self, key: ExecKey) -> None:
        """Also cheapen the last readers of what `key` read."""
        self.done.add(key)
        self.born.update(self.needs.writes[key])
        for root in self.needs.reads[key]:
            self.left[root] -= 1
            if self.left[root] == 1:
                for reader in self.readers[root]:
                    if reader not in self.done and not self.waiting[reader]:
                        self.push(reader)
        super().finish(key)
