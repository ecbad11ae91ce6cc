"""What the cell of a recurrent network sees of memory: some units of a few rows of the batch at one step.

The rows lie one behind the other in one value, so that the instructions of each fill the waiting times of the others.
Operands are sequences [steps, batch, parts · units] and states [batch, units]. Those of 16 bits are computed in f32,
and what a step leaves to the next one is then also kept in f32, [turn, batch, parts · units], in two turns, because
some units of a step are written while others still read what was before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.builder import Builder, Scalar, Type, Value
from nnc.codegen.ir.expression import computed


@dataclass(frozen=True, slots=True)
class CellStep:
    """Number `index` in the order of the computation, at `moment`.

    `done` was computed just before, unless this one `begins`; `earlier` is before it in time, unless it is the `first`.
    """

    index: Value
    moment: Value
    done: Value
    begins: Value
    earlier: Value
    first: Value


@dataclass(frozen=True, slots=True)
class CellMemory:
    """The operands, and what is kept in f32, by name; `parts` has the sequences, `sizes` is (batch, units)."""

    b: Builder
    stored: Scalar
    sizes: tuple[int, int]
    parts: Mapping[str, int]
    operands: Mapping[str, Value]
    kept: Mapping[str, Value]

    @property
    def scalar(self) -> Scalar:
        """The element type of the computation."""
        return computed(self.stored)

    def width(self, name: str) -> int:
        """Elements of a row."""
        return self.parts.get(name, 1) * self.sizes[1]

    def start(self, name: str, moment: Value, row: Value) -> Value:
        """Where a row of an operand begins, in elements."""
        batch = self.sizes[0]
        return (moment * batch + row if name in self.parts else row) * self.width(name)

    def saved_start(self, name: str, index: Value, row: Value) -> Value:
        """Where a row begins of what step number `index` keeps."""
        return (index % 2 * self.sizes[0] + row) * self.width(name)

    def ask(self, step: CellStep, row: Value, unit: Value, units: int, turn: Value, turns: int) -> None:
        """Ask for the cache lines of units [unit, unit + units) of a row of all sequences, some parts in each turn."""
        elements = self.b.target.machine.line_bytes // self.stored.size
        count = ceiling(units, elements)
        for name, parts in self.parts.items():
            start = self.start(name, step.moment, row) + unit
            each = ceiling(parts, turns)
            first = turn * each
            with self.b.when(self.b.compare("<", first, parts)) if turns > 1 else self.b.always():
                for index, line in product(range(each), range(count)):
                    place = (first + index) * self.sizes[1] + line * elements
                    self.b.prefetch(self.operands[name], start + place, self.stored)


@dataclass(frozen=True, slots=True)
class Place:
    """Units [unit, unit + lanes) of `rows`, a power of two of them; a row may be there twice."""

    memory: CellMemory
    step: CellStep
    rows: Sequence[Value]
    unit: Value
    lanes: int
    mask: Value | None

    @property
    def b(self) -> Builder:
        """What instructions are written with."""
        return self.memory.b

    @property
    def kind(self) -> Type:
        """The type of all values: the rows one behind the other."""
        return Type(self.memory.scalar, self.lanes * len(self.rows))

    def read(self, name: str, part: int = 0) -> Value:
        """A state, or one of the parts of a sequence at this step."""
        place = self.memory.operands[name]
        return self.b.join([self._load(place, self._index(name, self.step.moment, row, part)) for row in self.rows])

    def write(self, value: Value, name: str, part: int = 0) -> None:
        """Write what `read` reads, and keep it."""
        memory, b = self.memory, self.b
        for row, vector in zip(self.rows, self._divided(value), strict=True):
            index = self._index(name, self.step.moment, row, part)
            b.store(b.cast(vector, memory.stored), memory.operands[name], index, self.mask)
            if name in memory.kept:
                start = memory.saved_start(name, self.step.index, row)
                b.store(vector, memory.kept[name], start + self._unit(part), self.mask)

    def write_all(self, name: str, values: Sequence[Value]) -> None:
        """All parts of a sequence, at this step."""
        for part, value in enumerate(values):
            self.write(value, name, part)

    def carried(self, name: str) -> Value:
        """What the step computed before left in a state; zero at the beginning."""
        begins = self.b.splat(self.step.begins, self.kind.lanes)
        value = self._recall(name) if name in self.memory.kept else self.read(name)
        return self.b.choose(begins, self.b.zero(self.kind), value)

    def before(self, sequence: str, start: str) -> Value:
        """The sequence at the step before in time, the state `start` at the first one."""
        if sequence in self.memory.kept:
            return self._recall(sequence)
        b, memory, operands = self.b, self.memory, self.memory.operands
        values = []
        for row in self.rows:
            place = b.offset(operands[sequence], self._index(sequence, self.step.earlier, row), memory.stored)
            other = b.offset(operands[start], self._index(start, self.step.earlier, row), memory.stored)
            values.append(self._load(b.choose(self.step.first, other, place), b.constant(0)))
        return self.b.join(values)

    def parameter(self, name: str, part: int) -> Value:
        """A parameter [parts · units], zero where it is absent."""
        place = self.memory.operands.get(name)
        if place is None:
            return self.b.zero(self.kind)
        return self.b.join([self._load(place, self._unit(part))] * len(self.rows))

    def begin(self, sequence: str, start: str) -> None:
        """Keep the state `start` as what the step before the first one left."""
        memory = self.memory
        for row, vector in zip(self.rows, self._divided(self.read(start)), strict=True):
            index = memory.saved_start(sequence, self.step.index + 1, row) + self.unit
            self.b.store(vector, memory.kept[sequence], index, self.mask)

    def _recall(self, name: str) -> Value:
        """What the step computed before kept."""
        memory, scalar = self.memory, self.memory.scalar
        starts = [memory.saved_start(name, self.step.index + 1, row) + self.unit for row in self.rows]
        kind = Type(scalar, self.lanes)
        return self.b.join([self.b.load(memory.kept[name], start, kind, self.mask) for start in starts])

    def _index(self, name: str, moment: Value, row: Value, part: int = 0) -> Value:
        return self.memory.start(name, moment, row) + self._unit(part)

    def _unit(self, part: int) -> Value:
        return self.unit + part * self.memory.sizes[1]

    def _load(self, place: Value, index: Value) -> Value:
        stored = self.b.load(place, index, Type(self.memory.stored, self.lanes), self.mask)
        return self.b.cast(stored, self.memory.scalar)

    def _divided(self, value: Value) -> list[Value]:
        """One value per row."""
        if len(self.rows) == 1:
            return [value]
        starts = range(0, self.kind.lanes, self.lanes)
        return [self.b.shuffle(value, value, range(start, start + self.lanes)) for start in starts]
