"""Nodes become calls: bodies of functions, what is computed at once, and files that no importer can follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc.errors import BackendError, DTypeError, FormatError, MemoryLimitError, UsageError
from nnc.onnx import load
from nnc.onnx.file import read
from nnc.onnx.importer import OnnxImporter
from nnc.onnx.node_values import OnnxValue
from onnx import TensorProto, helper, numpy_helper

X = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
LABELS = np.array([0, 3, 1, 4])


def run(file: onnx.ModelProto, **feeds: np.ndarray) -> Mapping[str, Any]:
    return load(file.SerializeToString()).run(feeds)


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


# ---- functions


@pytest.mark.parametrize(("given", "axes"), [({}, (0, 2, 3)), ({"axes": [1]}, (1,))])
def test_an_operator_of_the_standard_that_is_a_function_has_its_defaults(given: dict[str, Any], axes: Any) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)
    y = run(model([node("MeanVarianceNormalization", "x", "y", **given)], {"x": x.shape}, ["y"]), x=x)["y"]
    wanted = (x - x.mean(axes, keepdims=True)) / x.std(axes, keepdims=True)
    np.testing.assert_allclose(y, wanted, atol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_function_that_depends_on_its_inputs_is_made_for_them(reduction: str) -> None:
    loss = node("SoftmaxCrossEntropyLoss", "x labels", "y", reduction=reduction)
    y = run(model([loss], {"x": X.shape}, ["y"], {"labels": LABELS}), x=X)["y"]
    each = -log_softmax(X)[np.arange(4), LABELS]
    np.testing.assert_allclose(y, {"mean": each.mean(), "sum": each.sum(), "none": each}[reduction], rtol=1e-5)


def test_an_input_that_is_left_out_in_the_middle_stays_so() -> None:
    """Keys and values of before without a mask."""
    q, past = np.random.default_rng(2).standard_normal((2, 1, 1, 3, 4)).astype(np.float32)
    attention = node("Attention", "q q q - past past", "y key value")
    file = model([attention], {"q": q.shape}, ["y", "key"], {"past": past}, opset=23)
    found = run(file, q=q)
    keys = np.concatenate([past, q], 2)
    np.testing.assert_array_equal(found["key"], keys)
    scores = q @ keys.swapaxes(2, 3) / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found["y"], weights / weights.sum(-1, keepdims=True) @ keys, atol=1e-5)


def scaled(default: float | None) -> onnx.FunctionProto:
    """y = alpha · x, with a default or without one."""
    constant = helper.make_node("Constant", [], ["alpha"])
    attribute = constant.attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "value_float", "alpha", onnx.AttributeProto.FLOAT
    nodes = [constant, helper.make_node("Mul", ["x", "alpha"], ["y"])]
    imports = [helper.make_opsetid("", 21)]
    if default is None:
        return helper.make_function("own", "Scaled", ["x"], ["y"], nodes, imports, ["alpha"])
    defaults = [helper.make_attribute("alpha", default)]
    return helper.make_function("own", "Scaled", ["x"], ["y"], nodes, imports, attribute_protos=defaults)


@pytest.mark.parametrize(("default", "given", "alpha"), [(None, 3.0, 3.0), (2.0, None, 2.0), (2.0, 3.0, 3.0)])
def test_attributes_of_a_file_s_own_function(default: float | None, given: float | None, alpha: float) -> None:
    attributes = {} if given is None else {"alpha": given}
    call = node("Scaled", "x", "y", "own", **attributes)
    file = model([call], {"x": X.shape}, ["y"], functions=[scaled(default)])
    np.testing.assert_array_equal(run(file, x=X)["y"], X * np.float32(alpha))


@pytest.mark.parametrize(("op", "domain"), [("Nothing", "own"), ("MaxRoiPool", "")])
def test_an_operator_that_neither_the_table_nor_the_standard_has_is_named(op: str, domain: str) -> None:
    """As the body of a function of the standard may, which nobody reads before."""
    file = read(model([node(op, "x", "y", domain)], {"x": X.shape}, ["y"]).SerializeToString())
    importer = OnnxImporter(file, {}, {})
    with pytest.raises(BackendError, match=f"{domain or 'ai.onnx'}.{op}; need one of the table"):
        importer.run(file.graph, {"x": OnnxValue(X)})


def test_a_mask_of_an_element_type_that_is_none_of_ours_is_told_to_the_standard() -> None:
    q = np.random.default_rng(2).standard_normal((1, 1, 3, 4)).astype(np.float32)
    mask = np.array([[0, 0, 9], [9, 0, 0], [0, 9, 0]], np.uint16)
    file = model([node("Attention", "q q q mask", "y")], {"q": q.shape}, ["y"], {"mask": mask}, opset=23)
    scores = q @ q.swapaxes(2, 3) / 2 + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(run(file, q=q)["y"], weights / weights.sum(-1, keepdims=True) @ q, atol=1e-5)


# ---- values


def test_a_text_where_numbers_are_needed_is_refused() -> None:
    nodes = [node("SequenceConstruct", "x x", "s"), node("Relu", "s", "y")]
    with pytest.raises(DTypeError, match="a sequence or text"):
        run(model(nodes, {"x": X.shape}, ["y"]), x=X)


def test_sparse_tensors_are_refused() -> None:
    file = model([node("Relu", "x", "y")], {"x": [3]}, ["y"])
    values = numpy_helper.from_array(np.ones(1, np.float32), "thin")
    places = numpy_helper.from_array(np.array([2]), "places")
    file.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3]))
    with pytest.raises(FormatError, match="sparse tensor thin; need dense tensors"):
        run(file, x=np.ones(3, np.float32))


@pytest.mark.parametrize("op", ["Relu", "Sigmoid"])
def test_an_element_type_that_is_none_of_ours_is_named(op: str) -> None:
    file = model([node(op, "w", "h"), node("Add", "x h", "y")], {"x": [3]}, ["y"], {"w": np.ones(3, np.uint64)})
    with pytest.raises(UsageError, match="uint64"):
        run(file, x=np.ones(3, np.float32))


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
def test_elements_of_types_that_are_none_of_ours_are_moved(kind: type) -> None:
    w = np.arange(6, dtype=kind).reshape(2, 3) + kind(250)
    nodes = [
        node("Transpose", "w", "t", perm=[1, 0]),
        node("Flatten", "t", "f", axis=0),
        node("Cast", "f", "c", to=TensorProto.FLOAT),
        node("Add", "x c", "y"),
    ]
    y = run(model(nodes, {"x": [6]}, ["y"], {"w": w}), x=np.zeros(6, np.float32))["y"]
    np.testing.assert_array_equal(y.reshape(-1), w.T.reshape(-1).astype(np.float32))


def test_texts_are_not_moved() -> None:
    texts = np.array([["a", "b"]], object)
    file = model([node("Transpose", "w", "t"), node("Relu", "x", "y")], {"x": [3]}, ["y", "t"], {"w": texts})
    with pytest.raises(UsageError):
        run(file, x=np.ones(3, np.float32))


@pytest.mark.parametrize("size", [8, 600])
def test_weights_in_bytes_are_widened_late_where_they_are_many(size: int) -> None:
    w = np.random.default_rng(3).integers(-99, 99, (5, size)).astype(np.int8)
    nodes = [node("DequantizeLinear", "w scale", "d"), node("MatMul", "x d", "y")]
    file = model(nodes, {"x": X.shape}, ["y"], {"w": w, "scale": np.float32(0.5)})
    np.testing.assert_allclose(run(file, x=X)["y"], X @ (w * np.float32(0.5)), rtol=1e-4, atol=1e-3)


def test_tensors_of_one_name_in_two_graphs_are_two() -> None:
    body = helper.make_graph(
        [node("Add", "v w", "u"), node("Identity", "c", "d")],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [3]),
        ],
        [helper.make_empty_tensor_value_info("d"), helper.make_empty_tensor_value_info("u")],
        [numpy_helper.from_array(np.float32([1, 2, 3]), "w")],
    )
    nodes = [node("Loop", "n t x", "y", body=body)]
    more = [helper.make_node("Loop", ["n", "t", "y"], ["z"], body=_renamed(body, 10.0))]
    initializers = {"n": np.array(2), "t": np.array(True)}
    file = model(nodes + more, {"x": [3]}, ["z"], initializers)
    z = run(file, x=np.zeros(3, np.float32))["z"]
    np.testing.assert_array_equal(z, np.float32([2, 4, 6]) + 20)


def _renamed(body: onnx.GraphProto, value: float) -> onnx.GraphProto:
    """The same with other elements under the same name."""
    twin = onnx.GraphProto()
    twin.CopyFrom(body)
    twin.initializer[0].CopyFrom(numpy_helper.from_array(np.full(3, value, np.float32), "w"))
    return twin


# ---- nodes that break the rules


def test_more_constants_than_there_is_memory_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nnc.onnx.importer.OnnxImporter.call", without)
    with pytest.raises(MemoryLimitError, match="Relu y: got more memory than there is; need smaller operands"):
        run(model([node("Relu", "x", "y")], {"x": [3]}, ["y"]), x=np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("op", "operands"),
    [("Pad", {"p": np.array([1, 1, 1])}), ("TopK", {"k": np.array([])})],
)
def test_a_node_that_fails_inside_is_told_by_name(op: str, operands: dict[str, Any]) -> None:
    file = model([node(op, " ".join(["x", *operands]), "y")], {"x": [2, 3]}, ["y"], operands)
    with pytest.raises(FormatError, match=f"{op} y: .*; need operands and attributes as ONNX defines them"):
        run(file, x=np.ones((2, 3), np.float32))
