"""Pointwise chains: y_j[i...] = f_j(x_0[i...], x_1[i...], ...), any broadcasting, one pass over memory.

A chain is a list of instructions over values; values are the inputs in order, then one per instruction. Everything is
computed in registers; a 16-bit float is computed in f32. Items are runs of the innermost axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, is_scattered, locate, opened_iteration
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithNumbers, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    View,
    Views,
    any_type,
    floating,
    integral,
    numeric,
)
from nnc.codegen.ir.builder import BOOL, SCALARS, Builder, Module, Number, Scalar, Type, Value
from nnc.codegen.ir.expression import CONVERT, OPERATIONS, PARAMETER, Instruction, Takes, computed, evaluate, work
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read, known, known_multiple
from nnc.graph import Op
from nnc.ops.elementwise import elementary, integers
from nnc.ops.elementwise import pointwise as ops
from nnc.ops.elementwise.pointwise import AffineAttrs, CastAttrs
from nnc.ops.operators import operators_of

CHUNK = 4096
SIDE_BY_SIDE = 4
NANOSECONDS_PER_UNIT = 0.3


@dataclass(frozen=True, slots=True)
class Pointwise(WithoutMemory, WithNumbers, WithSizes):
    """A chain over `shape`; `results[j]` is the value that `outputs[j]` receives.

    `arguments` tells where the operands are in the array of addresses: in order, when it is empty. `numbers` are the
    values of the chain's parameters: no part of the code, they stand behind the addresses, a word each.
    """

    shape: Shape
    inputs: tuple[StridedAccess, ...]
    outputs: tuple[StridedAccess, ...]
    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]
    arguments: tuple[int, ...] = ()
    numbers: tuple[Number, ...] = field(default=(), compare=False)

    @property
    def kinds(self) -> tuple[Scalar, ...]:
        """Those of the parameters, in the order of their places."""
        parameters = [parameter for parameter in self.instructions if parameter.operation == PARAMETER]
        return tuple(computed(SCALARS[parameter.result]) for parameter in parameters)

    def opened(self, read: Read, target: TargetDescription) -> Pointwise:
        """All sizes are read."""
        shape, operands = opened_iteration(self.shape, (*self.inputs, *self.outputs), read)
        count = len(self.inputs)
        return replace(self, shape=shape, inputs=operands[:count], outputs=operands[count:])

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a run of at most CHUNK elements of the innermost axis, on a device of fewer."""
        loops = _Loops(self, module.target)
        with phase(module, name) as writer:
            loops.write(writer)
        return (Phase(name, loops.items, loops.cost),)


