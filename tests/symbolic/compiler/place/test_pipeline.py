"""What shares memory is chosen with the plan as the judge."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.symbolic import Symbol, SymbolicGraph, TensorKey, case_of, compile, while_loop
from nnc.symbolic.compiler.place.memory import ArenaLayout
from nnc.symbolic.compiler.place.memory_statement import MemoryStatement

plan_module = import_module("nnc.symbolic.compiler.place.pipeline")


def joined() -> MemoryStatement:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 16)))
    y = ops.concatenate([ops.tanh(x), ops.exp(x)], 0)
    return compile(graph, [ops.square(y)], backend="reference").memory()


def test_a_concatenation_is_tried_in_place_unless_the_plan_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = joined()
    # The other input is written over x.
    assert (tried.copies_saved, tried.copied_bytes_saved) == (1, 4 * 16 * 4)
    monkeypatch.setattr(plan_module, "TRIED_PAIRS", 1)
    untried = joined()
    assert (untried.copies_saved, untried.copied_bytes_saved) == (0, 0)
    assert tried.arena <= untried.arena


def chain() -> tuple[int, bytes]:
    """How many values share the memory of another one, and the result."""
    graph = SymbolicGraph()
    x = graph.input(spec((64,)))
    y = ops.square(ops.exp(ops.tanh(x)))
    program = compile(graph, [y], backend="reference")
    (result,) = program({x: np.linspace(-1, 1, 64, dtype=np.float32)}, y)
    return sum(len(life.roots) - 1 for life in program.planned.layout.blocks), result.tobytes()


def test_outputs_keep_to_themselves_where_the_plan_is_smaller_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that finds shared blocks hard to place."""
    lay_out = plan_module.lay_out

    def dearer(*arguments: Any) -> ArenaLayout:
        layout: ArenaLayout = lay_out(*arguments)
        shared = sum(len(life.roots) - 1 for life in layout.blocks)
        return replace(layout, plan=replace(layout.plan, arena_bytes=layout.plan.arena_bytes + 4096 * shared))

    shared, result = chain()
    assert shared == 3
    monkeypatch.setattr(plan_module, "lay_out", dearer)
    assert chain() == (0, result)


def four_operators(x: Symbol) -> Symbol:
    return ops.reduce_sum(ops.concatenate([ops.tanh(x), ops.exp(x)], 0), 0)


def test_four_operators_take_as_much_as_a_branch_as_by_themselves() -> None:
    """The parts are computed in the concatenation, and the sum where the input was, which ends in the branch."""
    alone, graph = SymbolicGraph(), SymbolicGraph()
    y = four_operators(alone.input(spec((512, 512))))
    x, choice = graph.input(spec((512, 512))), graph.input(spec((), "i64"))
    (z,) = case_of(graph, choice, [four_operators], [x])
    top, branch = compile(alone, [y], backend="reference"), compile(graph, [z], backend="reference")
    assert (top.memory().arena, top.memory().optimal) == (3 * 2**20, True)
    assert (branch.memory().arena, branch.memory().optimal) == (3 * 2**20, True)
    value = np.random.default_rng(0).standard_normal((512, 512), dtype=np.float32)
    (expected,) = top({alone.symbol(TensorKey(0)): value}, y)
    (found,) = branch({x: value, choice: np.array(0)}, z)
    assert found.tobytes() == expected.tobytes()


def test_branches_compute_where_the_result_is_wanted_and_over_what_ends() -> None:
    """Each branch in its own way; where one cannot write over the operand, its result has a block of its own."""
    value = np.linspace(-1.0, 1.0, 64, dtype=np.float32)
    for other, buffers in ((lambda x: ops.square(x + 1.0), 1), (lambda x: ops.flip(x, 0), 2), (lambda x: x, 1)):
        graph = SymbolicGraph()
        x, choice = graph.input(spec((64,))), graph.input(spec((), "i64"))
        (y,) = case_of(graph, choice, [lambda x: ops.exp(ops.tanh(x)), other], [x])
        given = {choice: Tensor.from_numpy(np.array(1))}
        compiled = compile(graph, [y], given=given, backend="reference")
        assert compiled.memory().arena == buffers * 256
        for index, expected in ((0, np.exp(np.tanh(value))), (1, None)):
            given[choice].copy_from(np.array(index))
            (found,) = compiled({x: value}, y)
            if expected is not None:
                np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.tobytes() == value.tobytes()


def test_branches_inside_each_other_are_planned_as_often_at_each_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once per lending of memory: plans of the bodies around do not make them again."""
    pipeline = import_module("nnc.symbolic.compiler.place.pipeline")
    counts, plan = [0], pipeline.plan

    def counted(*values: Any, **options: Any) -> Any:
        counts[-1] += 1
        return plan(*values, **options)

    def nested(depth: int, x: Symbol, choice: Symbol) -> Symbol:
        if not depth:
            return ops.exp(x)
        branches = [lambda x, choice: nested(depth - 1, ops.tanh(x), choice), lambda x, choice: ops.exp(x)]
        return case_of(x.graph, choice, branches, [x, choice])[0]

    monkeypatch.setattr(pipeline, "plan", counted)
    for depth in (3, 4, 5):
        graph = SymbolicGraph()
        counts.append(0)
        compile(graph, [nested(depth, graph.input(spec((64,))), graph.input(spec((), "i64")))], backend="reference")
    assert counts[-1] - counts[-2] == counts[-2] - counts[-3]


def test_an_operand_that_is_read_later_is_left_alone_by_branches() -> None:
    graph = SymbolicGraph()
    x, choice = graph.input(spec((64,))), graph.input(spec((), "i64"))
    (y,) = case_of(graph, choice, [lambda x: ops.exp(x)], [x])
    z = y - x
    value = np.linspace(-1.0, 1.0, 64, dtype=np.float32)
    (found,) = compile(graph, [z], backend="reference")({x: value, choice: np.array(0)}, z)
    np.testing.assert_allclose(found, np.exp(value) - value, rtol=1e-6)


def test_parts_of_a_concatenation_in_a_loop_are_computed_in_its_slot() -> None:
    """The state is a concatenation; it moves between two slots, and its parts move with it."""
    graph = SymbolicGraph()
    x = graph.input(spec((8, 16)))
    with while_loop(graph, CountBelow(5)) as loop:
        state = loop.carry(x)
        loop.next(state, ops.concatenate([ops.tanh(state[4:]), ops.affine(state[:4], 0.5, 1.0)], 0))
    y = loop.result(state)
    compiled = compile(graph, [y], backend="reference")
    ((body,),) = compiled.planned.inner.values()
    assert body.lives.in_place == {2: {0, 1}}
    assert compiled.memory().arena == 2 * 8 * 16 * 4
    value = np.random.default_rng(0).standard_normal((8, 16), dtype=np.float32)
    expected = value
    for _ in range(5):
        expected = np.concatenate([np.tanh(expected[4:]), expected[:4] * np.float32(0.5) + np.float32(1.0)])
    (found,) = compiled({x: value}, y)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
