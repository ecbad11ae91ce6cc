"""What modules cost: an eager call beside torch's, and a compiled step of a module beside `train_on_batch`.

    python benchmarks/modules.py [--rounds N] [--threads N]

One JSON line per case: microseconds of a call, the least of the rounds, in which the sides take turns, and the median
over rounds of ours over the other side. `eager` and `compiled` are `net(x)` of a perceptron, recorded and under
`no_grad`, beside torch's eager call (without torch they stand alone); `step` is loss, gradients and Adam of
64 → 128 → 10 on 32 rows.
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
SHAPES = (((64, 128, 10), 1), ((64, 128, 10), 32), ((784, 256, 128, 10), 64), ((1024, 4096, 1024), 8))


def microseconds(run: Run) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        run()
    return (time.perf_counter() - start) / CALLS * 1e6


def compare(row: dict[str, object], ours: Run, other: Run | None, rounds: int) -> None:
    """Print the least time of both and the median ratio."""
    pairs: list[tuple[float, float]] = []
    for _ in range(rounds + 2):
        pairs.append((microseconds(ours), microseconds(other) if other is not None else float("nan")))
    best = {"ours": min(first for first, _ in pairs[2:]), "other": min(last for _, last in pairs[2:])}
    ratio = statistics.median(first / last for first, last in pairs[2:])
    print(json.dumps(row | {name: round(value, 1) for name, value in best.items()} | {"ratio": round(ratio, 2)}))


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
    step(options.rounds)


if __name__ == "__main__":
    main()
