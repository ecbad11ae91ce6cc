from __future__ import annotations

import numpy as np
from tests.symbolic.evaluation import values_of

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import SymbolicGraph, backward, prune, verify


def test_what_no_output_needs_goes_and_inputs_stay() -> None:
    graph = SymbolicGraph()
    x, unused = graph.input(spec((4,))), graph.input(spec((4,)))
    y = ops.exp(x)
    ops.log(y * y)
    assert prune(graph, [y]) == 2
    verify(graph)
    assert [record.command.op.name for _, record in graph.execs.items()] == ["exp"]
    assert tuple(graph.tensors) == (x.key, unused.key, y.key)
    assert prune(graph, [y]) == 0


def test_aliases_of_what_goes_go_too() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4)))
    wanted = ops.exp(x)
    part = ops.sin(x)[1:3]
    ops.reshape(part, (8,))
    ops.log(part)
    kept = x[0:1]
    assert prune(graph, [wanted]) == 2
    verify(graph)
    assert tuple(graph.tensors) == (x.key, wanted.key, kept.key)


def test_a_wanted_alias_keeps_all_writers_of_its_root() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((2,))), graph.input(spec((4,)))
    graph.apply(Command(contiguous, NoAttrs()), [x], [whole[0:2]])
    graph.apply(Command(contiguous, NoAttrs()), [ops.exp(x)], [whole[2:4]])
    wanted = whole[1:3]
    assert prune(graph, [wanted]) == 0
    ops.exp(wanted)
    assert prune(graph, [wanted]) == 1
    verify(graph)
    got = values_of(graph, [wanted], {x: np.array([1.0, 2.0], np.float32)})[0]
    np.testing.assert_allclose(got, [2.0, np.e], rtol=1e-6)


def test_an_unwritten_output_is_an_input() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2,)))
    ops.exp(x)
    assert prune(graph, [x]) == 1
    assert tuple(graph.tensors) == (x.key,)


def test_parts_written_for_nobody_go() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((2,))), graph.input(spec((4,)))
    part = whole[0:2]
    graph.apply(Command(contiguous, NoAttrs()), [x], [part])
    assert prune(graph, [x]) == 1
    verify(graph)
    assert part.key not in graph.tensors


def test_values_are_those_before_pruning() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,), "f64"))
    y = ops.exp(x[0:2]) * x[1:3]
    (slope,) = backward(graph, [y], [x])
    ops.sin(slope)
    values = {x: np.array([0.1, 0.2, 0.3])}
    before = values_of(graph, [slope], values)[0]
    prune(graph, [slope])
    verify(graph)
    np.testing.assert_array_equal(values_of(graph, [slope], values)[0], before)
