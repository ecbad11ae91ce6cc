"""Time of every operator on every backend: the conformance table's rows, and larger shapes; one JSON line per case.

    PYTHONPATH=. python benchmarks/operators.py [--dtype f32] [--threads 1] [--match NAME] [--large] [--list]

The backends run in turns on the same inputs, each round long enough for the clock; a time is the median of its
rounds. `ratio` is the time of llvm over that of the reference, null where one of them does not claim the case.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from tests.conformance.case import NONE, Argument, Case, labels
from tests.conformance.cases import CASES

import nnc
from nnc.core.running.dispatch import DISPATCHER, Backend, Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.dtype import DTYPES, I32, U8, DType
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.pooling import AVERAGE_POOL, MAX_POOL, PoolAttrs
from nnc.ops.convolutions.window import window_of
from nnc.ops.elementwise.pointwise import add, exp, multiply, relu, sigmoid, tanh
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.normalization.softmaxes import SOFTMAX_CROSS_ENTROPY, log_softmax, softmax
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.reduction.reduction import ARGMAX, REDUCE_MAX, REDUCE_MEAN
from nnc.ops.rules import infer

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

SHORTEST = 200e-6

_MILLION, _ROWS, _SQUARE = Argument((1000, 1000)), Argument((4096, 1024)), Argument((512, 512))
_FEATURES = Argument((8, 56, 56, 64))

# Input, filter, stride, border: ResNet-50.
CONVOLUTIONS = (
    ((1, 224, 224, 3), (7, 7, 3, 64), 2, 3),
    ((1, 56, 56, 64), (3, 3, 64, 64), 1, 1),
    ((1, 56, 56, 64), (1, 1, 64, 256), 1, 0),
    ((1, 28, 28, 128), (3, 3, 128, 128), 1, 1),
    ((1, 14, 14, 256), (3, 3, 256, 256), 1, 1),
    ((1, 7, 7, 512), (3, 3, 512, 512), 1, 1),
)
POOL = PoolAttrs((3, 3), window_of(2, stride=2, padding=1))

LARGE: tuple[Case, ...] = (
    *(Case(op, NONE, (_MILLION,), note="large") for op in (exp, tanh, sigmoid, relu)),
    *(Case(op, NONE, (_MILLION, _MILLION), note="large") for op in (add, multiply)),
    *(Case(op, NONE, (_ROWS,), note="large") for op in (softmax, log_softmax)),
    Case(SOFTMAX_CROSS_ENTROPY, NONE, (_ROWS, Argument((4096,), labels(1024), I32)), note="large"),
    Case(GEMM, GemmAttrs(), (_SQUARE, _SQUARE, None), note="large"),
    *(
        Case(
            CONVOLUTION,
            ConvolutionAttrs(window_of(w[0], stride=stride, padding=border)),
            (Argument(x), Argument(w), None),
            note=f"large-stride{stride}",
        )
        for x, w, stride, border in CONVOLUTIONS
    ),
    *(Case(op, POOL, (_FEATURES,), note="large") for op in (MAX_POOL, AVERAGE_POOL)),
    *(
        Case(op, ReduceAttrs(axes), (_ROWS,), note=f"large-axes{list(axes)}")
        for op in (REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, ARGMAX)
        for axes in ((0,), (1,))
    ),
)


def program(backend: Backend, case: Case, dtype: DType) -> Callable[[], None] | None:
    """The case on fresh tensors, None where the backend does not claim it."""
    command, specs = Command(case.op, case.attrs), case.specs(dtype)
    results = infer(case.op, case.attrs, specs)
    if backend.refusal(command, specs, results):
        return None
    kernel = backend.kernel(command, specs, results)
    inputs = tuple(None if array is None else Tensor.from_numpy(array) for array in case.arrays(dtype))
    size = kernel.workspace_bytes
    workspace = Tensor.empty(TensorSpec((size,), U8)) if size else None
    return backend.program([Call(kernel, inputs, tuple(Tensor.empty(result) for result in results), workspace)])


def seconds(run: Callable[[], None], times: int) -> float:
    """Seconds of one run, the mean of several."""
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def medians(programs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median of each program's rounds, in turns."""
    times = {name: max(1, round(SHORTEST / max(seconds(run, 2), 1e-9))) for name, run in programs.items()}
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, run in programs.items():
            found[name].append(seconds(run, times[name]))
    return {name: statistics.median(each) for name, each in found.items()}


def report(case: Case, dtype: DType, rounds: int) -> dict[str, object]:
    offered = {backend.name: program(backend, case, dtype) for backend in DISPATCHER.candidates()}
    with np.errstate(all="ignore"):
        found = medians({name: run for name, run in offered.items() if run is not None}, rounds)
    ratio = found["llvm"] / found["reference"] if {"llvm", "reference"} <= found.keys() else None
    return {
        "case": str(case),
        "dtype": str(dtype),
        "microseconds": {name: round(each * 1e6, 2) for name, each in found.items()},
        "ratio": None if ratio is None else round(ratio, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=[str(dtype) for dtype in DTYPES], default="f32")
    parser.add_argument("--threads", type=int, default=1, help="workers of each kernel")
    parser.add_argument("--rounds", type=int, default=9, help="rounds per case; the median counts")
    parser.add_argument("--match", default="", help="only the cases whose name contains this text")
    parser.add_argument("--large", action="store_true", help="only the larger shapes")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and run none")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    dtype = next(dtype for dtype in DTYPES if str(dtype) == options.dtype)
    for case in LARGE if options.large else (*CASES, *LARGE):
        if options.match not in str(case) or dtype not in case.dtypes:
            continue
        print(str(case) if options.list else json.dumps(report(case, dtype, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
