"""Operators of ai.onnx.ml that are plain tensor work."""

from __future__ import annotations

import numpy as np

import onnx
from nnc import ops
from nnc.core.values.dtype import F32, F64, I64
from nnc.errors import AttributeValueError
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results


def _binarize(call: NodeCall) -> Results:
    x = call[0]
    return ops.cast(x > call.real("threshold", 0.0), x.spec.dtype)


def real(x: Operand) -> Operand:
    """As f32, which all of these compute in; f64 stays."""
    return x if x.spec.dtype in (F32, F64) else ops.cast(x, F32)


def transformed(call: NodeCall, y: Operand, kind: str) -> Operand:
    """The scores of each row as probabilities."""
    if kind == "NONE":
        return y
    if kind == "LOGISTIC":
        return ops.sigmoid(y)
    if kind == "SOFTMAX":
        return ops.softmax(y)
    if kind == "SOFTMAX_ZERO":
        # Scores that are 0 stay so and do not count.
        shown = abs(y) > 1e-7
        zero = ops.fill_like(y, 0.0)
        grown = ops.where(shown, ops.exp(y - ops.reduce_max(y, (-1,), keepdims=True)), zero)
        total = ops.reduce_sum(grown, (-1,), keepdims=True)
        return grown / ops.where(total > 0.0, total, ops.fill_like(total, 1.0))
    raise call.refuse(f"post_transform {kind}")


def classified(call: NodeCall, y: Operand, *, positive: bool | None = None) -> tuple[Operand, Operand]:
    """The label with the highest score, and the scores; one score of two classes is that of the second.

    That counts from 0.5 where all weights of trees are `positive`, and else from 0 and with a sign.
    """
    kind, labels = call.text("post_transform", "NONE"), labels_of(call.node)
    if y.shape[1] == 1 and len(labels) == 2:
        place = ops.cast(ops.reshape(y, y.shape[:1]) > (0.5 if positive else 0.0), I64)
        score = y if positive or kind != "LOGISTIC" else ops.sigmoid(y)
        signed = positive is False and kind != "LOGISTIC"
        chances = ops.concatenate([-score if signed else 1.0 - score, score], 1)
    else:
        place, chances = ops.cast(ops.argmax(y, 1), I64), transformed(call, y, kind)
    if labels and chances.shape[1] > len(labels):
        raise call.refuse(f"{chances.shape[1]} scores for {len(labels)} classes")
    if labels and not isinstance(labels[0], str):
        place = ops.index_select(call.constant(np.array(labels, np.int64)), place, 0)
    return place, chances if chances.spec.dtype is F32 else ops.cast(chances, F32)


def labels_of(node: OnnxNode) -> tuple[object, ...]:
    """The classes of a classifier."""
    for name in ("classlabels_int64s", "classlabels_ints", "classlabels_strings"):
        value = node.attributes.get(name)
        if isinstance(value, tuple) and value:
            return value
    return ()


def _reals(call: NodeCall, name: str) -> Array:
    return np.asarray(call.node.attributes.get(name, ()), np.float32)


def _linear(call: NodeCall, targets: int) -> Operand:
    x, weights = real(call[0]), _reals(call, "coefficients")
    x = x if x.spec.rank == 2 else ops.reshape(x, (1, -1))
    y = ops.gemm(x, call.constant(weights.reshape(targets, -1), x.spec), transpose_b=True)
    rest = _reals(call, "intercepts")
    return y + call.constant(rest, y.spec) if rest.size else y


def _linear_regressor(call: NodeCall) -> Results:
    return transformed(call, _linear(call, call.integer("targets", 1)), call.text("post_transform", "NONE"))


def _linear_classifier(call: NodeCall) -> Results:
    rows = max(_reals(call, "intercepts").size, 1)
    return classified(call, _linear(call, rows))


def _kernel(call: NodeCall, x: Operand, vectors: Operand) -> Operand:
    """k(x[n], v[m])"""
    kind = call.text("kernel_type", "LINEAR")
    gamma, shift, degree = map(float, (*_reals(call, "kernel_params"), 0.0, 0.0, 0.0)[:3])
    products = ops.gemm(x, vectors, transpose_b=True)
    if kind == "LINEAR":
        return products
    if kind == "POLY":
        return ops.power(products * gamma + shift, ops.fill_like(products, degree))
    if kind == "SIGMOID":
        return ops.tanh(products * gamma + shift)
    if kind != "RBF":
        raise call.refuse(f"kernel {kind}")
    lengths = [ops.reduce_sum(ops.square(operand), (1,), keepdims=True) for operand in (x, vectors)]
    return ops.exp((lengths[0] + ops.transpose(lengths[1], (1, 0)) - products * 2.0) * -gamma)


def _support_vectors(call: NodeCall) -> Results:
    """y = k(x, v) · coefficients + rho; of one class, its sign."""
    x, count = real(call[0]), call.integer("n_supports", 0)
    weights = call.constant(_reals(call, "coefficients").reshape(-1, 1), x.spec)
    vectors = call.constant(_reals(call, "support_vectors").reshape(max(count, 1), -1), x.spec)
    y = ops.gemm(_kernel(call, x, vectors) if count else x, weights) + float(_reals(call, "rho")[0])
    if call.integer("one_class", 0):
        y = ops.where(y > 0.0, ops.fill_like(y, 1.0), ops.fill_like(y, -1.0))
    return transformed(call, y, call.text("post_transform", "NONE"))


