"""Long sums of f32: runs of FLUSHED additions, whose sums are added up in f64, so that no error grows with the length.

slots = FlushedSums.start(b, zero, count, flushed=is_long(kind, length))
with in_runs(b, 0, length, 1, [slots]) as index:
    slots.sums[0].set(slots.sums[0].get() + b.load(x, index, kind))
slots.flush()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nnc.classes import dataclass
from nnc.codegen.ir.builder import F32, F64, Builder, LocalVariable, Type, Value

# Additions in a row of one lane; each may be off by 6e-8 of the sum: 1e-6 at most, 2e-7 for 10^7 equal numbers.
# With 64, sums of 306 numbers of both signs, gradients of a bias, are off by twice as much; with 8 long rows take 27 %
# longer, with 16 no sum takes 4 % longer (znver4; tests/backends/llvm/test_long_sums.py).
FLUSHED = 16


def is_long(kind: Type, length: int) -> bool:
    """Whether so many additions in a row of this type want f64 behind them."""
    return kind.scalar == F32 and length > FLUSHED


@dataclass(frozen=True, slots=True)
class FlushedSums:
    """Partial results, `sums`, and what they are flushed into, `totals`: the same where sums are short."""

    b: Builder
    sums: tuple[LocalVariable, ...]
    totals: tuple[LocalVariable, ...]
    empty: Value

    @classmethod
    def start(cls, b: Builder, empty: Value, count: int, *, flushed: bool) -> FlushedSums:
        """`count` accumulators that hold `empty`; those of sums may be flushed into f64."""
        sums = tuple(b.variable(empty) for _ in range(count))
        if not flushed:
            return cls(b, sums, sums, empty)
        zero = b.zero(empty.type.of(F64))
        return cls(b, sums, tuple(b.variable(zero) for _ in range(count)), empty)

    @property
    def flushes(self) -> bool:
        """Whether the totals are others than the sums."""
        return self.sums is not self.totals

    def flush(self) -> None:
        """Add the sums to the totals, and begin anew."""
        if self.flushes:
            for part, total in zip(self.sums, self.totals, strict=True):
                total.set(total.get() + self.b.cast(part.get(), F64))
                part.set(self.empty)


@contextmanager
def in_runs(
    b: Builder, low: Value | int, high: Value | int, step: int, groups: Sequence[FlushedSums]
) -> Iterator[Value]:
    """for index in range(low, high, step), with the sums of `groups` flushed after every FLUSHED steps"""
    if not any(group.flushes for group in groups):
        with b.loop(low, high, step) as index:
            yield index
        return
    with b.loop(low, high, step * FLUSHED) as first:
        with b.loop(first, b.least(first + step * FLUSHED, high), step) as index:
            yield index
        for group in groups:
            group.flush()


def folded(b: Builder, totals: Sequence[Value], combine: str) -> Value:
    """FlushedSums of one result as one number."""
    total = totals[0]
    for other in totals[1:]:
        total = b.combine(combine, total, other)
    return b.fold(total, combine)
