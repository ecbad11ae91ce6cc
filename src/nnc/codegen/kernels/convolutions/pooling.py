"""Maximum and average over sliding windows of [batch, spatial..., channels], with their gradients.

    max_pool:              y[n, o, c] = max_k x[n, o*stride + k*dilation - before, c]
    max_pool_gradient:     g[n, o, c] is added at the first position of its window where x equals y; at the last nan
    max_pool_gather:       y'[n, o, c] = h at that same position
    average_pool:          y[n, o, c] = sum_k x[...] / count
    average_pool_gradient: g[n, o, c] / count is added at every position of its window

Lanes are channels. Items of the forward kernels are rows of outputs; items of the gradients are (image, block of
channels), which own their part of the result, so sums need no order between workers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, contiguous
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Views,
    filled,
)
from nnc.codegen.frame.widened import with_wide_results
from nnc.codegen.ir.builder import BOOL, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read
from nnc.ops.convolutions import pooling as ops
from nnc.ops.convolutions.pooling import AveragePoolGradientAttrs, PoolAttrs

NANOSECONDS_PER_VECTOR = 1.5
# Positions of a window that are written out one by one.
MOST_WRITTEN_OUT = 9


@dataclass(frozen=True, slots=True)
class Pooling(WithoutMemory, WithSizes):
    """One member of the family (`kind` is a key of `KINDS`): x[batch, sizes, channels], y[batch, outputs, channels].

    A result to which several windows add is f32 where the operands have 16 bits.
    """

    kind: str
    scalar: Scalar
    batch: int
    channels: int
    sizes: Shape
    outputs: Shape
    kernel: Shape
    strides: Shape
    before: Shape
    dilations: Shape
    count_border: bool = False

    def opened(self, read: Read, target: TargetDescription) -> Pooling:
        """The batch, sizes of images and results, and the border are read; channels and windows are not."""
        sizes, outputs, before = (
            tuple([read(size) if size > 1 else size for size in part])
            for part in (self.sizes, self.outputs, self.before)
        )
        return replace(self, batch=read(self.batch), sizes=sizes, outputs=outputs, before=before)

    @property
    def adds(self) -> bool:
        """True when several windows may add to one place of the result."""
        reaches = ((size - 1) * dilation + 1 for size, dilation in zip(self.kernel, self.dilations, strict=True))
        return KINDS[self.kind].scatters and any(map(operator.lt, self.strides, reaches))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        lanes = module.target.lanes(8 * computed(self.scalar).size)
        blocks = ceiling(self.channels, lanes)
        kind = KINDS[self.kind]
        items = self.batch * (blocks if kind.scatters else math.prod(self.outputs[:-1]))
        with phase(module, name) as writer:
            if items:
                pooling = _Pooling(self, writer, lanes)
                (pooling.scatter if kind.scatters else pooling.gather)(kind.write)
        work = self.batch * math.prod(self.outputs) * math.prod(self.kernel) * blocks
        return (Phase(name, items, work * NANOSECONDS_PER_VECTOR),)


@dataclass(frozen=True, slots=True)
class _Place:
    """One output position for one vector of channels: element offsets in x and y, and the window's real positions."""

    image: Value
    index: Value
    mask: Value | None
    starts: tuple[Value, ...]
    low: tuple[Value, ...]
    high: tuple[Value, ...]