def _scaled(call: NodeCall) -> Results:
    x = real(call[0])
    return (x - call.constant(_reals(call, "offset"), x.spec)) * call.constant(_reals(call, "scale"), x.spec)


def _normalized(call: NodeCall) -> Results:
    """x over the largest element, the sum of sizes or the length of its row; rows of zeros stay."""
    x, kind = real(call[0]), call.text("norm", "MAX")
    size = {
        "MAX": lambda: ops.reduce_max(x, (-1,), keepdims=True),
        "L1": lambda: ops.reduce_sum(abs(x), (-1,), keepdims=True),
        "L2": lambda: ops.sqrt(ops.reduce_sum(ops.square(x), (-1,), keepdims=True)),
    }[kind]()
    return x / ops.where(ops.equal(size, ops.fill_like(size, 0.0)), ops.fill_like(size, 1.0), size)


def _imputed(call: NodeCall) -> Results:
    """x, but other values where it is the one that stands for none."""
    x = call[0]
    name, default = ("float", 0.0) if x.spec.dtype.is_float else ("int64", 0)
    values = call.node.attributes.get(f"imputed_value_{name}s", ())
    missing = call.node.attributes.get(f"replaced_value_{name}", default)
    assert isinstance(missing, int | float)
    is_missing = ops.is_nan(x) if missing != missing else ops.equal(x, ops.fill_like(x, float(missing)))
    return ops.where(is_missing, ops.broadcast_to(call.constant(values, x.spec), x.shape), x)


def _one_hot(call: NodeCall) -> Results:
    categories = call.node.attributes.get("cats_int64s")
    if not isinstance(categories, tuple) or not call.integer("zeros", 1):
        raise Unknown(call.sources[0], f"{call.node.label}, which looks at each element", whole=True)
    x = ops.reshape(ops.cast(call[0], I64), (*call[0].shape, 1))
    return ops.cast(ops.equal(x, call.constant(np.array(categories, np.int64))), F32)


def _one_hot_host(node: OnnxNode, x: Array) -> Array:
    words = x.dtype.kind in "OSU"
    listed = node.attributes["cats_strings" if words else "cats_int64s"]
    assert isinstance(listed, tuple)
    given = [operand.decode() if isinstance(operand, bytes) else operand for operand in x.reshape(-1).tolist()]
    result = np.array([[label == category for category in listed] for label in given], np.float32)
    if not node.integer("zeros", 1) and not result.any(-1).all():
        raise AttributeValueError(node.label, got="an element of no category", need="one of cats, or zeros=1")
    return result.reshape(*x.shape, len(listed))


def _vectorized(call: NodeCall) -> Results:
    rows = [operand if operand.spec.rank > 1 else ops.reshape(operand, (1, -1)) for operand in map(real, call.present)]
    return ops.concatenate([ops.reshape(row, (row.shape[0], -1)) for row in rows], 1)


def _taken(call: NodeCall) -> Results:
    x, places = call[0], call[1]
    y = ops.index_select(x, ops.reshape(places, (places.spec.elements,)), x.spec.rank - 1)
    return ops.reshape(y, (1, -1)) if x.spec.rank == 1 else y


def _features(node: OnnxNode, x: Array, places: Array) -> Array:
    taken = np.take(x, places.reshape(-1), -1)
    return taken.reshape(1, -1) if x.ndim == 1 else taken


def _encode(node: OnnxNode, x: Array) -> Array:
    """values[keys == x], or the default."""
    keys, values = (_table(node, name) for name in ("keys", "values"))
    kind = _kind(node, values)
    default = _default(node, kind)
    table = dict(zip(keys, values, strict=True))
    encoded = [_looked_up(table, operand, default) for operand in x.reshape(-1).tolist()]
    return np.array(encoded, kind).reshape(x.shape)


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
        return next(
            (value for operand, value in table.items() if isinstance(operand, float) and np.isnan(operand)), default
        )
    return table.get(word, default)


def _table(node: OnnxNode, name: str) -> list[object]:
    tensor = node.attributes.get(f"{name}_tensor")
    if isinstance(tensor, onnx.TensorProto):
        return [
            operand.decode() if isinstance(operand, bytes) else operand
            for operand in onnx.numpy_helper.to_array(tensor).tolist()
        ]
    for kind in ("strings", "int64s", "floats"):
        value = node.attributes.get(f"{name}_{kind}")
        if isinstance(value, tuple):
            return [np.float32(operand) for operand in value] if kind == "floats" and name == "values" else list(value)
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
    f"{DOMAIN}.ArrayFeatureExtractor": OnnxRow(_taken, _features),
    f"{DOMAIN}.LabelEncoder": OnnxRow(None, _encode),
    f"{DOMAIN}.FeatureVectorizer": OnnxRow(_vectorized),
    f"{DOMAIN}.Imputer": OnnxRow(_imputed),
    f"{DOMAIN}.LinearClassifier": OnnxRow(_linear_classifier),
    f"{DOMAIN}.LinearRegressor": OnnxRow(_linear_regressor),
    f"{DOMAIN}.Normalizer": OnnxRow(_normalized),
    f"{DOMAIN}.OneHotEncoder": OnnxRow(_one_hot, _one_hot_host),
    f"{DOMAIN}.Scaler": OnnxRow(_scaled),
    f"{DOMAIN}.SVMRegressor": OnnxRow(_support_vectors),
}
