"""Attributes that the standard does not have are refused by name; what it leaves open is read as by onnxruntime."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import onnx
from nnc.errors import UsageError
from nnc.onnx import load
from nnc.onnx.attributes import ALLOWED
from onnx import helper, numpy_helper

Feed = dict[str, np.ndarray]
DRAWN = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return DRAWN.standard_normal(shape).astype(np.float32)


def single(op: str, operands: dict[str, np.ndarray | None], outputs: str = "y", opset: int = 19, **given: Any) -> bytes:
    """One node; operand x is fed, the others are initializers, and those that are None are left out."""
    node = helper.make_node(
        op, [name if held is not None else "" for name, held in operands.items()], outputs.split(",")
    )
    node.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())
    held = {name: one for name, one in operands.items() if one is not None}
    graph = helper.make_graph(
        [node],
        "single",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, held["x"].shape)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs.split(",") if name],
        [numpy_helper.from_array(one, name) for name, one in held.items() if name != "x"],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


IMAGE, KERNEL = drawn(1, 2, 6, 6), drawn(3, 2, 3, 3)
SEQUENCE = {"x": drawn(5, 1, 3), "w": drawn(1, 20, 3), "r": drawn(1, 20, 5)}


def scaled(*scales: float) -> dict[str, np.ndarray | None]:
    """The operands of a Resize by scales."""
    return {"x": IMAGE, "r": None, "s": np.float32(scales)}


REFUSED = {
    "a kernel of other sizes": (
        single("Conv", {"x": IMAGE, "w": KERNEL}, kernel_shape=[2, 2]),
        "need kernel_shape .3, 3.",
    ),
    "a kernel turned around": (
        single("ConvTranspose", {"x": IMAGE, "w": drawn(2, 3, 3, 3)}, kernel_shape=[2, 2]),
        "kernel",
    ),
    "a misspelt padding": (
        single("Conv", {"x": IMAGE, "w": KERNEL}, auto_pad="SAME"),
        "auto_pad 'SAME'; need one of NOTSET",
    ),
    "a padding in small letters": (single("MaxPool", {"x": IMAGE}, kernel_shape=[2, 2], auto_pad="valid"), "auto_pad"),
    "a window of one axis for two": (single("MaxPool", {"x": IMAGE}, kernel_shape=[2]), "an input of 2 spatial axes"),
    "a window of nothing": (single("AveragePool", {"x": IMAGE}, kernel_shape=[0, 2]), "a size of 1 or more for each"),
    "a window less than nothing": (single("LpPool", {"x": IMAGE}, kernel_shape=[2, -1]), "a size of 1 or more"),
    "steps of three axes for two": (
        single("MaxPool", {"x": IMAGE}, kernel_shape=[2, 2], strides=[1, 1, 1]),
        "strides .1, 1, 1., dilations .1, 1. and an input of 2 spatial axes",
    ),
    "a norm of no power": (single("LpPool", {"x": IMAGE}, opset=18, kernel_shape=[2, 2], p=0), "p 0; need 1 or more"),
    "a norm of a negative power": (single("GlobalLpPool", {"x": IMAGE}, p=-2), "p -2; need 1 or more"),
    "two paddings": (
        single("Conv", {"x": IMAGE, "w": KERNEL}, auto_pad="VALID", pads=[1, 1, 1, 1]),
        "need one of them",
    ),
    "units beyond all memory": (
        single("LSTM", SEQUENCE, hidden_size=2**40),
        "hidden_size 1099511627776 and weights of 5",
    ),
    "another number of units": (single("LSTM", SEQUENCE, hidden_size=4), "hidden_size 4"),
    "two directions of one": (single("LSTM", SEQUENCE, direction="bidirectional"), "weights of 1 directions"),
    "one activation for three": (single("LSTM", SEQUENCE, activations=["Tanh"]), "1 activations; need 3, or none"),
    "a clip below nothing": (single("LSTM", SEQUENCE, clip=-1.0), "clip -1.0; need 0 or more"),
    "a product of three axes": (single("Gemm", {"x": drawn(1, 2, 3), "b": drawn(3, 4)}), "need two axes of each"),
    "a sum that is larger than its product": (
        single("Gemm", {"x": drawn(1, 3), "b": drawn(3, 4), "c": drawn(2, 4)}),
        "c=f32.2, 4. beside f32.1, 4.",
    ),
    "a scale of nothing": (single("Resize", scaled(1, 1, 0, 2)), "need a number above 0 for each axis"),
    "a scale below nothing": (single("Resize", scaled(1, 1, 2, -1)), "need a number above 0"),
    "a scale that is no number": (single("Resize", scaled(1, 1, float("nan"), 2)), "need a number above 0"),
    "two scales for four axes": (single("Resize", scaled(2, 2)), "scales .2.0, 2.0. for 4 axes"),
    "a resized axis beyond": (single("Resize", scaled(2), axes=[9]), "axis 9; need -4"),
    "a resized axis twice": (single("Resize", scaled(2, 2), axes=[2, -2]), "axes .2, 2.; need each axis once"),
    "a resized axis of less than nothing": (
        single("Resize", {"x": IMAGE, "r": None, "s": None, "n": np.array([1, 2, -3, 4])}),
        "sizes .1, 2, -3, 4. for 4 axes",
    ),
    "a third layout": (single("LSTM", SEQUENCE, layout=7), "layout 7"),
    "an unknown resampling": (
        single("Resize", {"x": IMAGE, "r": None, "s": np.float32([1, 1, 2, 2])}, mode="lanczos"),
        "mode",
    ),
    "an axis beyond": (single("Softmax", {"x": drawn(3, 3)}, axis=5), "axis 5; need -2"),
    "an attribute of nobody": (single("Relu", {"x": drawn(3)}, alpha=0.5), "the attribute alpha; need no attributes"),
    "an attribute of another version": (single("Softmax", {"x": drawn(3)}, consumed_inputs=[0]), "consumed_inputs"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_standard_does_not_allow_is_refused(what: str) -> None:
    data, told = REFUSED[what]
    given = onnx.load_from_string(data).graph.input[0].type.tensor_type.shape.dim
    with pytest.raises(UsageError, match=told):
        load(data).run({"x": np.ones([dim.dim_value for dim in given], np.float32)})


@pytest.mark.parametrize(("op", "attribute"), [(op, name) for op, rows in ALLOWED.items() for name in rows])
def test_the_tables_are_of_the_standard(op: str, attribute: str) -> None:
    """Each row is an attribute of the operator in some version, and its default in the newest is allowed."""
    for version in range(onnx.defs.onnx_opset_version(), 0, -1):
        with suppress(onnx.defs.SchemaError):
            found = onnx.defs.get_schema(op, version).attributes
            if attribute in found:
                default = found[attribute].default_value
                if default.name:
                    value = helper.get_attribute_value(default)
                    assert (value.decode() if isinstance(value, bytes) else value) in ALLOWED[op][attribute]
                return
    pytest.fail(f"no version of {op} has {attribute}")


def test_a_size_below_zero_is_refused_unless_it_is_open() -> None:
    message = onnx.load_from_string(single("Relu", {"x": drawn(2, 3)}))
    first = message.graph.input[0].type.tensor_type.shape.dim[0]
    first.dim_value = -1
    np.testing.assert_array_equal(load(message).run({"x": np.ones((4, 3), np.float32)})["y"], np.ones((4, 3)))
    first.dim_value = -5
    with pytest.raises(UsageError, match="input x: got sizes .-5, 3.; need sizes ≥ 0, or -1"):
        load(message)


def sequence(gates: int) -> dict[str, np.ndarray | None]:
    return {"x": drawn(5, 1, 3), "w": drawn(1, 5 * gates, 3), "r": drawn(1, 5 * gates, 5)}


SCALES = np.float32([1, 1, 0.7, 0.7])
AGREED = {
    "ten rows times 0.7": single("Resize", {"x": drawn(1, 1, 10, 10), "r": None, "s": SCALES}, mode="nearest"),
    "seven columns times 1.7, about their centre": single(
        "Resize",
        {"x": drawn(1, 1, 3, 7), "r": None, "s": np.float32([1, 1, 1, 1.7])},
        mode="nearest",
        nearest_mode="ceil",
        coordinate_transformation_mode="half_pixel_symmetric",
    ),
    "a clipped LSTM": single("LSTM", sequence(4), "y,h,c", hidden_size=5, clip=0.05),
    "a clipped GRU": single("GRU", sequence(3), "y,h", hidden_size=5, clip=0.1),
    "a clipped RNN": single("RNN", sequence(1), "y,h", hidden_size=5, clip=0.1),
}


@pytest.mark.parametrize("what", AGREED)
def test_what_the_standard_leaves_open_is_read_as_by_onnxruntime(what: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    shape = [dim.dim_value for dim in onnx.load_from_string(AGREED[what]).graph.input[0].type.tensor_type.shape.dim]
    feed: Feed = {"x": np.random.default_rng(3).standard_normal(shape).astype(np.float32) * 2}
    session = runtime.InferenceSession(AGREED[what], providers=["CPUExecutionProvider"])
    for got, want in zip(load(AGREED[what]).run(feed).values(), session.run(None, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


# ---- files that say more than they write out


def nested(depth: int) -> bytes:
    """Functions that each call the one before twice."""
    own = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]

    def function(place: int) -> onnx.FunctionProto:
        op, domain = ("Relu", "") if place == 0 else (f"f{place - 1}", "d")
        nodes = [helper.make_node(op, [a], [b], domain=domain) for a, b in (("x", "t"), ("t", "y"))]
        return helper.make_function("d", f"f{place}", ["x"], ["y"], nodes, own)

    graph = helper.make_graph(
        [helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="d")],
        "nested",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
    )
    functions = [function(place) for place in range(depth)]
    return helper.make_model(graph, opset_imports=own, functions=functions, ir_version=8).SerializeToString()


def test_functions_that_expand_beyond_the_size_of_their_file_are_refused() -> None:
    """16 of them, 1 KB, took 17 to 26 s."""
    np.testing.assert_array_equal(load(nested(5)).run({"x": np.ones(2, np.float32)})["y"], np.ones(2))
    with pytest.raises(
        UsageError, match="65,536 nodes or more once functions and loops are written out; need at most 10,"
    ):
        load(nested(16))


def test_constants_that_nodes_compute_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnc.onnx.importer.MOST_FOLDED", 1 << 20)
    sizes = numpy_helper.from_array(np.array([1 << 16]), "n")
    nodes = [helper.make_node("ConstantOfShape", ["n"], [f"c{place}"]) for place in range(8)]
    nodes.append(helper.make_node("Sum", ["x", *[f"c{place}" for place in range(8)]], ["y"]))
    graph = helper.make_graph(
        nodes,
        "folded",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1 << 16])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1 << 16])],
        [sizes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UsageError, match="bytes of constants that nodes compute from others; need at most 1,048,576"):
        load(model).run({"x": np.ones(1 << 16, np.float32)})


@pytest.mark.parametrize("more", [{}, {"mode": "cubic", "exclude_outside": 1}], ids=["linear", "cubic"])
def test_millions_of_elements_that_a_small_file_asks_for_are_weighed_together(more: dict[str, Any]) -> None:
    """Weights one element after another took a minute of a file of 640 bytes."""
    most = 3 << 20
    given = {"x": np.float32([[0.0, 1.0]]), "r": None, "s": None, "n": np.array([1, most])}
    y = load(single("Resize", given, **{"mode": "linear", **more})).run({"x": given["x"]})["y"][0]
    assert y.shape == (most,)
    np.testing.assert_allclose(y, 1 - y[::-1], atol=1e-6)
    np.testing.assert_allclose(y[[0, most // 2, -1]], [0.0, 0.5, 1.0], atol=1e-5 if not more else 0.2)


COMPLEX_OPERANDS = {
    "TopK": {"x": drawn(3), "k": np.complex64([2 + 1j])},
    "QuantizeLinear": {"x": drawn(3), "scale": np.complex64(1 + 1j)},
    "RoiAlign": {"x": drawn(1, 1, 4, 4), "boxes": np.zeros((1, 4), np.complex128), "rows": np.array([0])},
    "Dropout": {"x": drawn(3), "ratio": np.complex64(0.5 + 1j)},
}


@pytest.mark.parametrize("op", COMPLEX_OPERANDS)
def test_complex_numbers_are_refused_where_onnx_has_real_ones(op: str) -> None:
    given = COMPLEX_OPERANDS[op]
    with pytest.raises(UsageError, match=f"{op} y: got complex numbers as input 1; need real numbers"):
        load(single(op, given)).run({"x": given["x"]})
