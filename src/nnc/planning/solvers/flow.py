"""The allocation graph of the NNC algorithm: who hands which bytes to whom.

An edge carries a contiguous range of bytes that lies idle from the death of its tail to the birth of its head. The
source hands out the bytes of the arena, the sink gets them back; a block inserted into an edge takes a part of its
range and hands it on. A block may so reuse a part of another one, and the arena is what the source hands out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import lcm
from typing import NamedTuple

from nnc.classes import dataclass
from nnc.planning.instance import Instance, Solution
from nnc.planning.solvers.normalize import conflicts

SOURCE = -1
SINK = -2


class FlowEdge(NamedTuple):
    """The bytes `[start, start + weight)` of the arena go from block `tail` to block `head`."""

    tail: int
    head: int
    start: int
    weight: int


@dataclass(slots=True)
class AllocationGraph:
    """The edges by age, the offsets of the blocks inserted, and the bytes that the source hands out."""

    size: list[int]
    edges: list[FlowEdge] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    arena: int = 0

    def insert(self, members: Sequence[int], edge: FlowEdge | None) -> None:
        """Put blocks, in order of time, into `edge`, or into a new one from source to sink if it is `None`.

        All of them begin where the edge begins. Each takes its bytes from those who hold them: the blocks before it
        in `members`, and where these end, the tail of the edge. What they hold at the end goes to the head.
        """
        largest = max(self.size[i] for i in members)
        if edge is None:
            edge = FlowEdge(SOURCE, SINK, self.arena, largest)
            self.arena += largest
        else:
            self.edges.remove(edge)
            if edge.weight > largest:
                self.edges.append(edge._replace(start=edge.start + largest, weight=edge.weight - largest))
        holders = [(edge.tail, 0, largest)]
        for i in members:
            size = self.size[i]
            self.offsets[i] = edge.start
            for holder, start, stop in holders:
                self._connect(holder, i, edge.start + start, min(stop, size) - start)
            holders = [
                (i, 0, size),
                *((holder, max(start, size), stop) for holder, start, stop in holders if stop > size),
            ]
        for holder, start, stop in holders:
            self._connect(holder, edge.head, edge.start + start, stop - start)

    def _connect(self, tail: int, head: int, start: int, weight: int) -> None:
        if weight > 0:
            self.edges.append(FlowEdge(tail, head, start, weight))


def flow_sizes(instance: Instance) -> list[int]:
    """Sizes rounded up to the common alignment of all blocks, so that every edge begins at an aligned byte."""
    common = lcm(*set(instance.alignment))
    return [-(-size // common) * common for size in instance.size]


def precedence(instance: Instance) -> tuple[list[int], list[int]]:
    """`before[i]` and `after[i]`: the blocks that are surely dead, or not yet born, while `i` is alive, as bits."""
    lower, upper = instance.lower, instance.upper
    before, after = [0] * instance.count, [0] * instance.count
    by_death = sorted(range(instance.count), key=lambda i: upper[i])
    dead, pointer = 0, 0
    for i in sorted(range(instance.count), key=lambda i: lower[i]):
        while pointer < len(by_death) and upper[by_death[pointer]] <= lower[i]:
            dead |= 1 << by_death[pointer]
            pointer += 1
        before[i] = dead & ~(1 << i)
    if instance.rows is not None:
        before = [row & ~meets for row, meets in zip(before, instance.rows, strict=True)]
    for i, row in enumerate(before):
        while row:
            lowest = row & -row
            after[lowest.bit_length() - 1] |= 1 << i
            row ^= lowest
    return before, after


def settled(instance: Instance, graph: AllocationGraph) -> Solution:
    """The offsets of `graph`; nothing if two blocks that interfere share bytes.

    That happens only for an explicit interference that no order of time explains: bytes are handed on from block to
    block, and the first and the third may interfere though neither does with the second.
    """
    offsets = [graph.offsets[i] for i in range(instance.count)]
    if instance.rows is not None:
        for i, row in enumerate(conflicts(instance)):
            for j in row:
                if offsets[i] < offsets[j] + instance.size[j] and offsets[j] < offsets[i] + instance.size[i]:
                    return Solution(None)
    return Solution(offsets)
