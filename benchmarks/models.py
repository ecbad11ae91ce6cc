"""Milliseconds of whole training steps and predictions, ours and torch eager's in turns; one JSON line per case.

    python benchmarks/models.py [--threads N] [--repeats N] [--only TEXT]

Needs torch for the peer; without it only our times are printed, with the reason. Both run in this process, on as many
threads, on inputs of the same shapes, in f32, with plain stochastic gradient descent. `ratio` is ours / torch's, of
medians; `ratio_of_best` of the fastest runs.

A ratio needs an otherwise idle machine: with other work on its cores, threads that meet at barriers wait for those that
the system does not let run, and the two suffer unequally. `load` is the system's load at the start, and `disturbed`
names the sides whose median is more than SPREAD times their best: such a row is no evidence for either.
"""

# ruff: noqa: ANN401  torch may be absent, so nothing here can name its types

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc import nn
from nnc.core.dtype import dtype_of
from nnc.core.settings import SETTINGS
from nnc.nn.zoo import gpt_6x384, resnet20

Array = NDArray[Any]
Run = Callable[[], object]
RATE = 1e-3
PAUSE = 0.02
SPREAD = 1.5


@dataclass(frozen=True, slots=True)
class Case:
    """A name, what runs our step, and what makes the peer's step, if there is one, out of torch."""

    name: str
    ours: Callable[[], Run]
    peer: Callable[[Any], Run]


def mlp() -> nn.Layer:
    return nn.Sequential(first=nn.Dense(512), a=nn.ReLU(), second=nn.Dense(512), b=nn.ReLU(), third=nn.Dense(10))


def torch_mlp(torch: Any) -> Any:
    n = torch.nn
    return n.Sequential(n.Linear(784, 512), n.ReLU(), n.Linear(512, 512), n.ReLU(), n.Linear(512, 10))


def torch_resnet20(torch: Any) -> Any:
    n = torch.nn

    class Block(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.inner = n.Sequential(
                n.Conv2d(before, after, 3, stride, 1, bias=False),
                n.BatchNorm2d(after),
                n.ReLU(),
                n.Conv2d(after, after, 3, 1, 1, bias=False),
                n.BatchNorm2d(after),
            )
            self.stride, self.missing = stride, after - before

        def forward(self, x: Any) -> Any:
            y = x[:, :, :: self.stride, :: self.stride] if self.missing else x
            if self.missing:  # a shortcut without parameters, as ours
                y = n.functional.pad(y, (0, 0, 0, 0, 0, self.missing))
            return torch.relu(self.inner(x) + y)

    widths = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
    blocks = [Block(*width) for width in widths]
    head = [n.Conv2d(3, 16, 3, 1, 1, bias=False), n.BatchNorm2d(16), n.ReLU()]
    return n.Sequential(*head, *blocks, n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(64, 10))


def torch_gpt(torch: Any, vocabulary: int = 65, steps: int = 256, width: int = 384, heads: int = 6) -> Any:
    n, functional = torch.nn, torch.nn.functional

    class Block(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = n.LayerNorm(width, bias=False), n.LayerNorm(width, bias=False)
            self.mix, self.out = n.Linear(width, 3 * width, bias=False), n.Linear(width, width, bias=False)
            up, down = n.Linear(width, 4 * width, bias=False), n.Linear(4 * width, width, bias=False)
            self.dense = n.Sequential(up, n.GELU(approximate="tanh"), down)

        def forward(self, x: Any) -> Any:
            batch, rows, _ = x.shape
            parts = self.mix(self.before(x)).view(batch, rows, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, rows, width))
            return x + self.dense(self.between(x))

    class Model(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = n.Embedding(vocabulary, width), n.Embedding(steps, width)
            self.blocks, self.norm = n.Sequential(*(Block() for _ in range(6))), n.LayerNorm(width, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.tokens(x) + self.places.weight[: x.shape[1]]
            logits = self.norm(self.blocks(y)) @ self.tokens.weight.T
            return logits.flatten(0, 1)

    return Model()


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def labels(classes: int, *shape: int) -> Array:
    return np.random.default_rng(1).integers(0, classes, shape).astype(np.int32)


def our_training(layer: Callable[[], nn.Layer], x: Array, target: Array) -> Callable[[], Run]:
    def make() -> Run:
        optimizer = nn.StochasticGradientDescent(RATE, momentum=0.0)
        step = nn.Model(layer(), x.shape[1:], optimizer=optimizer, input_dtype=dtype_of(x.dtype)).training_step(len(x))
        # A planned step may reuse its inputs' memory, so they are written before each run.
        return lambda: step.run(x, target)

    return make


def torch_training(make: Callable[[Any], Any], x: Array, target: Array) -> Callable[[Any], Run]:
    def build(torch: Any) -> Run:
        model = make(torch).train()
        optimizer = torch.optim.SGD(model.parameters(), RATE)
        data, wanted = torch_input(torch, x), torch.from_numpy(target.astype(np.int64).reshape(-1))

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data), wanted).backward()
            optimizer.step()

        return step

    return build


def torch_input(torch: Any, x: Array) -> Any:
    """Images with channels second, as torch has them."""
    data = torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x)
    return data.permute(0, 3, 1, 2).contiguous() if data.dim() == 4 else data


