"""Debug runs: who writes where he may not, and values that outlive their memory.

what a step may change = the blocks that it writes, and its scratch memory
all else must be behind the step as it was before it, but for the blocks of steps that run beside it
a block becomes not-a-number (bytes of 0xFF) behind its last use; what is not there from outside is so at the start
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnc.core.storage import Bytes
from nnc.errors import VerificationError
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges
from nnc.symbolic.ir import ExecKey, ExecSymbol, SymbolicGraph, bodies_of

# Bytes in front of an arena and behind it that nobody may write.
GUARD = 64
POISON = 0xFF

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """A step: what it is, the bytes that it may change, and the blocks that it uses."""

    text: str
    writes: tuple[Span, ...]
    uses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckedBlock:
    """A block: what it holds, where, whether it has its value before the first step, and whether it is kept."""

    text: str
    span: Span
    outside: bool
    kept: bool


@dataclass(slots=True, eq=False)
class WriteCheck:
    """Looks before and behind each step at `memory`: an arena, which begins at `base`, and what is around it."""

    memory: Bytes
    base: int
    steps: Sequence[CheckedStep]
    blocks: Sequence[CheckedBlock]
    _shadow: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    _left: list[int] = field(default_factory=list)
    _running: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """A run begins: only what comes from outside is there."""
        self._running.clear()
        self._left = [0] * len(self.blocks)
        for step in self.steps:
            for block in step.uses:
                self._left[block] += 1
        for begin, end in _between([block.span for block in self.blocks if block.outside], len(self.memory)):
            self.memory[begin:end] = POISON
        self._shadow = self.memory.copy()

    def begin(self, step: int) -> None:
        """A step begins."""
        with self._lock:
            self._running.add(step)

    def end(self, step: int) -> None:
        """A step has ended. VerificationError when bytes have changed that nobody who was running may change."""
        with self._lock:
            self._compare(step)
            self._running.discard(step)
            for begin, end in self.steps[step].writes:
                self._shadow[begin:end] = self.memory[begin:end]
            for block in self.steps[step].uses:
                self._left[block] -= 1
                if not self._left[block] and not self.blocks[block].kept:
                    begin, end = self.blocks[block].span
                    self.memory[begin:end] = self._shadow[begin:end] = POISON

    def _compare(self, step: int) -> None:
        allowed = [span for running in self._running for span in self.steps[running].writes]
        for begin, end in _between(allowed, len(self.memory)):
            if not np.array_equal(self.memory[begin:end], self._shadow[begin:end]):
                differs = self.memory[begin:end] != self._shadow[begin:end]
                place = begin + int(np.flatnonzero(differs)[0])
                raise VerificationError(
                    f"memory: {self.steps[step].text} changed byte {place - self.base} of the arena, "
                    + self._owner(place)
                )

    def _owner(self, place: int) -> str:
        for left, block in zip(self._left, self.blocks, strict=True):
            if left and block.span[0] <= place < block.span[1]:
                return f"which {block.text} holds"
        return "which nobody holds"


def checked_writes(
    memory: Bytes,
    base: int,
    graph: SymbolicGraph,
    order: Sequence[ExecKey],
    lives: LiveRanges,
    blocks: Sequence[tuple[LiveRange, int]],
) -> WriteCheck:
    """The check over execs whose blocks lie in an arena, each with its offset there."""
    number = {id(life): place for place, (life, _) in enumerate(blocks)}
    checked = [
        CheckedBlock(
            _block_text(graph, life),
            (base + offset, base + offset + life.nbytes),
            life.outside,
            life.upper > lives.steps,
        )
        for life, offset in blocks
    ]
    steps = []
    for step, key in enumerate(order):
        record = graph.execs[key]
        read, written = graph.roots(record.inputs), graph.roots(record.outputs)
        scratch = [lives.workspaces[step]] if step in lives.workspaces else []
        used = [lives.of[root] for root in (*read, *written) if root in lives.of] + scratch
        changed = [lives.of[root] for root in (*written, *lives.fills.get(step, ())) if root in lives.of] + scratch
        if bodies_of(record.command):
            # A loop may take turns in the memory of what ends with it.
            changed += [life for life in used if life.upper == step + 1]
        # The test of a loop reads behind the last step that does.
        used += [life for life, _ in blocks if life.upper == step + 1]
        uses, changes = ({number[id(life)] for life in some if id(life) in number} for some in (used, changed))
        writes = tuple(checked[place].span for place in sorted(changes))
        steps.append(CheckedStep(exec_text(graph, record), writes, tuple(sorted(uses))))
    return WriteCheck(memory, base, steps, checked)


def exec_text(graph: SymbolicGraph, record: ExecSymbol) -> str:
    """An exec as messages name it: its operator, what it writes, and the user's line."""
    written = ", ".join(graph.label(graph.root(key)) for key in record.outputs)
    return f"{record.command.op.name} of {written}" + (f" ({record.origin})" if record.origin else "")


def _block_text(graph: SymbolicGraph, life: LiveRange) -> str:
    return graph.label(life.roots[-1]) if life.roots else f"the workspace of step {life.lower}"


def _between(spans: Sequence[Span], size: int) -> list[Span]:
    """The parts of [0, size) that no span covers."""
    free, reach = [], 0
    for begin, end in sorted(spans):
        if begin > reach:
            free.append((reach, begin))
        reach = max(reach, end)
    if reach < size:
        free.append((reach, size))
    return free
