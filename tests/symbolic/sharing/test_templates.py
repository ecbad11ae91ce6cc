"""A graph made of a template is the graph that is built for these sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.sizes import SizeTrace
from nnc.core.values.spec import TensorSpec
from nnc.ops.convolutions.window import window_of
from nnc.symbolic import Symbol, SymbolicGraph, while_loop
from nnc.symbolic.passes import simplify
from nnc.symbolic.sharing.templates import GraphTemplate

Build = Callable[[SymbolicGraph, int, int], Symbol]


def reshaped(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    x = graph.input(TensorSpec((n, m, 4)), "x")
    y = ops.reshape(ops.relu(ops.transpose(x, (1, 0, 2))), (n * m, 4))
    return ops.softmax(ops.slice_axis(y, 0, n, n * m) * (1.0 / m))


def pooled(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    x = graph.input(TensorSpec((1, n, m, 4)), "x")
    return ops.reduce_mean(ops.max_pool(ops.exp(x), (2, 2), window_of(2, stride=2, rank=2)), (1, 2)) + ops.reduce_sum(
        x, (1, 2)
    ) / (n * m)


def padded(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    x = graph.input(TensorSpec((n, m)), "x")
    return ops.concatenate((ops.pad(x, (0, 1), (m % 2, 2)), ops.pad(x, (0, 3), (0, 0))), 0)


def looped(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    x = graph.input(TensorSpec((n, m)), "x")
    with while_loop(graph, CountBelow(3)) as loop:
        state = loop.carry(x)
        loop.next(state, state * 2.0 + ops.reduce_sum(state, (1,), keepdims=True) / m)
    return loop.result(state)


def built(build: Build, n: int, m: int) -> SymbolicGraph:
    graph = SymbolicGraph("sizes")
    simplify(graph, (build(graph, n, m),))
    return graph


@pytest.mark.parametrize("build", [reshaped, pooled, padded])
def test_a_template_gives_the_graphs_that_passes_make_for_other_sizes(build: Build) -> None:
    trace = SizeTrace()
    n, m = trace.read(8), trace.read(6)
    graph = built(build, n, m)
    formulas, made = trace.close(), 0
    template = GraphTemplate.of(graph)
    for sizes in ((8, 6), (7, 6), (12, 10), (9, 5), (4, 4), (1, 3), (31, 17)):
        numbers = formulas.at(sizes)
        if numbers is not None:
            made += 1
            assert str(template.at(numbers)) == str(built(build, *sizes))
    assert made >= 3


def test_a_graph_of_a_template_is_changed_on_its_own() -> None:
    trace = SizeTrace()
    graph = built(reshaped, trace.read(8), 6)
    numbers, template = trace.close().at((9,)), GraphTemplate.of(graph)
    assert numbers is not None
    made, before = template.at(numbers), str(template.at(numbers))
    ops.relu(made.symbol(next(iter(made.tensors))))
    assert str(template.at(numbers)) == before != str(made)


def test_bodies_of_loops_have_the_sizes_too() -> None:
    trace = SizeTrace()
    graph = built(looped, trace.read(8), trace.read(6))
    formulas = trace.close()
    template = GraphTemplate.of(graph)
    numbers = formulas.at((5, 7))
    assert numbers is not None
    assert str(template.at(numbers)) == str(built(looped, 5, 7))


def test_a_graph_without_sizes_is_fixed() -> None:
    assert GraphTemplate.of(built(reshaped, 8, 6)).is_fixed
