"""What the symbolic graph costs: seconds of processor time over chains of n nodes with the fitted exponent, and what
passes and fusion buy.

    python benchmarks/symbolic.py growth [--most 100000]
    python benchmarks/symbolic.py fusion [--elements 4194304] [--length 16]
    python benchmarks/symbolic.py networks [--batch 2]

Each line is one JSON object. `exponent` is the slope of log(seconds) over log(n); n log n between 10^3 and 10^5 has
about 1.1. No peer is named: the figures are ratios between runs of this package.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np

from nnc import ops
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.nn import Model
from nnc.nn.zoo.networks import NETWORKS
from nnc.ops.convolutions.window import window_of
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile
from nnc.symbolic.passes import DEFAULT, Pass, Report, precompute, simplify
from nnc.symbolic.text import dump, parse

Steps = tuple[Callable[[Symbol], Symbol], ...]
# Bound by memory, and bound by arithmetic.
CHEAP: Steps = (ops.relu, lambda y: ops.affine(y, 0.5, 0.1), ops.square, ops.abs)
DEAR: Steps = (ops.tanh, ops.relu, ops.sigmoid, lambda y: ops.affine(y, 0.5, 0.1))


def chain(length: int, elements: int = 4, steps: Steps = DEAR) -> tuple[SymbolicGraph, Symbol, Symbol]:
    """A chain of pointwise execs."""
    graph = SymbolicGraph("chain")
    x = y = graph.input(spec((elements,)), "x")
    for step in range(length):
        y = steps[step % len(steps)](y)
    return graph, x, y


def stages(length: int) -> dict[str, float]:
    """Seconds of processor time of each stage, one after another on the same chain.

    Python's collector sees what the stage itself makes: what was there before is taken out of its sight.
    """
    found: dict[str, float] = {}
    clock = time.process_time()

    def stop(name: str) -> None:
        nonlocal clock
        found[name] = time.process_time() - clock
        gc.collect()
        gc.freeze()
        clock = time.process_time()

    graph, x, y = chain(length)
    stop("build")
    gradients = backward(graph, [y], [x])
    stop("differentiate")
    text = dump(graph)
    stop("dump")
    parse(text)
    stop("parse")
    for one in Pass:
        simplify(graph, [y, *gradients], [one])
        stop(f"simplify: {one.value.name}")
    compile(graph, [y, *gradients], given={x: None}, backend="reference")
    stop("compile, fused")
    graph, x, y = chain(length)
    gradients = backward(graph, [y], [x])
    clock = time.process_time()
    compile(graph, [y, *gradients], given={x: None}, backend="reference")
    stop("compile")
    gc.unfreeze()
    return found


def exponent(seconds: Mapping[int, float]) -> float:
    """The slope of the least-squares line through (log n, log seconds)."""
    slope, _ = np.polyfit([math.log(n) for n in seconds], [math.log(s) for s in seconds.values()], 1)
    return float(slope)


def growth(most: int) -> None:
    """Each stage over chains of 10^3, 10^3.5, … nodes."""
    lengths = [round(10 ** (half / 2)) for half in range(6, 11) if round(10 ** (half / 2)) <= most]
    table = {length: stages(length) for length in lengths}
    for stage in table[lengths[0]]:
        seconds = {length: table[length][stage] for length in lengths}
        row = {"stage": stage, "seconds": {str(n): round(s, 4) for n, s in seconds.items()}}
        print(json.dumps({**row, "exponent": round(exponent(seconds), 2)}))


Case = Callable[[SymbolicGraph, int, int], Symbol]


def _uniform(graph: SymbolicGraph, *shape: int) -> Symbol:
    return graph.input(spec(shape))


def _chain(steps: Steps) -> Case:
    def build(graph: SymbolicGraph, elements: int, length: int) -> Symbol:
        y = _uniform(graph, elements)
        for step in range(length):
            y = steps[step % len(steps)](y)
        return y

    return build


def _norm(axis: int) -> Case:
    """A mean of squares of differences, over rows or over columns."""

    def build(graph: SymbolicGraph, elements: int, length: int) -> Symbol:
        x, middle = _uniform(graph, elements // 1024, 1024), _uniform(graph, 1024)
        return ops.reduce_mean(ops.square(x - middle), axis)

    return build


def _product(inner: int, activation: Callable[[Symbol], Symbol]) -> Case:
    """Rows of 1024: activation(x · w + bias)."""

    def build(graph: SymbolicGraph, elements: int, length: int) -> Symbol:
        x, w, bias = _uniform(graph, elements // 1024, inner), _uniform(graph, inner, 1024), _uniform(graph, 1024)
        return activation(ops.gemm(x, w, bias))

    return build


def _convolution(kernel: int) -> Case:
    """An image of 64 channels: relu((x ⋆ w) · scale + bias)."""

    def build(graph: SymbolicGraph, elements: int, length: int) -> Symbol:
        size = math.isqrt(elements // 64)
        x, w = _uniform(graph, 1, size, size, 64), _uniform(graph, kernel, kernel, 64, 64)
        y = ops.convolution(x, w, window=window_of(kernel, padding="same"))
        return ops.relu(y * _uniform(graph, 64) + _uniform(graph, 64))

    return build


FUSIONS: Mapping[str, Case] = {
    "cheap chain": _chain(CHEAP),
    "dear chain": _chain(DEAR),
    "mean over rows": _norm(1),
    "mean over columns": _norm(0),
    "product of depth 64, relu": _product(64, ops.relu),
    "product of depth 1024, relu": _product(1024, ops.relu),
    "product of depth 256, gelu": _product(256, ops.gelu_tanh),
    "convolution 1x1, scale, bias, relu": _convolution(1),
    "convolution 3x3, scale, bias, relu": _convolution(3),
}


def fusion(name: str, elements: int, length: int, backend: str) -> None:
    """Milliseconds of a case of FUSIONS, as it is and as groups, by turns in one run of this program."""
    nodes: list[int] = []
    programs: list[Compiled] = []
    for passes in ((), (Pass.GROUPS,)):
        graph = SymbolicGraph(name)
        y = FUSIONS[name](graph, elements, length)
        inputs = [graph.symbol(key) for key in graph.inputs_of(graph.execs.toposort())]
        values = np.random.default_rng(7)
        given = {x: Tensor.from_numpy(values.uniform(-1, 1, x.shape).astype(np.float32)) for x in inputs}
        simplify(graph, [y], passes)
        nodes.append(len(graph.execs))
        programs.append(compile(graph, [y], given=given, backend=backend))
    times: list[list[float]] = [[], []]
    for _ in range(21):
        for found, compiled in zip(times, programs, strict=True):
            start = time.perf_counter()
            compiled.run()
            found.append(1e3 * (time.perf_counter() - start))
    plain, fused = (median(found[1:]) for found in times)
    row = {"case": name, "elements": elements, "backend": backend, "nodes": nodes}
    row["ms"] = [round(plain, 3), round(fused, 3)]
    print(json.dumps({**row, "ratio": round(plain / fused, 2)}))


REPORTED: Mapping[str, tuple[tuple[str, Sequence[Pass]], ...]] = {
    "predict": (("default", DEFAULT),),
    "train": (("default", DEFAULT), ("and rematerialization", (*DEFAULT, Pass.REMATERIALIZATION))),
}


def networks(batch: int) -> None:
    """What the passes do to networks: nodes, which rules fired, and the arena before and after."""
    for name in ("resnet50", "densenet121", "gpt_6x384"):
        for kind, table in REPORTED.items():
            plain, _ = planned(name, kind, batch, ())
            for label, passes in table:
                report(name, kind, label, plain, *planned(name, kind, batch, passes))
            if kind == "predict":
                report(name, kind, "parameters' own work beforehand", plain, *folded(name, batch))


def report(name: str, kind: str, label: str, plain: int, arena: int, reports: Sequence[Report]) -> None:
    """One line."""
    row = {
        "network": name,
        "kind": kind,
        "passes": label,
        "nodes": [reports[0].before, reports[-1].after],
        "arena": [plain, arena],
        "fired": {one.name: dict(one.fired) for one in reports if one.fired},
    }
    print(json.dumps(row), flush=True)


def planned(name: str, kind: str, batch: int, passes: Sequence[Pass]) -> tuple[int, tuple[Report, ...]]:
    """Bytes of the arena, and the reports of the passes."""
    row = NETWORKS[name]
    model = Model(row.build(), row.input_shape, input_dtype=row.input_dtype, passes=passes)
    steps = {"predict": model.prediction_step, "train": model.training_step}
    step = steps[kind](batch)
    return step.compiled.memory().arena, step.passes


def folded(name: str, batch: int) -> tuple[int, tuple[Report, ...]]:
    """The same for a prediction whose norms go into weights, and what depends on parameters alone is done before."""
    row = NETWORKS[name]
    model = Model(row.build(), row.input_shape, input_dtype=row.input_dtype)
    graph = SymbolicGraph(name)
    parameters = {path: graph.input(one.spec, path) for path, one in model.specs.items()}
    y = model.apply(graph.input(TensorSpec((batch, *row.input_shape), model.input_dtype), "x"), parameters)
    reports = simplify(graph, [y], [Pass.BATCH_NORM])
    before = precompute(graph, parameters.values(), [y])
    reports += simplify(graph, [y], DEFAULT)
    given = dict.fromkeys((*parameters.values(), *before.results))
    return compile(graph, [y], given=given).memory().arena, reports


def main() -> None:
    """Run the named benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("growth", "fusion", "networks"))
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--elements", type=int, default=1 << 22)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--backend", default="llvm")
    given = parser.parse_args()
    if given.what == "growth":
        growth(given.most)
    elif given.what == "networks":
        networks(given.batch)
    else:
        for name in FUSIONS:
            fusion(name, given.elements, given.length, given.backend)


if __name__ == "__main__":
    main()
