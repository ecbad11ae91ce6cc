"""Images at another height and width: y[n, i, j, c] = sum over taps of weight · x[n, row, column, c], and its adjoint.

What each output row and column reads, and with which weight, are tables in the code. The adjoint is gathered: a pixel
of x adds up what the rows and columns that read it hold, in their order, so that threads do not change bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Views
from nnc.codegen.ir.builder import ADDRESS, BOOL, F64, INDEX, U8, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.ops.convolutions.resize import UPSAMPLE, UPSAMPLE_GRADIENT, UpsampleAttrs

NANOSECONDS_PER_VECTOR = 1.0
# Tables are part of the code.
LONGEST_SIDE = 8192


@dataclass(frozen=True, slots=True)
class Tap:
    """Output position `target` reads input position `source` with a weight."""

    target: int
    source: int
    weight: float


def taps(source: int, target: int, attrs: UpsampleAttrs) -> list[list[Tap]]:
    """Along one axis: for each of the one or two taps of a position, those of all positions in order."""
    if attrs.mode == "nearest":
        span = max(target - 1, 1)
        places = [
            (2 * i * (source - 1) + span) // (2 * span) if attrs.align_corners else i * source // target
            for i in range(target)
        ]
        return [[Tap(i, place, 1.0) for i, place in enumerate(places)]]
    pairs: list[list[Tap]] = [[], []]
    for i in range(target):
        place = i * ((source - 1) / max(target - 1, 1)) if attrs.align_corners else (i + 0.5) * source / target - 0.5
        moved = min(max(place, 0.0), source - 1.0)
        low = math.floor(moved)
        pairs[0].append(Tap(i, low, 1.0 - (moved - low)))
        pairs[1].append(Tap(i, min(low + 1, source - 1), moved - low))
    return pairs


@dataclass(frozen=True, slots=True)
class Resampling(WithoutMemory):
    """y[batch, target, channels] of x[batch, source, channels], or with `adjoint` x of y."""

    scalar: Scalar
    batch: int
    channels: int
    attrs: UpsampleAttrs
    adjoint: bool

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row of the result."""
        result = self.attrs.source if self.adjoint else self.attrs.target
        writer = _AdjointWriter if self.adjoint else _SampleWriter
        with phase(module, name) as w:
            writer(self, w).write()
        vectors = self.batch * math.prod(self.attrs.target) * -(-self.channels // module.target.lanes(32))
        cost = vectors * NANOSECONDS_PER_VECTOR * (4 if self.attrs.mode == "bilinear" else 1)
        return (Phase(name, self.batch * result[0] if self.channels else 0, cost),)


class _ResizeWriter:
    """What both directions share: tables of taps, and vectors of channels."""

    def __init__(self, problem: Resampling, w: PhaseWriter) -> None:
        self.problem, self.w, self.b = problem, w, w.b
        self.moved = U8 if problem.scalar == BOOL else problem.scalar
        # Weights of 1 leave every element type as it is.
        self.weighs = problem.attrs.mode == "bilinear"
        self.work = computed(self.moved)
        most = self.b.target.lanes(8 * self.work.size)
        self.lanes = min(most, 1 << (problem.channels - 1).bit_length()) if problem.channels else 1
        sizes = zip(problem.attrs.source, problem.attrs.target, strict=True)
        self.taps = [taps(source, target, problem.attrs) for source, target in sizes]
        self.x, self.y = (w.argument(place) for place in (0, 1))

    def places(self, name: str, values: Sequence[int]) -> Value:
        """A table of indices."""
        return Value(self.b.module.table(f"{self.b.name}_{name}", list(values)), ADDRESS, self.b)

    def weights(self, name: str, values: Sequence[float]) -> Value:
        """A table of numbers in f64."""
        return self.places(name, np.array(values, np.float64).view(np.int64).tolist())

    def weight(self, table: Value, index: Value) -> Value:
        """A number of the table in all lanes."""
        b = self.b
        return b.splat(b.cast(b.load(table, index, Type(F64)), self.work), self.lanes)

    def read(self, place: Value, channel: Value, mask: Value | None) -> Value:
        """Channels as they are computed with."""
        return self.b.cast(self.b.load(place, channel, Type(self.moved, self.lanes), mask), self.work)

    def mask(self, channel: Value) -> Value | None:
        """The channels that are left."""
        ragged = self.problem.channels % self.lanes
        return self.b.mask(self.problem.channels - channel, self.lanes) if ragged else None


class _SampleWriter(_ResizeWriter):
    """A row of y at a time."""

    def write(self) -> None:
        """for row, column, register of channels: the sum over the taps of both axes"""
        b, (height, width), (rows, columns) = self.b, self.problem.attrs.source, self.problem.attrs.target
        names = list(product(range(2), range(len(self.taps[0]))))
        places = {
            key: self.places(f"place{key[0]}{key[1]}", [t.source for t in self.taps[key[0]][key[1]]]) for key in names
        }
        weights = (
            {
                key: self.weights(f"weight{key[0]}{key[1]}", [t.weight for t in self.taps[key[0]][key[1]]])
                for key in names
            }
            if self.weighs
            else {}
        )
        channels, count = self.problem.channels, len(self.taps[0])
        with b.loop(self.w.begin, self.w.end) as item:
            image, i = item // rows, item % rows
            sources = [
                b.offset(self.x, (image * height + b.load(places[0, n], i, INDEX)) * (width * channels), self.moved)
                for n in range(count)
            ]
            down = [self.weight(weights[0, n], i) for n in range(count) if self.weighs]
            with b.loop(0, columns) as j:
                starts = [b.load(places[1, n], j, INDEX) * channels for n in range(count)]
                across = [self.weight(weights[1, n], j) for n in range(count) if self.weighs]
                target = b.offset(self.y, (item * columns + j) * channels, self.moved)
                with b.loop(0, channels, self.lanes) as channel:
                    mask = self.mask(channel)
                    self._sample(
                        sources, [start + channel for start in starts], (down, across), (target, channel), mask
                    )

    def _sample(
        self,
        sources: list[Value],
        starts: list[Value],
        weights: tuple[list[Value], list[Value]],
        target: tuple[Value, Value],
        mask: Value | None,
    ) -> None:
        b, (down, across) = self.b, weights
        if not self.weighs:
            b.store(b.load(sources[0], starts[0], Type(self.moved, self.lanes), mask), *target, mask)
            return
        sums = []
        for start in starts:
            low, high = (self.read(source, start, mask) for source in sources)
            sums.append(low * down[0] + high * down[1])
        b.store(b.cast(sums[0] * across[0] + sums[1] * across[1], self.moved), *target, mask)


class _AdjointWriter(_ResizeWriter):
    """A row of x's gradient at a time, from the rows and columns that read it."""

    def write(self) -> None:
        """for row, column, register of channels: the sum over all that read the pixel"""
        b, (height, width), (rows, columns) = self.b, self.problem.attrs.source, self.problem.attrs.target
        channels = self.problem.channels
        down, across = (self._readers(axis) for axis in range(2))
        with b.loop(self.w.begin, self.w.end) as item:
            image, i = item // height, item % height
            source = b.offset(self.x, image * (rows * columns * channels), self.moved)
            with b.loop(0, width) as j, b.loop(0, channels, self.lanes) as channel:
                mask = self.mask(channel)
                total = b.variable(b.zero(Type(self.work, self.lanes)))
                with b.loop(b.load(down[0], i, INDEX), b.load(down[0], i + 1, INDEX)) as above:
                    row = b.load(down[1], above, INDEX) * (columns * channels)
                    line = b.variable(b.zero(Type(self.work, self.lanes)))
                    with b.loop(b.load(across[0], j, INDEX), b.load(across[0], j + 1, INDEX)) as beside:
                        place = row + b.load(across[1], beside, INDEX) * channels
                        self._add(line, self.read(source, place + channel, mask), across, beside)
                    self._add(total, line.get(), down, above)
                target = (item * width + j) * channels + channel
                b.store(b.cast(total.get(), self.moved), self.y, target, mask)

    def _add(self, total: LocalVariable, value: Value, table: tuple[Value, ...], index: Value) -> None:
        total.set(total.get() + (value * self.weight(table[2], index) if self.weighs else value))

    def _readers(self, axis: int) -> tuple[Value, ...]:
        """Where the readers of each position of x begin in the lists behind: which they are, and their weights."""
        entries = sorted((t.source, t.target, t.weight) for row in self.taps[axis] for t in row if t.weight)
        size = self.problem.attrs.source[axis]
        begins = np.searchsorted([source for source, _, _ in entries], range(size + 1)).tolist()
        names = [f"{name}{axis}" for name in ("begin", "reader", "weight")]
        return (
            self.places(names[0], begins),
            self.places(names[1], [target for _, target, _ in entries]),
            self.weights(names[2], [weight for _, _, weight in entries]),
        )


def _upsample(attrs: UpsampleAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    return Resampling(x.scalar, x.shape[0], x.shape[3], attrs, adjoint=False)


def _upsample_gradient(attrs: UpsampleAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    return Resampling(x.scalar, x.shape[0], x.shape[3], attrs, adjoint=True)


def _small(attrs: UpsampleAttrs, inputs: Specs, outputs: Specs) -> str:
    return "a long side" if max(*attrs.source, *attrs.target) > LONGEST_SIDE else ""


ROWS: Rows = {UPSAMPLE: KernelRow(_upsample, _small), UPSAMPLE_GRADIENT: KernelRow(_upsample_gradient, _small)}
