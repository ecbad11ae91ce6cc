"""Native loops, as IR: one call from Python runs many iterations of a `while`.

    while left > 0:
        cell = view[count]                for every cell that is a view of the iteration
        word = address[cell] + offset     for every word of the programs that names what a cell is
        before; leave when an index was wrong; leave unless the test holds; rest; leave when an index was wrong
        cell = cell of the source         for every move, all at once
        count, left = count + 1, left - 1

`before` and `rest` are native programs. On one worker their steps are called one after another; on several each of the
two is launched as any other program. Python asks for so many iterations at a time, so that it sees interrupts.
"""

from __future__ import annotations

from nnc.backends.llvm.run.control_words import ALONE, COUNT, LAUNCH, LOOP, SCRATCH, STEPS, WORKERS
from nnc.codegen.ir.builder import ADDRESS, I8, I16, I32, I64, INDEX, Builder, LocalVariable, Module, Type, Value
from nnc.core.running.dispatch import LoopState

SEGMENT = "nnc_segment"
# Slots of the state of a loop, in i64. Lists are an address and a length.
POSITION, TURN, LEFT, TURN_CELL, LIMIT, AT_MOST = 0, 1, 2, 3, 4, 5
TESTED, WIDTH, MASK = 6, 7, 8
CELLS, ADDRESSES, MOVED = 9, 10, 11
BEFORE, REST, VIEWS, PATCHES, MOVES, CHECKS_BEFORE, CHECKS_REST = 12, 14, 16, 18, 20, 22, 24
STATE_SLOTS = 26
VIEW_SLOTS, PATCH_SLOTS, MOVE_SLOTS = 4, 3, 2  # cell, once, count, positions; word, cell, offset; source, target
# Where a loop has left: the states of core.dispatch, and at an index outside its axis.
WRONG_INDEX = 3
NO_LIMIT = 2**63 - 1


def emit_loop(module: Module) -> None:
    """The function of loops, beside the interpreter in its module."""
    _segment(module)
    _LoopWriter(module).write()


def _segment(module: Module) -> None:
    """Run a table of steps: one after another on one worker, else as a program."""
    b = Builder(module, SEGMENT, (("control", ADDRESS), ("steps", ADDRESS), ("count", INDEX)))
    control, steps, count = b.arguments
    alone = b.compare("==", b.load(control, WORKERS, INDEX), 1)
    with b.when(alone):
        b.call(ALONE, steps, count, b.load(control, SCRATCH, ADDRESS))
    with b.when(b.both(b.opposite(alone), b.compare(">", count, 0))):
        b.store(steps, control, STEPS)
        b.store(count, control, COUNT)
        b.call(LAUNCH, control)
    b.finish()


class _LoopWriter:
    """Writes the loop."""

    def __init__(self, module: Module) -> None:
        self.b = Builder(module, LOOP, (("control", ADDRESS), ("state", ADDRESS)))
        self.control, self.state = self.b.arguments

    def write(self) -> None:
        b, state = self.b, self.state
        with b.repeat() as forever:
            self._stand(LoopState.RUNNING.value)
            left, turn = self._word(LEFT), self._word(TURN)
            forever.until(b.compare("<=", left, 0))
            self._views(turn)
            self._patch()
            for segment, checks in ((BEFORE, CHECKS_BEFORE), (REST, CHECKS_REST)):
                b.call(SEGMENT, self.control, b.load(state, segment, ADDRESS), self._word(segment + 1))
                self._stand(WRONG_INDEX)
                forever.until(self._wrong(checks))
                if segment == BEFORE:
                    self._stand(LoopState.ENDED.value)
                    forever.until(b.opposite(self._holds(turn)))
                    self._stand(LoopState.BEYOND.value)
                    forever.until(b.compare(">=", turn, self._word(AT_MOST)))
            self._move()
            b.store(turn + 1, state, TURN)
            b.store(turn + 1, b.load(state, TURN_CELL, ADDRESS), 0)
            b.store(left - 1, state, LEFT)
        b.finish()

    def _word(self, slot: int) -> Value:
        return self.b.load(self.state, slot, INDEX)

    def _stand(self, position: int) -> None:
        self.b.store(self.b.constant(position), self.state, POSITION)

    def _views(self, turn: Value) -> None:
        b, cells = self.b, self.b.load(self.state, CELLS, ADDRESS)
        rows = b.load(self.state, VIEWS, ADDRESS)
        with b.loop(0, self._word(VIEWS + 1)) as index:
            row = b.offset(rows, index * VIEW_SLOTS, I64)
            cell, once, count = (b.load(row, slot, INDEX) for slot in range(3))
            place = b.variable(turn)
            with b.when(b.compare(">=", turn, count)):
                place.set(once + (turn - once) % (count - once))
            b.store(b.load(b.load(row, 3, ADDRESS), place.get(), INDEX), cells, cell)

    def _patch(self) -> None:
        b, cells, addresses = (
            self.b,
            self.b.load(self.state, CELLS, ADDRESS),
            self.b.load(self.state, ADDRESSES, ADDRESS),
        )
        rows = b.load(self.state, PATCHES, ADDRESS)
        with b.loop(0, self._word(PATCHES + 1)) as index:
            row = b.offset(rows, index * PATCH_SLOTS, I64)
            tensor = b.load(cells, b.load(row, 1, INDEX), INDEX)
            b.store(b.load(addresses, tensor, INDEX) + b.load(row, 2, INDEX), b.load(row, 0, ADDRESS), 0)

    def _wrong(self, checks: int) -> Value:
        """Whether a kernel has met an index outside its axis."""
        b, words = self.b, self.b.load(self.state, checks, ADDRESS)
        wrong = b.variable(b.constant(0))
        with b.loop(0, self._word(checks + 1)) as index:
            wrong.set(b.either(wrong.get(), b.load(b.load(words, index, ADDRESS), 0, INDEX)))
        return b.compare("!=", wrong.get(), 0)

    def _holds(self, turn: Value) -> Value:
        """The count against its limit, or the tested element without the bits that say nothing."""
        b, width = self.b, self._word(WIDTH)
        held = b.variable(b.choose(b.compare("<", turn, self._word(LIMIT)), b.constant(1), b.constant(0)))
        with b.when(b.compare("!=", width, 0)):
            element = b.load(b.load(self.state, TESTED, ADDRESS), 0, ADDRESS)
            for scalar in (I8, I16, I32, I64):
                with b.when(b.compare("==", width, scalar.size)):
                    self._keep(held, b.cast(b.load(element, 0, Type(scalar)), I64))
        return b.compare("!=", held.get(), 0)

    def _keep(self, held: LocalVariable, bits: Value) -> None:
        held.set(self.b.both(bits, self._word(MASK)))

    def _move(self) -> None:
        """All sources are read before any target is written."""
        b, cells, moved = self.b, self.b.load(self.state, CELLS, ADDRESS), self.b.load(self.state, MOVED, ADDRESS)
        rows, count = b.load(self.state, MOVES, ADDRESS), self._word(MOVES + 1)
        with b.loop(0, count) as index:
            b.store(b.load(cells, b.load(rows, index * MOVE_SLOTS, INDEX), INDEX), moved, index)
        with b.loop(0, count) as index:
            b.store(b.load(moved, index, INDEX), cells, b.load(rows, index * MOVE_SLOTS + 1, INDEX))
