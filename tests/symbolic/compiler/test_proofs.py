"""What no plan can be below, beside what is planned, within limits too."""

from __future__ import annotations

import pytest
from tests.symbolic.compiler.order.test_least import program

from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.errors import MemoryLimitError, UsageError
from nnc.symbolic import SymbolicGraph, compile, least_memory, while_loop


def test_bounds_stand_in_order_and_no_limit_that_is_met_is_below() -> None:
    met = 0
    for seed in range(30):
        graph, uses = program(seed)
        outputs = [graph.symbol(root) for root in sorted(uses.kept)]
        compiled = compile(graph, outputs)
        least, statement = least_memory(compiled), compiled.memory()
        assert least.any_order.exact
        assert statement.any_order_bound <= least.again.nbytes <= least.any_order.nbytes <= least.this_order
        assert least.this_order == statement.lower_bound <= least.arena == statement.arena
        with pytest.raises(MemoryLimitError):
            compile(graph, outputs, memory_limit=least.again.nbytes - 1)
        met += least.again.nbytes < least.arena
    assert met >= 1


def test_what_is_not_searched_is_refused_and_what_is_broken_off_says_so() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4)))
    with while_loop(graph, CountBelow(3)) as loop:
        carried = loop.carry(x)
        loop.next(carried, carried + x)
    with pytest.raises(UsageError, match="least_memory: got loops or branches; need a graph without"):
        least_memory(compile(graph, [loop.result(carried)]))
    wide, uses = program(7)
    least = least_memory(compile(wide, [wide.symbol(root) for root in sorted(uses.kept)]), looks=1)
    assert not least.again.exact
    assert str(least).endswith(f"{least.again.nbytes} B, which may be too low")
