"""Matrix product of elements of 16 bits by instructions that multiply matrices: c = a b + bias, then the epilogue.

An item is a tile of c. Operands may have any strides; what is contiguous and begins at multiples of 16 bytes is copied
16 bytes at a time. Items go down some rows of tiles, and then one column on, so that what runs at once reads little.
"""

from __future__ import annotations

import math

from nnc.classes import dataclass
from nnc.codegen.device.groups.matrices.matrix_forms import FORMS, form_of
from nnc.codegen.device.groups.matrices.matrix_sums import THREADS, MatrixSums, TileForm, TileTarget
from nnc.codegen.device.groups.matrices.slices import CHUNK, MatrixSide
from nnc.codegen.device.groups.products import operands_of
from nnc.codegen.device.groups.results import ResultWriter
from nnc.codegen.device.groups.tiles import tiled
from nnc.codegen.frame.kernel import PhaseWriter, ceiling
from nnc.codegen.ir.builder import BF16, F16, F32, Builder, Module, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm

# Rows of tiles that items go down before they go one column on.
BAND = 16


@dataclass(frozen=True, slots=True)
class MatrixGroupProduct:
    """The kernel of a product in tiles of a form."""

    product: Gemm
    form: TileForm

    threads = THREADS

    @property
    def paired(self) -> bool:
        """As the form says."""
        return self.form.paired

    @classmethod
    def of(cls, product: Gemm, target: TargetDescription) -> MatrixGroupProduct | None:
        """The kernel of a product of 16 bits; None where the device has no such instructions, or for a few rows."""
        p = product.problem
        if p.scalar not in (BF16, F16) or p.width or p.blocks is not None or not p.inner:
            return None
        if min(p.rows, p.columns) < CHUNK:
            return None
        form = form_of(target, math.prod(p.batch), p.rows, p.columns, p.inner)
        return None if form is None else cls(product, form)

    @classmethod
    def in_tiles(cls, product: Gemm, target: TargetDescription) -> dict[str, MatrixGroupProduct]:
        """One for each form that the device has, where there is one."""
        rows = () if cls.of(product, target) is None else FORMS[target.processor]
        return {row.name: cls(product, row.form) for row in rows}

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a tile."""
        sides = self.form.height, self.form.width
        return (tiled(module, name, self.product.problem, sides, F32, self._write),)

    def _write(self, writer: PhaseWriter, item: Value) -> None:
        b, p, form = writer.b, self.product.problem, self.form
        down, across = ceiling(p.rows, form.height), ceiling(p.columns, form.width)
        tile, matrix = item % (down * across), item // (down * across)
        tile_row, tile_column = in_bands(b, tile, down, across)
        row, column = tile_row * form.height, tile_column * form.width
        left, right, c = operands_of(writer, self.product, matrix)
        sides = (
            MatrixSide(b, p.scalar, left, p.a_rows, p.a_inner, row, p.rows, form.height, p.inner),
            MatrixSide(b, p.scalar, right, p.b_columns, p.b_inner, column, p.columns, form.width, p.inner),
        )
        results = ResultWriter(p.bias, self.product.epilogue, p.scalar, p.work, writer, c)
        target = TileTarget(row, column, p.rows, p.columns, lambda line: line * p.c_rows, b.constant(0))
        MatrixSums(results, form, p.inner).write(sides, target)


def in_bands(b: Builder, tile: Value, down: int, across: int) -> tuple[Value, Value]:
    """The row and the column of a tile: down the rows of a band of them, then one column on."""
    if down <= BAND:
        return tile % down, tile // down
    band, within = tile // (BAND * across), tile % (BAND * across)
    if down % BAND == 0:
        return band * BAND + within % BAND, within // BAND
    rows = b.least(b.constant(down) - band * BAND, BAND)
    return band * BAND + within % rows, within // rows
