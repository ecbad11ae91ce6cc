"""What the symbolic graph costs: seconds over chains of n nodes with the fitted exponent, and what fusion buys.

    python benchmarks/symbolic.py growth [--most 100000]
    python benchmarks/symbolic.py fusion [--elements 4194304] [--length 16]

Each line is one JSON object. `exponent` is the slope of log(seconds) over log(n); n log n between 10^3 and 10^5 has
about 1.1. No peer is named: the figures are ratios between runs of this package.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np

from nnc import ops
from nnc.core.spec import spec
from nnc.core.tensor import Tensor
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.text import dump, parse

Steps = tuple[Callable[[Symbol], Symbol], ...]
# Bound by memory, and bound by arithmetic.
CHEAP: Steps = (ops.relu, lambda y: ops.affine(y, 0.5, 0.1), ops.square, ops.absolute)
DEAR: Steps = (ops.tanh, ops.relu, ops.sigmoid, lambda y: ops.affine(y, 0.5, 0.1))


def chain(length: int, elements: int = 4, steps: Steps = DEAR) -> tuple[SymbolicGraph, Symbol, Symbol]:
    """A chain of pointwise execs."""
    graph = SymbolicGraph("chain")
    x = y = graph.input(spec((elements,)), "x")
    for step in range(length):
        y = steps[step % len(steps)](y)
    return graph, x, y


def stages(length: int) -> dict[str, float]:
    """Seconds of each stage, one after another on the same chain."""
    found: dict[str, float] = {}
    clock = time.perf_counter()

    def stop(name: str) -> None:
        nonlocal clock
        found[name] = time.perf_counter() - clock
        clock = time.perf_counter()

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
        stop(f"simplify: {one.value}")
    compile(graph, [y, *gradients], given={x: None}, backend="reference")
    stop("compile, fused")
    graph, x, y = chain(length)
    gradients = backward(graph, [y], [x])
    clock = time.perf_counter()
    compile(graph, [y, *gradients], given={x: None}, backend="reference")
    stop("compile")
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


def fusion(elements: int, length: int, backend: str, kind: str) -> None:
    """Milliseconds of a pointwise chain, as it is and as groups, by turns in one run of this program."""
    value = Tensor.from_numpy(np.linspace(-1, 1, elements, dtype=np.float32))
    nodes: list[int] = []
    programs: list[Compiled] = []
    for passes in ((), (Pass.GROUPS,)):
        graph, x, y = chain(length, elements, {"cheap": CHEAP, "dear": DEAR}[kind])
        simplify(graph, [y], passes)
        nodes.append(len(graph.execs))
        programs.append(compile(graph, [y], given={x: value}, backend=backend))
    times: list[list[float]] = [[], []]
    for _ in range(21):
        for found, compiled in zip(times, programs, strict=True):
            start = time.perf_counter()
            compiled.run()
            found.append(1e3 * (time.perf_counter() - start))
    plain, fused = (median(found[1:]) for found in times)
    row = {
        "steps": kind,
        "elements": elements,
        "backend": backend,
        "nodes": nodes,
        "ms": [round(plain, 3), round(fused, 3)],
    }
    print(json.dumps({**row, "ratio": round(plain / fused, 2)}))


def main() -> None:
    """Run the named benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("growth", "fusion"))
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--elements", type=int, default=1 << 22)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--backend", default="llvm")
    given = parser.parse_args()
    if given.what == "growth":
        growth(given.most)
    else:
        for kind in ("cheap", "dear"):
            fusion(given.elements, given.length, given.backend, kind)


if __name__ == "__main__":
    main()
