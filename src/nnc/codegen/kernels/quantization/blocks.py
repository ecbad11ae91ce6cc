"""Products with weights in blocks of a few bits, and their values.

    y[r, j] = sum_k x[r, k] · W[j, k] + bias[j]

Of a few rows of x nothing is packed, and each byte of weights is read once: the lanes of a vector share the sum of an
output, and an item is a few outputs, which read the same vectors of x. Many rows are products in register tiles, whose
panels are made of blocks (`nnc.codegen.frame.block_panels`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.block_panels import BlockMatrix
from nnc.codegen.frame.block_values import WIDTH, block_vectors
from nnc.codegen.frame.kernel import Generator, Phase, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Views, any_type
from nnc.codegen.ir.builder import F32, U8, LocalVariable, Module, Type, Value
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.core.values import dtype
from nnc.core.values.blocks import FORMATS, BlockFormat
from nnc.core.values.derived import Read, known
from nnc.ops.quantization import blocks as ops
from nnc.ops.quantization.blocks import BlockAttrs, BlockProductAttrs

# Rows that read bytes; sums that are kept in registers, of outputs times rows; outputs of an item.
MOST_ROWS, MOST_SUMS, MOST_OUTPUTS = 8, 16, 4
# Blocks of an item that writes values; nanoseconds for a vector of them.
CHUNK, NANOSECONDS_PER_VECTOR = 64, 2.0


@dataclass(frozen=True, slots=True)
class BlockRows(WithoutMemory):
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
    def together(self) -> int:
        """Outputs of an item."""
        return min(MOST_OUTPUTS, MOST_SUMS // self.rows)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a few outputs."""
        with phase(module, name) as w:
            if self.outputs:
                self._write(w)
        cost = module.target.machine.reading(self.outputs * self.form.row_bytes(self.inner))
        return (Phase(name, ceiling(self.outputs, self.together), cost),)

    def _write(self, w: PhaseWriter) -> None:
        """for a few outputs: the lanes walk k"""
        b, form, row_bytes = w.b, self.form, self.form.row_bytes(self.inner)
        x, packed, zero = w.argument(0), w.argument(1), b.zero(Type(F32, WIDTH))
        with b.loop(w.begin, w.end) as item:
            first = item * self.together
            outputs = [b.least(first + place, self.outputs - 1) for place in range(self.together)]
            starts = [b.offset(packed, output * row_bytes, U8) for output in outputs]
            sums = [[b.variable(zero) for _ in range(self.rows)] for _ in outputs]
            with b.loop(0, self.inner // form.size) as number:
                blocks = [b.offset(start, number * form.bytes, U8) for start in starts]
                left = [b.offset(x, number * form.size + row * self.inner, F32) for row in range(self.rows)]
                self._add(w, blocks, left, sums)
            for place, (output, group) in enumerate(zip(outputs, sums, strict=True)):
                with b.when(b.compare("<", first + place, self.outputs)) if place else b.always():
                    self._finish(w, output, group)

    def _add(
        self, w: PhaseWriter, blocks: Sequence[Value], left: Sequence[Value], sums: Sequence[Sequence[LocalVariable]]
    ) -> None:
        """sums[output][row] += W[output, k + lane] · x[row, k + lane] over a block"""
        b, kind = w.b, Type(F32, WIDTH)
        for vectors in zip(*(block_vectors(b, self.format, block) for block in blocks), strict=True):
            factors = [b.load(row, vectors[0][0], kind) for row in left]
            for (_, weights), group in zip(vectors, sums, strict=True):
                for factor, total in zip(factors, group, strict=True):
                    total.set(b.fma(weights, factor, total.get()))

    def _finish(self, w: PhaseWriter, output: Value, group: Sequence[LocalVariable]) -> None:
        """y[row, output] = sum + bias"""
        b = w.b
        bias = b.load(w.argument(2), output, Type(F32)) if self.bias else None
        for row, total in enumerate(group):
            whole = b.fold(total.get(), "add")
            whole = whole if bias is None else whole + bias
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
        form = FORMATS[self.format]
        with phase(module, name) as w:
            b = w.b
            if not known(self.blocks) or self.blocks:
                end = b.least(w.end * CHUNK, self.blocks)
                with b.loop(w.begin * CHUNK, end) as number:
                    place = b.offset(w.argument(1), number * form.size, F32)
                    block = b.offset(w.argument(0), number * form.bytes, U8)
                    for start, values in block_vectors(b, self.format, block):
                        b.store(values, place, start)
        vectors = self.blocks * (form.size // WIDTH)
        return (Phase(name, ceiling(self.blocks, CHUNK), NANOSECONDS_PER_VECTOR * vectors),)


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
