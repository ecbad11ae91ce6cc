"""The least memory that execs of a small graph need: in any order, and in any order where they may run again.

Whether some bytes are enough is asked by a search over what is in memory, and the least ones are found by halves.
Where each exec runs once a state is the set of those that ran; where they run again it is the set of values in memory,
a pebble game (Sethi 1975, "Complete register allocation problems") with bytes for pebbles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from nnc.classes import dataclass
from nnc.ops.movement.movement import CONCATENATE
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey

# Of more values that may be dropped at once not all choices are tried.
MOST_DROPPABLE = 12
Pairs = tuple[tuple[int, int], ...]


class BrokenOffError(Exception):
    """A search that has looked at execs as often as it may."""


@dataclass(frozen=True, slots=True)
class ExecBits:
    """An exec; sets of execs and of roots are bits. An output of `pairs` (in, out) may take over an input's memory."""

    before: int
    reads: int
    writes: int
    scratch: int
    pairs: Pairs


@dataclass(frozen=True, slots=True)
class LeastPeak:
    """No order is below `nbytes`; where they are `exact` one reaches them."""

    nbytes: int
    exact: bool


class GraphBits:
    """The execs of a graph, by number, and the bytes of its roots, by place; `kept` ones are there in the end.

    Of roots that nobody writes those of `begin` are there before the first exec, others come when they are read.
    """

    def __init__(self, runs: Sequence[ExecBits], nbytes: Sequence[int], begin: int, kept: int) -> None:
        self.runs, self.nbytes, self.begin, self.kept = runs, nbytes, begin, kept
        self.given = ((1 << len(nbytes)) - 1) & ~_union(run.writes for run in runs)
        self.paid = _union(1 << root for root, size in enumerate(nbytes) if size)
        self._memory: dict[int, int] = {}

    def memory(self, roots: int) -> int:
        """Bytes of a set of roots."""
        known = self._memory.get(roots)
        if known is None:
            known = self._memory[roots] = sum(map(self.nbytes.__getitem__, _bits(roots & self.paid)))
        return known


def runs_of(
    graph: SymbolicGraph,
    uses: Uses,
    before: Mapping[ExecKey, Collection[ExecKey]],
    begin: Collection[TensorKey] = (),
) -> GraphBits:
    """The execs of a graph, each behind those `before` it.

    What may be computed in a concatenation takes no bytes, nor does what lies in a file.
    """
    roots = {root: 1 << place for place, root in enumerate(uses.nbytes)}
    place = {key: 1 << number for number, key in enumerate(uses.reads)}
    free = {root for key in place if graph.execs[key].command.op is CONCATENATE for root in uses.reads[key]}
    free |= {root for root in roots if graph.tensors[root].spec.device.is_file}

    def run_of(key: ExecKey) -> ExecBits:
        reads, writes = (_union(map(roots.__getitem__, row[key])) for row in (uses.reads, uses.writes))
        pairs = tuple((roots[source], roots[target]) for source, target in uses.pairs[key])
        return ExecBits(_union(map(place.__getitem__, before[key])), reads, writes, uses.scratch.get(key, 0), pairs)

    nbytes = [0 if root in free else uses.nbytes[root] for root in roots]
    there, kept = (_union(roots[root] for root in some if root in roots) for some in (begin, uses.kept))
    return GraphBits([run_of(key) for key in place], nbytes, there, kept)


def least_peak(enough: Callable[[int], bool], low: int, high: int) -> LeastPeak:
    """The least number of bytes that is enough: none below `low` is, and `high` is.

    Where a search is broken off nothing is known of so many bytes: what fewer are not enough for is asked on.
    """
    exact = True
    while low < high:
        middle = (low + high) // 2
        try:
            fits = enough(middle)
        except BrokenOffError:
            fits, exact = True, False
        low, high = (low, middle) if fits else (middle + 1, high)
    return LeastPeak(low, exact)


class CountedSearch:
    """A search that looks at execs at most so often, each time it is asked."""

    def __init__(self, runs: GraphBits, looks: int) -> None:
        self.runs, self.looks, self.left = runs, looks, looks

    def look(self) -> None:
        """At all execs once; BrokenOffError behind the last time."""
        self.left -= len(self.runs.runs)
        if self.left < 0:
            raise BrokenOffError


