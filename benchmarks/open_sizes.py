"""400 batch sizes and 100 sequence lengths in one process: programs compiled, seconds, and growth of the process.

    python benchmarks/open_sizes.py
    NNC_CACHE_DIR= python benchmarks/open_sizes.py --file FILE.onnx --shapes 1x3x48x320 1x3x48x328 ...
    python benchmarks/open_sizes.py --file FILE.onnx --shapes 1x3x48xN --sizes 320:1920:8

With a file, one line for each shape of its first input, in order: kernels that were compiled for it, seconds of wall
and of the processor until the first answer, and milliseconds of the next one. With sizes, which stand where a shape
has N, in an order drawn once, one line of JSON about the second half of them: milliseconds of the processor that a size
took beside its run (its first answer less the fastest of three more), and onnxruntime's where that is installed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from process import anonymous

from nnc import nn
from nnc.backends.llvm.run import jit
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import I32
from nnc.nn.zoo import GPT
from nnc.onnx import load

try:
    import onnxruntime
except ImportError:  # a peer that need not be there
    onnxruntime = None

RANDOM = np.random.default_rng(0)


def resident() -> float:
    """MiB of the process that no file backs."""
    return anonymous() / 2**20


def measured(what: str, model: nn.Model, sizes: Iterable[int], work: Callable[[int], object]) -> None:
    sizes, kinds = list(sizes), set()
    plan = model._programs.plan
    model._programs.plan = lambda key: kinds.add(key) or plan(key)
    began = time.perf_counter()
    for size in sizes[: len(sizes) // 2]:
        work(size)
    half = resident()
    for size in sizes[len(sizes) // 2 :]:
        work(size)
    seconds = time.perf_counter() - began
    grown = resident() - half
    print(
        f"{what:<32} {len(sizes)} sizes  {len(kinds)} programs  {seconds:6.1f} s  {grown:+.1f} MiB in the second half"
    )


def counted_kernels() -> list[str]:
    """The keys of kernels that are compiled from now on."""
    compiled: list[str] = []
    jit.note_compilation = lambda cache, keys, seconds: compiled.extend(keys)
    return compiled


def of_file(path: Path, shapes: Sequence[tuple[int, ...]]) -> None:
    model, compiled = load(path), counted_kernels()
    name = next(iter(model.inputs))
    for shape in shapes:
        feeds, before = {name: RANDOM.standard_normal(shape, dtype=np.float32)}, len(compiled)
        began, busy = time.perf_counter(), time.process_time()
        model.run(feeds)
        first, processor = time.perf_counter() - began, time.process_time() - busy
        began = time.perf_counter()
        model.run(feeds)
        again = (time.perf_counter() - began) * 1e3
        text, made = "x".join(map(str, shape)), len(compiled) - before
        print(f"{text:<18} {made:3} kernels  {first:6.2f} s  {processor:5.2f} s of the processor  then {again:6.1f} ms")


def beside_the_run(run: Callable[[], object]) -> float:
    """Milliseconds of the processor that the first of four runs takes more than the fastest of the others."""
    took = []
    for _ in range(4):
        busy = time.process_time()
        run()
        took.append((time.process_time() - busy) * 1e3)
    return took[0] - min(took[1:])


def session_of(path: Path) -> onnxruntime.InferenceSession | None:
    """onnxruntime's session on as many threads as ours, which sleep between runs; None where it is not installed."""
    if onnxruntime is None:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, SETTINGS.worker_count()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def of_sizes(path: Path, shape: str, sizes: range) -> dict[str, object]:
    """What further sizes of a file take, and how the process grows."""
    model, compiled, session = load(path), counted_kernels(), session_of(path)
    name, ours, theirs, kernels, half = next(iter(model.inputs)), list[float](), list[float](), 0, 0.0
    for place, size in enumerate(RANDOM.permutation(sizes)):
        numbers = tuple(int(axis) for axis in shape.replace("N", str(size)).split("x"))
        feeds = {name: RANDOM.standard_normal(numbers, dtype=np.float32)}
        ours.append(beside_the_run(lambda feeds=feeds: model.run(feeds)))
        if session is not None:
            theirs.append(beside_the_run(lambda feeds=feeds: session.run(None, feeds)))
        kernels = kernels or len(compiled)
        half = resident() if place == len(sizes) // 2 else half
    behind = slice(len(sizes) // 2, None)
    facts = {"file": path.name, "sizes": len(sizes), "kernels of the first": kernels, "kernels of all": len(compiled)}
    facts |= {"ms": round(float(np.median(ours[behind])), 1), "most ms": round(max(ours[behind]), 1)}
    facts |= {"onnxruntime ms": round(float(np.median(theirs[behind])), 1)} if theirs else {}
    return {**facts, "MiB grown in the second half": round(resident() - half, 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", type=Path)
    parser.add_argument("--shapes", nargs="+", default=[])
    parser.add_argument("--sizes", help="FROM:TO:STEP, with TO left out")
    options = parser.parse_args()
    if options.sizes is not None:
        sizes = range(*map(int, options.sizes.split(":")))
        print(json.dumps(of_sizes(options.file, options.shapes[0], sizes)))
        return
    if options.file is not None:
        of_file(options.file, [tuple(map(int, shape.split("x"))) for shape in options.shapes])
        return
    layer = nn.Sequential(nn.Dense(128), nn.ReLU(), nn.Dropout(0.1), nn.Dense(10))
    model = nn.Model(layer, (64,))
    x, y = RANDOM.standard_normal((400, 64)).astype(np.float32), RANDOM.integers(0, 10, 400)
    sizes = RANDOM.permutation(400) + 1
    normed = nn.Model(nn.Sequential(nn.Dense(128), nn.BatchNorm(), nn.ReLU(), nn.Dense(10)), (64,))
    measured("train with batch norm, batches", normed, sizes, lambda n: normed.train_on_batch(x[:n], y[:n]))
    measured("train, batches", model, sizes, lambda n: model.train_on_batch(x[:n], y[:n]))
    measured("evaluate, batches", model, sizes, lambda n: model.evaluate(x[:n], y[:n], batch_size=400))
    measured("predict, batches", model, sizes, lambda n: model.predict(x[:n], batch_size=400))
    gpt = nn.Model(GPT(65, 128, 64, 2, 4), (nn.UpTo(128),), input_dtype=I32)
    tokens = RANDOM.integers(0, 65, (4, 128))
    lengths = RANDOM.permutation(100) + 1
    measured("train, lengths", gpt, lengths, lambda n: gpt.train_on_batch(tokens[:, :n], tokens[:, :n]))
    measured("predict, lengths", gpt, lengths, lambda n: gpt.predict(tokens[:, :n]))


if __name__ == "__main__":
    main()
