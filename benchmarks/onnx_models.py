"""ONNX models beside onnxruntime, and OpenVINO where it is installed: one JSON line per model.

Times of a run, of the first answer, and the arena.

    python benchmarks/onnx_models.py [--threads N] [FILE.onnx NAME=SHAPE ...]

Without a file: the nine light models of the package `onnx`. Inputs are random. Both run in turns in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime

import onnx
from nnc.core.settings import SETTINGS
from nnc.onnx import load

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def openvino_call(path: Path, feeds: dict[str, np.ndarray], threads: int) -> dict[str, Callable[[], object]]:
    """A run of OpenVINO in single precision, where it is installed."""
    if find_spec("openvino") is None:
        return {}
    peer = import_module("openvino")
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = peer.Core().compile_model(str(path), "CPU", options)
    return {"openvino": lambda: compiled(feeds)}


def measure(path: Path, sizes: dict[str, int], threads: int, runs: int) -> dict[str, object]:
    began = time.perf_counter()
    model = load(path, sizes)
    random = np.random.default_rng(0)
    feeds = {name: random.random(one.shape).astype(one.dtype) for name, one in model.placeholders().items()}
    ours = model.run(feeds)
    first = time.perf_counter() - began
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    theirs = session.run(None, feeds)
    calls: dict[str, Callable[[], object]] = {
        "seconds": lambda: model.run(feeds),
        "onnxruntime": lambda: session.run(None, feeds),
        **openvino_call(path, feeds, threads),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            call()
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
            time.sleep(0.1)
    medians = {name: statistics.median(one) for name, one in times.items()}
    statement = model.memory()
    error = max(
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-9)) for a, b in zip(ours.values(), theirs, strict=True)
    )
    return {
        "model": path.name,
        **medians,
        "ratios": {name: medians["seconds"] / one for name, one in medians.items() if name != "seconds"},
        "first_answer_seconds": first,
        "relative_error": error,
        "arena": statement.arena,
        "lower_bound": statement.lower_bound,
        "versions": f"onnxruntime {onnxruntime.__version__}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    SETTINGS.threads = arguments.threads
    sizes = {name: int(size) for name, size in (one.split("=") for one in arguments.size)}
    for path in [arguments.file] if arguments.file else sorted(LIGHT.glob("light_*.onnx")):
        print(json.dumps(measure(path, sizes, arguments.threads, arguments.runs)), flush=True)


if __name__ == "__main__":
    main()
