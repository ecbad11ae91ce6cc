"""What planning answers: an offset per block, the bytes of each arena, and the proof of how good that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from nnc.arguments import checked
from nnc.classes import dataclass


@checked
@dataclass(frozen=True, slots=True)
class Witness:
    """Blocks of one memory that must all have bytes of their own: `sum(reserved[b] for b in blocks) <= arena`.

    A pinned block among them proves its end, `offset + reserved`. They are alive together at `step`. Under explicit
    interference they interfere pair by pair, and `step` is the latest birth among them. No blocks at all prove
    nothing: `step` is 0.
    """

    step: int
    blocks: tuple[int, ...]


@checked
@dataclass(frozen=True, slots=True)
class Plan:
    """`offsets[i]` is where block `i` begins in the arena of its memory.

    `arenas` holds the bytes of each kind of memory and `arena_bytes` their sum. `lower_bound` is the sum of what
    `witnesses` prove, one per kind of memory, and `witness` is the heaviest of them. `optimal` is set only
    when no smaller plan exists: the bound is met, or a search was exhausted. `seconds` is the time that planning took
    and the only field that differs between two runs.
    """

    offsets: tuple[int, ...]
    arena_bytes: int
    lower_bound: int
    solver: str
    optimal: bool
    seconds: float = field(compare=False)
    witness: Witness
    arenas: Mapping[str, int] = field(default_factory=dict, hash=False)
    witnesses: Mapping[str, Witness] = field(default_factory=dict, hash=False)

    @property
    def gap(self) -> float:
        """`arena_bytes / lower_bound - 1`: how far above the bound the plan is, 0 for nothing."""
        return self.arena_bytes / self.lower_bound - 1 if self.lower_bound else 0.0
