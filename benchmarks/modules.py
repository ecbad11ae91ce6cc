"""What modules cost: eager calls and steps beside torch's, and a compiled step of a module beside `train_on_batch`.

    python benchmarks/modules.py [--rounds N] [--threads N]

One JSON line per case: microseconds of a call, the least of many on each side, which take turns, and the median over
rounds of ours over the other side. `eager` and `compiled` are `net(x)` of a perceptron, recorded and under `no_grad`,
beside torch's eager call (without torch they stand alone); `training` is an eager step (loss, gradients and Adam)
beside torch's; `step` a compiled one of 64 → 128 → 10 on 32 rows beside `train_on_batch`.
"""

# ruff: noqa: ANN401  torch may be absent, so nothing here can name its types

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import nnc
from nnc import nn, optim
from nnc.core.settings import SETTINGS

Run = Callable[[], object]
CALLS = 30
SMALL, DIGITS = (64, 128, 10), (784, 256, 10)
SHAPES = (
    *((sizes, batch) for sizes in (SMALL, DIGITS) for batch in (1, 32, 256)),
    ((784, 256, 128, 10), 64),
    ((1024, 4096, 1024), 8),
)


def microseconds(run: Run) -> tuple[float, float]:
    """The mean and the least of some calls."""
    marks = [time.perf_counter()]
    for _ in range(CALLS):
        run()
        marks.append(time.perf_counter())
    return (marks[-1] - marks[0]) / CALLS * 1e6, min(end - begin for begin, end in pairwise(marks)) * 1e6


def compare(row: dict[str, object], ours: Run, other: Run | None, rounds: int) -> None:
    """Print the least time of both and the median ratio."""
    pairs = []
    for _ in range(rounds + 2):
        pairs.append((microseconds(ours), microseconds(other) if other is not None else (float("nan"),) * 2))
    least, least_other = (min(pair[side][1] for pair in pairs[2:]) for side in (0, 1))
    ratio = statistics.median(first[0] / last[0] for first, last in pairs[2:])
    figures = {"ours": round(least, 1), "other": round(least_other, 1), "ratio_of_least": round(least / least_other, 2)}
    print(json.dumps(row | figures | {"ratio": round(ratio, 2)}), flush=True)


def layers_of(package: Any, sizes: tuple[int, ...]) -> Any:
    """The perceptron, of our layers or of torch's."""
    parts = [part for pair in pairwise(sizes) for part in (package.Linear(*pair), package.ReLU())]
    return package.Sequential(*parts[:-1])


def forward(torch: Any, rounds: int) -> None:
    for sizes, batch in SHAPES:
        data = np.random.default_rng(0).random((batch, sizes[0]), np.float32)
        net, x = layers_of(nn, sizes), nnc.tensor(data)
        compiled = nnc.compile(net)
        twin = None if torch is None else layers_of(torch.nn, sizes)
        theirs = None if torch is None else torch.from_numpy(data)
        for recorded in (True, False):
            with contextlib.ExitStack() as stack:
                for package in (nnc, torch):
                    if package is not None and not recorded:
                        stack.enter_context(package.no_grad())
                other = None if twin is None else lambda twin=twin, theirs=theirs: twin(theirs)
                for way, call in (("eager", net), ("compiled", compiled)):
                    row = {"case": way, "sizes": sizes, "batch": batch, "recorded": recorded}
                    compare(row, lambda call=call, x=x: call(x), other, rounds)


def training_step(package: Any, optimizers: Any, sizes: tuple[int, ...], x: Any, y: Any) -> Run:
    """An eager step, as it is written with both."""
    net, loss_fn = layers_of(package, sizes), package.CrossEntropyLoss()
    optimizer = optimizers.Adam(net.parameters(), lr=1e-3)

    def train() -> None:
        optimizer.zero_grad()
        loss_fn(net(x), y).backward()
        optimizer.step()

    return train


def training(torch: Any, rounds: int) -> None:
    for sizes, batch in SHAPES:
        data, labels = np.random.default_rng(0).random((batch, sizes[0]), np.float32), np.arange(batch) % sizes[-1]
        ours = training_step(nn, optim, sizes, nnc.tensor(data), nnc.tensor(labels))
        other = None
        if torch is not None:
            other = training_step(torch.nn, torch.optim, sizes, torch.from_numpy(data), torch.from_numpy(labels))
        compare({"case": "training", "sizes": sizes, "batch": batch}, ours, other, rounds)


def step(rounds: int) -> None:
    """A compiled function with `backward` and `step`, beside a model's step."""
    generator = np.random.default_rng(0)
    inputs, labels = generator.random((32, 64), np.float32), np.arange(32) % 10
    model = nn.Model(nn.Sequential(nn.Dense(128), nn.ReLU(), nn.Dense(10)), (64,), optimizer=nn.Adam(1e-3))
    net, loss_fn = layers_of(nn, (64, 128, 10)), nn.CrossEntropyLoss()
    optimizer = optim.Adam(net.parameters(), lr=1e-3)

    @nnc.compile
    def train(x: nnc.Array, y: nnc.Array) -> nnc.Array:
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = nnc.tensor(inputs), nnc.tensor(labels)
    compare({"case": "step"}, lambda: train(x, y).item(), lambda: model.train_on_batch(inputs, labels), rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="rounds in which the sides take turns")
    parser.add_argument("--threads", type=int, default=1, help="threads of each side")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    torch: Any = None
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        torch.set_num_threads(options.threads)
    forward(torch, options.rounds)
    training(torch, options.rounds)
    step(options.rounds)


if __name__ == "__main__":
    main()
