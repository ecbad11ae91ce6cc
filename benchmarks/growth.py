"""Bytes by which the process grows with each step, behind a warm-up; one JSON line per kind of work.

    python benchmarks/growth.py [--kind train|eager|sizes|resnet20] [--steps N] [--threads N]

`train` updates one model, `eager` records a loss of two layers on a dynamic graph and asks for its gradients, `sizes`
predicts with another batch size each time; so does `resnet20`, with ResNet-20 and 48 sizes. `slope` is that of a line
through the anonymous memory (RssAnon) of the last half of the steps, in bytes per step.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable

import numpy as np
from process import anonymous

from nnc import nn, ops
from nnc.core.settings import SETTINGS
from nnc.dynamic import DynamicGraph
from nnc.nn.zoo import network

SAMPLES = 40


def model() -> nn.Model:
    layer = nn.Sequential(nn.Dense(32), nn.Tanh(), nn.Dense(4))
    return nn.Model(layer, (16,), loss=nn.MeanSquaredError())


def train() -> Callable[[int], object]:
    net, x, y = model(), np.ones((8, 16), np.float32), np.ones((8, 4), np.float32)
    return lambda step: net.train_on_batch(x, y)


def eager() -> Callable[[int], object]:
    graph = DynamicGraph()
    w, v = graph.variable(np.ones((16, 32), np.float32)), graph.variable(np.ones((32, 4), np.float32))
    x = graph.constant(np.ones((8, 16), np.float32))

    def step(number: int) -> object:
        loss = ops.reduce_sum(ops.square(ops.tanh(x @ w) @ v))
        return graph.backward([loss], [w, v])

    return step


def sizes() -> Callable[[int], object]:
    net, x = model(), np.ones((100_000, 16), np.float32)
    return lambda step: net.predict(x[: step + 1], batch_size=step + 1)


def resnet20() -> Callable[[int], object]:
    net, x = network("resnet20"), np.ones((48, 32, 32, 3), np.float32)
    return lambda step: net.predict(x[: step % 48 + 1])


KINDS = {"train": (train, 10_000), "eager": (eager, 10_000), "sizes": (sizes, 1_000), "resnet20": (resnet20, 144)}


def measure(kind: str, steps: int) -> dict[str, object]:
    """The slope of one kind of work."""
    work = KINDS[kind][0]()
    found = []
    begin = time.perf_counter()
    for step in range(steps):
        work(step)
        if step % max(steps // SAMPLES, 1) == 0:
            gc.collect()
            found.append((step, anonymous()))
    late = np.array(found[len(found) // 2 :], np.float64)
    slope = np.polyfit(late[:, 0], late[:, 1], 1)[0]
    seconds = time.perf_counter() - begin
    return {
        "kind": kind,
        "steps": steps,
        "slope": round(float(slope), 1),
        "first": found[0][1],
        "middle": found[len(found) // 2][1],
        "last": found[-1][1],
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=tuple(KINDS), action="append")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    for kind in options.kind or tuple(KINDS):
        print(json.dumps(measure(kind, options.steps or KINDS[kind][1])), flush=True)


if __name__ == "__main__":
    main()
