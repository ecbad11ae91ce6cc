"""The ONNX graph of GPT-2 small with random weights, whose keys and values go in and come out: for peers that run ONNX.

    python benchmarks/decoder_graph.py OUTPUT.onnx

Inputs are tokens[batch, new], positions[new], mask[new, all] (0 or -inf), and past_key_i, past_value_i[batch, heads,
kept, width] of each layer; outputs are scores[batch, vocabulary] behind the last token, and what is kept then. All
operators are ONNX's own (opset 20), with a `Concat` behind each key and value.
"""

from __future__ import annotations

import sys

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, WIDTH, VOCABULARY, POSITIONS = 12, 12, 64, 50257, 1024
FEATURES = HEADS * WIDTH


class GraphWriter:
    """Nodes and weights by name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._draw = np.random.default_rng(0)

    def constant(self, name: str, value: np.ndarray) -> str:
        """An array by this name."""
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def drawn(self, name: str, *shape: int) -> str:
        """Weights of about 0.02."""
        return self.constant(name, self._draw.standard_normal(shape, np.float32) * np.float32(0.02))

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """The output of a node."""
        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def norm(self, name: str, x: str) -> str:
        """Layer normalization with a scale and a bias."""
        scale = self.constant(f"{name}.scale", np.ones(FEATURES, np.float32))
        bias = self.constant(f"{name}.bias", np.zeros(FEATURES, np.float32))
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def dense(self, name: str, x: str, inner: int, outer: int) -> str:
        """x · W + b"""
        product = self.node("MatMul", x, self.drawn(f"{name}.weight", inner, outer))
        return self.node("Add", product, self.constant(f"{name}.bias", np.zeros(outer, np.float32)))

    def layer(self, number: int, x: str) -> str:
        """Attention over what is kept and the new tokens, and two dense layers, each beside x."""
        split = self.dense(f"{number}.qkv", self.norm(f"{number}.first", x), FEATURES, 3 * FEATURES)
        parts = [f"{number}.{name}" for name in "qkv"]
        self.nodes.append(helper.make_node("Split", [split], parts, axis=-1, num_outputs=3))
        heads = [self.node("Transpose", self.node("Reshape", part, "heads"), perm=[0, 2, 1, 3]) for part in parts]
        for part, name in ((1, "key"), (2, "value")):
            kept = f"kept_{name}_{number}"
            self.nodes.append(helper.make_node("Concat", [f"past_{name}_{number}", heads[part]], [kept], axis=2))
            heads[part] = kept
        scores = self.node("MatMul", heads[0], self.node("Transpose", heads[1], perm=[0, 1, 3, 2]))
        seen = self.node("Add", self.node("Mul", scores, "scale"), "mask")
        summed = self.node("MatMul", self.node("Softmax", seen, axis=-1), heads[2])
        rows = self.node("Reshape", self.node("Transpose", summed, perm=[0, 2, 1, 3]), "rows")
        x = self.node("Add", x, self.dense(f"{number}.output", rows, FEATURES, FEATURES))
        hidden = self.dense(f"{number}.up", self.norm(f"{number}.second", x), FEATURES, 4 * FEATURES)
        hidden = self.node("Gelu", hidden, approximate="tanh")
        return self.node("Add", x, self.dense(f"{number}.down", hidden, 4 * FEATURES, FEATURES))


def decoder() -> onnx.ModelProto:
    """The whole graph."""
    writer = GraphWriter()
    writer.constant("scale", np.float32(WIDTH**-0.5))
    writer.constant("heads", np.array([0, 0, HEADS, WIDTH]))
    writer.constant("rows", np.array([0, 0, FEATURES]))
    table = writer.drawn("table", VOCABULARY, FEATURES)
    places = writer.node("Gather", writer.drawn("places", POSITIONS, FEATURES), "positions")
    x = writer.node("Add", writer.node("Gather", table, "tokens"), places)
    for number in range(LAYERS):
        x = writer.layer(number, x)
    last = writer.node("Gather", writer.norm("last", x), writer.constant("end", np.array(-1)), axis=1)
    head = writer.node("Transpose", table, perm=[1, 0])
    writer.nodes.append(helper.make_node("MatMul", [last, head], ["scores"]))
    kept = [f"{name}_{number}" for number in range(LAYERS) for name in ("key", "value")]

    def end(name: str, kind: int, *shape: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    number, whole = TensorProto.FLOAT, TensorProto.INT64
    inputs = [end("tokens", whole, "batch", "new"), end("positions", whole, "new"), end("mask", number, "new", "all")]
    inputs += [end(f"past_{name}", number, "batch", HEADS, "kept", WIDTH) for name in kept]
    outputs = [end("scores", number, "batch", VOCABULARY)]
    outputs += [end(f"kept_{name}", number, "batch", HEADS, "all", WIDTH) for name in kept]
    graph = helper.make_graph(writer.nodes, "gpt2_small", inputs, outputs, writer.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


if __name__ == "__main__":
    onnx.save(decoder(), sys.argv[1])
