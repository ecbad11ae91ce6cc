"""Who runs what, and why not another."""

from __future__ import annotations

import pytest
from tests.concrete.eager import PRODUCT, graph, room, tensor

from nnc import ops
from nnc.concrete import ConcreteGraph, CountBelow
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.spec import spec
from nnc.symbolic import SymbolicGraph, compile


def test_equal_commands_on_equal_specs_are_one_row_bodies_included() -> None:
    x, y, wide = tensor([1.0]), room(1), room(2)
    root, body = graph(), graph()
    root.add(PRODUCT, [x, x], [y])
    body.add(PRODUCT, [y, x], [y])
    root.while_loop(body, CountBelow(2))
    root.add(PRODUCT, [wide, wide], [wide])
    assert [(row.command.op.name, row.count, row.backend) for row in root.report()] == [
        ("multiply", 2, "reference"),
        ("multiply", 1, "reference"),
    ]


def test_a_graph_without_commands_has_no_rows() -> None:
    assert ConcreteGraph().report() == ()


@pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="no LLVM on this machine")
def test_what_llvm_does_not_claim_says_why() -> None:
    program = SymbolicGraph()
    boxes = program.input(spec((6, 5)))
    kept = ops.non_maximum_suppression(boxes, 0.5)
    y = ops.exp(program.input(spec((3,))))
    rows = {row.command.op.name: row for row in compile(program, [*kept, y]).report()}
    assert rows["exp"].backend == "llvm"
    assert rows["exp"].refusals == {}
    refused = next(row for row in rows.values() if row.backend == "reference")
    assert refused.refusals == {"llvm": "no generator"}
    assert "reference runs" in str(refused)
    assert "llvm: no generator" in str(refused)
    assert "test_report.py" in str(refused)
