from __future__ import annotations

from importlib import import_module

import pytest

from nnc import ops
from nnc.core.spec import spec
from nnc.symbolic import SymbolicGraph, compile
from nnc.symbolic.compile.memory import MemoryStatement

sharing = import_module("nnc.symbolic.compile.sharing")


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
