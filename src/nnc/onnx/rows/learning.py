"""Operators of ai.onnx.ml that are plain tensor work."""

from __future__ import annotations

import numpy as np

import onnx
from nnc import ops
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Results


def _binarize(call: NodeCall) -> Results:
    x = call[0]
    return ops.cast(x > call.real("threshold", 0.0), x.spec.dtype)


def _features(node: OnnxNode, x: Array, places: Array) -> Array:
    taken = np.take(x, places.reshape(-1), -1)
    return taken.reshape(1, -1) if x.ndim == 1 else taken


def _encode(node: OnnxNode, x: Array) -> Array:
    """values[keys == x], or the default."""
    keys, values = (_table(node, name) for name in ("keys", "values"))
    kind = _kind(node, values)
    default = _default(node, kind)
    table = dict(zip(keys, values, strict=True))
    found = [_looked_up(table, one, default) for one in x.reshape(-1).tolist()]
    return np.array(found, kind).reshape(x.shape)


def _kind(node: OnnxNode, values: list[object]) -> np.dtype[np.generic]:
    """The element type of the values: that of their tensor, or of their attribute."""
    tensor = node.attributes.get("values_tensor")
    kind = (
        onnx.numpy_helper.to_array(tensor).dtype if isinstance(tensor, onnx.TensorProto) else np.asarray(values).dtype
    )
    return kind if kind.kind not in "US" else np.dtype(object)


def _looked_up(table: dict[object, object], key: object, default: object) -> object:
    word = key.decode() if isinstance(key, bytes) else key
    if isinstance(word, float) and np.isnan(word):
        return next((value for one, value in table.items() if isinstance(one, float) and np.isnan(one)), default)
    return table.get(word, default)


def _table(node: OnnxNode, name: str) -> list[object]:
    tensor = node.attributes.get(f"{name}_tensor")
    if isinstance(tensor, onnx.TensorProto):
        return [one.decode() if isinstance(one, bytes) else one for one in onnx.numpy_helper.to_array(tensor).tolist()]
    for kind in ("strings", "int64s", "floats"):
        value = node.attributes.get(f"{name}_{kind}")
        if isinstance(value, tuple):
            return [np.float32(one) for one in value] if kind == "floats" and name == "values" else list(value)
    return []


def _default(node: OnnxNode, kind: np.dtype[np.generic]) -> object:
    tensor = node.attributes.get("default_tensor")
    if isinstance(tensor, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(tensor).reshape(-1)[0]
        return value.decode() if isinstance(value, bytes) else value
    if kind == np.dtype(object):
        return node.attributes.get("default_string", "_Unused")
    return node.attributes.get("default_float", -0.0) if kind.kind == "f" else node.attributes.get("default_int64", -1)


DOMAIN = "ai.onnx.ml"
ROWS = {
    f"{DOMAIN}.Binarizer": OnnxRow(_binarize),
    f"{DOMAIN}.ArrayFeatureExtractor": OnnxRow(None, _features),
    f"{DOMAIN}.LabelEncoder": OnnxRow(None, _encode),
}
