"""Networks with 8-bit weights beside onnxruntime's, on the same weights; one JSON line per case.

    python benchmarks/int8.py [--threads N] [--repeats N] [--seconds N] [--only TEXT] [--processor] [--accuracy]
                              [--products]

All sides read one ONNX file of f32, or what onnxruntime's quantizer makes of it, in this process, in turns:

    f32, ort_f32                  the file as it is
    weights, dynamic              nnc.onnx.load(file, quantize=...)
    ort_dynamic, dynamic_file     quantize_dynamic: both run that file (MatMulInteger, ConvInteger)
    ort_qdq, qdq_file             quantize_static, QDQ, calibrated on the input: both run that file

`ratio_dynamic` is the faster of dynamic and dynamic_file / ort_dynamic, `ratio_qdq` qdq_file / ort_qdq, of the fastest
runs. With `--accuracy` each side has its largest error relative to the largest output of f32, and no times count.
With `--products` the rows are products of few rows by the weights of GPT-2 instead, in milliseconds: `floats`, `bytes`
(dequantized_product), and `dequantized`, which makes floats of the bytes in each run; `ratio` is bytes / floats.
A side that does not run is in `skipped`. `models.py` says when times are no evidence.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
from cases import predictions
from models import rounds
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from peers import onnx_file, onnx_input
from twins import Array

from nnc import ops
from nnc.core.settings import SETTINGS
from nnc.core.values.tensor import Tensor
from nnc.onnx import load
from nnc.ops.movement.fill import scalar_like
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.passes import QuantizationMode

NAMES = ("predict resnet50 b1", "predict bert_base b1 t128")
Answer = Callable[[], Array]


class OneInput(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
    """The input of the benchmark, once."""

    def __init__(self, feed: dict[str, Array]) -> None:
        self.feeds = iter((feed,))

    def get_next(self) -> dict[str, Array] | None:
        return next(self.feeds, None)


def ours(path: Path, feed: dict[str, Array], quantize: QuantizationMode | None = None) -> Answer:
    model = load(path, quantize=quantize)
    return lambda: np.asarray(next(iter(model.run(feed).values())))


def theirs(path: Path, feed: dict[str, Array], threads: int) -> Answer:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: np.asarray(session.run(None, feed)[0])


def files(path: Path, feed: dict[str, Array], folder: Path) -> tuple[Path, Path]:
    """The dynamic and the static file that onnxruntime's quantizer makes, weights per channel."""
    prepared, dynamic, static = (folder / f"{path.stem}-{one}.onnx" for one in ("prepared", "dynamic", "qdq"))
    quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    quantize_dynamic(str(prepared), str(dynamic), per_channel=True, weight_type=QuantType.QInt8)
    quantize_static(
        str(prepared), str(static), OneInput(feed), QuantFormat.QDQ, per_channel=True, weight_type=QuantType.QInt8
    )
    return dynamic, static


def sides_of(
    path: Path, feed: dict[str, Array], threads: int, folder: Path
) -> tuple[dict[str, Answer], dict[str, str]]:
    dynamic, static = files(path, feed, folder)
    makers: dict[str, Callable[[], Answer]] = {
        "f32": lambda: ours(path, feed),
        "ort_f32": lambda: theirs(path, feed, threads),
        "weights": lambda: ours(path, feed, "weights"),
        "dynamic": lambda: ours(path, feed, "dynamic"),
        "dynamic_file": lambda: ours(dynamic, feed),
        "ort_dynamic": lambda: theirs(dynamic, feed, threads),
        "qdq_file": lambda: ours(static, feed),
        "ort_qdq": lambda: theirs(static, feed, threads),
    }
    sides: dict[str, Answer] = {}
    skipped: dict[str, str] = {}
    for name, maker in makers.items():
        try:
            run = maker()
            run()
            sides[name] = run
        except Exception as error:  # whatever a side raises is the reason why it is skipped
            skipped[name] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
    return sides, skipped


