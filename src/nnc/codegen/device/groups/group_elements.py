"""Pointwise chains by groups of threads: each thread reads vectors of 16 bytes, several before it computes.

    element e of n     in the item e // (threads · vectors · lanes)

CUDA's threads read and write whole vectors where all addresses allow it; elsewhere, and at the end, neighbouring
threads have neighbouring elements, one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import is_aligned, thread_of
from nnc.codegen.device.preamble import PTX_TRIPLE
from nnc.codegen.frame.access import Shape, collapse, locate
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.ir.builder import BOOL, U8, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import PARAMETER, Instruction, computed, evaluate, work
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.elementwise.pointwise import NANOSECONDS_PER_UNIT, Pointwise
from nnc.core.values.derived import known

THREADS = 256
VECTOR_BYTES, MOST_LANES = 16, 8
# Elements of a thread that are read before one is computed, of a short chain and of a long one; a group's beyond them
# leave groups for all processors.
SHORT, SHORT_CHAIN, LONG_CHAIN, MANY_GROUPS = 8.0, 8, 4, 512
# Fewer are done by threads in step.
LEAST = 4096


@dataclass(frozen=True, slots=True)
class GroupElements:
    """The kernel of a chain over merged axes of `shape`, whose strides are by operand; `lanes` elements in a vector."""

    chain: Pointwise
    shape: Shape
    strides: tuple[Shape, ...]
    lanes: int
    vectors: int

    threads, paired = THREADS, False

    @classmethod
    def of(cls, chain: Pointwise, target: TargetDescription) -> GroupElements | None:
        """The kernel; None of few elements, and where a size is read."""
        if target.threads < 2 or not all(map(known, chain.shape)) or math.prod(chain.shape) < LEAST:
            return None
        operands = (*chain.inputs, *chain.outputs)
        shape, strides = collapse(chain.shape, [operand.strides for operand in operands])
        lanes = lanes_of([operand.scalar for operand in operands], shape, strides, target)
        most = SHORT_CHAIN if work(chain.instructions) <= SHORT else LONG_CHAIN
        groups = ceiling(math.prod(shape), THREADS * lanes * MANY_GROUPS)
        return cls(chain, shape, strides, lanes, max(min(most // lanes, groups), 1))

    @property
    def count(self) -> int:
        """Elements in all."""
        return math.prod(self.shape)

    @property
    def block(self) -> int:
        """Elements of an item."""
        return THREADS * self.lanes * self.vectors

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a block of neighbouring elements."""
        with phase(module, name) as w:
            writer = _ElementWriter(self, w)
            aligned = writer.aligned()
            with w.b.loop(w.begin, w.end) as item:
                start = item * self.block
                thread, vectors, element = writer.thread, writer.vectors, writer.element
                write_block(w.b, start, self.block, self.count, aligned, thread, vectors, element)
        units = len(self.strides) + work(self.chain.instructions)
        return (Phase(name, ceiling(self.count, self.block), NANOSECONDS_PER_UNIT * self.count * units),)


