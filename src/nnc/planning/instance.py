"""What a solver is given and what it gives back: flat lists for one arena.

A solver is a function `(Instance, Effort) -> Solution`. It sees no names, no empty blocks and one kind of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from time import perf_counter

from nnc.classes import dataclass

PINNED = "pinned blocks"
COMPANIONS = "companions"
EXPLICIT = "explicit interference"


@dataclass(frozen=True, slots=True)
class Instance:
    """Blocks of one arena as columns; lives are half-open, in `range(steps)`, sizes are the reserved bytes.

    `pinned` maps blocks to fixed offsets, `groups` are companions, `rows` is an explicit interference graph as in
    `Interference` or `None` for overlap of lives. `lifetime` is the length of each life in the steps of the problem,
    before time was compressed; without it that is `upper - lower`. `neighbours` are the pairs that interfere, listed by
    the first solver that asks (`normalize.conflicts`): eight do, one behind the other.
    """

    lower: list[int]
    upper: list[int]
    size: list[int]
    alignment: list[int]
    pinned: dict[int, int] = field(default_factory=dict)
    groups: tuple[tuple[int, ...], ...] = ()
    rows: tuple[int, ...] | None = None
    lifetime: list[int] = field(default_factory=list)
    neighbours: list[list[int]] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self.size)

    @property
    def steps(self) -> int:
        """One past the last step at which anything is alive."""
        return max(self.upper, default=0)

    @property
    def needs(self) -> frozenset[str]:
        """What a solver must be able to take beside lives: `PINNED`, `COMPANIONS`, `EXPLICIT`."""
        present = ((PINNED, bool(self.pinned)), (COMPANIONS, bool(self.groups)), (EXPLICIT, self.rows is not None))
        return frozenset(need for need, there in present if there)

    @property
    def plain(self) -> bool:
        """Whether lives alone decide: no pinned block, no companions, no explicit interference."""
        return not self.needs

    def arena(self, offsets: list[int]) -> int:
        """The bytes that `offsets` take: the highest end of a block."""
        return max(map(int.__add__, offsets, self.size), default=0)


class ExpiredError(Exception):
    """The deadline passed where a solver has nothing yet to give back."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How far to go: stop at an arena of `target` bytes or when the clock passes `deadline`; `seed` for random choices.

    `known` is the smallest arena found so far by others, `None` for none. `places` are how many times a
    search may put a block somewhere, `None` for its own limit: unlike a deadline it gives one plan on all machines.
    """

    target: int = 0
    deadline: float | None = None
    seed: int = 0
    known: int | None = None
    places: int | None = None

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and perf_counter() >= self.deadline

    def check(self) -> None:
        """Raise `ExpiredError` where the deadline has passed; to the portfolio the solver has then found nothing."""
        if self.expired:
            raise ExpiredError


@dataclass(frozen=True, slots=True)
class Solution:
    """A solver's answer; `offsets` is `None` if it ran out of effort, `proven` a bound that its search has proven."""

    offsets: list[int] | None
    proven: int = 0


Solver = Callable[[Instance, Effort], Solution]
