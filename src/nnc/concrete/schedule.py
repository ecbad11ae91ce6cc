"""The static schedule: which stream runs each node, and where streams wait for each other.

    reduced = transitive reduction;  rank(n) = longest chain from n to any end
    lane(n):  reuse a lane whose last node precedes n, else a new lane, else (at the limit) the emptiest one;
              then follow the chain: n's open successor of highest rank goes to the same lane, and so on
    wait:     n waits for a predecessor on another lane unless its lane knows already that it is done

Lane 0 is the stream that the graph is run on. Nodes of a lane run in the order of one topological sort of the whole
graph, so no assignment can block itself for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from nnc.classes import dataclass
from nnc.errors import UsageError
from nnc.graph import Topology
from nnc.graph.structure import implied_successors, longest_paths
from nnc.graph.visit import toposort

K = TypeVar("K", bound=int)
# Per lane: how many of its first nodes are known to be done.
Clock = list[int]


@dataclass(frozen=True, slots=True)
class Schedule(Generic[K]):
    """`lanes[i]`: the nodes of stream i in order; `waits[n]`: the nodes whose signals n waits for.

    `begin` are the lanes that wait for the run's first signal, `end` the nodes for which lane 0 waits at the end.
    """

    lanes: tuple[tuple[K, ...], ...]
    waits: Mapping[K, tuple[K, ...]]
    begin: tuple[int, ...]
    end: tuple[K, ...]

    @property
    def emitters(self) -> frozenset[K]:
        """The nodes that fire a signal when they are done."""
        return frozenset(source for sources in self.waits.values() for source in sources) | frozenset(self.end)

    @property
    def signals(self) -> int:
        """How many signals a run fires, that of the beginning included."""
        return len(self.emitters) + bool(self.begin)

    def __str__(self) -> str:
        lines = []
        for lane, keys in enumerate(self.lanes):
            lines.append(f"stream {lane}: " + " ".join(self._shown(key) for key in keys))
        return "\n".join([*lines, "end: " + " ".join(f"^{key}" for key in self.end)])

    def _shown(self, key: K) -> str:
        waits = "".join(f"^{source}→" for source in self.waits.get(key, ()))
        return f"{waits}%{key}"


@dataclass(frozen=True, slots=True)
class _ScheduledPart(Generic[K]):
    """The chosen nodes of a graph and the edges among them."""

    chosen: frozenset[K]
    whole: Topology[K]

    def __contains__(self, key: object, /) -> bool:
        return key in self.chosen

    def nodes(self) -> tuple[K, ...]:
        return tuple(sorted(self.chosen))

    def predecessors(self, key: K, /) -> tuple[K, ...]:
        return tuple(source for source in self.whole.predecessors(key) if source in self.chosen)

    def successors(self, key: K, /) -> tuple[K, ...]:
        return tuple(target for target in self.whole.successors(key) if target in self.chosen)


def _same(key: int) -> object:
    return None


def make_schedule(
    graph: Topology[K], keys: Collection[K], streams: int, kind: Callable[[K], object] = _same
) -> Schedule[K]:
    """Schedule the nodes `keys` on at most `streams` streams; `kind` groups what is best kept on one stream."""
    if streams < 1:
        raise UsageError("schedule", got=f"{streams} streams", need="at least 1")
    part = _ScheduledPart(frozenset(keys), graph)
    order = toposort(part)
    implied = implied_successors(part)
    following = {key: [next_ for next_ in part.successors(key) if next_ not in implied.get(key, ())] for key in order}
    lane_of = _StreamAssignment(part, order, following, streams, kind).assign()
    lanes: list[list[K]] = [[] for _ in range(max(lane_of.values(), default=0) + 1)]
    for key in order:
        lanes[lane_of[key]].append(key)
    return _with_signals(order, following, lane_of, lanes)


class _StreamAssignment(Generic[K]):
    """Puts nodes on lanes, in topological order."""

    def __init__(
        self,
        part: _ScheduledPart[K],
        order: tuple[K, ...],
        following: Mapping[K, list[K]],
        streams: int,
        kind: Callable[[K], object],
    ) -> None:
        self.order = order
        self.part = part
        self.following = following
        self.streams = streams
        self.kind = kind
        self.rank = longest_paths(part).to_sink
        self.position = {key: place for place, key in enumerate(order)}
        self.lane_of: dict[K, int] = {}
        self.lanes: list[list[K]] = []
        self.kinds: list[set[object]] = []
        # before[n][lane]: the highest position on that lane among the ancestors of n.
        self.before: dict[K, dict[int, int]] = {}

    def assign(self) -> dict[K, int]:
        """The lane of each node."""
        for key in self.order:
            self._find_ancestors(key)
            if key not in self.lane_of:
                lane = self._choose(key)
                self._put(key, lane)
                if self.streams > 1:
                    self._follow(key, lane)
        return self.lane_of

    def _find_ancestors(self, key: K) -> None:
        """All predecessors come earlier in the order, so their lanes are known."""
        known: dict[int, int] = {}
        for source in self.part.predecessors(key):
            own = {self.lane_of[source]: self.position[source]}
            for lane, place in (*self.before[source].items(), *own.items()):
                known[lane] = max(place, known.get(lane, place))
        self.before[key] = known

    def _choose(self, key: K) -> int:
        kind = self.kind(key)
        known = self.before[key]
        free = [lane for lane, keys in enumerate(self.lanes) if known.get(lane) == self.position[keys[-1]]]
        if free:
            return min(free, key=lambda lane: (kind not in self.kinds[lane], lane))
        if len(self.lanes) < self.streams:
            self.lanes.append([])
            self.kinds.append(set())
            return len(self.lanes) - 1
        here = self.position[key]
        crowded = [self.position[keys[-1]] > here for keys in self.lanes]
        return min(range(len(self.lanes)), key=lambda lane: (crowded[lane], len(self.lanes[lane]), lane))

    def _follow(self, key: K, lane: int) -> None:
        while True:
            ready = [target for target in self.following[key] if target not in self.lane_of]
            if not ready:
                return
            kinds = self.kinds[lane]
            key = min(ready, key=lambda target: (-self.rank[target], self.kind(target) not in kinds, target))
            self._put(key, lane)

    def _put(self, key: K, lane: int) -> None:
        self.lane_of[key] = lane
        self.lanes[lane].append(key)
        self.kinds[lane].add(self.kind(key))


def _with_signals(
    order: tuple[K, ...], following: Mapping[K, list[K]], lane_of: Mapping[K, int], lanes: list[list[K]]
) -> Schedule[K]:
    position = {key: place for place, key in enumerate(order)}
    turn = {key: place + 1 for lane in lanes for place, key in enumerate(lane)}
    sources: dict[K, list[K]] = {key: [] for key in order}
    for key in order:
        for target in following[key]:
            sources[target].append(key)
    done: dict[K, Clock] = {}
    now: list[Clock] = [[0] * len(lanes) for _ in lanes]
    waits: dict[K, tuple[K, ...]] = {}

    def learn(clock: Clock, candidates: list[K]) -> tuple[K, ...]:
        """Wait for what is not known to be done, the latest first, since it tells the most."""
        needed = []
        for source in sorted(candidates, key=lambda key: -position[key]):
            if clock[lane_of[source]] < turn[source]:
                needed.append(source)
                clock[:] = map(max, clock, done[source])
        return tuple(needed)

    for key in order:
        lane = lane_of[key]
        if needed := learn(now[lane], sources[key]):
            waits[key] = needed
        now[lane][lane] = turn[key]
        done[key] = now[lane].copy()
    end = learn(now[0], [lane[-1] for lane in lanes[1:]])
    begin = tuple(index for index, lane in enumerate(lanes) if index and lane[0] not in waits)
    return Schedule(tuple(map(tuple, lanes)), waits, begin, end)
