"""Native loops: two native programs, and the words of them that name another tensor in another iteration.

An operand of a loop that moves is assembled as a stand-in, whose memory nobody touches; where an address of a launch
lies in a stand-in, native code writes the address of what the operand is into that word before each iteration.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from nnc.backends.llvm.run.loop_code import (
    ADDRESSES,
    AT_MOST,
    BEFORE,
    CELLS,
    CHECKS_BEFORE,
    CHECKS_REST,
    LEFT,
    LIMIT,
    MASK,
    MOVED,
    MOVES,
    NO_LIMIT,
    PATCHES,
    POSITION,
    REST,
    STATE_SLOTS,
    TESTED,
    TURN,
    TURN_CELL,
    VIEWS,
    WIDTH,
    WRONG_INDEX,
)
from nnc.backends.llvm.run.runtime import WORD_BYTES, NativeProgram, WorkerPool
from nnc.backends.llvm.run.steps import Launch, Words
from nnc.classes import dataclass
from nnc.codegen.ir.native_kernel import AddressRange
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import LoopCalls, LoopCell, LoopState
from nnc.core.values.tensor import Tensor

# Of an operand that may be more tensors than this, all memory from the first to the last counts as touched.
MOST_SPANS = 16


class _StandIns:
    """Which cell an address in the memory of a stand-in belongs to."""

    def __init__(self, cells: Sequence[LoopCell]) -> None:
        named = [(cell.standin, number) for number, cell in enumerate(cells) if cell.standin is not None]
        self.cells = cells
        self.rows = sorted((tensor.address, max(tensor.spec.nbytes, 1), number) for tensor, number in named)

    def find(self, address: int) -> tuple[int, int] | None:
        """The cell and the offset in its tensor."""
        place = bisect_right(self.rows, address, key=lambda row: row[0]) - 1
        if place < 0:
            return None
        begin, nbytes, number = self.rows[place]
        return (number, address - begin) if address - begin < nbytes else None

    def real(self, launch: Launch) -> Launch:
        """The launch with the memory that is meant: of every tensor that a cell may be."""
        reads, writes = (
            tuple(span for operand in part for span in self._spans(operand)) for part in (launch.reads, launch.writes)
        )
        return replace(launch, reads=reads, writes=writes)

    def _spans(self, span: AddressRange) -> list[AddressRange]:
        named = self.find(span.begin)
        if named is None:
            return [span]
        number, offset = named
        begins = sorted(tensor.address + offset for tensor in self.cells[number].tensors)
        size = span.end - span.begin
        if len(begins) > MOST_SPANS:
            return [AddressRange(begins[0], begins[-1] + size)]
        return [AddressRange(begin, begin + size) for begin in begins]


@dataclass(frozen=True, slots=True, eq=False)
class LoopSegment:
    """A part of an iteration: its program, and the words that say that a kernel has met a wrong index."""

    program: NativeProgram
    launches: Sequence[Launch]
    checks: Sequence[int]

    def patches(self, standins: _StandIns) -> Iterator[tuple[int, int, int]]:
        """The words of the program that name what a cell is, each with the cell and an offset."""
        address = self.program.addresses
        for launch in self.launches:
            operands = len(launch.reads) + len(launch.writes)
            for place, word in enumerate(launch.addresses[:operands]):
                named = standins.find(word)
                if named is not None:
                    yield (address + WORD_BYTES * (1 + place), *named)
            address += WORD_BYTES * (1 + len(launch.addresses))


class NativeLoop(Uncopied):
    """A loop over the launches of `before` and `rest`, each with the words that their kernels report wrong indices by.

    `refuse` raises what these words say.
    """

    instead: ClassVar[str] = "copy values"

    def __init__(
        self,
        pool: WorkerPool,
        calls: LoopCalls,
        parts: Sequence[tuple[Sequence[Launch], Sequence[int]]],
        refuse: Callable[[], None],
        workers: int,
    ) -> None:
        self._pool, self._calls, self._refuse = pool, calls, refuse
        standins = _StandIns(calls.cells)
        segments = [
            LoopSegment(NativeProgram(pool, [standins.real(each) for each in launches], workers), launches, checks)
            for launches, checks in parts
        ]
        self._programs = [segment.program for segment in segments]
        self._tensors = tuple({id(each): each for cell in calls.cells for each in cell.tensors}.values())
        self._lists: list[Words] = []
        self._state = np.zeros(STATE_SLOTS, np.int64)
        self._fill(standins, segments)

    def _fill(self, standins: _StandIns, segments: Sequence[LoopSegment]) -> None:
        calls, state = self._calls, self._state
        numbers = {id(tensor): number for number, tensor in enumerate(self._tensors)}
        self._cells = _words(numbers[id(cell.tensors[0])] for cell in calls.cells)
        self._first = self._cells.copy()
        state[CELLS] = self._list(self._cells)
        state[ADDRESSES] = self._list(_words(tensor.address for tensor in self._tensors))
        state[MOVED] = self._list(_words(0 for _ in calls.moves))
        state[TURN_CELL] = calls.count.address
        state[LIMIT], state[AT_MOST] = calls.limit or 0, NO_LIMIT if calls.at_most is None else calls.at_most
        patches = [patch for segment in segments for patch in segment.patches(standins)]
        if calls.tested is not None:
            dtype = calls.tested.dtype
            state[TESTED] = self._list(_words([calls.tested.address]))
            state[WIDTH], state[MASK] = dtype.itemsize, (1 << 8 * dtype.itemsize - 1) - 1 if dtype.is_float else -1
            named = standins.find(calls.tested.address)
            patches += [] if named is None else [(int(state[TESTED]), *named)]
        views = [
            (number, cell.once, len(cell.views), self._list(_words(numbers[id(view)] for view in cell.views)))
            for number, cell in enumerate(calls.cells)
            if cell.views
        ]
        rows: list[tuple[int, Sequence[tuple[int, ...]]]] = [(VIEWS, views), (PATCHES, patches), (MOVES, calls.moves)]
        for table, checks, segment in zip((BEFORE, REST), (CHECKS_BEFORE, CHECKS_REST), segments, strict=True):
            state[table], state[table + 1] = segment.program.table, segment.program.steps
            rows.append((checks, [(word,) for word in segment.checks]))
        for slot, listed in rows:
            state[slot], state[slot + 1] = self._list(_words(word for row in listed for word in row)), len(listed)

    def _list(self, words: Words) -> int:
        """The address of words, which are kept."""
        self._lists.append(words)
        return int(words.ctypes.data)

    def begin(self) -> None:
        """Go back to the first iteration."""
        self._cells[:] = self._first
        self._state[TURN] = 0
        self._calls.count.numpy()[...] = 0

    def run(self, iterations: int) -> LoopState:
        """Run at most so many iterations; IndexRangeError where a kernel meets an index outside its axis."""
        self._state[LEFT] = iterations
        self._pool.repeat(int(self._state.ctypes.data), self._programs)
        position = int(self._state[POSITION])
        if position == WRONG_INDEX:
            self._refuse()
        return LoopState(position)

    def place(self) -> tuple[int, tuple[Tensor, ...]]:
        """The count, and what each cell is."""
        return int(self._state[TURN]), tuple(self._tensors[number] for number in self._cells.tolist())


def _words(values: Iterable[int]) -> Words:
    return np.fromiter(values, np.int64)