class OrdersOnce(CountedSearch):
    """Orders in which each exec runs once."""

    def __init__(self, runs: GraphBits, looks: int) -> None:
        super().__init__(runs, looks)
        self.touching = [
            _union(1 << number for number, run in enumerate(runs.runs) if (run.reads | run.writes) >> root & 1)
            for root in range(len(runs.nbytes))
        ]

    def enough(self, limit: int) -> bool:
        """Whether an order has at most so many bytes alive at each step."""
        everything, seen, waiting = (1 << len(self.runs.runs)) - 1, set[int](), [0]
        self.left = self.looks
        while waiting:
            done = self._with_what_frees(waiting.pop(), limit)
            if done == everything:
                return True
            if done in seen:
                continue
            seen.add(done)
            alive = self._alive(done)
            waiting.extend(behind for run, behind in self._ready(done) if self._during(run, alive, behind) <= limit)
        return False

    def _with_what_frees(self, done: int, limit: int) -> int:
        """Behind all execs that fit and leave no more in memory: to run them at once is never worse."""
        going = True
        while going:
            going, alive = False, self._alive(done)
            for run, behind in self._ready(done):
                frees = self.runs.memory(self._alive(behind)) <= self.runs.memory(alive)
                if frees and self._during(run, alive, behind) <= limit:
                    done, going = behind, True
                    break
        return done

    def _ready(self, done: int) -> Iterator[tuple[ExecBits, int]]:
        """Each exec that may come next, and those that ran behind it."""
        self.look()
        for number, run in enumerate(self.runs.runs):
            if not done >> number & 1 and not run.before & ~done:
                yield run, done | 1 << number

    def _alive(self, done: int) -> int:
        """Roots that are there or that an exec of these has touched, and that others will, or that are kept."""
        begin, kept = self.runs.begin, self.runs.kept
        return _union(
            1 << root
            for root, touching in enumerate(self.touching)
            if (touching & done or begin >> root & 1) and (touching & ~done or kept >> root & 1)
        )

    def _during(self, run: ExecBits, alive: int, done: int) -> int:
        """Bytes while an exec runs, beside the roots alive before it; `done` are the execs that ran behind it."""
        left = self._alive(done) if run.pairs else 0
        pairs = [(source, target) for source, target in run.pairs if not left & source and not alive & target]
        shared = max(map(self.runs.memory, _takings(pairs)))
        return self.runs.memory(alive | run.reads | run.writes) + run.scratch - shared


class OrdersAgain(CountedSearch):
    """Orders in which execs run as often as that helps. What is given comes when it is read, and once lost is lost."""

    def enough(self, limit: int) -> bool:
        """Whether so many bytes are enough for all kept roots to be there in the end, and all that costs nothing."""
        runs, self.left = self.runs, self.looks
        goal = (runs.kept | ~runs.paid) & ((1 << len(runs.nbytes)) - 1) & ~runs.given
        seen, waiting = set[tuple[int, int]](), [(runs.begin, 0)]
        while waiting:
            held, lost = waiting.pop()
            held = self._with_what_fits(held, limit)
            if not goal & ~held:
                return True
            if (held, lost) in seen:
                continue
            seen.add((held, lost))
            for run in runs.runs:
                missing = run.reads & ~held
                if run.writes & ~held and not missing & (lost | ~runs.given):
                    waiting.extend(self._behind(run, held, lost, limit))
        return False

    def _with_what_fits(self, held: int, limit: int) -> int:
        """With the results of all execs that fit beside what is there: who has more can do all that others can."""
        going = True
        while going:
            going = False
            self.look()
            for run in self.runs.runs:
                more = held | run.writes
                if more != held and not run.reads & ~held and self.runs.memory(more) + run.scratch <= limit:
                    held, going = more, True
        return held

    def _behind(self, run: ExecBits, held: int, lost: int, limit: int) -> Iterator[tuple[int, int]]:
        """States behind an exec for which as little is dropped as makes it fit, by each way to share memory."""
        runs, begin = self.runs, held | run.reads
        loose = begin & ~run.reads & runs.paid
        pairs = [(source, target) for source, target in run.pairs if not begin & target]
        for taken in _takings(pairs):
            room = limit - runs.memory(begin & ~loose | run.writes) - run.scratch + runs.memory(taken)
            for stays in self._largest(loose, room):
                behind = (begin & ~loose | stays | run.writes) & ~taken
                gone = begin & ~behind & runs.given
                if not gone & runs.kept:
                    yield behind, lost | gone

    def _largest(self, loose: int, room: int) -> Iterator[int]:
        """Sets of loose roots, in so many bytes, to which no other one can be added."""
        bits = [1 << root for root in _bits(loose)]
        if room < 0:
            return
        if self.runs.memory(loose) <= room:
            yield loose
            return
        if len(bits) > MOST_DROPPABLE:
            raise BrokenOffError
        self.left -= 1 << len(bits)
        for stays in (sum(chosen) for count in range(len(bits)) for chosen in combinations(bits, count)):
            least = min(self.runs.memory(bit) for bit in bits if not bit & stays)
            if room - least < self.runs.memory(stays) <= room:
                yield stays


def _bits(roots: int) -> Iterator[int]:
    while roots:
        low = roots & -roots
        yield low.bit_length() - 1
        roots ^= low


def _union(sets: Iterable[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union


def _takings(pairs: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Sets of inputs whose memory outputs may take over together; first that of none."""
    for count in range(len(pairs) + 1):
        for chosen in combinations(pairs, count):
            if len({source for source, _ in chosen}) == count == len({target for _, target in chosen}):
                yield sum(source for source, _ in chosen)
