"""Sums over all steps of a sequence, part by part."""

from __future__ import annotations

import pytest
from tests.symbolic.compiler.repeat.test_budget import values
from tests.symbolic.compiler.repeat.test_segments import program

from nnc.symbolic import SymbolicGraph, compile, verify
from nnc.symbolic.passes.numbers.step_sums import sum_in_parts

pytestmark = pytest.mark.usefixtures("debug")


@pytest.mark.parametrize(("cell", "sums"), [("lstm", 3), ("gru", 4), ("rnn", 3)])
def test_gradients_of_weights_are_summed_in_parts_of_the_steps(cell: str, sums: int) -> None:
    """Of both weights and of each bias: four parts each, the last one first."""
    graph = SymbolicGraph()
    inputs, outputs = program(graph, cell, "last")
    want = values(compile(graph, outputs, backend="reference"), inputs, outputs)
    before = len(graph.execs)
    assert sum_in_parts(graph) == {"sums": sums}
    verify(graph)
    assert len(graph.execs) == before + sums * (3 + 3)
    got = values(compile(graph, outputs, backend="reference"), inputs, outputs)
    for one, other in zip(got, want, strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-4)


def test_sums_that_are_short_stay_as_they_are() -> None:
    graph = SymbolicGraph()
    program(graph, "lstm", "last", steps=4)
    assert not +sum_in_parts(graph)
