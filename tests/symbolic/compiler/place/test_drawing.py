"""What a page shows of a compiled graph: loops and branches, stages of passes, and when what ran."""

from __future__ import annotations

import numpy as np

import nnc
from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, case_of, compile, scope, while_loop
from nnc.symbolic.compiler.place.drawing import bars_of, compiled_stage
from nnc.symbolic.passes.simplification import simplify
from nnc.symbolic.stages import recorded_stages


def looped() -> tuple[Compiled, Symbol, Symbol]:
    graph = SymbolicGraph()
    x0 = graph.input(spec((8, 8)), "x0")
    with scope("walk"), while_loop(graph, CountBelow(2)) as loop:
        x, y = loop.carry(x0, "x"), loop.carry(ops.sin(x0), "y")
        (z,) = case_of(loop.body, loop.count, [lambda z: ops.exp(z) * z, lambda z: ops.tanh(z) + z], [y])
        loop.next(x, z)
        loop.next(y, ops.sin(x @ z))
    result = loop.result(x)
    return compile(graph, [result]), x0, result


def test_bands_lie_inside_each_other_as_loops_and_branches_do() -> None:
    view = looped()[0].view()
    loop, first, second = view.bands
    assert loop.text.startswith("walk · while · one of 2 iterations; buffers take turns: ")
    assert [one.text.rpartition(" · ")[2] for one in (first, second)] == ["case 0", "case 1"]
    assert loop.lower < first.lower < first.upper == second.lower < second.upper < loop.upper
    inside = [block for block in view.problem.blocks if loop.lower <= block.lower < block.upper <= loop.upper]
    ends = [step.moment for step in view.steps[1:]] + [max(block.upper for block in view.problem.blocks)]
    assert any(step.moment < loop.lower and loop.upper < end + 1 for step, end in zip(view.steps, ends, strict=True))
    assert all(block.lower >= loop.lower for block in inside)


def test_what_ran_stands_at_the_moment_of_its_step_in_each_iteration() -> None:
    compiled, x0, result = looped()
    with nnc.profile() as found:
        compiled({x0: np.ones((8, 8), np.float32)}, result)
    moments = {step.moment: step.text for step in compiled.view().steps}
    bars = bars_of(compiled.planned, found)
    kernels = [bar for bar in bars if bar.lane.startswith("thread")]
    assert {bar.moment for bar in kernels if bar.text == "walk · gemm"} == {
        moment for moment, text in moments.items() if "while" in text
    }
    assert [bar.text for bar in kernels].count("walk · gemm") == 2


def test_stages_are_the_graph_behind_each_pass_that_changed_it() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4)), "x")
    with scope("layer"):
        y = ops.relu(ops.exp(x) + 0.0)
    unused = ops.sin(x)
    with recorded_stages() as stages:
        simplify(graph, [y])
    compiled = compile(graph, [y])
    assert stages[0].name == "as built"
    assert any("sin" in node.title for node in stages[0].nodes)
    assert all("sin" not in node.title for node in stages[-1].nodes)
    assert any(stage.fired for stage in stages)
    last = compiled_stage(compiled.planned, None)
    assert {node.key for node in last.nodes} == {node.key for node in stages[-1].nodes}
    assert [node.moment for node in last.nodes] == list(compiled.planned.layout.starts[: len(last.nodes)])
    assert unused.graph is graph


def test_nobody_records_unless_asked() -> None:
    graph = SymbolicGraph()
    y = ops.exp(graph.input(spec((4,)), "x"))
    with recorded_stages() as stages:
        pass
    simplify(graph, [y])
    assert stages == []
