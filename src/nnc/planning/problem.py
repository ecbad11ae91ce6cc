"""What is to be planned: blocks of bytes with lives, and which of them may not share bytes.

    for blocks i, j that interfere:  offset[i] + reserved[i] <= offset[j]  or  offset[j] + reserved[j] <= offset[i]

A life is half-open, `[lower, upper)`, in steps. A block reserves its size rounded up to its alignment.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import combinations

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import PlanningError

# An explicit graph holds one bit per pair of blocks.
MOST_BLOCKS = 1 << 24


@checked
@dataclass(frozen=True, slots=True)
class Block:
    """`size` bytes that are alive in the steps `[lower, upper)`, at a multiple of `alignment` in the arena of `memory`.

    `offset` pins the block to that place. Where lives decide, a block without steps takes no bytes of the arena.
    """

    name: str
    size: int
    lower: int
    upper: int
    alignment: int = 1
    offset: int | None = None
    memory: str = "host"

    def __post_init__(self) -> None:
        if self.size < 0:
            raise PlanningError(f"block {self.name}", got=f"size={self.size}", need="size >= 0")
        if self.lower > self.upper:
            raise PlanningError(f"block {self.name}", got=f"life=[{self.lower}, {self.upper})", need="lower <= upper")
        if self.alignment < 1:
            raise PlanningError(f"block {self.name}", got=f"alignment={self.alignment}", need="alignment >= 1")
        if self.offset is not None and (self.offset < 0 or self.offset % self.alignment):
            raise PlanningError(
                f"block {self.name}", got=f"offset={self.offset}", need=f"a multiple of {self.alignment}, at least 0"
            )

    @property
    def reserved(self) -> int:
        """`size` rounded up to `alignment`: the bytes that the block takes from the arena."""
        return -(-self.size // self.alignment) * self.alignment

    @property
    def empty(self) -> bool:
        """Whether the block has no bytes or no steps: under overlap of lives it interferes with nobody."""
        return self.size == 0 or self.lower == self.upper


@checked
@dataclass(frozen=True, slots=True)
class Interference:
    """An explicit interference graph: bit `j` of `rows[i]` says that the blocks `i` and `j` may not share bytes.

    It replaces the overlap of lives, for example where a partial order and not a schedule says who comes first.
    """

    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            if row >> len(self.rows) or row < 0:
                raise PlanningError("interference", got=f"row {i} beyond {len(self.rows)} blocks", need="known blocks")
            if row >> i & 1:
                raise PlanningError("interference", got=f"block {i} against itself", need="pairs of distinct blocks")
            if any(not self.rows[j] >> i & 1 for j in bits(row)):
                raise PlanningError("interference", got=f"row {i} without its mirror", need="symmetric rows")

    @classmethod
    @checked
    def of_pairs(cls, count: int, pairs: Iterable[tuple[int, int]]) -> Interference:
        """The graph over `count` blocks with an edge for each pair."""
        if not 0 <= count <= MOST_BLOCKS:
            raise PlanningError("interference", got=f"{count} blocks", need=f"0..{MOST_BLOCKS}")
        rows = [0] * count
        for i, j in pairs:
            if not (0 <= i < count and 0 <= j < count):
                raise PlanningError("interference", got=f"pair ({i}, {j})", need=f"blocks below {count}")
            rows[i] |= 1 << j
            rows[j] |= 1 << i
        return cls(tuple(rows))

    @classmethod
    @checked
    def of_lives(cls, blocks: Iterable[Block]) -> Interference:
        """The graph of the overlaps of lives: what `Problem` assumes when it is given none."""
        rows: list[int] = []
        ordered = tuple(blocks)
        for i, block in enumerate(ordered):
            row = 0
            for j, other in enumerate(ordered):
                if i != j and not block.empty and not other.empty:
                    row |= (block.lower < other.upper and other.lower < block.upper) << j
            rows.append(row)
        return cls(tuple(rows))

    def neighbours(self, block: int) -> Iterator[int]:
        """The blocks that may not share bytes with `block`, in ascending order."""
        return bits(self.rows[block])

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The edges `(i, j)` with `i < j`, in lexicographic order."""
        for i, row in enumerate(self.rows):
            for j in bits(row >> (i + 1) << (i + 1)):
                yield i, j


