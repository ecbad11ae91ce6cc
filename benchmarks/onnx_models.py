"""ONNX models beside onnxruntime: one JSON line per model with the times of a run, the first answer, and the arena.

    python benchmarks/onnx_models.py [--threads N] [FILE.onnx NAME=SHAPE ...]

Without a file: the nine light models of the package `onnx`. Inputs are random. Both run in turns in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import onnxruntime

import onnx
from nnc.core.settings import SETTINGS
from nnc.onnx import load

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


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
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for place, call in enumerate((lambda: model.run(feeds), lambda: session.run(None, feeds))):
            call()
            began = time.perf_counter()
            call()
            times[place].append(time.perf_counter() - began)
            time.sleep(0.1)
    mine, other = (statistics.median(one) for one in times)
    statement = model.memory()
    error = max(
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-9)) for a, b in zip(ours.values(), theirs, strict=True)
    )
    return {
        "model": path.name,
        "seconds": mine,
        "onnxruntime": other,
        "ratio": mine / other,
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
