"""Execs on several streams: what has certainly ended when a step begins, and which blocks may share bytes then.

    after(s)  = steps that s waits for: data, carried values, fills, and the step before s on its stream
    before(s) = after(s) and whatever is before those
    a is over before b  ⇔  each step that touches a is in before(s), for each step s that touches b

On one stream every step waits for the one in front of it, and lives in steps of the order say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import and_, or_

from nnc.classes import dataclass
from nnc.concrete.schedule import make_schedule
from nnc.planning import Interference
from nnc.planning.problem import bits
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges
from nnc.symbolic.compiler.place.memory import BlockSpan
from nnc.symbolic.records import ExecKey, TensorKey


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Steps of an order on `streams` streams. Sets of steps are integers, bit s for step s.

    `after[s]` are the steps that s waits for, `before[s]` the set of all that have ended when it begins, and
    `touches[root]` the set of those that read or write a root.
    """

    streams: int
    after: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]
    touches: Mapping[TensorKey, int]

    def touching(self, life: LiveRange) -> int:
        """The set of steps that use a block."""
        if not life.roots:
            return 1 << life.lower
        return reduce(or_, (self.touches.get(root, 0) for root in life.roots))

    def is_over(self, life: LiveRange, step: int) -> bool:
        """True when nobody but `step` itself can use the block from `step` on."""
        return not self.touching(life) & ~(self.before[step] | 1 << step)

    def interference(self, blocks: Sequence[BlockSpan]) -> Interference:
        """Blocks that may be alive at the same time: those of the bodies of one step run one after another."""
        touching = [self.touching(span.life) if span.step is None else 1 << span.step for span in blocks]
        everything = (1 << len(blocks)) - 1
        rows = [everything ^ 1 << place for place in range(len(blocks))]
        for later, span in enumerate(blocks):
            if span.life.outside or not touching[later]:
                continue
            ended = reduce(and_, (self.before[step] for step in bits(touching[later])))
            for earlier, other in enumerate(blocks):
                together = span.step is not None and span.step == other.step
                if other.upper <= span.lower and (together or not touching[earlier] & ~ended):
                    rows[later] &= ~(1 << earlier)
                    rows[earlier] &= ~(1 << later)
        return Interference(tuple(rows))


def run_side_by_side(
    order: Sequence[ExecKey], predecessors: Mapping[ExecKey, set[ExecKey]], uses: Uses, lives: LiveRanges, streams: int
) -> Concurrency:
    """Put the execs of `order` on streams, each behind its predecessors and behind the fills of what it touches."""
    step_of = {key: step for step, key in enumerate(order)}
    touches: dict[TensorKey, int] = {}
    for key, step in step_of.items():
        for root in uses.touched(key):
            touches[root] = touches.get(root, 0) | 1 << step
    waits = [{step_of[source] for source in predecessors[key]} for key in order]
    for first, roots in lives.fills.items():
        for root in roots:
            for step in bits(touches.get(root, 0)):
                if step != first:
                    waits[step].add(first)
    for lane in make_schedule(_Steps(waits), range(len(order)), streams).lanes:
        for earlier, later in pairwise(lane):
            waits[later].add(earlier)
    before: list[int] = []
    for sources in waits:
        before.append(reduce(or_, (before[source] | 1 << source for source in sources), 0))
    after = tuple(_latest(sources, before) for sources in waits)
    return Concurrency(streams, after, tuple(before), touches)


def _latest(sources: set[int], before: Sequence[int]) -> tuple[int, ...]:
    """The sources that no other source waits for."""
    implied = reduce(or_, (before[source] for source in sources), 0)
    return tuple(source for source in sorted(sources) if not implied >> source & 1)


class _Steps:
    """The steps as a topology; each waits for steps of smaller numbers."""

    def __init__(self, waits: Sequence[set[int]]) -> None:
        self._sources = [tuple(sorted(sources)) for sources in waits]
        self._targets: list[list[int]] = [[] for _ in waits]
        for step, sources in enumerate(self._sources):
            for source in sources:
                self._targets[source].append(step)

    def __contains__(self, key: object, /) -> bool:
        return isinstance(key, int) and 0 <= key < len(self._sources)

    def nodes(self) -> tuple[int, ...]:
        """All steps."""
        return tuple(range(len(self._sources)))

    def predecessors(self, key: int, /) -> tuple[int, ...]:
        """The steps that `key` waits for."""
        return self._sources[key]

    def successors(self, key: int, /) -> tuple[int, ...]:
        """The steps that wait for `key`."""
        return tuple(self._targets[key])
