"""Loop and Scan as `while` of ours: many iterations, conditions that depend on data, gradients; as if unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc import ops
from nnc.errors import ShapeError
from nnc.onnx import load
from nnc.onnx.rows.control import control
from nnc.symbolic import backward
from onnx import helper

INT64, BOOL, FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT


def info(name: str, kind: int, dims: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def body(nodes: list[onnx.NodeProto], outputs: str, state: list[int]) -> onnx.GraphProto:
    given = [info("i", INT64, []), info("go", BOOL, []), info("v", FLOAT, state)]
    return helper.make_graph(nodes, "body", given, [helper.make_empty_tensor_value_info(n) for n in outputs.split()])


def counted(count: int) -> onnx.ModelProto:
    """v' = v · a + i, with all v'."""
    inner = body(
        [
            node("Identity", "go", "again"),
            node("Mul", "v a", "s"),
            node("Cast", "i", "f", to=FLOAT),
            node("Add", "s f", "w"),
            node("Identity", "w", "row"),
        ],
        "again w row",
        [2],
    )
    values = {"count": np.int64(count), "a": np.array([0.9, 1.0], np.float32)}
    return model([node("Loop", "count - x", "y rows", body=inner)], {"x": [2]}, ["y", "rows"], values)


def until(most: int | None) -> onnx.ModelProto:
    """v' = 2 · v while the sum of v' is below 1000, at most `most` times."""
    inner = body(
        [
            node("Add", "v v", "w"),
            node("ReduceSum", "w", "total", keepdims=0),
            node("Less", "total limit", "again"),
        ],
        "again w",
        [2],
    )
    values = {"most": np.int64(most or 0), "limit": np.float32(1000)}
    first = "most" if most is not None else "-"
    nodes = [node("ReduceSum", "x", "t", keepdims=0), node("Less", "t limit", "c")]
    return model([*nodes, node("Loop", f"{first} c x", "y", body=inner)], {"x": [2]}, ["y"], values)


def scan(**options: Any) -> onnx.ModelProto:
    """s' = s + e over the columns, and s' · e."""
    inner = helper.make_graph(
        [node("Add", "s e", "n"), node("Mul", "n e", "o")],
        "scan",
        [info("s", FLOAT, [3]), info("e", FLOAT, [3])],
        [helper.make_empty_tensor_value_info(name) for name in ("n", "o")],
    )
    return model(
        [node("Scan", "first x", "y rows", body=inner, num_scan_inputs=1, **options)],
        {"x": [3, 100]},
        ["y", "rows"],
        {"first": np.zeros(3, np.float32)},
    )


def operators(made: onnx.ModelProto) -> list[str]:
    graph = load(made).graph()[0]
    return [graph.execs[key].command.op.name for key in graph.execs.toposort()]


SCANS: dict[str, dict[str, Any]] = {
    "forward": {"scan_input_axes": [1]},
    "backward": {"scan_input_axes": [1], "scan_input_directions": [1]},
    "rows along the last axis, from the end": {
        "scan_input_axes": [-1], "scan_output_axes": [1], "scan_output_directions": [1],
    },
}  # fmt: skip


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", ["loop", *SCANS])
@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_one_body_gives_what_unrolled_iterations_give(name: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(60) if name == "loop" else scan(**SCANS[name])
    assert operators(made).count("while") == 1
    x = np.random.default_rng(0).standard_normal([2] if name == "loop" else [3, 100]).astype(np.float32)
    native = load(made, backend=backend).run({"x": x})
    monkeypatch.setattr(control, "UNROLLED", 1000)
    assert "while" not in operators(made)
    unrolled = load(made, backend=backend).run({"x": x})
    for key, value in unrolled.items():
        np.testing.assert_allclose(native[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


@pytest.mark.parametrize(("most", "doublings"), [(None, 7), (3, 3), (0, 0)])
def test_a_condition_of_the_data_is_tested_in_each_iteration(most: int | None, doublings: int) -> None:
    loaded = load(until(most))
    for scale in (1.0, 600.0):
        x = np.array([3.0, 5.0], np.float32) * scale
        factor = 2.0**doublings if scale == 1.0 else 1.0
        np.testing.assert_allclose(loaded.run({"x": x})["y"], x * factor)
    assert loaded.by_value == set()


def test_gradients_go_through_a_loop() -> None:
    graph, inputs, _, (y, _) = load(counted(60)).graph()
    slope = backward(graph, [ops.reduce_sum(y, (0,))], [inputs["x"]]).of(inputs["x"])
    assert slope is not None
    assert slope.shape == (2,)


def test_a_loop_without_an_end_is_refused_at_once() -> None:
    loaded = load(counted(1 << 40))
    with pytest.raises(ShapeError, match="1099511627776 iterations"):
        loaded.run({"x": np.ones(2, np.float32)})
