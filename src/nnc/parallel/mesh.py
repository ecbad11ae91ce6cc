"""Ranks as a mesh of named axes, and the groups that talk along one of them.

    mesh = Mesh(data=2, tensor=2)           rank = data · 2 + tensor
    mesh.group("data")                      the ranks that differ in this place alone

A group is a value: it says which ranks, not which of them we are, so that graphs, plans and files of all ranks are the
same. Whoever runs an operation on a group finds the communicator by `joined`.
"""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from nnc.arguments import Count, checked, explained
from nnc.classes import dataclass
from nnc.errors import UsageError
from nnc.parallel.communicator import Communicator, world
from nnc.parallel.together import compare_programs

Axis: TypeAlias = Literal["data", "tensor", "pipe"]
AXES: tuple[Axis, ...] = get_args(Axis)


@checked
@dataclass(frozen=True, slots=True)
class RankGroup:
    """`size` ranks along one axis of a mesh of `sizes`, data first; the whole world where `axis` is None.

    In a compiled function it has the name of the `program`, which its ranks compare the first time.
    """

    size: Count
    axis: Axis | None = None
    sizes: tuple[Count, Count, Count] = (1, 1, 1)
    program: str = ""

    def __str__(self) -> str:
        return f"{self.axis or 'world'}[{self.size}]"


@checked
@dataclass(frozen=True, slots=True)
class Mesh:
    """data × tensor × pipe ranks, the last the fastest: neighbours in `pipe` are neighbours in number."""

    data: Count = 1
    tensor: Count = 1
    pipe: Count = 1

    @property
    def size(self) -> int:
        """How many ranks it takes."""
        return self.data * self.tensor * self.pipe

    def group(self, axis: Axis) -> RankGroup:
        """The ranks along an axis."""
        sizes = (self.data, self.tensor, self.pipe)
        return RankGroup(sizes[AXES.index(axis)], axis, sizes)

    def own_place(self) -> tuple[int, int, int]:
        """Where this process stands; at the first place where the launch is of another size."""
        ranks = world()
        return self.place(ranks.rank) if ranks.size == self.size else (0, 0, 0)

    @property
    def is_launched(self) -> bool:
        """Whether this process is one of so many ranks."""
        return world().size == self.size

    def place(self, rank: int) -> tuple[int, int, int]:
        """Where a rank stands, by axis."""
        rest, pipe = divmod(rank, self.pipe)
        data, tensor = divmod(rest, self.tensor)
        return data, tensor, pipe


def everyone() -> RankGroup:
    """All ranks of this launch."""
    return RankGroup(world().size)


def own_rank(group: RankGroup) -> int:
    """Our number in a group, without a word to the others."""
    rank = world().rank
    return rank if group.axis is None else Mesh(*group.sizes).place(rank)[AXES.index(group.axis)]


_JOINED: dict[RankGroup, Communicator] = {}
_JOINING = threading.Lock()


@checked
def joined(group: RankGroup) -> Communicator:
    """The communicator of a group; the first time, all ranks of the launch come here together.

    UsageError where the mesh is not as large as the launch.
    """
    with _JOINING:
        if group not in _JOINED:
            whole = replace(group, program="")
            if whole not in _JOINED:
                _JOINED[whole] = _join(whole)
            # Stages have a program each.
            if group.program and group.axis != "pipe" and _JOINED[whole].size > 1:
                compare_programs(_JOINED[whole], group.program)
            _JOINED[group] = _JOINED[whole]
        return _JOINED[group]


@explained
def count_of_all(group: RankGroup | None, count: int) -> int:
    """How many things the ranks have together; ours alone without a group."""
    return count if group is None else int(joined(group).allreduce(np.array([count], np.int64))[0])


def _join(group: RankGroup) -> Communicator:
    ranks = world()
    needed = group.size if group.axis is None else math.prod(group.sizes)
    if needed != ranks.size:
        fix = f"nnc launch -n {needed}, or another mesh"
        raise UsageError(f"group {group}", got=f"{ranks.size} ranks", need=str(needed), fix=fix)
    if group.axis is None or group.size == ranks.size:
        return ranks
    place = Mesh(*group.sizes).place(ranks.rank)
    axis = AXES.index(group.axis)
    color = 0
    for number, size in enumerate(group.sizes):
        color = color if number == axis else color * size + place[number]
    return ranks.split(color, str(group))
