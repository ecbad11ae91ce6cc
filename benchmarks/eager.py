"""Eager code and functions compiled by one word: time of a call, ours, torch's and JAX's in turns.

    python benchmarks/eager.py [--threads N] [--rounds N] [--only TEXT]

One JSON line per case: microseconds of a call, the median over rounds in which the libraries take turns, and ours over
each peer's. Peers that are not installed are left out. `eager` runs line by line, `compiled` under `nnc.compile`,
`torch.compile` and `jax.jit`. The network has three layers of 256 units on a batch of 4; the physics-informed one takes
second derivatives of a network of three layers of 32 units at 64 points.
"""

# ruff: noqa: ANN401  the peers may be absent, so nothing here can name their types

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

import nnc
from nnc import ops
from nnc.core.settings import SETTINGS

Run = Callable[[], object]
WIDTH, BATCH, UNITS, POINTS = 256, 4, 32, 64


def arrays() -> tuple[list[Any], Any, list[Any], Any]:
    """Weights of the network and a batch; weights of the other and its points."""
    generator = np.random.default_rng(0)
    wide = [(generator.normal(size=(WIDTH, WIDTH)) / 16).astype("f4") for _ in range(3)]
    sizes = (1, UNITS, UNITS, 1)
    narrow = [(generator.normal(size=pair) / 4).astype("f4") for pair in pairwise(sizes)]
    return wide, generator.normal(size=(BATCH, WIDTH)).astype("f4"), narrow, np.linspace(-1, 1, POINTS, dtype="f4")


def network(relu: Any) -> Callable[[Any, Any], Any]:
    """The mean square of three layers."""

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = relu(x @ w)
        return (x * x).mean()

    return loss


def field(tanh: Any) -> Callable[[Any, Any], Any]:
    """u(x) of the physics-informed network, summed over the points."""

    def total(weights: Any, x: Any) -> Any:
        y = x.reshape(-1, 1)
        for w in weights[:-1]:
            y = tanh(y @ w)
        return (y @ weights[-1]).sum()

    return total


def residual(grad: Any, u: Any) -> Callable[[Any, Any], Any]:
    """mean (u″ - x)², as every library writes it that differentiates functions."""
    curvature = grad(lambda x, weights: grad(lambda x: u(weights, x))(x).sum())
    return lambda weights, x: ((curvature(x, weights) - x) ** 2).mean()


def ours(compiled: bool) -> Iterator[tuple[str, Run]]:
    """Our cases."""
    made: Any = nnc.compile if compiled else (lambda function: function)
    wide, x, narrow, points = arrays()
    a, weights, batch = nnc.tensor(np.ones((4, 4), np.float32)), [*map(nnc.tensor, wide)], nnc.tensor(x)
    add, step = made(lambda a, b: a + b), made(nnc.value_and_grad(network(ops.relu)))
    physics = made(nnc.grad(residual(nnc.grad, field(ops.tanh))))
    small, place = [*map(nnc.tensor, narrow)], nnc.tensor(points)
    yield "add", lambda: add(a, a)
    yield "network", lambda: step(weights, batch)
    yield "physics", lambda: physics(small, place)


def torchs(torch: Any, compiled: bool) -> Iterator[tuple[str, Run]]:
    """PyTorch's."""
    torch.set_num_threads(SETTINGS.threads)
    made = torch.compile if compiled else (lambda function: function)
    wide, x, narrow, points = arrays()
    a, weights = torch.ones(4, 4), [torch.tensor(w, requires_grad=True) for w in wide]
    batch, loss, add = torch.tensor(x), made(network(torch.relu)), made(lambda a, b: a + b)
    small, place = [torch.tensor(w, requires_grad=True) for w in narrow], torch.tensor(points, requires_grad=True)

    def physics() -> Any:
        u = field(torch.tanh)(small, place)
        (slope,) = torch.autograd.grad(u, place, create_graph=True)
        (curved,) = torch.autograd.grad(slope.sum(), place, create_graph=True)
        return torch.autograd.grad(((curved - place) ** 2).mean(), small)

    yield "add", lambda: add(a, a)
    yield "network", lambda: torch.autograd.grad(loss(weights, batch), weights)
    if not compiled:
        yield "physics", physics


def jaxs(jax: Any, compiled: bool) -> Iterator[tuple[str, Run]]:
    """JAX's."""
    made = jax.jit if compiled else (lambda function: function)
    wide, narrow = ([jax.numpy.asarray(w) for w in one] for one in arrays()[::2])
    x, points = (jax.numpy.asarray(one) for one in arrays()[1::2])
    a, add = jax.numpy.ones((4, 4)), made(lambda a, b: a + b)
    step = made(jax.value_and_grad(network(jax.nn.relu)))
    physics = made(jax.grad(residual(jax.grad, field(jax.numpy.tanh))))
    yield "add", lambda: jax.block_until_ready(add(a, a))
    yield "network", lambda: jax.block_until_ready(step(wide, x))
    yield "physics", lambda: jax.block_until_ready(physics(narrow, points))


def libraries(compiled: bool) -> dict[str, dict[str, Run]]:
    """Every library that is installed, with its cases."""
    found = {"nnc": dict(ours(compiled))}
    for name, make in (("torch", torchs), ("jax", jaxs)):
        try:
            peer = importlib.import_module(name)
        except ImportError:
            continue
        found[name] = dict(make(peer, compiled))
    return found


def timed(run: Run) -> float:
    """Microseconds of a call: of as many as fit a twentieth of a second."""
    run()
    begin, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < 0.05:
        run()
        count += 1
    return 1e6 * passed / count


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    for way in ("eager", "compiled"):
        found = libraries(way == "compiled")
        for case in next(iter(found.values())):
            if options.only not in f"{way} {case}":
                continue
            runs = {name: cases[case] for name, cases in found.items() if case in cases}
            rounds = [{name: timed(run) for name, run in runs.items()} for _ in range(options.rounds)]
            medians = {name: statistics.median(one[name] for one in rounds) for name in runs}
            ratios = {
                f"over_{name}": round(medians["nnc"] / time, 2) for name, time in medians.items() if name != "nnc"
            }
            shown = {name: round(time, 1) for name, time in medians.items()}
            print(json.dumps({"case": f"{way} {case}", "microseconds": shown, **ratios}), flush=True)


if __name__ == "__main__":
    main()