def our_prediction(layer: Callable[[], nn.Layer], x: Array) -> Callable[[], Run]:
    def make() -> Run:
        step = nn.Model(layer(), x.shape[1:], input_dtype=dtype_of(x.dtype)).prediction_step(len(x))
        return lambda: step.run(x)

    return make


def torch_prediction(make: Callable[[Any], Any], x: Array) -> Callable[[Any], Run]:
    def build(torch: Any) -> Run:
        model, data = make(torch).eval(), torch_input(torch, x)

        def step() -> None:
            with torch.no_grad():
                model(data)

        return step

    return build


def cases() -> Iterator[Case]:
    """Training steps, then predictions for one input."""
    rows: tuple[tuple[str, Callable[[], nn.Layer], Callable[[Any], Any], Array, Array], ...] = (
        ("mlp b64", mlp, torch_mlp, numbers(64, 784), labels(10, 64)),
        ("resnet20 b128", resnet20, torch_resnet20, numbers(128, 32, 32, 3), labels(10, 128)),
        ("gpt_6x384 b8 t256", gpt_6x384, torch_gpt, labels(65, 8, 256), labels(65, 8, 256)),
    )
    for name, layer, twin, x, target in rows:
        yield Case(f"train {name}", our_training(layer, x, target), torch_training(twin, x, target))
    for name, layer, twin, x, _ in rows:
        one = x[:1]
        yield Case(f"predict {name.split()[0]} b1", our_prediction(layer, one), torch_prediction(twin, one))


def milliseconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def measure(case: Case, torch: Any, repeats: int) -> dict[str, object]:
    """Medians of runs in turns; pauses, because idle workers spin for a while."""
    ours = case.ours()
    peer = None if torch is None else case.peer(torch)
    for run in (ours, peer):
        if run is not None:
            run()  # the first run compiles and allocates
    mine, others = [], []
    for _ in range(repeats):
        mine.append(milliseconds(ours))
        if peer is not None:
            time.sleep(PAUSE)
            others.append(milliseconds(peer))
            time.sleep(PAUSE)
    sides = {"ours": mine} | ({"torch": others} if others else {})
    row: dict[str, object] = {"case": case.name}
    for side, times in sides.items():
        row |= {side: round(statistics.median(times), 3), f"{side}_best": round(min(times), 3)}
    if others:
        row["ratio"] = round(statistics.median(mine) / statistics.median(others), 3)
        row["ratio_of_best"] = round(min(mine) / min(others), 3)
    row["disturbed"] = [side for side, times in sides.items() if statistics.median(times) > SPREAD * min(times)]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="workers; 0 means one per usable core")
    parser.add_argument("--repeats", type=int, default=15, help="runs per case; the median counts")
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    threads = SETTINGS.worker_count()
    torch: Any = None
    head: dict[str, object] = {"threads": threads, "load": round(os.getloadavg()[0], 2)}
    try:
        torch = importlib.import_module("torch")
        torch.set_num_threads(threads)
        head["torch"] = torch.__version__
    except ImportError as error:
        head["torch"] = f"absent: {error}"
    print(json.dumps(head))
    for case in cases():
        if options.only in case.name:
            print(json.dumps(measure(case, torch, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
