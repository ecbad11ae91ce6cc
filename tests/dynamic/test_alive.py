"""What is alive, with the lines that made it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nnc
from nnc import ops
from nnc.dynamic import DynamicGraph, memory


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def test_memory_names_the_line_of_each_tensor_and_who_needs_it() -> None:
    graph = DynamicGraph("reference")
    x = graph.variable(np.ones((64, 64), np.float32))  # the weights
    y = ops.exp(x)  # the activation
    loss = (y * y).sum()  # the loss
    del y
    found = memory(graph)
    rows = {one.origin: one for one in found.tensors}
    assert rows[line_of("the weights")].is_held
    assert not rows[line_of("the activation")].is_held
    assert found.tensors[-1].spec.elements == 1
    assert found.recorded == 3 * 64 * 64 * 4 + 4
    assert f"16384 B f32[64, 64] ({line_of('the activation')}), for a gradient" in str(found)
    graph.backward([loss], [x])
    assert memory(graph).arena > 0
    del loss
    after = memory(graph)
    assert after.recorded == 64 * 64 * 4
    assert after.waiting >= 64 * 64 * 4


def test_what_is_not_recorded_is_lent() -> None:
    graph = DynamicGraph("reference")
    before = memory(graph).lent
    kept = [graph.constant(np.ones(1024)) for _ in range(12)]
    assert memory(graph).lent - before == 12 * 8192
    assert memory(graph).tensors == ()
    recorded = [ops.exp(graph.variable(np.ones(size))) for size in range(1, 8)]
    assert str(memory(graph)).splitlines()[-1].startswith("  and 4 smaller")
    del kept, recorded
    assert memory(graph).lent == before
    assert isinstance(str(nnc.dynamic.memory()), str)
