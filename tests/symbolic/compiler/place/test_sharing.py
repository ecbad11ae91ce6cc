"""What shares memory is chosen with the plan as the judge."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from nnc import ops
from nnc.core.spec import spec
from nnc.symbolic import SymbolicGraph, compile
from nnc.symbolic.compiler.place.memory import ArenaLayout, MemoryStatement

sharing = import_module("nnc.symbolic.compiler.place.sharing")


def joined() -> MemoryStatement:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 16)))
    y = ops.concatenate([ops.tanh(x), ops.exp(x)], 0)
    return compile(graph, [ops.square(y)], backend="reference").memory()


def test_a_concatenation_is_tried_in_place_unless_the_plan_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = joined()
    # The other input is written over x.
    assert (tried.copies_saved, tried.copied_bytes_saved) == (1, 4 * 16 * 4)
    monkeypatch.setattr(sharing, "TRIED_PAIRS", 1)
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
    lay_out = sharing.lay_out

    def dearer(*arguments: Any) -> ArenaLayout:
        layout: ArenaLayout = lay_out(*arguments)
        shared = sum(len(life.roots) - 1 for life in layout.blocks)
        return replace(layout, plan=replace(layout.plan, arena_bytes=layout.plan.arena_bytes + 4096 * shared))

    shared, result = chain()
    assert shared == 3
    monkeypatch.setattr(sharing, "lay_out", dearer)
    assert chain() == (0, result)
