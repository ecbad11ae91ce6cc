"""The serial order of execs: topological, and among the possible ones one with a low peak of live bytes.

Candidates are the order of appending and greedy orders, built from the front (take the ready exec that grows the
memory least, or else the first) and from the back (the same, read backwards: what is not needed yet waits). The
lowest peak wins; ties go to the order of appending. Then the stretch around the peak is rearranged as well as it
can be, again and again, until that lowers nothing; a small graph is one stretch, and its order is the best there is.
A larger one is then rearranged at random (`shuffle`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from nnc.symbolic.compiler.order.known import KnownOrders
from nnc.symbolic.compiler.order.shuffle import search_order
from nnc.symbolic.compiler.order.uses import Profile, Uses, peak_bytes
from nnc.symbolic.compiler.order.window import best_stretch
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey

Before = Mapping[ExecKey, set[ExecKey]]
Rank = Callable[[int, ExecKey], tuple[int, int]]

STRETCH = 20
ROUNDS = 24


def choose_order(
    graph: SymbolicGraph,
    execs: Sequence[ExecKey],
    uses: Uses,
    carries: Mapping[TensorKey, TensorKey],
    first: Collection[ExecKey] = (),
    known: KnownOrders | None = None,
) -> tuple[ExecKey, ...]:
    """An order in which each new value in `carries` is written after the last other read of the old one.

    One that is `known` from about these sizes is not looked for again.
    """
    before = predecessors(graph, execs, uses, carries, first)
    order = None if known is None else known.find(before, uses)
    if order is None:
        order = _found(execs, uses, before)
        if known is not None:
            known.keep(uses, order)
    return order


def _found(execs: Sequence[ExecKey], uses: Uses, before: Before) -> tuple[ExecKey, ...]:
    order = min(_candidates(before, uses), key=lambda candidate: peak_bytes(candidate, uses))
    enough = _least_peak(execs, uses)
    order = _improve(order, uses, before, enough)
    return order if len(order) <= STRETCH else search_order(order, uses, before, enough)


def several_orders(
    graph: SymbolicGraph,
    execs: Sequence[ExecKey],
    uses: Uses,
    carries: Mapping[TensorKey, TensorKey],
    first: Collection[ExecKey] = (),
) -> tuple[tuple[ExecKey, ...], ...]:
    """Orders as `choose_order` finds them, low throughout and not at the peak alone: what a budget starts from."""
    before = predecessors(graph, execs, uses, carries, first)
    enough = _least_peak(execs, uses)
    candidates = (_as_appended(before), _from_the_back(before, uses, _shrinkers_first))
    return tuple(dict.fromkeys(_improve(candidate, uses, before, enough) for candidate in candidates))


def orderable(
    graph: SymbolicGraph, execs: Sequence[ExecKey], uses: Uses, carries: dict[TensorKey, TensorKey]
) -> dict[TensorKey, TensorKey]:
    """The carries that an order exists for; where two values swap places, the others are left to a copy."""
    while True:
        reached = set(_as_appended(predecessors(graph, execs, uses, carries)))
        if len(reached) == len(execs):
            return carries
        carries = {new: old for new, old in carries.items() if reached.issuperset(graph.writers(new))}


def predecessors(
    graph: SymbolicGraph,
    execs: Sequence[ExecKey],
    uses: Uses,
    carries: Mapping[TensorKey, TensorKey],
    first: Collection[ExecKey] = (),
) -> dict[ExecKey, set[ExecKey]]:
    """Per exec those that come first: writers of what it reads, and readers of an old value that it overwrites.

    The execs `first`, with all that they wait for among them, come before all others.
    """
    writers: dict[TensorKey, list[ExecKey]] = {}
    readers: dict[TensorKey, list[ExecKey]] = {}
    for key in execs:
        for root in uses.writes[key]:
            writers.setdefault(root, []).append(key)
        for root in uses.reads[key]:
            readers.setdefault(root, []).append(key)
    chosen = set(execs)
    before = {key: {other for other in graph.execs.predecessors(key) if other in chosen} for key in execs}
    for new, old in carries.items():
        for writer in writers.get(new, ()):
            before[writer].update(reader for reader in readers.get(old, ()) if reader != writer)
    last = [key for key in first if not any(key in before[other] for other in first)]
    for key in execs if first else ():
        if key not in first and before[key] <= set(first):
            before[key].update(last)
    return before


# ---- candidates


def _candidates(before: Before, uses: Uses) -> Iterator[tuple[ExecKey, ...]]:
    yield _as_appended(before)
    for rank in (_shrinkers_first, _least_growth):
        yield _Greedy(before, uses, rank).order()
    for rank in (_shrinkers_first, _least_growth):
        yield _from_the_back(before, uses, rank)


def _from_the_back(before: Before, uses: Uses, rank: Rank) -> tuple[ExecKey, ...]:
    """The greedy order of the program read backwards."""
    backwards = Uses(uses.writes, uses.reads, dict.fromkeys(before, ()), uses.nbytes, frozenset())
    return tuple(reversed(_Greedy(_turned(before), backwards, _latest(rank), uses.kept).order()))


def _shrinkers_first(cost: int, key: ExecKey) -> tuple[int, int]:
    """What frees more than it takes comes at once, all else in the order of appending."""
    return (0 if cost < 0 else 1, key)


def _least_growth(cost: int, key: ExecKey) -> tuple[int, int]:
    return (cost, key)


def _latest(rank: Rank) -> Rank:
    """The same with the last appended first, for an order that is built from the back."""

    def backwards(cost: int, key: ExecKey) -> tuple[int, int]:
        first, second = rank(cost, key)
        return (first, -second)

    return backwards


def _turned(before: Before) -> dict[ExecKey, set[ExecKey]]:
    """Per exec those that come later."""
    after: dict[ExecKey, set[ExecKey]] = {key: set() for key in before}
    for key, sources in before.items():
        for source in sources:
            after[source].add(key)
    return after


def _as_appended(before: Before) -> tuple[ExecKey, ...]:
    """Ready execs, smallest key first; shorter than the graph when there is a cycle."""
    waiting = {key: len(sources) for key, sources in before.items()}
    after = _turned(before)
    ready = [key for key, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        key = heapq.heappop(ready)
        order.append(key)
        for target in after[key]:
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, target)
    return tuple(order)


class _Greedy:
    """Ready execs by a rank of (bytes allocated minus bytes freed, key); re-queued when their cost falls.

    `there` are roots that are alive from the start.
    """

    def __init__(self, before: Before, uses: Uses, rank: Rank, there: frozenset[TensorKey] = frozenset()) -> None:
        self.before = before
        self.uses = uses
        self.rank = rank
        self.waiting = {key: len(sources) for key, sources in before.items()}
        self.after = _turned(before)
        self.users: dict[TensorKey, list[ExecKey]] = {}
        for key in before:
            for root in uses.touched(key):
                self.users.setdefault(root, []).append(key)
        self.left = {root: len(keys) for root, keys in self.users.items()}
        self.born = set(there)
        self.done: set[ExecKey] = set()
        self.queue: list[tuple[tuple[int, int], ExecKey]] = []

    def order(self) -> tuple[ExecKey, ...]:
        """All execs, one after another."""
        for key, count in self.waiting.items():
            if not count:
                self._push(key)
        order = []
        while self.queue:
            rank, key = heapq.heappop(self.queue)
            if key in self.done:
                continue
            if rank != self.rank(self._cost(key), key):
                self._push(key)
                continue
            order.append(key)
            self._finish(key)
        return tuple(order)

    def _cost(self, key: ExecKey) -> int:
        """Bytes allocated by running `key`, minus bytes freed behind it."""
        uses, cost = self.uses, 0
        for root in uses.touched(key):
            if root not in self.born and not self._passes(root, key):
                cost += uses.nbytes[root]
            if self.left[root] == 1 and root not in uses.kept:
                cost -= uses.nbytes[root]
        return cost

    def _passes(self, root: TensorKey, key: ExecKey) -> bool:
        """True when one exec takes the root from `key`, waits for `key` alone and allocates nothing: a fused update."""
        takers = [user for user in self.users[root] if user != key]
        if len(takers) != 1 or self.waiting[takers[0]] != 1 or root in self.uses.kept:
            return False
        return not any(self.uses.nbytes[written] for written in self.uses.writes[takers[0]])

    def _push(self, key: ExecKey) -> None:
        heapq.heappush(self.queue, (self.rank(self._cost(key), key), key))

    def _finish(self, key: ExecKey) -> None:
        """Count `key` as done; queue what waited for it alone, and again what has become cheaper by it."""
        self.done.add(key)
        for root in self.uses.touched(key):
            fresh = root not in self.born
            self.born.add(root)
            self.left[root] -= 1
            if fresh or self.left[root] == 1:
                for user in self.users[root]:
                    if user not in self.done and not self.waiting[user]:
                        self._push(user)
        for target in self.after[key]:
            self.waiting[target] -= 1
            if not self.waiting[target]:
                self._push(target)
            elif self.waiting[target] == 1:
                last = next(source for source in self.before[target] if source not in self.done)
                if not self.waiting[last]:
                    self._push(last)


# ---- improvement


def _improve(order: tuple[ExecKey, ...], uses: Uses, before: Before, enough: int) -> tuple[ExecKey, ...]:
    """Rearrange stretches around a peak above `enough` as long as that lowers it, or leaves fewer steps at it."""
    for _ in range(ROUNDS):
        profile = Profile(order, uses)
        better = next(_lower(profile, before), None) if profile.bytes.peak > enough else None
        if better is None:
            break
        order = better
    return order


def _least_peak(execs: Sequence[ExecKey], uses: Uses) -> int:
    """No order has a lower peak."""
    return max(map(uses.alone, execs), default=0)


def _lower(profile: Profile, before: Before) -> Iterator[tuple[ExecKey, ...]]:
    """Orders that stay below the peak in the stretch around it: centred, mostly in front of it, mostly behind."""
    order, step = profile.order, profile.bytes.at_peak
    for start in dict.fromkeys(max(step - share * STRETCH // 4, 0) for share in (2, 3, 1)):
        best = best_stretch(profile, start, start + STRETCH, before, profile.bytes.peak)
        if best:
            yield (*order[:start], *best, *order[start + STRETCH :])
