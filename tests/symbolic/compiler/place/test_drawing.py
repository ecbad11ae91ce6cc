from __future__ import annotations

import json
import re
from pathlib import Path

from nnc import ops
from nnc.core.spec import spec
from nnc.nn.zoo import network
from nnc.symbolic import SymbolicGraph, compile


def test_blocks_are_told_by_layer_operator_and_line(tmp_path: Path) -> None:
    program = network("digits", backend="reference").training_step(8).compiled
    program.html(tmp_path / "map.html", "digits")
    found = re.search(r'application/json">(.*?)</script>', (tmp_path / "map.html").read_text(), re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    texts = data["texts"]
    rows = [[texts[place] for place in row[:5]] for row in data["blocks"]]
    assert len(rows) == len(program.plan()[0].blocks)
    assert any(layer.startswith("conv") and operator.startswith("conv") for _, layer, operator, _, _ in rows)
    assert {role for _, _, _, role, _ in rows} >= {"input", "between"}
    assert any("max_pool" in texts[number] for _, number in data["steps"])


def test_a_loop_and_a_program_without_memory_have_pages() -> None:
    graph = SymbolicGraph("loop")
    x = graph.input(spec((4,)), "x")
    program = compile(graph, [ops.exp(x)])
    assert "memory map" in program.page().lower()
    assert program._repr_html_().startswith("<iframe srcdoc=")
    assert "<script" not in program._repr_html_()
