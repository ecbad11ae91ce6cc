"""ONNX models beside onnxruntime, and OpenVINO where it is installed: one JSON line per model.

Times of a run, of the first answer, and the arena.

    python benchmarks/onnx_models.py [--threads N] [--memory] [FILE.onnx --size NAME=N ...]

Without a file: the nine light models of the package `onnx`. Inputs are random. Both run in turns in one process.

With `--memory` each model runs twice in a process of its own instead: `ours` is by how much its memory rises above that
after the imports and the start of LLVM, at its highest, `process` the statement of that, `off` = ours - process, and
`within` whether that is at most 5 % or 8 MB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import onnxruntime
from process import high_water, import_whole, settled

import onnx
from nnc.backends.llvm.run.engine import engine
from nnc.core.settings import SETTINGS
from nnc.onnx import load

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def random_feeds(shapes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays like these; those without axes as they are, for a branch may ask for them."""
    random = np.random.default_rng(0)
    return {n: random.random(one.shape).astype(one.dtype) if one.shape else one for n, one in shapes.items()}


def run_here(path: Path, sizes: dict[str, int], shapes: dict[str, np.ndarray], answers: Connection) -> None:
    """What this process takes for a file, at its highest, and the statement."""
    feeds = random_feeds(shapes)
    # Most of these come with the first program; a statement is of what comes beyond imports.
    import_whole("nnc.backends", "nnc.codegen", "nnc.concrete", "nnc.onnx", "nnc.planning", "nnc.symbolic")
    engine()
    before = settled()
    model = load(path)
    stated = model.memory(**sizes)
    for _ in range(2):
        model.run(feeds)
    answers.send((high_water() - before, stated.process, stated.arena, stated.lower_bound))


def measure_memory(path: Path, sizes: dict[str, int]) -> dict[str, object]:
    context = multiprocessing.get_context("spawn")
    answers, theirs = context.Pipe(duplex=False)
    arguments = (path, sizes, load(path).placeholders(**sizes), theirs)
    process = context.Process(target=run_here, args=arguments)
    process.start()
    theirs.close()
    ours, stated, arena, bound = answers.recv()
    process.join()
    within = abs(ours - stated) <= max(0.05 * ours, 8 << 20)
    facts = {"model": path.name, "ours": ours, "process": stated, "off": ours - stated, "within": within}
    return {**facts, "arena": arena, "lower_bound": bound}


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
    feeds = random_feeds(model.placeholders())
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
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    SETTINGS.threads = arguments.threads
    sizes = {name: int(size) for name, size in (one.split("=") for one in arguments.size)}
    for path in [arguments.file] if arguments.file else sorted(LIGHT.glob("light_*.onnx")):
        facts = (
            measure_memory(path, sizes) if arguments.memory else measure(path, sizes, arguments.threads, arguments.runs)
        )
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