def lanes_of(scalars: Sequence[Scalar], shape: Shape, strides: Sequence[Shape], target: TargetDescription) -> int:
    """Elements of a vector: 16 bytes of the widest operand, where all lie in vectors or are one along the last axis."""
    lanes = min(VECTOR_BYTES // max(scalar.size for scalar in scalars), MOST_LANES)
    if target.triple != PTX_TRIPLE or not shape or shape[-1] % lanes:
        return 1
    for steps in strides:
        if steps[-1] not in (0, 1) or (steps[-1] == 1 and any(step % lanes for step in steps[:-1])):
            return 1
    return lanes


class _ElementWriter:
    """Writes the elements of an item."""

    def __init__(self, kernel: GroupElements, w: PhaseWriter) -> None:
        self.b, self.kernel, self.chain = w.b, kernel, kernel.chain
        operands = (*self.chain.inputs, *self.chain.outputs)
        self.scalars = [operand.scalar for operand in operands]
        arguments = self.chain.arguments or range(len(operands))
        self.pointers = [
            self.b.offset(w.argument(place), operand.offset, operand.scalar)
            for place, operand in zip(arguments, operands, strict=True)
        ]
        parameters = [each for each in self.chain.instructions if each.operation == PARAMETER]
        read = self.chain.read(w, len(operands))
        self.numbers: Mapping[Instruction, Value] = dict(zip(parameters, read, strict=True))
        self.thread = thread_of(self.b)

    def aligned(self) -> Value | None:
        """Whether all vectors lie at multiples of their size; None where vectors are single elements."""
        b, operands = self.b, zip(self.pointers, self.scalars, self.kernel.strides, strict=True)
        return b.all_of(
            are_aligned(b, [pointer], scalar, self.kernel.lanes) for pointer, scalar, steps in operands if steps[-1]
        )

    def vectors(self, start: Value) -> None:
        """All elements of an item that has them all: first all are read."""
        lanes, count = self.kernel.lanes, self.kernel.vectors
        places = [start + (self.thread + number * THREADS) * lanes for number in range(count)]
        self._compute([self._places(place) for place in places], lanes)

    def element(self, place: Value) -> None:
        """One alone."""
        self._compute([self._places(place)], 1)

    def _places(self, index: Value) -> list[Value]:
        """Where the element of a number is, of each operand."""
        b, shape = self.b, self.kernel.shape
        starts = locate(b, index, shape, self.kernel.strides)
        return [b.offset(p, start, s) for p, start, s in zip(self.pointers, starts, self.scalars, strict=True)]

    def _compute(self, places: Sequence[Sequence[Value]], lanes: int) -> None:
        """Vectors, instruction by instruction side by side."""
        b, chain = self.b, self.chain
        inputs = range(len(chain.inputs))
        vectors = [[self._load(place[operand], operand, lanes) for operand in inputs] for place in places]
        numbers = {parameter: b.splat(number, lanes) for parameter, number in self.numbers.items()}
        for instruction in chain.instructions:
            for values in vectors:
                known_number = numbers.get(instruction)
                values.append(evaluate(b, instruction, values, lanes) if known_number is None else known_number)
        for operand, result in enumerate(chain.results, len(chain.inputs)):
            for place, values in zip(places, vectors, strict=True):
                store_vector(b, b.cast(values[result], self.scalars[operand]), place[operand])

    def _load(self, place: Value, operand: int, lanes: int) -> Value:
        b, scalar = self.b, self.scalars[operand]
        if lanes > 1 and not self.kernel.strides[operand][-1]:
            return b.splat(b.cast(b.load(place, 0, Type(scalar)), computed(scalar)), lanes)
        return b.cast(load_vector(b, place, Type(scalar, lanes)), computed(scalar))


def write_block(
    b: Builder, start: Value, block: int, count: int, aligned: Value | None, thread: Value,
    vectors: Callable[[Value], None], element: Callable[[Value], None],
) -> None:  # fmt: skip
    """Write `block` elements from `start` on, of `count`: `vectors` all of them, `element` each that there is.

    By vectors where they are `aligned`, which None always is, and none is behind the end.
    """
    ragged = count % block != 0
    whole = b.all_of([aligned, b.compare("<=", start + block, count) if ragged else None])
    with b.when(whole):
        vectors(start)
    if whole is None:
        return
    with b.when(b.opposite(whole)), b.loop(0, block, THREADS) as step:
        place = start + step + thread
        with b.when(b.compare("<", place, count)) if ragged else b.always():
            element(place)


def are_aligned(b: Builder, pointers: Sequence[Value], scalar: Scalar, lanes: int) -> Value | None:
    """Whether vectors lie at multiples of their size from all pointers on; None of single elements."""
    return None if lanes == 1 else is_aligned(b, *pointers, nbytes=scalar.size * lanes)


def load_vector(b: Builder, place: Value, kind: Type) -> Value:
    """A vector at a multiple of its size, in one access of a thread."""
    stored = kind.of(U8) if kind.scalar == BOOL else kind
    size = kind.scalar.size * kind.lanes
    value = b.emit(stored, f"load {stored.memory}, ptr {place.text}, align {size}")
    return b.cast(value, BOOL) if kind.scalar == BOOL else value


def store_vector(b: Builder, value: Value, place: Value) -> None:
    """The same the other way."""
    if value.type.scalar == BOOL:
        kind = value.type.of(U8)
        value = b.emit(kind, f"zext {value.type} {value.text} to {kind}")
    size = value.type.scalar.size * value.type.lanes
    b.line(f"store {value.type.memory} {value.text}, ptr {place.text}, align {size}")