class _Loops:
    """The loops of one chain: rows of the outer axes, runs of the inner axis, vectors of a run."""

    def __init__(self, chain: Pointwise, target: TargetDescription) -> None:
        self.chain = chain
        operands = (*chain.inputs, *chain.outputs)
        shape, strides = collapse(chain.shape, [operand.strides for operand in operands])
        if not shape:
            shape, strides = (1,), tuple((0,) for _ in operands)
        self.outer, self.inner = shape[:-1], shape[-1]
        self.strides = strides
        self.scalars = [operand.scalar for operand in operands]
        self.offsets = [operand.offset for operand in operands]
        self.lanes = target.lanes(8 * max(self._widths()), apart=is_scattered(strides))
        self.chunk = target.run(CHUNK)
        self.runs = ceiling(self.inner, self.chunk)
        self.items = math.prod(self.outer) * self.runs
        vectors = math.prod(self.outer) * ceiling(self.inner, self.lanes)
        self.cost = vectors * NANOSECONDS_PER_UNIT * (len(operands) + work(chain.instructions))

    def _widths(self) -> list[int]:
        named = [SCALARS[i.result] for i in self.chain.instructions if i.result]
        wide = [computed(scalar).size for scalar in (*self.scalars, *named) if scalar != BOOL]
        return wide or [1]

    def write(self, w: PhaseWriter) -> None:
        """for item: for vector of the item's run: load, compute, store"""
        b = w.b
        arguments = self.chain.arguments or range(len(self.scalars))
        pointers = [
            b.offset(w.argument(index), offset, scalar)
            for index, offset, scalar in zip(arguments, self.offsets, self.scalars, strict=True)
        ]
        numbers = self._parameters(w)
        if not self.outer:
            low = w.begin * self.chunk
            self._run(b, pointers, numbers, low, b.least(w.end * self.chunk, self.inner))
            return
        if self.runs > 1:
            with b.loop(w.begin, w.end) as item:
                row, run = b.divided(item, self.runs, self.items)
                low = run * self.chunk
                self._run(b, self._places(b, pointers, row), numbers, low, b.least(low + self.chunk, self.inner))
            return
        for places in self._rows(w, pointers):
            self._run(b, places, numbers, b.constant(0), b.constant(self.inner))

    def _rows(self, w: PhaseWriter, pointers: Sequence[Value]) -> Iterator[list[Value]]:
        """Where the operands of each row begin: positions of all outer axes but the last are found once for its rows.

        Found for each row they take 1.2 to 1.6 of the time, of rows that are as short as a vector.
        """
        b, last = w.b, self.outer[-1]
        if len(self.outer) == 1:
            with b.loop(w.begin, w.end) as row:
                yield self._places(b, pointers, row)
            return
        with b.loop(w.begin // last, (w.end + (last - 1)) // last) as block:
            first = block * last
            starts = locate(b, block, self.outer[:-1], [strides[:-2] for strides in self.strides])
            low, high = b.greatest(w.begin - first, 0), b.least(w.end - first, last)
            with b.loop(low, high) as row:
                steps = [start + row * strides[-2] for start, strides in zip(starts, self.strides, strict=True)]
                yield [b.offset(p, step, s) for p, step, s in zip(pointers, steps, self.scalars, strict=True)]

    def _places(self, b: Builder, pointers: Sequence[Value], row: Value) -> list[Value]:
        """Where the operands of a row begin."""
        starts = locate(b, row, self.outer, [strides[:-1] for strides in self.strides])
        return [b.offset(p, start, s) for p, start, s in zip(pointers, starts, self.scalars, strict=True)]

    def _parameters(self, w: PhaseWriter) -> dict[Instruction, Value]:
        """The chain's parameters, loaded from behind the addresses."""
        parameters = [parameter for parameter in self.chain.instructions if parameter.operation == PARAMETER]
        numbers = self.chain.read(w, len(self.scalars))
        return {parameter: w.b.splat(number, self.lanes) for parameter, number in zip(parameters, numbers, strict=True)}

    def _run(
        self, b: Builder, places: Sequence[Value], numbers: Mapping[Instruction, Value], low: Value, high: Value
    ) -> None:
        """Elements [low, high): several vectors at a time, whole vectors, then a masked one when the axis is ragged."""
        splats = self._splats(b, places)
        for count in (SIDE_BY_SIDE, 1) if self._is_long() else (1,):
            size = count * self.lanes
            is_whole = known_multiple(self.inner, size)
            whole = high if is_whole else (high - low) // size * size + low
            if not known(self.inner) or self.inner >= size:
                with b.loop(low, whole, size) as index:
                    indices = [index + each * self.lanes for each in range(count)]
                    self._block(b, places, splats, numbers, indices, None)
            if is_whole:
                return
            low = whole
        rest = high - low
        with b.when(b.compare(">", rest, 0)):
            self._block(b, places, splats, numbers, [low], b.mask(rest, self.lanes))

    def _is_long(self) -> bool:
        """A chain on whole runs whose operations wait for each other: a processor sees no other vector's meanwhile."""
        return len(self.chain.instructions) > 1 and (not known(self.inner) or self.inner >= SIDE_BY_SIDE * self.lanes)

    def _splats(self, b: Builder, places: Sequence[Value]) -> dict[int, Value]:
        """Inputs that do not move along the inner axis, loaded once per run."""
        inputs = range(len(self.chain.inputs))
        still = [index for index in inputs if self.strides[index][-1] == 0]
        return {index: self._load_splat(b, places[index], self.scalars[index]) for index in still}

    def _load_splat(self, b: Builder, place: Value, scalar: Scalar) -> Value:
        return b.splat(b.cast(b.load(place, 0, Type(scalar)), computed(scalar)), self.lanes)

    def _block(
        self,
        b: Builder,
        places: Sequence[Value],
        splats: Mapping[int, Value],
        numbers: Mapping[Instruction, Value],
        indices: Sequence[Value],
        mask: Value | None,
    ) -> None:
        """The vectors at `indices`, instruction by instruction side by side."""
        inputs = range(len(self.chain.inputs))
        vectors = [
            [splats[p] if p in splats else self._load(b, p, places[p], index, mask) for p in inputs]
            for index in indices
        ]
        for instruction in self.chain.instructions:
            for values in vectors:
                known = numbers.get(instruction)
                values.append(evaluate(b, instruction, values, self.lanes) if known is None else known)
        for position, result in enumerate(self.chain.results, len(self.chain.inputs)):
            for index, values in zip(indices, vectors, strict=True):
                self._store(b, position, places[position], index, values[result], mask)

    def _load(self, b: Builder, position: int, place: Value, index: Value, mask: Value | None) -> Value:
        scalar, stride = self.scalars[position], self.strides[position][-1]
        kind = Type(scalar, self.lanes)
        read = b.load(place, index, kind, mask) if stride == 1 else b.gather(place, index * stride, stride, kind, mask)
        return b.cast(read, computed(scalar))

    def _store(self, b: Builder, position: int, place: Value, index: Value, value: Value, mask: Value | None) -> None:
        scalar, stride = self.scalars[position], self.strides[position][-1]
        stored = b.cast(value, scalar)
        if stride == 1 or (stride == 0 and self.inner == 1):
            b.store(stored, place, index, mask)
        else:
            b.scatter(stored, place, index * stride, stride, mask)


def _pointwise(name: str) -> Generate:
    def generate(attrs: object, inputs: Views, outputs: Views) -> Generator:
        return _chain((Instruction(name, tuple(range(len(inputs)))),), inputs, outputs[0])

    return generate


def _chain(
    instructions: tuple[Instruction, ...], inputs: Views, output: View, numbers: tuple[Number, ...] = ()
) -> Pointwise:
    """The chain whose last value is the output."""
    rank = len(output.shape)
    sources = tuple(view.access(rank) for view in inputs)
    last = len(inputs) + len(instructions) - 1
    return Pointwise(output.shape, sources, (output.whole,), instructions, (last,), numbers=numbers)


def _affine(attrs: AffineAttrs, inputs: Views, outputs: Views) -> Generator:
    """Its numbers are read when it runs, so that one kernel serves every rate of a schedule."""
    kind = outputs[0].scalar.name
    scale, shift = (Instruction(PARAMETER, numbers=(place,), result=kind) for place in range(2))
    steps = (scale, Instruction("multiply", (0, 1)), shift, Instruction("add", (2, 3)))
    return _chain(steps, inputs, outputs[0], (attrs.scale, attrs.shift))


def _cast(attrs: CastAttrs, inputs: Views, outputs: Views) -> Generator:
    return _chain((Instruction(CONVERT, (0,), result=attrs.dtype.name),), inputs, outputs[0])


def pointwise_row(op: Op[Any]) -> KernelRow:
    """The row of an operator without attributes whose operation has its name."""
    refuse = REFUSALS[OPERATIONS[op.name].takes]
    return KernelRow(
        _pointwise(op.name), lambda attrs, inputs, outputs: refuse(attrs, inputs, ()), strided=True, scattered=True
    )


REFUSALS = {
    Takes.ANYTHING: any_type, Takes.NUMBERS: numeric, Takes.INTEGERS: integral, Takes.FLOATS: floating,
}  # fmt: skip
ROWS: Rows = {
    ops.CAST: KernelRow(_cast, any_type, strided=True, scattered=True),
    **{op: pointwise_row(op) for op in operators_of(ops, elementary, integers) if op.name in OPERATIONS},
    ops.AFFINE: KernelRow(_affine, numeric, strided=True, scattered=True),
}