@checked
@dataclass(frozen=True, slots=True)
class Problem:
    """Blocks to be placed; blocks in different kinds of memory never meet.

    `interference` `None` means: blocks interfere where their lives overlap. `companions` are groups of block
    indices that must all get the same offset.
    """

    blocks: tuple[Block, ...]
    interference: Interference | None = None
    companions: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.interference is not None and len(self.interference.rows) != len(self.blocks):
            raise PlanningError(
                "problem",
                got=f"{len(self.interference.rows)} interference rows",
                need=f"{len(self.blocks)}, one per block",
            )
        seen: set[int] = set()
        for group in self.companions:
            for block in group:
                if not 0 <= block < len(self.blocks) or block in seen:
                    raise PlanningError(
                        "companions", got=f"block {block} in {group}", need="known blocks, each in one group at most"
                    )
                seen.add(block)
            self._check_group(group)

    def _check_group(self, group: tuple[int, ...]) -> None:
        members = [self.blocks[block] for block in group]
        if len({member.memory for member in members}) > 1:
            raise PlanningError("companions", got=f"{group} in several memories", need="one kind of memory")
        if len({member.offset for member in members} - {None}) > 1:
            raise PlanningError("companions", got=f"{group} pinned to several offsets", need="one offset")
        for i, j in combinations(group, 2):
            if self.interfere(i, j):
                raise PlanningError(
                    "companions", got=f"blocks {i} and {j}, which interfere", need="blocks that may share bytes"
                )

    def interfere(self, i: int, j: int) -> bool:
        """Whether the blocks `i` and `j` may not share bytes."""
        self._check(i, j)
        first, second = self.blocks[i], self.blocks[j]
        if i == j or first.memory != second.memory or not self.takes_bytes(i) or not self.takes_bytes(j):
            return False
        if self.interference is not None:
            return bool(self.interference.rows[i] >> j & 1)
        return first.lower < second.upper and second.lower < first.upper

    def takes_bytes(self, i: int) -> bool:
        """Whether block `i` needs room in its arena: it has bytes, and steps too where lives decide."""
        self._check(i)
        block = self.blocks[i]
        return block.size > 0 and (self.interference is not None or not block.empty)

    def members(self) -> dict[str, list[int]]:
        """For each kind of memory the blocks that take bytes there, all in one pass."""
        blocks_of: dict[str, list[int]] = {}
        by_lives = self.interference is None
        for i, block in enumerate(self.blocks):
            row = blocks_of.setdefault(block.memory, [])
            if block.size > 0 and not (by_lives and block.lower == block.upper):
                row.append(i)
        return blocks_of

    def _check(self, *indices: int) -> None:
        for i in indices:
            if not _is_place(i, len(self.blocks)):
                raise PlanningError("problem", got=f"block {i}", need=f"a block of 0..{len(self.blocks) - 1}")

    @property
    def memories(self) -> tuple[str, ...]:
        """The kinds of memory, in order of first appearance."""
        return tuple(dict.fromkeys(block.memory for block in self.blocks))


def bits(row: int) -> Iterator[int]:
    """The positions of the ones of `row`, in ascending order."""
    while row:
        lowest = row & -row
        yield lowest.bit_length() - 1
        row ^= lowest


def _is_place(value: object, count: int) -> bool:
    """Whether it is an integer in 0..count - 1; an array of several numbers has `__index__` too."""
    try:
        return 0 <= operator.index(value) < count  # type: ignore[arg-type]  # a TypeError says that it is none
    except TypeError:
        return False
