"""The largest error of elementary functions in units in the last place (ulp), and their time; one JSON line per row.

    python benchmarks/accuracy.py [--only NAME ...] [--stride 251] [--dtype f32 f16 bf16] [--cpu x86-64-v3]

An argument is a bit pattern: of 16 bits each pattern is tried, of f32 each `--stride`th of all 2^32 (1 tries all) and
65,536 on both sides of each point where a formula changes or a result is 0. Results are compared with those of NumPy in
f64. `ulp` is the largest error, at `x`; `wrong` counts special values that differ (infinities, NaN), and `unrounded`
results that are not the nearest number. `ns` is processor time for an element on one thread, in the first cache.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnc.backends.llvm.backend import LlvmBackend
from nnc.core.running.dispatch import Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16, F32, DType
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.graph import Op
from nnc.ops.elementwise import elementary, pointwise
from nnc.ops.elementwise.pointwise import BEND, GATE
from nnc.ops.rules import NoAttrs

Wide = NDArray[np.float64]
Exact = Callable[[Wide], Wide]
CHUNK, AROUND, TIMED = 1 << 18, 1 << 16, 1 << 12
# Bits of the significand behind its point, the least exponent of normal numbers, the patterns' type.
FORMATS: Mapping[DType, tuple[int, int, type[np.generic]]] = {
    F32: (23, -126, np.uint32), F16: (10, -14, np.uint16), BF16: (7, -126, np.uint16),
}  # fmt: skip
ERFC = np.vectorize(math.erfc, otypes=[np.float64])
BACKEND = LlvmBackend()


@dataclass(frozen=True, slots=True)
class Row:
    """A function, what it is in f64, arguments to be timed with, and points around which all arguments are tried.

    `slow` says that the reference takes a microsecond for each argument, so that a tenth of them is tried.
    """

    op: Op[NoAttrs]
    exact: Exact
    low: float = -8.0
    high: float = 8.0
    points: tuple[float, ...] = (0.0, 1.0, 88.0)
    slow: bool = False


def sigmoid(x: Wide) -> Wide:
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x: Wide) -> Wide:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


HALF_PI, SIXTEEN = math.pi / 2.0, (0.0, 0.35, 1.0, 16.0, 88.0, 89.4)
TURNS = (0.0, *(HALF_PI * turns for turns in (0.5, 1.0, 2.0, 3.0, 11.0, 1000.0)), 8192.0)
ROWS = (
    Row(pointwise.exp, np.exp, points=(0.0, 88.7, -87.3, -103.9)),
    Row(pointwise.expm1, np.expm1, points=(0.0, 0.35, 88.7, -16.0)),
    Row(pointwise.log, np.log, 1e-3, 1e3, (0.7, 1.0, 1.4)),
    Row(pointwise.log1p, np.log1p, -0.9, 1e3, (-1.0, -0.3, 0.0, 0.4)),
    Row(elementary.log2, np.log2, 1e-3, 1e3, (0.7, 1.0, 1.4)),
    Row(elementary.log10, np.log10, 1e-3, 1e3, (0.7, 1.0, 1.4)),
    Row(pointwise.sin, np.sin, points=TURNS),
    Row(pointwise.cos, np.cos, points=TURNS),
    Row(pointwise.atan, np.arctan),
    Row(elementary.tan, np.tan, points=TURNS),
    Row(elementary.asin, np.arcsin, -1.0, 1.0, (0.0, 0.5, 1.0)),
    Row(elementary.acos, np.arccos, -1.0, 1.0, (-1.0, -0.5, 0.0, 0.5, 1.0)),
    Row(elementary.sinh, np.sinh, points=SIXTEEN),
    Row(elementary.cosh, np.cosh, points=SIXTEEN),
    Row(pointwise.tanh, np.tanh, points=(0.0, 0.25, 0.55, 9.0)),
    Row(elementary.asinh, np.arcsinh, points=(0.0, 1.0, 2.0**20)),
    Row(elementary.acosh, np.arccosh, 1.0, 9.0, (1.0, 1.5, 2.0**20)),
    Row(elementary.atanh, np.arctanh, -1.0, 1.0, (-1.0, -0.3, 0.0, 0.3, 1.0)),
    Row(pointwise.sigmoid, sigmoid, points=(0.0, -16.0, -88.0)),
    Row(pointwise.swish, lambda x: x * sigmoid(x), points=(0.0, -16.0, -88.0)),
    Row(pointwise.softplus, softplus, points=(0.0, -16.0, -88.0)),
    Row(pointwise.gelu_tanh, lambda x: x * sigmoid(x * (GATE + GATE * BEND * x * x)), points=(0.0, -5.0, -10.0, 5.0)),
    Row(pointwise.gelu, lambda x: x * 0.5 * ERFC(x * -math.sqrt(0.5)), points=(0.0, -5.0, -13.0), slow=True),
    Row(pointwise.erf, np.vectorize(math.erf, otypes=[np.float64]), points=(0.0, 1.0, 4.0), slow=True),
    Row(pointwise.erfc, ERFC, points=(0.0, 1.0, 10.0), slow=True),
    Row(pointwise.sqrt, np.sqrt, 0.0, 1e3),
    Row(elementary.rsqrt, lambda x: 1.0 / np.sqrt(x), 0.0, 1e3),
    Row(pointwise.reciprocal, np.reciprocal),
)


class Kernel:
    """y = f(x) for `size` arguments, in place of the last ones."""

    def __init__(self, op: Op[NoAttrs], dtype: DType, size: int) -> None:
        spec = TensorSpec((size,), dtype)
        self.x, self.y = np.zeros(size, dtype.numpy), np.zeros(size, dtype.numpy)
        source, result = (Tensor.from_numpy(array) for array in (self.x, self.y))
        kernel = BACKEND.kernel(Command(op, NoAttrs()), (spec,), (spec,))
        self.run = BACKEND.program([Call(kernel, (source,), (result,), None)])


def patterns(row: Row, dtype: DType, stride: int) -> Iterator[NDArray[np.generic]]:
    """Arguments in chunks of one size, the last filled up with zeros."""
    _, _, bits = FORMATS[dtype]
    if bits is np.uint16:
        every = np.arange(1 << 16, dtype=np.uint16)
        yield np.concatenate([every, np.zeros(CHUNK - every.size, np.uint16)]).view(dtype.numpy)
        return
    stride *= 10 if row.slow else 1
    for start in range(0, 1 << 32, CHUNK * stride):
        yield filled(range(start, min(start + CHUNK * stride, 1 << 32), stride))
    for point in row.points:
        middle = int(np.float32(point).view(np.uint32))
        around = AROUND // 10 if row.slow else AROUND
        yield filled(range(max(middle - around, 0), middle + around))
        if point == 0.0:
            yield filled(range(1 << 31, (1 << 31) + around))


def filled(numbers: range) -> NDArray[np.float32]:
    chunk = np.zeros(CHUNK, np.uint32)
    chunk[: len(numbers)] = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.uint64)
    return chunk.view(np.float32)


@dataclass(slots=True)
class Errors:
    """What was found of one function so far."""

    ulp: float = 0.0
    x: float = 0.0
    wrong: int = 0
    unrounded: int = 0
    count: int = 0

    def add(self, x: Wide, got: Wide, exact: Wide, dtype: DType) -> None:
        """Errors in units in the last place of the exact results; infinite where those are beyond the format."""
        behind, least, _ = FORMATS[dtype]
        _, exponents = np.frexp(exact)
        unit = np.ldexp(1.0, np.maximum(exponents - 1, least) - behind)
        largest = float(np.ldexp(2.0 - 2.0**-behind, -least + 1))
        # An exact result within half a unit of the largest number is rounded to it, one beyond to infinity.
        infinite = np.abs(exact) >= largest + np.ldexp(0.5, -least + 1 - behind)
        finite = np.isfinite(exact) & ~infinite
        special = np.where(np.isnan(exact), np.isnan(got), got == np.copysign(np.inf, exact))
        lost = finite & ~np.isfinite(got)
        self.wrong += int(np.count_nonzero(~finite & ~special) + np.count_nonzero(lost))
        error = np.where(finite & ~lost, np.abs(got - exact) / unit, 0.0)
        place = int(error.argmax())
        if error[place] > self.ulp:
            self.ulp, self.x = float(error[place]), float(x[place])
        self.unrounded += int(np.count_nonzero(error > 0.5 + 1e-7))
        self.count += x.size


def errors(row: Row, dtype: DType, stride: int) -> Errors:
    kernel, found = Kernel(row.op, dtype, CHUNK), Errors()
    for chunk in patterns(row, dtype, stride):
        kernel.x[:] = chunk
        kernel.run()
        with np.errstate(all="ignore"):
            x = chunk.astype(np.float64)
            found.add(x, kernel.y.astype(np.float64), row.exact(x), dtype)
    return found


def nanoseconds(row: Row, dtype: DType, repeats: int) -> float:
    kernel = Kernel(row.op, dtype, TIMED)
    kernel.x[:] = np.random.default_rng(0).uniform(row.low, row.high, TIMED).astype(dtype.numpy)
    best = math.inf
    for _ in range(repeats):
        start = time.process_time_ns()
        for _ in range(100):
            kernel.run()
        best = min(best, (time.process_time_ns() - start) / (100 * TIMED))
    return best


def report(rows: Iterable[Row], dtypes: Sequence[DType], stride: int, repeats: int) -> None:
    for row in rows:
        for dtype in dtypes:
            found = errors(row, dtype, stride)
            line = {
                "function": row.op.name, "dtype": dtype.name, "ulp": round(found.ulp, 3), "x": found.x,
                "wrong": found.wrong, "unrounded": found.unrounded, "tried": found.count,
                "ns": round(nanoseconds(row, dtype, repeats), 4),
            }  # fmt: skip
            print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names of functions")
    parser.add_argument("--stride", type=int, default=251, help="of the patterns of f32")
    parser.add_argument("--dtype", nargs="*", default=["f32"], choices=[dtype.name for dtype in FORMATS])
    parser.add_argument("--repeats", type=int, default=20, help="of the timed run of 100 times")
    parser.add_argument("--cpu", default="", help="a level of processors, as NNC_LLVM_CPU names it")
    options = parser.parse_args()
    if options.cpu:
        os.environ["NNC_LLVM_CPU"] = options.cpu
    SETTINGS.threads = 1
    rows = [row for row in ROWS if not options.only or row.op.name in options.only]
    dtypes = [dtype for dtype in FORMATS if dtype.name in options.dtype]
    report(rows, dtypes, options.stride, options.repeats)


if __name__ == "__main__":
    main()
