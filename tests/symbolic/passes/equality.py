"""What tests of passes share: values before and after a pass, on fixed random inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.fuzz.graphs.case import Case
from tests.fuzz.graphs.checks import passed
from tests.symbolic.interpreter import Array, interpret
from tests.symbolic.programs import Program

from nnc.core.values.dtype import F32, TOLERANCE
from nnc.symbolic import Symbol, SymbolicGraph, faults
from nnc.symbolic.passes import Pass, Report, simplify


def named(symbols: Sequence[Symbol], seed: int = 7) -> dict[Symbol, Array]:
    """Random numbers for inputs."""
    generator = np.random.default_rng(seed)
    return {symbol: generator.uniform(0.2, 1.5, symbol.shape) for symbol in symbols}


def check(
    graph: SymbolicGraph, outputs: Sequence[Symbol], inputs: Sequence[Symbol], passes: Sequence[Pass]
) -> tuple[Report, ...]:
    """Run the passes; the graph stays valid, and the outputs keep their values within the table."""
    values = named(inputs)
    before = interpret(graph, outputs, values)
    reports = simplify(graph, outputs, passes)
    assert faults(graph) == ()
    for got, want in zip(interpret(graph, outputs, values), before, strict=True):
        assert got.dtype == want.dtype
        row = TOLERANCE[F32].of_program(want)
        np.testing.assert_allclose(got, want, row.relative, row.absolute)
    return reports


def check_program(program: Program, passes: Sequence[Pass]) -> None:
    """A random program with its gradients keeps its values; the passes leave valid graphs."""
    passed(Case(program, 1), passes)
