"""Quantization: q = saturate(round(x / scale) + zero), its inverse, and scales and zeros by the range of x."""

from __future__ import annotations

import math
from collections.abc import Callable

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import PhaseWriter, WithoutScratch, ceiling, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Views, any_type
from nnc.codegen.ir.builder import U8, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.rounding import round_half_even
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.elementwise.pointwise import pointwise_row
from nnc.codegen.kernels.products.gemv import Gemv
from nnc.core.values.dtype import F32
from nnc.ops.quantization import quantization as ops
from nnc.ops.quantization.quantization import DynamicQuantizeAttrs
from nnc.ops.rules import NoAttrs

CHUNK, LEVELS = 16384, 255
NANOSECONDS_PER_VECTOR = 1.5
# Rows that share the bytes of weights read once; with more of them, floats in tiles take less.
MOST_ROWS = 8


@dataclass(frozen=True, slots=True)
class DynamicQuantization(WithoutScratch):
    """`slices` of `length` elements, each with a scale and a zero. Operands: x, y, scale, zero."""

    scalar: Scalar
    slices: int
    length: int

    @property
    def work(self) -> Scalar:
        """What ranges and scales are computed in."""
        return computed(self.scalar)

    @property
    def chunks(self) -> int:
        """Parts of a slice."""
        return max(ceiling(self.length, CHUNK), 1)

    def workspace(self, target: TargetDescription) -> int:
        """The least and the largest element of each part."""
        return aligned(2 * self.slices * self.chunks * self.work.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Ranges of parts; scales and zeros of slices; elements."""
        items, cost = self.slices * self.chunks, self._cost(module.target)
        with phase(module, f"{name}_ranges") as w:
            self._ranges(w)
        with phase(module, f"{name}_scales") as w:
            self._scales(w)
        with phase(module, f"{name}_elements") as w:
            self._elements(w)
        return (
            Phase(f"{name}_ranges", items, cost),
            Phase(f"{name}_scales", self.slices, float(items)),
            Phase(f"{name}_elements", items, 2 * cost),
        )

    def _cost(self, target: TargetDescription) -> float:
        return NANOSECONDS_PER_VECTOR * self.slices * ceiling(self.length, target.lanes(8 * self.work.size))

    def _part(self, b: Builder, item: Value) -> tuple[Value, Value]:
        """Where a part begins, and how many elements it has."""
        first = item % self.chunks * CHUNK
        return item // self.chunks * self.length + first, b.least(self.length - first, CHUNK)

    def _vectors(self, b: Builder, count: Value, body: Callable[[Value, Value | None], None]) -> None:
        """body(index, mask) for whole vectors, and for what is left."""
        lanes = b.vector(self.work).lanes
        whole = count // lanes * lanes
        with b.loop(0, whole, lanes) as index:
            body(index, None)
        with b.when(b.compare("<", whole, count)):
            body(whole, b.mask(count - whole, lanes))

    def _read(self, b: Builder, x: Value, index: Value, mask: Value | None) -> Value:
        return b.cast(b.load(x, index, Type(self.scalar, b.vector(self.work).lanes), mask), self.work)

    def _ranges(self, w: PhaseWriter) -> None:
        """low = min(x, 0), high = max(x, 0); what is not read is 0."""
        b = w.b
        with b.loop(w.begin, w.end) as item:
            start, count = self._part(b, item)
            x = b.offset(w.argument(0), start, self.scalar)
            low, high = self._bounds(b, b.vector(self.work))

            def body(index: Value, mask: Value | None) -> None:
                value = self._read(b, x, index, mask)
                low.set(b.minimum(low.get(), value))
                high.set(b.maximum(high.get(), value))

            self._vectors(b, count, body)
            b.store(b.fold(low.get(), "minimum"), w.argument(4), item * 2)
            b.store(b.fold(high.get(), "maximum"), w.argument(4), item * 2 + 1)

    def _bounds(self, b: Builder, kind: Type) -> tuple[LocalVariable, LocalVariable]:
        return b.variable(b.zero(kind)), b.variable(b.zero(kind))

    def _scales(self, w: PhaseWriter) -> None:
        """scale = (high - low) / 255, 1 where that is 0; zero = round(-low / scale)"""
        b, kind = w.b, Type(self.work)
        with b.loop(w.begin, w.end) as item:
            low, high = self._bounds(b, kind)
            with b.loop(0, self.chunks) as chunk:
                place = (item * self.chunks + chunk) * 2
                low.set(b.minimum(low.get(), b.load(w.argument(4), place, kind)))
                high.set(b.maximum(high.get(), b.load(w.argument(4), place + 1, kind)))
            least, most = low.get(), high.get()
            scale = (most - least) / b.constant(LEVELS, kind)
            scale = b.choose(b.compare("==", most, least), b.constant(1, kind), scale)
            b.store(scale, w.argument(2), item)
            b.store(b.cast(round_half_even(b, b.negative(least) / scale), U8), w.argument(3), item)

    def _elements(self, w: PhaseWriter) -> None:
        """y = saturate(round(x / scale) + zero)"""
        b = w.b
        lanes = b.vector(self.work).lanes
        with b.loop(w.begin, w.end) as item:
            start, count = self._part(b, item)
            x, y = b.offset(w.argument(0), start, self.scalar), b.offset(w.argument(1), start, U8)
            scale = b.splat(b.load(w.argument(2), item // self.chunks, Type(self.work)), lanes)
            zero = b.splat(b.cast(b.load(w.argument(3), item // self.chunks, Type(U8)), self.work), lanes)

            def body(index: Value, mask: Value | None) -> None:
                rounded = round_half_even(b, self._read(b, x, index, mask) / scale)
                b.store(b.cast(rounded + zero, U8), y, index, mask)

            self._vectors(b, count, body)


def _dynamic_quantize(attrs: DynamicQuantizeAttrs, inputs: Views, outputs: Views) -> DynamicQuantization:
    (x,) = inputs
    leading = attrs.leading
    return DynamicQuantization(x.scalar, math.prod(x.shape[:leading]), math.prod(x.shape[leading:]))


def _dequantized_product(attrs: NoAttrs, inputs: Views, outputs: Views) -> Gemv:
    _, q, _, *bias = inputs
    (y,) = outputs
    inner, columns = q.shape
    rows = math.prod(y.shape[:-1])
    return Gemv(y.scalar, columns, inner, 1, columns, 1, 1, columns if bias else 0, rows, q.scalar)


def _few_rows(attrs: NoAttrs, inputs: Specs, outputs: Specs) -> str:
    (y,) = outputs
    if y.dtype is not F32:
        return f"element type {y.dtype}"
    rows = math.prod(y.shape[:-1])
    return "" if 0 < rows <= MOST_ROWS else f"{rows} rows"


ROWS: Rows = {
    ops.QUANTIZE: pointwise_row(ops.QUANTIZE),
    ops.DEQUANTIZE: pointwise_row(ops.DEQUANTIZE),
    ops.DEQUANTIZED_PRODUCT: KernelRow(_dequantized_product, _few_rows),
    ops.DYNAMIC_QUANTIZE: KernelRow(_dynamic_quantize, any_type),
}
