"""400 batch sizes and 100 sequence lengths in one process: programs compiled, seconds, and growth of the process.

Run: python benchmarks/open_sizes.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.nn.zoo import GPT

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


def main() -> None:
    layer = nn.Sequential(nn.Dense(128), nn.ReLU(), nn.Dropout(0.1), nn.Dense(10))
    model = nn.Model(layer, (64,))
    x, y = RANDOM.standard_normal((400, 64)).astype(np.float32), RANDOM.integers(0, 10, 400)
    sizes = RANDOM.permutation(400) + 1
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
