"""Random loops against an interpreter that has no plan: carried values handed over in any order, rows, loops in loops.

A seed is a loop of 0 to 4 iterations over 1 to 3 carried matrices, whose next values are any of those that an iteration
begins with or makes. It is differentiated up to twice, rewritten or not, and run on either backend, on one stream or
two, with freed memory poisoned or not. Values are those of the interpreter, in f64.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np
from tests.fuzz.graphs.checks import short_search
from tests.fuzz.limits import Overtime, describe, time_limit
from tests.symbolic.interpreter import Array, interpret

from nnc.concrete import CountBelow
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import F64
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import SymbolError
from nnc.ops import gemm, index_select, multiply, reduce_sum, tanh, transpose
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, while_loop
from nnc.symbolic.control.loops import Loop
from nnc.symbolic.passes import simplify

SECONDS = 60
PART = 100
SIDE = 3
# As many as the most iterations that there are.
ROWS = 4
# Beside what is wrong by rounding, which gradients of gradients of products make larger.
RELATIVE = 1e-9


@dataclass
class LoopProgram:
    """A graph with one loop at least: what goes in, what is asked for, and what it is made of."""

    graph: SymbolicGraph
    inputs: list[Symbol]
    wanted: list[Symbol]
    features: set[str]


@dataclass
class LoopReport:
    """How many loops there were, what they had in them, and which were at fault."""

    loops: int = 0
    features: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: LoopReport) -> None:
        """Count another part in."""
        self.loops += other.loops
        self.features.update(other.features)
        self.failures.extend(other.failures)

    def __str__(self) -> str:
        """One line of JSON."""
        return json.dumps({"loops": self.loops, "features": dict(self.features), "failures": self.failures})


def program_of(seed: int) -> LoopProgram:
    """The loop that a seed stands for."""
    numbers = random.Random(seed)
    graph = SymbolicGraph()
    shape = spec((SIDE, SIDE), F64)
    carried = [graph.input(shape, f"x{place}") for place in range(numbers.randint(1, 3))]
    turns = numbers.choice((0, 1, 1, 1, 1, 2, 3, 4))
    weights, rows = graph.input(shape, "weights"), graph.input(spec((ROWS, SIDE, SIDE), F64), "rows")
    features = {f"{turns} iterations", f"{len(carried)} carried"}
    outs = _loop(numbers, graph, carried, (weights, rows), turns, features)
    wanted, order = list(outs), numbers.choice((0, 0, 1, 1, 2))
    features.add(f"order {order}")
    last: Sequence[Symbol] = outs
    for _ in range(order):
        last = backward(graph, [reduce_sum(multiply(symbol, symbol)) for symbol in last], [*carried, weights, rows])
        wanted.extend(last)
    if numbers.random() < 0.3:
        wanted = list(last)
    return LoopProgram(graph, [*carried, weights, rows], wanted, features)


def _loop(
    numbers: random.Random,
    graph: SymbolicGraph,
    initial: Sequence[Symbol],
    given: tuple[Symbol, Symbol],
    turns: int,
    features: set[str],
    depth: int = 0,
) -> list[Symbol]:
    """Some results of a loop over these, and sometimes the rows of a value."""
    with while_loop(graph, CountBelow(turns)) as loop:
        carried = [loop.carry(symbol) for symbol in initial]
        made = _body(numbers, loop, carried, given, features, depth)
        for symbol in carried:
            loop.next(symbol, numbers.choice(made if numbers.random() < 0.5 else carried))
    outs = [loop.result(symbol) for symbol in numbers.sample(carried, numbers.randint(1, len(carried)))]
    if turns and numbers.random() < 0.3:
        features.add("rows")
        outs.append(loop.rows(numbers.choice([*carried, *made])))
    if numbers.random() < 0.3:
        outs.append(outs[0] * outs[0])
    return outs


def _body(
    numbers: random.Random,
    loop: Loop,
    carried: Sequence[Symbol],
    given: tuple[Symbol, Symbol],
    features: set[str],
    depth: int,
) -> list[Symbol]:
    """One to four values of an iteration."""
    weights, rows = given
    values = list(carried)
    for _ in range(numbers.randint(1, 4)):
        a, b = numbers.choice(values), numbers.choice(values)
        match numbers.choice(("multiply", "add", "tanh", "gemm", "transpose", "row", "weights", "loop")):
            case "multiply":
                values.append(a * b)
            case "add":
                values.append(a * b + a)
            case "tanh":
                values.append(tanh(a))
            case "gemm":
                values.append(gemm(a, b, transpose_b=numbers.random() < 0.3))
            case "transpose":
                values.append(transpose(a, (1, 0)))
            case "row":
                values.append(a + index_select(rows, loop.count, axis=0))
            case "weights":
                values.append(gemm(a, weights))
            case _:
                if depth == 0 and numbers.random() < 0.5:
                    features.add("a loop in a loop")
                    inner = _loop(numbers, loop.body, [a, b], given, numbers.choice((1, 1, 2)), set(), 1)
                    values.extend(symbol for symbol in inner if symbol.shape == a.shape)
    return values[len(carried) :] or values


def values_of(program: LoopProgram, seed: int) -> dict[Symbol, Array]:
    """Elements of the inputs, small enough for products of products."""
    numbers = np.random.default_rng(seed)
    return {symbol: numbers.uniform(-0.7, 0.7, symbol.shape) for symbol in program.inputs}


def check_loop(seed: int) -> set[str]:
    """AssertionError, or an error of nnc, where the loop of a seed does not give what the interpreter does."""
    program, numbers = program_of(seed), random.Random(~seed)
    values = values_of(program, seed)
    with np.errstate(all="ignore"):
        expected = interpret(program.graph, program.wanted, values)
    features = set(program.features)
    if numbers.random() < 0.5:
        simplify(program.graph, program.wanted)
        features.add("simplified")
    backend, streams = numbers.choice(("reference", "llvm")), numbers.choice((1, 1, 2))
    given = {symbol: Tensor.from_numpy(values[symbol].copy()) for symbol in program.inputs}
    compiled = compile(
        program.graph,
        program.wanted,
        backend=backend,
        streams=streams,
        given=given if numbers.random() < 0.5 else {},
    )
    written: dict[Symbol, Array] = {}
    for symbol, value in values.items():
        with suppress(SymbolError):
            compiled.write(symbol, value)
            written[symbol] = value
    for _ in range(2):
        for got, want in zip(compiled(written, *program.wanted), expected, strict=True):
            _require_close(got, want)
    return features | {backend, f"{streams} streams"}


def _require_close(got: Array, want: Array) -> None:
    finite = want[np.isfinite(want)]
    allowed = RELATIVE * (1 + float(np.abs(finite).max(initial=0.0)))
    assert got.shape == want.shape
    assert np.array_equal(np.isfinite(got), np.isfinite(want)), "other elements are infinite"
    off = float(np.abs(got[np.isfinite(want)] - finite).max(initial=0.0))
    assert off <= allowed, f"off by {off:.2e}, {allowed:.2e} allowed"


def run_loops(seeds: Iterable[int]) -> LoopReport:
    """The loops of these seeds, those of odd ones in poisoned memory."""
    report, before = LoopReport(), SETTINGS.debug
    for seed in seeds:
        report.loops += 1
        SETTINGS.debug = seed % 2 == 1
        try:
            with time_limit(SECONDS), short_search():
                report.features.update(check_loop(seed))
        except (Exception, Overtime) as error:
            report.failures.append(f"loop {seed}: {describe(error)}")
        finally:
            SETTINGS.debug = before
    return report


def run_campaign(first: int, count: int, workers: int) -> LoopReport:
    """Loops `first` to `first + count` in processes of their own."""
    parts = [range(start, min(start + PART, first + count)) for start in range(first, first + count, PART)]
    report = LoopReport()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for part in pool.map(run_loops, parts):
            report.add(part)
    return report
