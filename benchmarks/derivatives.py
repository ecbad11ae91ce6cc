"""Derivatives of higher order and products with second derivatives: error and time, ours and JAX's in turns.

    python benchmarks/derivatives.py [--threads N] [--repeats N] [--only TEXT]

One JSON line per case, in f64. `differences` is the largest error against central differences of our own derivative of
one order less, and `peer_difference` the largest distance from JAX's result, both relative to the largest value.
Times are medians; `ratio` is ours / JAX's (compiled by `jax.jit`). Without JAX `peer` says why there is none.
"""

# ruff: noqa: ANN401  JAX may be absent, so nothing here can name its types

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nnc
from nnc import ops
from nnc.core.settings import SETTINGS
from nnc.core.values.spec import spec
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile, hessian_vector_product, jvp
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.passes.simplification import DEFAULT

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

Array = NDArray[np.float64]
STEP = 1e-5
POINTS = 1 << 18
# Batch, features in, hidden units twice, results.
BATCH, INPUTS, HIDDEN, RESULTS = 256, 64, 128, 10


@dataclass(frozen=True, slots=True)
class Case:
    """Our program of `values`, one of a derivative of one order less, and JAX's function, made out of `jax`.

    `direction` is how the first value moves for the differences.
    """

    name: str
    compiled: Compiled
    below: Compiled
    symbols: Sequence[Symbol]
    values: Sequence[Array]
    derivative: Symbol
    lower: Symbol
    direction: Array
    peer: Callable[[Any], Callable[..., Any]]

    def ours(self) -> Array:
        """What our program computes."""
        named = dict(zip(self.symbols, self.values, strict=True))
        return np.array(self.compiled(named, self.derivative)[0])

    def lower_at(self, first: Array) -> Array:
        """The derivative of one order less where the first value is another."""
        named = dict(zip(self.symbols, [first, *self.values[1:]], strict=True))
        return np.array(self.below(named, self.lower)[0])

    def differences(self) -> float:
        """The largest error against central differences."""
        upper, under = (self.lower_at(self.values[0] + side * STEP * self.direction) for side in (1, -1))
        return distance(self.ours(), (upper - under) / (2 * STEP))


def distance(one: Array, other: Array) -> float:
    """The largest distance, relative to the largest value of the second."""
    return float(np.abs(one - other).max() / np.abs(other).max())


# ---- one function of many numbers, to order 4


def orders() -> Iterator[Case]:
    values = np.linspace(0.1, 2.0, POINTS)
    graph = SymbolicGraph()
    x = graph.input(spec((POINTS,), "f64"), "x")
    found = [ops.exp(ops.sin(ops.log(x + 1.0))) * ops.tanh(x * x)]
    for _ in range(4):
        found.extend(backward(graph, found[-1:], [x]))
    for order in range(1, 5):
        copy, tensors, _ = graph.duplicate()
        point, derivative, lower = (copy.symbol(tensors[symbol.key]) for symbol in (x, found[order], found[order - 1]))
        yield _case(f"order {order}", copy, ([point], [values]), (derivative, lower), np.ones(POINTS), _order(order))


def _case(
    name: str,
    graph: SymbolicGraph,
    inputs: tuple[Sequence[Symbol], Sequence[Array]],
    found: tuple[Symbol, Symbol],
    direction: Array,
    peer: Callable[[Any], Callable[..., Any]],
) -> Case:
    """Both programs of a graph; they keep their inputs, which are written once."""
    simplify(graph, found, (*DEFAULT, Pass.GROUPS))
    symbols, values = inputs
    derivative, lower = found
    programs = (compile(graph, [wanted, *symbols]) for wanted in found)
    return Case(name, *programs, symbols, values, derivative, lower, direction, peer)


def _order(order: int) -> Callable[[Any], Callable[..., Any]]:
    def peer(jax: Any) -> Callable[..., Any]:
        n = jax.numpy
        function = lambda x: n.exp(n.sin(n.log(x + 1.0))) * n.tanh(x * x)  # noqa: E731  one of several, wrapped below
        for _ in range(order):
            function = jax.grad(function)
        return jax.vmap(function)  # type: ignore[no-any-return]

    return peer


