"""Products with weights in blocks of a few bits, and their values.

    y[r, j] = sum_k x[r, k] · W[j, k] + bias[j]

Of a few rows of x nothing is packed, and each byte of weights is read once, as it is: bytes are multiplied with rows of
integers (`nnc.codegen.frame.block_sums`). Many rows are products in register tiles, whose panels are made of blocks
(`nnc.codegen.frame.block_panels`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.block_panels import BlockMatrix
from nnc.codegen.frame.block_sums import SUMMED, SUMS, IntegerRow, folded, outputs_together
from nnc.codegen.frame.block_values import WIDTH, block_vectors
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Views, any_type
from nnc.codegen.ir.builder import F32, U8, Builder, LocalVariable, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.core.values import dtype
from nnc.core.values.blocks import FORMATS, BlockFormat
from nnc.core.values.derived import Read, known
from nnc.ops.quantization import blocks as ops
from nnc.ops.quantization.blocks import BlockAttrs, BlockProductAttrs

# Rows that read bytes; registers of weights of an item, which read the same x (one: 0.8 of the rate of eight rows).
MOST_ROWS, REGISTERS = 8, 2
# Of q4_1 in 512 bits, the fastest there is.
NANOSECONDS_PER_PRODUCT = 0.04
# Items ahead whose bytes are asked for: rows are too short for the processor to see where reading goes on. From memory
# 9.4, 17 and 24 billion weights a second without, one and two ahead, as many as from a cache (q4_1, one thread).
AHEAD = 2
# Blocks of an item that writes values; nanoseconds for a vector of them.
CHUNK, NANOSECONDS_PER_VECTOR = 64, 2.0


@dataclass(frozen=True, slots=True)
class BlockRows:
    """A few `rows` of x times `outputs` rows of weights. Operands: x, packed, bias if there is one, y."""

    format: str
    outputs: int
    inner: int
    rows: int
    bias: bool = False

    @property
    def form(self) -> BlockFormat:
        """The format."""
        return FORMATS[self.format]

    @property
    def row(self) -> IntegerRow:
        """How a row of x is held."""
        return IntegerRow(self.format, self.inner)

    def together(self, target: TargetDescription) -> int:
        """Outputs of an item."""
        return REGISTERS * outputs_together(target)

    def workspace(self, target: TargetDescription) -> int:
        """None: each worker makes integers of x for itself, without a meeting."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """The rows of x."""
        return self.rows * self.row.places(target)[-1]

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is some outputs."""
        with phase(module, name) as w:
            if self.outputs:
                self._write(w)
        reading = module.target.machine.reading(self.outputs * self.form.row_bytes(self.inner))
        cost = max(reading, NANOSECONDS_PER_PRODUCT * self.rows * self.outputs * self.inner)
        return (Phase(name, ceiling(self.outputs, self.together(module.target)), cost),)

    def _write(self, w: PhaseWriter) -> None:
        """x as integers, and for some outputs at a time all blocks of their rows"""
        b, form, row_bytes = w.b, self.form, self.form.row_bytes(self.inner)
        wide, size = outputs_together(b.target), self.row.places(b.target)[-1]
        with b.loop(w.begin * self.together(b.target), (w.begin + AHEAD) * self.together(b.target)) as output:
            self._ask(b, b.offset(w.argument(1), output * row_bytes, U8), row_bytes)
        places = [b.offset(w.scratch, row * size, U8) for row in range(self.rows)]
        for row, place in enumerate(places):
            self.row.write(b, b.offset(w.argument(0), row * self.inner, F32), place)
        packed, zero = w.argument(1), b.zero(Type(F32, SUMS * wide))
        with b.loop(w.begin, w.end) as item:
            first = item * self.together(b.target)
            outputs = [b.least(first + place, self.outputs - 1) for place in range(self.together(b.target))]
            starts = [b.offset(packed, output * row_bytes, U8) for output in outputs]
            registers = [starts[place : place + wide] for place in range(0, len(starts), wide)]
            sums = [[b.variable(zero) for _ in places] for _ in registers]
            ahead = b.offset(packed, (first + AHEAD * self.together(b.target)) * row_bytes, U8)
            with b.loop(0, self.inner // form.size) as number:
                part = self.together(b.target) * form.bytes
                self._ask(b, b.offset(ahead, number * part, U8), part)
                for lines, totals in zip(registers, sums, strict=True):
                    blocks = [b.offset(start, number * form.bytes, U8) for start in lines]
                    for group in SUMMED[self.format].groups(b, blocks):
                        for place, total in zip(places, totals, strict=True):
                            total.set(self.row.add(b, place, number, group, total.get()))
            for index, totals in enumerate(sums):
                self._finish(w, first + index * wide, totals)

    def _ask(self, b: Builder, place: Value, count: int) -> None:
        """Ask for so many bytes."""
        for line in range(0, count, b.target.machine.line_bytes):
            b.prefetch(place, line, U8)

    def _finish(self, w: PhaseWriter, first: Value, totals: Sequence[LocalVariable]) -> None:
        """y[row, output] = sum + bias"""
        b = w.b
        columns = [folded(b, total.get()) for total in totals]
        for place in range(len(columns[0])):
            output = first + place
            with b.when(b.compare("<", output, self.outputs)):
                bias = b.load(w.argument(2), output, Type(F32)) if self.bias else None
                for row, column in enumerate(columns):
                    whole = column[place] if bias is None else column[place] + bias
                    b.store(whole, w.argument(2 + self.bias), output + row * self.outputs)


@dataclass(frozen=True, slots=True)
class BlockValues(WithoutMemory, WithSizes):
    """`blocks` one behind the other as f32. Operands: packed, y."""

    format: str
    blocks: int

    def opened(self, read: Read, target: TargetDescription) -> BlockValues:
        """How many blocks there are: rows of a table follow the tokens."""
        return replace(self, blocks=read(self.blocks))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is some blocks."""
        form, chunk = FORMATS[self.format], module.target.share(CHUNK)
        with phase(module, name) as w:
            b = w.b
            if not known(self.blocks) or self.blocks:
                end = b.least(w.end * chunk, self.blocks)
                with b.loop(w.begin * chunk, end) as number:
                    place = b.offset(w.argument(1), number * form.size, F32)
                    block = b.offset(w.argument(0), number * form.bytes, U8)
                    for start, values in block_vectors(b, self.format, block):
                        b.store(values, place, start)
        vectors = self.blocks * (form.size // WIDTH)
        return (Phase(name, ceiling(self.blocks, chunk), NANOSECONDS_PER_VECTOR * vectors),)


def _values(attrs: BlockAttrs, inputs: Views, outputs: Views) -> BlockValues:
    return BlockValues(attrs.format, inputs[0].elements // attrs.form.bytes)


def _product(attrs: BlockProductAttrs, inputs: Views, outputs: Views) -> Generator:
    _, packed, *bias = inputs
    (y,) = outputs
    elements, columns = attrs.form.row_elements(packed.shape[1]), y.shape[-1]
    rows = math.prod(y.shape[:-1])
    if attrs.transpose_b and rows <= MOST_ROWS:
        return BlockRows(attrs.format, columns, elements, rows, bool(bias))
    matrix = BlockMatrix(attrs.format, packed.shape[0], elements, by_rows=attrs.transpose_b)
    inner = elements if attrs.transpose_b else packed.shape[0]
    return Gemm(
        MatrixProduct(F32, (), rows, columns, inner, (), inner, 1, (), 1, inner, (), columns, bool(bias), blocks=matrix)
    )


def _native(attrs: BlockProductAttrs, inputs: Specs, outputs: Specs) -> str:
    x, packed = inputs[:2]
    if x.dtype is not dtype.F32:
        return f"element type {x.dtype}"
    return "an empty operand" if any(spec.elements == 0 for spec in (x, packed, *outputs)) else ""


ROWS: Rows = {
    ops.DEQUANTIZE_BLOCKS: KernelRow(_values, any_type),
    ops.BLOCK_PRODUCT: KernelRow(_product, _native),
}
