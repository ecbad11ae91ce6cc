"""One dynamic graph and many threads: records are whole, gradients are right, handles go at any moment."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from tests.together import in_threads

from nnc import ops
from nnc.dynamic import DynamicGraph, Variable
from nnc.symbolic import ExecSymbol, SymbolicGraph, verify
from nnc.symbolic.records import ExecKey


def descend(graph: DynamicGraph, seed: int, steps: int) -> bytes:
    """Steps of gradient descent for |tanh(x w) v|²; the weights behind them."""
    generator = np.random.default_rng(seed)
    x = graph.constant(generator.standard_normal((3 + seed % 2, 4)))
    w, v = (graph.variable(generator.standard_normal(shape)) for shape in ((4, 5), (5, 2)))
    for _ in range(steps):
        loss = ops.reduce_sum(ops.square(ops.tanh(x @ w)[:, :5] @ v))
        slopes = graph.backward([loss], [w, v])
        w, v = (graph.variable(old.numpy() - 0.01 * slope.numpy()) for old, slope in zip((w, v), slopes, strict=True))
    return w.numpy().tobytes() + v.numpy().tobytes()


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_threads_share_a_graph(backend: str) -> None:
    graph = DynamicGraph(backend)
    wanted = [descend(DynamicGraph(backend), seed, 15) for seed in range(4)]
    found: dict[int, bytes] = {}
    in_threads(*[lambda seed=seed: found.update({seed: descend(graph, seed, 15)}) for seed in range(4)])  # type: ignore[misc]  # bound by default
    assert [found[seed] for seed in range(4)] == wanted
    gc.collect()
    assert (len(graph.record.execs), len(graph.record.tensors), graph.alive()) == (0, 0, [])


def test_variables_that_go_while_the_record_is_looked_at_leave_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = DynamicGraph("reference")
    waste: list[Variable] = [graph.variable([1.0]) * 2.0]
    x = graph.variable([3.0])
    y = x * x
    add = SymbolicGraph.add_exec

    def interrupted(record: SymbolicGraph, symbol: ExecSymbol) -> ExecKey:
        waste.clear()
        return add(record, symbol)

    monkeypatch.setattr(SymbolicGraph, "add_exec", interrupted)
    assert len(graph.record.execs) == 2
    assert not waste
    assert len(graph.record.execs) == 1
    verify(graph.record)
    (slope,) = graph.backward([y], [x])
    assert slope.item() == 6.0
    del y, slope, x
    assert (len(graph.record.execs), len(graph.record.tensors)) == (0, 0)


def test_gradient_programs_share_one_arena() -> None:
    graph = DynamicGraph("reference")
    for seed in (0, 1):
        descend(graph, seed, 2)
    arenas = {id(program.compiled.compiled._arena) for program in graph._programs.values()}
    sizes = [program.compiled.compiled.memory().arena for program in graph._programs.values()]
    assert len(arenas) == 1
    assert graph._arena.nbytes == max(sizes)
