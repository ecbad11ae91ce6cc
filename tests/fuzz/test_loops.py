"""A slice of `scripts/fuzz loops`, and the loops that it found to be at fault."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.fuzz.loops import LoopReport, run_loops
from tests.symbolic.interpreter import interpret

from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.ops import gemm
from nnc.symbolic import SymbolicGraph, compile, while_loop


def test_random_loops_give_what_the_interpreter_does() -> None:
    report = run_loops(range(60))
    assert report.failures == []
    assert report.loops == 60
    expected = ("0 iterations", "1 iterations", "3 carried", "order 2", "rows", "a loop in a loop", "2 streams")
    assert min(report.features[name] for name in expected) > 2


def test_the_report_is_a_line_of_json() -> None:
    report = LoopReport(2, failures=["loop 1: off"])
    report.add(LoopReport(3))
    assert json.loads(str(report)) == {"loops": 5, "features": {}, "failures": ["loop 1: off"]}


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_an_iteration_that_is_not_there_may_lie_anywhere(backend: str) -> None:
    """In a loop of one iteration values end early, so the memory of a second one would meet itself."""
    graph = SymbolicGraph()
    x, y, z, w = (graph.input(spec((3, 3))) for _ in range(4))
    with while_loop(graph, CountBelow(1)) as loop:
        a, b, c = (loop.carry(symbol) for symbol in (x, y, z))
        product = gemm(c, w)
        loop.next(a, product)
        loop.next(b, a)
        loop.next(c, product)
    wanted = [loop.result(a), loop.result(a) * loop.result(a)]
    values = {symbol: np.full((3, 3), 0.5, np.float32) for symbol in (x, y, z, w)}
    expected = interpret(graph, wanted, values)
    compiled = compile(graph, wanted, backend=backend)
    given = {symbol: values[symbol] for symbol in (z, w)}
    for got, want in zip(compiled(given | {x: values[x], y: values[y]}, *wanted), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