# ---- products with first and second derivatives of a network


def network() -> Iterator[Case]:
    generator = np.random.default_rng(7)
    shapes = ((INPUTS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, RESULTS))
    values = [generator.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    values += [generator.standard_normal((BATCH, INPUTS)), generator.standard_normal(shapes[0])]
    for name in ("Hessian-vector product, forward over reverse", "Hessian-vector product, reverse over reverse"):
        graph, symbols, loss = _network()
        *weights, _, vector = symbols
        (gradient,) = backward(graph, [loss], weights[:1])
        if name.endswith("forward over reverse"):
            (product,) = hessian_vector_product(graph, loss, weights[:1], [vector])
        else:
            (product,) = backward(graph, [ops.reduce_sum(gradient * vector)], weights[:1])
        yield _case(name, graph, (symbols, values), (product, gradient), values[-1], _hessian)
    graph, symbols, loss = _network()
    (change,) = jvp(graph, [loss], symbols[:1], symbols[-1:])
    yield _case("Jacobian-vector product", graph, (symbols, values), (change, loss), values[-1], _jacobian)


def _network() -> tuple[SymbolicGraph, list[Symbol], Symbol]:
    """Three weights, inputs and a direction of the first weight; the mean square of what comes out."""
    graph = SymbolicGraph()
    shapes = ((INPUTS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, RESULTS), (BATCH, INPUTS), (INPUTS, HIDDEN))
    symbols = [graph.input(spec(shape, "f64")) for shape in shapes]
    first, second, third, x, _ = symbols
    loss = ops.reduce_mean(ops.square(ops.tanh(ops.tanh(x @ first) @ second) @ third))
    return graph, symbols, loss


def _loss(n: Any) -> Callable[..., Any]:
    def loss(first: Any, second: Any, third: Any, x: Any) -> Any:
        return n.mean(n.square(n.tanh(n.tanh(x @ first) @ second) @ third))

    return loss


def _hessian(jax: Any) -> Callable[..., Any]:
    slope = jax.grad(_loss(jax.numpy))
    return lambda first, *rest: jax.jvp(lambda w: slope(w, *rest[:-1]), (first,), (rest[-1],))[1]


def _jacobian(jax: Any) -> Callable[..., Any]:
    loss = _loss(jax.numpy)
    return lambda first, *rest: jax.jvp(lambda w: loss(w, *rest[:-1]), (first,), (rest[-1],))[1]


# ---- measuring


def find_jax(threads: int) -> tuple[Any, str]:
    """JAX on as many threads with f64, or None and why there is none."""
    os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        jax = importlib.import_module("jax")
    except ImportError as error:
        return None, f"skipped: {error}"
    jax.config.update("jax_enable_x64", True)
    return jax, f"jax {jax.__version__}"


def measure(case: Case, jax: Any, peer: str, repeats: int) -> dict[str, object]:
    """One row."""
    row: dict[str, object] = {"case": case.name, "differences": case.differences(), "peer": peer}
    runs: list[Callable[[], object]] = [case.compiled.run]
    if jax is not None:
        function = jax.jit(case.peer(jax))
        given = [jax.numpy.asarray(value) for value in case.values]
        row["peer_difference"] = distance(case.ours(), np.asarray(function(*given)))
        runs.append(lambda: function(*given).block_until_ready())
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, found in zip(runs, seconds, strict=True):
            clock = time.perf_counter()
            run()
            found.append(time.perf_counter() - clock)
    medians = [statistics.median(found) for found in seconds]
    row |= dict(zip(("milliseconds", "peer_milliseconds"), (round(1e3 * one, 3) for one in medians), strict=False))
    return row | ({"ratio": round(medians[0] / medians[1], 3)} if jax is not None else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    jax, peer = find_jax(options.threads)
    for case in (*orders(), *network()):
        if options.only in case.name:
            print(json.dumps(measure(case, jax, peer, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
