"""400 batch sizes and 100 sequence lengths in one process: programs compiled, seconds, and growth of the process.

    python benchmarks/open_sizes.py
    NNC_CACHE_DIR= python benchmarks/open_sizes.py --file FILE.onnx --shapes 1x3x48x320 1x3x48x328 ...

With a file, one line for each shape of its first input, in order: kernels that were compiled for it, seconds of wall
and of the processor until the first answer, and milliseconds of the next one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from nnc import nn
from nnc.backends.llvm.run.engine import engine
from nnc.core.values.dtype import I32
from nnc.nn.zoo import GPT
from nnc.onnx import load

RANDOM = np.random.default_rng(0)


def resident() -> float:
    """MiB of the process that no file backs."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


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


def of_file(path: Path, shapes: Sequence[tuple[int, ...]]) -> None:
    model, jit = load(path), engine().jit
    name, before = next(iter(model.inputs)), jit._compiled
    for shape in shapes:
        feeds = {name: RANDOM.standard_normal(shape, dtype=np.float32)}
        began, busy = time.perf_counter(), time.process_time()
        model.run(feeds)
        first, processor = time.perf_counter() - began, time.process_time() - busy
        began = time.perf_counter()
        model.run(feeds)
        again = (time.perf_counter() - began) * 1e3
        text, made, before = "x".join(map(str, shape)), jit._compiled - before, jit._compiled
        print(f"{text:<18} {made:3} kernels  {first:6.2f} s  {processor:5.2f} s of the processor  then {again:6.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", type=Path)
    parser.add_argument("--shapes", nargs="+", default=[])
    options = parser.parse_args()
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