def errors(sides: dict[str, Answer]) -> dict[str, float]:
    want = sides["f32"]()
    return {name: float(f"{np.abs(run() - want).max() / np.abs(want).max():.2g}") for name, run in sides.items()}


def times(sides: Mapping[str, Callable[[], object]], options: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of the fastest run of each."""
    clock = time.process_time if options.processor else time.perf_counter
    return {name: min(values) for name, values in rounds(sides, options, clock).items()}


def ratios(best: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    dynamic = [best[name] for name in ("dynamic", "dynamic_file") if name in best]
    if dynamic and "ort_dynamic" in best:
        found["ratio_dynamic"] = round(min(dynamic) / best["ort_dynamic"], 3)
    if {"qdq_file", "ort_qdq"} <= best.keys():
        found["ratio_qdq"] = round(best["qdq_file"] / best["ort_qdq"], 3)
    return found


def program(function: Callable[..., Symbol], *arrays: Array) -> Callable[[], object]:
    """The compiled function of these arrays, as it runs."""
    graph, tensors = SymbolicGraph(), [Tensor.from_numpy(array) for array in arrays]
    symbols = [graph.input(tensor.spec) for tensor in tensors]
    return compile(graph, (function(*symbols),), bind=dict(zip(symbols, tensors, strict=True))).run


def products() -> Iterator[tuple[str, dict[str, Callable[[], object]]]]:
    """Products of few rows by weights of the sizes of GPT-2 small, with a bias."""
    generator = np.random.default_rng(0)
    for rows in (1, 2, 4, 8):
        for inner, columns in ((768, 2304), (768, 3072), (3072, 768), (768, 50257)):
            x, w = (generator.normal(size=size).astype(np.float32) for size in ((rows, inner), (inner, columns)))
            q, scale = generator.integers(-127, 128, (inner, columns)).astype(np.int8), np.ones(columns, np.float32)
            yield (
                f"{rows} x {inner} x {columns}",
                {
                    "floats": program(lambda x, w, s: ops.gemm(x, w, s), x, w, scale),
                    "bytes": program(lambda x, q, s: ops.dequantized_product(x, q, s, s), x, q, scale),
                    "dequantized": program(
                        lambda x, q, s: ops.gemm(x, ops.dequantize(q, s, scalar_like(q, 0)), s), x, q, scale
                    ),
                },
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="workers of every side")
    parser.add_argument("--repeats", type=int, default=15, help="runs per side; the fastest counts")
    parser.add_argument("--seconds", type=float, default=60.0, help="no further round of a case after so many")
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    parser.add_argument("--processor", action="store_true", help="count the process's own time on processors")
    parser.add_argument("--accuracy", action="store_true", help="the largest relative error instead of times")
    parser.add_argument("--products", action="store_true", help="products of few rows instead of networks")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    facts = {"onnxruntime": onnxruntime.__version__, "threads": options.threads, "load": round(os.getloadavg()[0], 1)}
    print(json.dumps(facts), flush=True)
    row: dict[str, object]
    if options.products:
        for name, runs in products():
            best = times(runs, options)
            row = {"case": name} | {side: round(value, 3) for side, value in best.items()}
            print(json.dumps(row | {"ratio": round(best["bytes"] / best["floats"], 3)}), flush=True)
        return
    for case in predictions():
        if case.name not in NAMES or options.only not in case.name:
            continue
        path = onnx_file(case.offer)
        name = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()[0].name
        with tempfile.TemporaryDirectory() as folder:
            sides, skipped = sides_of(path, {name: onnx_input(case.offer)}, options.threads, Path(folder))
            row = {"case": case.name}
            if options.accuracy:
                row |= errors(sides)
            else:
                best = times(sides, options)
                row |= {side: round(value, 3) for side, value in best.items()} | ratios(best)
            print(json.dumps(row | {"skipped": skipped}), flush=True)


if __name__ == "__main__":
    main()