class _Pooling:
    """The loops of one pooling kernel."""

    def __init__(self, problem: Pooling, writer: PhaseWriter, lanes: int) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        self.lanes = lanes
        self.kind = Type(computed(problem.scalar), lanes)
        self.place = writer.argument(len(KINDS[problem.kind].operands) - 1)
        self.result = self.kind if problem.adds else Type(problem.scalar, lanes)
        self.x_strides = contiguous((*problem.sizes, problem.channels))
        self.y_strides = contiguous((*problem.outputs, problem.channels))

    # -- memory

    def load(self, operand: Value, index: Value, mask: Value | None) -> Value:
        """One vector, in the type of computation."""
        stored = Type(self.problem.scalar, self.lanes)
        return self.b.cast(self.b.load(operand, index, stored, mask), self.kind.scalar)

    def store(self, value: Value, operand: Value, index: Value, mask: Value | None) -> None:
        """One vector, in the type of memory."""
        self.b.store(self.b.cast(value, self.problem.scalar), operand, index, mask)

    def add(self, share: Value, index: Value, mask: Value | None) -> None:
        """Add to one vector of the result."""
        before = self.b.load(self.place, index, self.result, mask)
        total = self.b.cast(before, self.kind.scalar) + share
        self.b.store(self.b.cast(total, self.result.scalar), self.place, index, mask)

    # -- loops

    def gather(self, write: Callable[[_Pooling, _Place], None]) -> None:
        """An item is a row of outputs: all outer positions of an image; then along the row, then over channels."""
        b, p = self.b, self.problem
        outer = p.outputs[:-1]
        rows = math.prod(outer)
        with b.loop(self.w.begin, self.w.end) as item:
            image, row = item // rows, item % rows
            positions: list[Value] = []
            for axis in range(len(outer) - 1, -1, -1):
                positions.insert(0, row % outer[axis] if axis else row)
                row = row // outer[axis]
            with b.loop(0, p.outputs[-1]) as last, b.loop(0, p.channels, self.lanes) as channel:
                write(self, self._place(image, (*positions, last), channel))

    def scatter(self, write: Callable[[_Pooling, _Place], None]) -> None:
        """An item is a block of channels of an image: clear it, then walk all outputs in order."""
        b, p = self.b, self.problem
        blocks = ceiling(p.channels, self.lanes)
        with b.loop(self.w.begin, self.w.end) as item:
            image, channel = item // blocks, item % blocks * self.lanes
            self._clear(image, channel)
            with ExitStack() as stack:
                positions = tuple(stack.enter_context(b.loop(0, size)) for size in p.outputs)
                write(self, self._place(image, positions, channel))

    def _clear(self, image: Value, channel: Value) -> None:
        b, p = self.b, self.problem
        size = math.prod(p.sizes)
        with b.loop(0, size) as position:
            index = (image * size + position) * p.channels + channel
            b.store(b.cast(b.zero(self.kind), self.result.scalar), self.place, index, self._mask(channel))

    def _mask(self, channel: Value) -> Value | None:
        channels = self.problem.channels
        return self.b.mask(channels - channel, self.lanes) if channels % self.lanes else None

    def _place(self, image: Value, positions: Sequence[Value], channel: Value) -> _Place:
        b, p = self.b, self.problem
        index = image * (math.prod(p.outputs) * p.channels) + channel
        starts, low, high = [], [], []
        for axis, position in enumerate(positions):
            index = index + position * self.y_strides[axis]
            start = position * p.strides[axis] - p.before[axis]
            dilation = p.dilations[axis]
            first = b.greatest(0 - start, 0) + (dilation - 1)
            span = b.greatest(p.sizes[axis] - start, 0) + (dilation - 1)
            starts.append(start)
            low.append(first // dilation)
            high.append(b.least(span // dilation, p.kernel[axis]))
        base = image * (math.prod(p.sizes) * p.channels) + channel
        return _Place(base, index, self._mask(channel), tuple(starts), tuple(low), tuple(high))

    def visit(self, place: _Place, each: Callable[[Value], None]) -> None:
        """each(element offset in x) for every real position of the window; whole windows of few are written out.

        0.83 of the time of loops, whose bounds are read: three poolings of 3 x 3, 111 x 111 pixels and fewer.
        """
        b, p = self.b, self.problem
        if math.prod(p.kernel) > MOST_WRITTEN_OUT:
            with self.window(place) as index:
                each(index)
            return
        whole = b.constant(1, Type(BOOL))
        for low, high, size in zip(place.low, place.high, p.kernel, strict=True):
            whole = b.both(whole, b.both(b.compare("==", low, 0), b.compare("==", high, size)))
        with b.when(whole):
            for position in product(*map(range, p.kernel)):
                index = place.image
                for start, k, dilation, stride in zip(
                    place.starts, position, p.dilations, self.x_strides, strict=False
                ):
                    index = index + (start + k * dilation) * stride
                each(index)
        with b.when(b.opposite(whole)), self.window(place) as index:
            each(index)

    @contextmanager
    def window(self, place: _Place) -> Iterator[Value]:
        """for every real position of the window, in row-major order: its element offset in x"""
        b, p = self.b, self.problem
        with ExitStack() as stack:
            index = place.image
            for axis, start in enumerate(place.starts):
                k = stack.enter_context(b.loop(place.low[axis], place.high[axis]))
                index = index + (start + k * p.dilations[axis]) * self.x_strides[axis]
            yield index

    def count(self, place: _Place) -> Value:
        """What an average divides by."""
        b, p = self.b, self.problem
        if p.count_border:
            return b.constant(float(math.prod(p.kernel)), self.kind)
        product = b.constant(1)
        for low, high in zip(place.low, place.high, strict=True):
            product = product * (high - low)
        return b.splat(b.cast(product, self.kind.scalar), self.lanes)

    @contextmanager
    def chosen(self, place: _Place, x: Value, y: Value) -> Iterator[tuple[Value, Value]]:
        """for every position of the window: its offset, and in which lanes it is the first where x equals y

        In lanes where y is nan it is the last that holds nan, as torch has it.
        """
        b = self.b
        largest = self.load(y, place.index, place.mask)
        free = b.variable(b.constant(1, self.kind.of(BOOL)))
        left = b.variable(b.zero(self.kind))
        unknown = b.choose(b.unordered(largest), b.constant(1.0, self.kind), 0.0)
        with b.when(b.compare(">", b.fold(unknown, "maximum"), 0.0)), self.window(place) as index:
            left.set(left.get() + self._nan_at(x, index, place))
        with self.window(place) as index:
            value = self.load(x, index, place.mask)
            hit = b.both(free.get(), b.compare("==", value, largest))
            free.set(b.exclusive(free.get(), hit))
            left.set(left.get() - self._nan_at(x, index, place))
            last = b.both(b.unordered(value), b.compare("==", left.get(), 0.0))
            yield index, b.either(hit, last)

    def _nan_at(self, x: Value, index: Value, place: _Place) -> Value:
        """1 in lanes that hold nan, else 0."""
        value = self.load(x, index, place.mask)
        return self.b.choose(self.b.unordered(value), self.b.constant(1.0, self.kind), 0.0)


def _max(s: _Pooling, place: _Place) -> None:
    x, y = s.w.argument(0), s.w.argument(1)
    scalar = s.kind.scalar
    lowest = -math.inf if scalar.floating else -(2 ** (8 * scalar.size - 1)) if scalar.signed else 0
    largest = s.b.variable(s.b.constant(lowest, s.kind))
    s.visit(place, lambda index: largest.set(s.b.maximum(largest.get(), s.load(x, index, place.mask))))
    s.store(largest.get(), y, place.index, place.mask)


def _max_gather(s: _Pooling, place: _Place) -> None:
    h, x, y, result = (s.w.argument(position) for position in range(4))
    gathered = s.b.variable(s.b.zero(s.kind))
    with s.chosen(place, x, y) as (index, hit):
        gathered.set(s.b.choose(hit, s.load(h, index, place.mask), gathered.get()))
    s.store(gathered.get(), result, place.index, place.mask)


def _max_gradient(s: _Pooling, place: _Place) -> None:
    g, x, y = (s.w.argument(position) for position in range(3))
    gradient = s.load(g, place.index, place.mask)
    with s.chosen(place, x, y) as (index, hit):
        s.add(s.b.choose(hit, gradient, s.b.zero(s.kind)), index, place.mask)


def _average(s: _Pooling, place: _Place) -> None:
    x, y = s.w.argument(0), s.w.argument(1)
    total = s.b.variable(s.b.zero(s.kind))
    s.visit(place, lambda index: total.set(total.get() + s.load(x, index, place.mask)))
    s.store(total.get() / s.count(place), y, place.index, place.mask)


def _average_gradient(s: _Pooling, place: _Place) -> None:
    share = s.load(s.w.argument(0), place.index, place.mask) / s.count(place)
    with s.window(place) as index:
        s.add(share, index, place.mask)


@dataclass(frozen=True, slots=True)
class PoolingKind:
    """One row: the operands (the result last), how one place is written, and whether it adds into x's shape."""

    operands: tuple[str, ...]
    write: Callable[[_Pooling, _Place], None]
    scatters: bool = False


KINDS: dict[str, PoolingKind] = {
    "max_pool": PoolingKind(("x", "y"), _max),
    "max_pool_gather": PoolingKind(("h", "x", "y", "result"), _max_gather),
    "max_pool_gradient": PoolingKind(("g", "x", "y", "result"), _max_gradient, scatters=True),
    "average_pool": PoolingKind(("x", "y"), _average),
    "average_pool_gradient": PoolingKind(("g", "result"), _average_gradient, scatters=True),
}


def _pool(kind: str) -> Generate:
    """x and y are found by their names among the operands."""
    names = KINDS[kind].operands

    def generate(attrs: PoolAttrs | AveragePoolGradientAttrs, inputs: Views, outputs: Views) -> Generator:
        operands = dict(zip(names, (*inputs, *outputs), strict=True))
        data = operands["result"] if "x" not in operands else operands["x"]
        pooled = operands["g"] if "y" not in operands else operands["y"]
        pool = attrs.pool if isinstance(attrs, AveragePoolGradientAttrs) else attrs
        before = tuple(low for low, _ in pool.window.padding)
        pooling = Pooling(
            kind, data.scalar, data.shape[0], data.shape[-1], data.shape[1:-1], pooled.shape[1:-1], pool.kernel,
            pool.window.strides, before, pool.window.dilations, pool.count_border,
        )  # fmt: skip
        return with_wide_results(pooling, inputs, outputs) if pooling.adds else pooling

    return generate


ROWS: Rows = {
    ops.MAX_POOL: KernelRow(_pool("max_pool"), filled),
    ops.MAX_POOL_GRADIENT: KernelRow(_pool("max_pool_gradient"), filled),
    ops.MAX_POOL_GATHER: KernelRow(_pool("max_pool_gather"), filled),
    ops.AVERAGE_POOL: KernelRow(_pool("average_pool"), filled),
    ops.AVERAGE_POOL_GRADIENT: KernelRow(_pool("average_pool_gradient"), filled),
}
