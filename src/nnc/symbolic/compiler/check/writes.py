"""Debug runs: who writes where he may not, and values that outlive their memory.

what a step may change = the blocks that it writes, and its scratch memory
all else must be behind the step as it was before it, but for the blocks of steps that run beside it
a block becomes not-a-number (bytes of 0xFF) behind its last use; what is not there from outside is so at the start
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.storage import Bytes
from nnc.errors import VerificationError
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges
from nnc.symbolic.compiler.place.memory_statement import POISON
from nnc.symbolic.ir import SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """A step: what it is, the bytes that it may change, the blocks that it uses, and bytes of its bodies alone.

    In a step that `has_bodies` blocks may begin in bytes of those that end there.
    """

    text: str
    writes: tuple[Span, ...]
    uses: tuple[int, ...]
    inside: tuple[Span, ...]
    has_bodies: bool


@dataclass(frozen=True, slots=True)
class CheckedBlock:
    """A block: what it holds, where, the step that it begins with, whether its value is there before, and is kept."""

    text: str
    span: Span
    lower: int
    outside: bool
    kept: bool


@dataclass(slots=True, eq=False)
class WriteCheck:
    """Looks before and behind each step at `memory`: at the `whole` of it, or at blocks that hold a value."""

    memory: Bytes
    base: int
    steps: Sequence[CheckedStep]
    blocks: Sequence[CheckedBlock]
    whole: bool
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
        if self.whole:
            outside = [block.span for block in self.blocks if block.outside]
            for begin, end in _between(outside, (0, len(self.memory))):
                self.memory[begin:end] = POISON
            self._shadow = self.memory.copy()
            return
        if not len(self._shadow):
            self._shadow = np.empty_like(self.memory)
        for begin, end in (block.span for block in self.blocks if block.outside):
            self._shadow[begin:end] = self.memory[begin:end]

    def begin(self, step: int) -> None:
        """A step begins."""
        with self._lock:
            self._running.add(step)
            for block in self.blocks:
                if not self.whole and block.lower == step and not (block.outside or self.steps[step].has_bodies):
                    self._poison(block.span)

    def end(self, step: int) -> None:
        """A step has ended. VerificationError when bytes have changed that nobody who was running may change."""
        with self._lock:
            self._compare(step)
            self._running.discard(step)
            for begin, end in self.steps[step].writes:
                self._shadow[begin:end] = self.memory[begin:end]
            for block in self.steps[step].uses:
                self._left[block] -= 1
            if self.whole or not self.steps[step].has_bodies:
                self._poison_ended(step)

    def _poison_ended(self, step: int) -> None:
        ended = [self.blocks[block].span for block in self.steps[step].uses if not self._holds(block, step)]
        held = [block.span for place, block in enumerate(self.blocks) if self._holds(place, step)]
        for span in (*ended, *self.steps[step].inside):
            for part in _between(held, span):
                self._poison(part)

    def _holds(self, block: int, step: int) -> bool:
        """Does a block hold a value behind a step?"""
        return self.blocks[block].lower <= step and (self._left[block] > 0 or self.blocks[block].kept)

    def _poison(self, span: Span) -> None:
        self.memory[span[0] : span[1]] = self._shadow[span[0] : span[1]] = POISON

    def _looked_at(self, step: int) -> list[Span]:
        if self.whole:
            return [(0, len(self.memory))]
        return [block.span for place, block in enumerate(self.blocks) if block.lower <= step and self._left[place]]

    def _compare(self, step: int) -> None:
        allowed = [span for running in self._running for span in self.steps[running].writes]
        for begin, end in (part for span in self._looked_at(step) for part in _between(allowed, span)):
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
    offsets: Mapping[int, int],
    *,
    whole: bool = True,
) -> WriteCheck:
    """The check over execs whose blocks lie at these offsets of `memory`, by their identity.

    The arena begins at `base`. A body does not look at the `whole` of it, which others use.
    """

    def span(life: LiveRange) -> Span:
        return (offsets[id(life)], offsets[id(life)] + life.nbytes)

    blocks = [life for life in lives.blocks() if id(life) in offsets]
    number = {id(life): place for place, life in enumerate(blocks)}
    checked = [
        CheckedBlock(_block_text(graph, life), span(life), life.lower, life.outside, life.upper > lives.steps)
        for life in blocks
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
        used += [life for life in blocks if life.upper == step + 1]
        uses, changes = ({number[id(life)] for life in some if id(life) in number} for some in (used, changed))
        inside = tuple(span(life) for life in lives.inside.get(step, ()) if id(life) in offsets)
        writes = (*(checked[place].span for place in sorted(changes)), *inside)
        has_bodies = bool(bodies_of(record.command))
        steps.append(CheckedStep(exec_text(graph, record), writes, tuple(sorted(uses)), inside, has_bodies))
    return WriteCheck(memory, base, steps, checked, whole)


def exec_text(graph: SymbolicGraph, record: ExecSymbol) -> str:
    """An exec as messages name it: its operator, what it writes, and the user's line."""
    written = ", ".join(graph.label(graph.root(key)) for key in record.outputs)
    return f"{record.command.op.name} of {written}" + (f" ({record.origin})" if record.origin else "")


def _block_text(graph: SymbolicGraph, life: LiveRange) -> str:
    return graph.label(life.roots[-1]) if life.roots else f"the workspace of step {life.lower}"


def _between(spans: Sequence[Span], within: Span) -> list[Span]:
    """The parts of `within` that no span covers."""
    free, reach = [], within[0]
    for begin, end in sorted(spans):
        if min(begin, within[1]) > reach:
            free.append((reach, min(begin, within[1])))
        reach = max(reach, end)
    if reach < within[1]:
        free.append((reach, within[1]))
    return free
