"""Rows that are operators of ours on inputs that nobody knows: the meaning of ONNX, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from tests.onnx.models import model, node

import onnx
from nnc import ops
from nnc.errors import UsageError
from nnc.onnx import load
from nnc.ops.indexing.indexing import INDEX_SELECT
from nnc.symbolic import backward, compile

Array = NDArray[Any]
RANDOM = np.random.default_rng(0)


def draw(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def boxes(half: str, ratio: int) -> onnx.ModelProto:
    values = {
        "boxes": np.array([[-2, -1, 3, 4], [1, 2, 30, 9], [0.5, 0.5, 0.6, 0.7]], np.float32),
        "of": np.array([0, 1, 0]),
    }
    made = node("RoiAlign", "x boxes of", "y", output_height=2, output_width=3, sampling_ratio=ratio,
                spatial_scale=0.5, coordinate_transformation_mode=half)  # fmt: skip
    return model([made], {"x": [2, 3, 8, 9]}, ["y"], values)


PLACES = RANDOM.permuted(np.tile(np.arange(6), (2, 3, 1)), axis=-1)[:, :, :4]
POWERS = {"two": np.float32(2), "three": np.array(3), "half": np.array([0.5], "f4"), "row": np.full((1, 4), 2, "f4")}
MODELS: dict[str, tuple[onnx.ModelProto, Array]] = {
    "a square and a cube": (
        model([node("Pow", "x two", "s"), node("Pow", "x three", "c"), node("Sub", "s c", "y")],
              {"x": [3, 4]}, ["y"], {name: POWERS[name] for name in ("two", "three")}),
        draw(3, 4),
    ),
    "a root and a square that has more axes than its base": (
        model([node("Mul", "x x", "p"), node("Pow", "p half", "r"), node("Pow", "r row", "y")],
              {"x": [4]}, ["y"], {name: POWERS[name] for name in ("half", "row")}),
        draw(4),
    ),
    "a deformed convolution in groups": (
        model(
            [node("DeformConv", "x w offset b mask", "y", kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1],
                  dilations=[1, 2], group=2, offset_group=2)],
            {"x": [2, 4, 7, 9]}, ["y"],
            {"w": draw(6, 2, 3, 3), "offset": draw(2, 36, 4, 7), "b": draw(6), "mask": draw(2, 18, 4, 7)},
        ),
        draw(2, 4, 7, 9),
    ),
    "boxes on half pixels": (boxes("half_pixel", 2), draw(2, 3, 8, 9)),
    "boxes on whole pixels": (boxes("output_half_pixel", 3), draw(2, 3, 8, 9)),
    "boxes with as many samples as they need": (boxes("half_pixel", 0), draw(2, 3, 8, 9)),
    "determinants": (model([node("Det", "x", "y")], {"x": [5, 4, 4]}, ["y"]), draw(5, 4, 4)),
    "large determinants": (model([node("Det", "x", "y")], {"x": [2, 20, 20]}, ["y"]), draw(2, 20, 20)),
    "updates smaller than the data": (
        model([node("ScatterElements", "x at new", "y", axis=2)], {"x": [3, 4, 6]}, ["y"],
              {"at": PLACES, "new": draw(2, 3, 4)}),
        draw(3, 4, 6),
    ),
    "a last window beside a dilated kernel": (
        model([node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[3, 3], dilations=[2, 2], pads=[1, 1, 0, 0],
                    ceil_mode=1)], {"x": [1, 2, 3, 6]}, ["y"]),
        draw(1, 2, 3, 6),
    ),
    "the largest of what meets": (
        model([node("ScatterElements", "x at new", "y", axis=2, reduction="max")], {"x": [3, 4, 60]}, ["y"],
              {"at": PLACES, "new": draw(2, 3, 4)}),
        draw(3, 4, 60),
    ),
}  # fmt: skip
MEANING: dict[str, Any] = {
    "determinants": np.linalg.det,
    "large determinants": np.linalg.det,
}

# ONNX's evaluator sums as many channels as there are examples: the same number of both.
MODELS |= {
    f"a local response of {size} channels by the power {beta}": (
        model([node("LRN", "x", "y", size=size, alpha=0.5, beta=beta, bias=1.5)], {"x": [7, 7, 3, 2]}, ["y"]),
        draw(7, 7, 3, 2),
    )
    for size, beta in ((1, 0.25), (3, 0.5), (4, 0.75), (5, 1.0), (7, 1.75), (30, 2.0), (4, 0.6))
}


@pytest.mark.parametrize("name", MODELS)
def test_a_row_gives_what_onnx_means(name: str) -> None:
    made, x = MODELS[name]
    found = load(made, backend="reference").run({"x": x})["y"]
    want = MEANING[name](x) if name in MEANING else ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [one for one in MODELS if one.split()[0] in ("a", "boxes", "updates", "determinants")])
def test_a_row_has_gradients(name: str) -> None:
    if "need" in name:
        with pytest.raises(UsageError, match="depend"):
            load(MODELS[name][0]).graph()
        return
    graph, inputs, _, (y,) = load(MODELS[name][0]).graph()
    assert backward(graph, [ops.reduce_sum(y, tuple(range(len(y.shape))))], [inputs["x"]]).of(inputs["x"]) is not None


def test_the_gradient_of_a_determinant_is_its_cofactors() -> None:
    x = draw(3, 3)
    graph, inputs, tensors, (y,) = load(model([node("Det", "x", "y")], {"x": [3, 3]}, ["y"])).graph()
    slope = backward(graph, [y], [inputs["x"]]).of(inputs["x"])
    assert slope is not None
    given = {inputs["x"]: x, **dict(tensors.values())}
    (found,) = compile(graph, (slope,), backend="reference")(given, slope)
    np.testing.assert_allclose(found, np.linalg.det(x) * np.linalg.inv(x).T, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("axis", "place"), [(0, 1), (0, -1), (0, [2]), (1, 1), (1, [0]), (1, -4), (2, 3)])
def test_one_slice_of_the_outermost_axis_is_read_where_it_lies(axis: int, place: int | list[int]) -> None:
    x = draw(1 if axis == 1 else 3, 4, 5)
    file = model(
        [node("Gather", "x place", "g", axis=axis), node("Relu", "g", "y")],
        {"x": [*x.shape]},
        ["y"],
        {"place": np.array(place)},
    )
    loaded = load(file)
    found = loaded.run({"x": x})["y"]
    np.testing.assert_array_equal(found, np.maximum(np.take(x, place, axis), 0))
    execs = loaded.compiled().planned.graph.execs
    assert any(record.command.op is INDEX_SELECT for _, record in execs.items()) == (axis == 2)
