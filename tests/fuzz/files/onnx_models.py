"""Whole ONNX models for the campaign, and who reads them: planned, and run where that is little work."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from tests.fuzz.files.mutation import mutated
from tests.onnx.models import model, node

import onnx
from nnc.errors import UsageError
from nnc.onnx import OnnxLayer, OnnxModel, load, read
from onnx import helper

MOST_ARENA = 1 << 24
ML = "ai.onnx.ml"
W = np.arange(12, dtype=np.float32).reshape(4, 3) / 10


def _info(name: str, kind: int, dims: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def _convolutions() -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("MaxPool", "c", "m", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Shape", "m", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Concat", "n rest", "target", axis=0),
        node("Reshape", "m target", "f"),
        node("Gemm", "f head", "y", alpha=0.5),
    ]
    weights = {
        "w": np.ones((2, 1, 3, 3), np.float32),
        "b": np.zeros(2, np.float32),
        "zero": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
        "head": np.ones((8, 3), np.float32),
    }
    return model(nodes, {"x": [2, 1, 8, 8]}, ["y"], weights)


def _shapes() -> onnx.ModelProto:
    nodes = [
        node("Tile", "x r", "t"),
        node("Expand", "t s", "e"),
        node("Slice", "e a b", "c"),
        node("Pad", "c p", "d"),
        node("Resize", "d - - sizes", "z", mode="linear"),
        node("Split", "z", "u v", axis=0, num_outputs=2),
        node("TopK", "u k", "w i", axis=-1),
        node("Range", "a0 b0 c0", "g"),
        node("CumSum", "w axis", "y"),
    ]
    values = {
        "r": [1, 2], "s": [2, 1, 4], "a": [0], "b": [2], "p": [0, 0, 1, 0, 0, 1], "sizes": [2, 2, 12], "k": [2],
        "axis": 2,
    }  # fmt: skip
    weights = {name: np.array(value, np.int64) for name, value in values.items()}
    scalars = {name: np.int64(value) for name, value in (("a0", 0), ("b0", 9), ("c0", 2))}
    return model(nodes, {"x": [2, 2]}, ["y", "g"], {**weights, **scalars})


def _control() -> onnx.ModelProto:
    kinds = onnx.TensorProto
    body = helper.make_graph(
        [node("Identity", "go", "again"), node("Add", "v v", "w"), node("Neg", "w", "row")],
        "body",
        [_info("i", kinds.INT64, []), _info("go", kinds.BOOL, []), _info("v", kinds.FLOAT, [2])],
        [helper.make_empty_tensor_value_info(name) for name in ("again", "w", "row")],
    )
    scan = helper.make_graph(
        [node("Add", "s e", "n"), node("Identity", "n", "o")],
        "scan",
        [_info("s", kinds.FLOAT, [2]), _info("e", kinds.FLOAT, [2])],
        [helper.make_empty_tensor_value_info(name) for name in ("n", "o")],
    )
    branches = {
        name: helper.make_graph([node(op, "x", name)], name, [], [helper.make_empty_tensor_value_info(name)])
        for name, op in (("then_branch", "Neg"), ("else_branch", "Exp"))
    }
    nodes = [
        node("Loop", "count - x", "last rows", body=body),
        node("Scan", "x rows", "final sums", body=scan, num_scan_inputs=1),
        node("ReduceMax", "x", "top", keepdims=0),
        node("Greater", "top zero", "c"),
        node("If", "c", "y", **branches),
    ]
    weights = {"count": np.int64(3), "zero": np.float32(0)}
    return model(nodes, {"x": [2]}, ["y", "last", "final", "sums"], weights)


def _functions() -> onnx.ModelProto:
    own = helper.make_function(
        "own", "twice", ["a"], ["c"], [node("Relu", "a", "b"), node("Add", "b b", "c")], [helper.make_opsetid("", 21)]
    )
    nodes = [
        node("twice", "x", "t", domain="own"),
        node("QuantizeLinear", "t scale zero", "q"),
        node("DequantizeLinear", "q scale zero", "d"),
        node("Einsum", "d w", "e", equation="ij,jk->ik"),
        node("LayerNormalization", "e ln lb", "l"),
        node("Where", "mask l e", "y"),
    ]
    weights = {
        "scale": np.float32(0.1),
        "zero": np.uint8(3),
        "w": W,
        "ln": np.ones(3, np.float32),
        "lb": np.zeros(3, np.float32),
        "mask": np.array([True, False, True]),
    }
    return model(nodes, {"x": ["n", 4]}, ["y"], weights, functions=[own])


def _recurrent() -> onnx.ModelProto:
    nodes = [
        node("LSTM", "x w r b", "y h", hidden_size=2),
        node("NonZero", "k", "places"),
        node("GatherND", "y at", "picked"),
        node("ScatterElements", "h index new", "z", axis=2),
    ]
    weights = {
        "w": np.ones((1, 8, 3), np.float32),
        "r": np.ones((1, 8, 2), np.float32),
        "b": np.zeros((1, 16), np.float32),
        "k": np.array([0, 1, 1]),
        "at": np.array([[0, 0, 1]]),
        "index": np.array([[[1, 0], [0, 1]]]),
        "new": np.ones((1, 2, 2), np.float32),
    }
    return model(nodes, {"x": [4, 2, 3]}, ["picked", "z", "places"], weights)


def _learning() -> onnx.ModelProto:
    lists = {
        "treeids": [0, 0, 0, 1], "nodeids": [0, 1, 2, 0], "featureids": [1, 0, 0, 0], "values": [0.5, 0.0, 0.0, 0.0],
        "modes": ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], "truenodeids": [1, 0, 0, 0], "falsenodeids": [2, 0, 0, 0],
    }  # fmt: skip
    trees = {f"nodes_{name}": value for name, value in lists.items()} | {
        "class_treeids": [0, 0, 1], "class_nodeids": [1, 2, 0], "class_ids": [0, 1, 2],
        "class_weights": [1.0, 2.0, 3.0],
    }  # fmt: skip
    words = {"classlabels_strings": ["a", "b", "c"]}
    nodes = [
        node("Scaler", "x", "s", domain=ML, offset=[1.0], scale=[2.0]),
        node("TreeEnsembleClassifier", "s", "label chances", domain=ML, **trees, **words),
        node("ZipMap", "chances", "maps", domain=ML, **words),
        node("Normalizer", "chances", "n", domain=ML, norm="L1"),
        node("SVMRegressor", "s", "v", domain=ML, kernel_type="RBF", kernel_params=[0.5, 0.0, 2.0], n_supports=1,
             rho=[0.0], coefficients=[1.0], support_vectors=[0.0, 1.0, 2.0, 3.0]),
        node("LabelEncoder", "label", "code", domain=ML, keys_strings=["a", "b"], values_int64s=[7, 8]),
    ]  # fmt: skip
    return model(nodes, {"x": ["n", 4]}, ["label", "maps", "n", "v", "code"])


def _stages() -> onnx.ModelProto:
    nodes = [
        node("DeformConv", "x w offset", "c", kernel_shape=[2, 2]),
        node("MaxPool", "c", "m p", kernel_shape=[2, 2]),
        node("MaxUnpool", "m p", "u", kernel_shape=[2, 2]),
        node("NonZero", "u", "places"),
        node("Transpose", "places", "rows", perm=[1, 0]),
        node("GatherND", "u rows", "y"),
        node("RoiAlign", "x boxes batch", "r", output_height=2, output_width=2, sampling_ratio=2),
        node("Reshape", "y flat", "f"),
        node("Unique", "f", "z"),
    ]
    weights = {
        "w": np.ones((1, 1, 2, 2), np.float32),
        "offset": np.full((2, 8, 3, 3), 0.25, np.float32),
        "boxes": np.array([[0, 0, 3, 3]], np.float32),
        "batch": np.array([0]),
        "flat": np.array([-1]),
    }
    return model(nodes, {"x": [2, 1, 4, 4]}, ["y", "z", "r"], weights)


@cache
def onnx_models() -> tuple[bytes, ...]:
    """Models of many operators, branches, loops and functions."""
    made = (_convolutions(), _shapes(), _control(), _functions(), _recurrent(), _learning(), _stages())
    return tuple(one.SerializeToString(deterministic=True) for one in made)


def _arena(found: OnnxModel) -> int:
    """The bytes of a run; 0 where only a run tells."""
    try:
        statement = found.memory()
    except UsageError as error:
        if "depend" not in str(error):
            raise
        return 0
    return statement.arena + statement.bound


def read_onnx(place: Path) -> None:
    """As a user of a file whom nobody told who made it: what is in it, what it needs, what it gives."""
    dims = {dim.dim_param for info in read(place).graph.input for dim in info.type.tensor_type.shape.dim}
    found = load(place, dict.fromkeys(dims & {"n", "batch"}, 2), backend="reference")
    given = found.placeholders()
    if max(sum(one.nbytes for one in given.values()), _arena(found)) < MOST_ARENA:
        found.run({name: np.array(one) for name, one in given.items()})
    repr(OnnxLayer(read(place)))


NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    8,
    -1,
    -2,
    -9,
    16,
    31,
    100,
    200,
    1 << 31,
    (1 << 31) - 1,
    1 << 40,
    (1 << 62) + 1,
    -(1 << 63),
)


def _changed_node(random: Random, graph: onnx.GraphProto) -> None:
    if not graph.node:
        return
    one = random.choice(graph.node)
    names = [name for other in graph.node for name in (*other.input, *other.output)] + ["nowhere", ""]
    what = random.randrange(6)
    if what == 0 and one.input:
        one.input[random.randrange(len(one.input))] = random.choice(names)
    elif what == 1:
        one.op_type = random.choice([other.op_type for other in graph.node] + ["Scan", "Loop", "MaxPool", "Concat"])
    elif what == 2 and one.attribute:
        _changed_attribute(random, random.choice(one.attribute))
    elif what == 3 and one.input:
        del one.input[-1]
    elif what == 4 and one.output:
        one.output[random.randrange(len(one.output))] = random.choice(names)
    elif what == 5:
        one.input.append(random.choice(names))


def _changed_attribute(random: Random, attribute: onnx.AttributeProto) -> None:
    if attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        attribute.ints[random.randrange(len(attribute.ints))] = random.choice(NUMBERS)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = random.choice(NUMBERS)
    elif attribute.type == onnx.AttributeProto.GRAPH:
        _changed_graph(random, attribute.g)
    else:
        attribute.type = random.randrange(14)


def _changed_tensor(random: Random, graph: onnx.GraphProto) -> None:
    if not graph.initializer:
        return
    one = random.choice(graph.initializer)
    what = random.randrange(4)
    if what == 0 and one.dims:
        one.dims[random.randrange(len(one.dims))] = random.choice(NUMBERS)
    elif what == 1:
        one.data_type = random.randrange(30)
    elif what == 2 and one.data_type == onnx.TensorProto.INT64 and one.raw_data:
        values = np.frombuffer(one.raw_data, np.int64).copy()
        values[random.randrange(len(values))] = random.choice(NUMBERS)
        one.raw_data = values.tobytes()
    else:
        one.dims.append(random.choice(NUMBERS))


def _changed_input(random: Random, graph: onnx.GraphProto) -> None:
    if graph.input and graph.input[0].type.tensor_type.shape.dim:
        dim = random.choice(graph.input[0].type.tensor_type.shape.dim)
        dim.dim_value = random.choice(NUMBERS)


def _changed_graph(random: Random, graph: onnx.GraphProto) -> None:
    random.choice((_changed_node, _changed_node, _changed_tensor, _changed_input))(random, graph)


def mutated_model(random: Random, data: bytes) -> bytes:
    """Bytes like those of other files, or a message whose nodes, attributes, tensors and sizes are others."""
    if random.random() < 0.3:
        return mutated(random, data)
    message = onnx.ModelProto()
    message.ParseFromString(data)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        _changed_graph(random, message.graph)
    return message.SerializeToString(deterministic=True)
