"""Matrix product of groups of threads: c[m, n] = sum_k a[m, k] * b[k, n] + bias[n], then the epilogue.

An item is a tile of c, whose operands may have any strides. Elements of 16 bits are summed in f32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from nnc.classes import dataclass
from nnc.codegen.device.groups.results import ResultWriter
from nnc.codegen.device.groups.shared_memory import thread_of
from nnc.codegen.device.groups.tiles import (
    PRODUCT_COSTS,
    SIDE,
    THREADS,
    TOGETHER,
    TURNED_COSTS,
    Element,
    TileSums,
    fitting_shares,
    places_of,
    shares_of,
    tiled,
)
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import PhaseWriter, ceiling
from nnc.codegen.ir.builder import Builder, Module, Scalar, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm


@dataclass(frozen=True, slots=True)
class GroupProduct:
    """The kernel of a product whose threads sum `height` x `width` elements each."""

    product: Gemm
    height: int
    width: int

    threads, paired = THREADS, False

    @classmethod
    def of(cls, product: Gemm, target: TargetDescription) -> GroupProduct | None:
        """The kernel of a product; None where b is in blocks, or where it is of a row or a column."""
        p = product.problem
        if p.width or p.blocks is not None or min(p.rows, p.columns) < TOGETHER or not p.inner:
            return None
        costs = TURNED_COSTS if p.b_inner == 1 and p.b_columns != 1 else PRODUCT_COSTS
        return cls(product, *shares_of(target, p.work, math.prod(p.batch), p.rows, p.columns, p.inner, costs))

    @classmethod
    def in_tiles(cls, product: Gemm, target: TargetDescription) -> dict[str, GroupProduct]:
        """One for each tile for which a group has memory, where there is one."""
        p = product.problem
        if cls.of(product, target) is None:
            return {}
        shares = fitting_shares(target, p.work, p.rows, p.columns, {**PRODUCT_COSTS, **TURNED_COSTS})
        return {f"tiles {SIDE * high}x{SIDE * wide}": cls(product, high, wide) for high, wide in shares}

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a tile."""
        p = self.product.problem
        return (tiled(module, name, p, (SIDE * self.height, SIDE * self.width), p.work, self._write),)

    def _write(self, w: PhaseWriter, item: Value) -> None:
        """One tile."""
        b, p = w.b, self.product.problem
        height, width = SIDE * self.height, SIDE * self.width
        down, across = ceiling(p.rows, height), ceiling(p.columns, width)
        tile, matrix = item % (down * across), item // (down * across)
        row, column = tile // across * height, tile % across * width
        left, right, c = operands_of(w, self.product, matrix)
        thread, kinds = thread_of(b), (p.scalar, p.work)
        sums = TileSums(b, thread, p.work, p.inner, self.height, self.width)
        totals = sums.of(
            StridedSide(b, thread, kinds, left, p.a_rows, p.a_inner, row, p.rows, height, p.inner, sums.steps),
            StridedSide(b, thread, kinds, right, p.b_columns, p.b_inner, column, p.columns, width, p.inner, sums.steps),
        )
        results = ResultWriter(p.bias, self.product.epilogue, p.scalar, p.work, w, c)
        narrow, low = p.columns % width, p.rows % height
        for place, line in enumerate(sums.columns):
            here = column + line
            with b.when(b.compare("<", here, p.columns)) if narrow else b.always():
                beside = results.beside(here)
                for down_line, registers in zip(sums.rows, totals, strict=True):
                    there = row + down_line
                    with b.when(b.compare("<", there, p.rows)) if low else b.always():
                        results.write(registers[place].get(), there * p.c_rows + here, beside)


def operands_of(w: PhaseWriter, product: Gemm, matrix: Value) -> Iterator[Value]:
    """Where a, b and c of a matrix of the batch begin."""
    b, p = w.b, product.problem
    starts = locate(b, matrix, p.batch, (p.a_batch, p.b_batch, p.c_batch)) if p.batch else [b.constant(0)] * 3
    places = 0, 1, ResultWriter.position(p.bias, product.epilogue)
    return (b.offset(w.argument(place), start, p.scalar) for place, start in zip(places, starts, strict=True))


@dataclass(frozen=True, slots=True)
class StridedSide:
    """A matrix with strides `along` the tile and for each `step`, whose tile has `lines` lines of `size` from `first`.

    `kinds` are its type in memory and that of the sums, `inner` the steps that there are,
    `steps` those of a slice.
    """

    b: Builder
    thread: Value
    kinds: tuple[Scalar, Scalar]
    source: Value
    along: int
    step: int
    first: Value
    size: int
    lines: int
    inner: int
    steps: int

    def places(self) -> Iterator[tuple[Value, Value]]:
        """Neighbours read what lies side by side."""
        return places_of(self.thread, self.lines, along_k=self.step == 1 and self.along != 1, steps=self.steps)

    def elements(self, start: Value) -> list[Element]:
        """This thread's elements of the slice."""
        b, elements = self.b, list[Element]()
        for line, step in self.places():
            place, k = self.first + line, start + step
            inside = [
                b.compare("<", place, self.size) if self.size % self.lines else None,
                b.compare("<", k, self.inner) if self.inner % self.steps else None,
            ]
            elements.append((place * self.along + k * self.step, b.all_of(inside)))
        return elements
