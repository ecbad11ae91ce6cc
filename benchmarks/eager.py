"""Eager code and functions compiled by one word: time of a call, ours, torch's and JAX's in turns.

    python benchmarks/eager.py [--threads N] [--rounds N] [--only TEXT]

One JSON line per case: microseconds of a call, the median over rounds in which the libraries take turns, and ours over
each peer's; the same of the least time of a round, which other work on the machine disturbs less. Peers that are not
installed are left out. `eager` runs line by line, `lazy` under `nnc.lazy`, `compiled` under `nnc.compile`,
`torch.compile`, `jax.jit` and `mlx.core.compile`.

    add        4×4 plus 4×4
    network    value and gradient of three layers of 256 units on a batch of 4
    policy     gradient of the logarithm of an action's probability: CartPole, 4 → 64 → 2, one observation
    physics    second derivatives of a network of three layers of 32 units at 64 points, and their gradient
    ode        gradient by ten steps of Runge and Kutta of a neural differential equation, 8 → 32 → 8, batch of 16
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
STEPS, STATE = 10, 8


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


def small_arrays() -> tuple[list[Any], Any, list[Any], Any]:
    """Weights of the policy and an observation; weights of the differential equation and its states."""
    generator = np.random.default_rng(1)

    def drawn(*shape: int) -> Any:
        return (generator.normal(size=shape) / 4).astype("f4")

    return [drawn(4, 64), drawn(64, 2)], drawn(1, 4), [drawn(STATE, UNITS), drawn(UNITS, STATE)], drawn(16, STATE)


def policy(tanh: Any, exp: Any, log: Any) -> Callable[[Any, Any], Any]:
    """ln p(action 0 | observation)."""

    def chance(weights: Any, x: Any) -> Any:
        logits = tanh(x @ weights[0]) @ weights[1]
        return (logits[:, 0] - log(exp(logits).sum())).sum()

    return chance


def flow(tanh: Any) -> Callable[[Any, Any], Any]:
    """The mean square of the state at the end."""

    def loss(weights: Any, y: Any) -> Any:
        def f(y: Any) -> Any:
            return tanh(y @ weights[0]) @ weights[1]

        h = 1.0 / STEPS
        for _ in range(STEPS):
            a = f(y)
            b = f(y + (h / 2) * a)
            c = f(y + (h / 2) * b)
            y = y + (h / 6) * (a + 2 * b + 2 * c + f(y + h * c))
        return (y * y).mean()

    return loss


def ours(compiled: bool) -> Iterator[tuple[str, Run]]:
    """Our cases."""
    made: Any = nnc.compile if compiled else (lambda function: function)
    wide, x, narrow, points = arrays()
    a, weights, batch = nnc.tensor(np.ones((4, 4), np.float32)), [*map(nnc.tensor, wide)], nnc.tensor(x)
    add, step = made(lambda a, b: a + b), made(nnc.value_and_grad(network(ops.relu)))
    physics = made(nnc.grad(residual(nnc.grad, field(ops.tanh))))
    small, place = [*map(nnc.tensor, narrow)], nnc.tensor(points)
    deciding, x, moving, y = (
        [*map(nnc.tensor, one)] if isinstance(one, list) else nnc.tensor(one) for one in small_arrays()
    )
    act = made(nnc.grad(policy(ops.tanh, ops.exp, ops.log)))
    move = made(nnc.grad(flow(ops.tanh)))
    yield "add", lambda: add(a, a)
    yield "network", lambda: step(weights, batch)
    yield "policy", lambda: act(deciding, x)
    yield "physics", lambda: physics(small, place)
    yield "ode", lambda: move(moving, y)


def lazily() -> Iterator[tuple[str, Run]]:
    """Our cases, where commands wait until the end of a call."""
    for name, run in ours(compiled=False):

        def waiting(run: Run = run) -> None:
            with nnc.lazy():
                kept = run()
            del kept

        yield name, waiting


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
    deciding, x, moving, y = (
        [torch.tensor(w, requires_grad=True) for w in one] if isinstance(one, list) else torch.tensor(one)
        for one in small_arrays()
    )
    chance, end = made(policy(torch.tanh, torch.exp, torch.log)), made(flow(torch.tanh))
    yield "network", lambda: torch.autograd.grad(loss(weights, batch), weights)
    yield "policy", lambda: torch.autograd.grad(chance(deciding, x), deciding)
    yield "ode", lambda: torch.autograd.grad(end(moving, y), moving)
    if not compiled:
        yield "physics", physics


def functional(
    array: Any, compile: Any, value_and_grad: Any, grad: Any, relu: Any, ops: Any, done: Any
) -> Iterator[tuple[str, Run]]:
    """The cases of a library of functions of functions; `done` waits for results."""
    wide, narrow = ([array(w) for w in one] for one in arrays()[::2])
    x, points = (array(one) for one in arrays()[1::2])
    deciding, seen, moving, y = ([*map(array, one)] if isinstance(one, list) else array(one) for one in small_arrays())
    a, add = array(np.ones((4, 4), "f4")), compile(lambda a, b: a + b)
    step = compile(value_and_grad(network(relu)))
    physics = compile(grad(residual(grad, field(ops.tanh))))
    act, move = compile(grad(policy(ops.tanh, ops.exp, ops.log))), compile(grad(flow(ops.tanh)))
    yield "add", lambda: done(add(a, a))
    yield "network", lambda: done(step(wide, x))
    yield "policy", lambda: done(act(deciding, seen))
    yield "physics", lambda: done(physics(narrow, points))
    yield "ode", lambda: done(move(moving, y))


def jaxs(jax: Any, compiled: bool) -> Iterator[tuple[str, Run]]:
    """JAX's."""
    made, numpy = jax.jit if compiled else (lambda function: function), jax.numpy
    yield from functional(numpy.asarray, made, jax.value_and_grad, jax.grad, jax.nn.relu, numpy, jax.block_until_ready)


def mlxs(mlx: Any, compiled: bool) -> Iterator[tuple[str, Run]]:
    """MLX's, on the processor."""
    mlx.set_default_device(mlx.cpu)
    made = mlx.compile if compiled else (lambda function: function)
    yield from functional(mlx.array, made, mlx.value_and_grad, mlx.grad, lambda x: mlx.maximum(x, 0.0), mlx, mlx.eval)


def libraries(way: str) -> dict[str, dict[str, Run]]:
    """Every library that is installed, with its cases."""
    found = {"nnc": dict(lazily() if way == "lazy" else ours(way == "compiled"))}
    for name, module, make in (("torch", "torch", torchs), ("jax", "jax", jaxs), ("mlx", "mlx.core", mlxs)):
        try:
            peer = importlib.import_module(module)
        except ImportError:
            continue
        found[name] = dict(make(peer, way == "compiled"))
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
    for way in ("eager", "lazy", "compiled"):
        found = libraries(way)
        for case in next(iter(found.values())):
            if options.only not in f"{way} {case}":
                continue
            runs = {name: cases[case] for name, cases in found.items() if case in cases}
            rounds = [{name: timed(run) for name, run in runs.items()} for _ in range(options.rounds)]
            row: dict[str, object] = {"case": f"{way} {case}"}
            for kind, choose in (("median", statistics.median), ("least", min)):
                times = {name: choose([one[name] for one in rounds]) for name in runs}
                row[kind] = {name: round(time, 1) for name, time in times.items()}
                row[f"{kind}_over"] = {
                    name: round(times["nnc"] / time, 2) for name, time in times.items() if name != "nnc"
                }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
