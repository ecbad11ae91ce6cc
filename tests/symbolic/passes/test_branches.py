"""Dead branches: a known choice leaves one branch; an unknown one, and operands that are views, leave all."""

from __future__ import annotations

import pytest
from tests.symbolic.passes.equality import check

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.symbolic import SymbolicGraph
from nnc.symbolic.control import case_of
from nnc.symbolic.passes import Pass

ROWS = spec((3, 4))


@pytest.mark.parametrize(("choice", "kept"), [(0, ["sin"]), (1, ["affine", "exp"])])
def test_a_known_choice_leaves_one_branch(choice: int, kept: list[str]) -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS)
    (index,) = graph.apply(Command(FILL, FillAttrs(float(choice), spec((), "i64"))), ())
    (y,) = case_of(graph, index, [lambda x: ops.sin(x), lambda x: ops.exp(x * 2.0)], [x])
    (report,) = check(graph, [y], [x], [Pass.BRANCHES])
    assert report.fired == {"known choice": 1}
    assert sorted(record.command.op.name for _, record in graph.execs.items()) == kept


def test_a_choice_outside_is_the_bypass() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS)
    (index,) = graph.apply(Command(FILL, FillAttrs(7.0, spec((), "i64"))), ())
    (y,) = case_of(graph, index, [lambda x: ops.sin(x)], [x], bypass=[x])
    check(graph, [y], [x], [Pass.BRANCHES])
    assert not any(record.command.op.name == "case_of" for _, record in graph.execs.items())


def test_an_unknown_choice_leaves_all() -> None:
    graph = SymbolicGraph()
    x, index = graph.input(ROWS), graph.input(spec((), "i64"))
    (y,) = case_of(graph, index, [lambda x: ops.sin(x), lambda x: ops.exp(x)], [x])
    (report,) = check(graph, [y], [x, index], [Pass.BRANCHES])
    assert report.fired == {}
