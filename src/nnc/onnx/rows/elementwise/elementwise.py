"""Elementwise operators: y = f(a, b, …) with NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import onnx
from nnc import ops
from nnc.core.values.dtype import BOOL, dtype_of
from nnc.onnx.file import dtype_named
from nnc.onnx.kept.asked_elements import TWINS, Unknown
from nnc.onnx.node import Array, Build, NodeCall, OnnxNode, OnnxRow, Operand, Results

Unary = Callable[[Operand], Operand]
Binary = Callable[[Operand, Operand], Operand]


def _unary(function: Unary) -> OnnxRow:
    return OnnxRow(lambda call: function(call[0]))


def _binary(function: Binary, host: Callable[..., Any]) -> OnnxRow:
    return OnnxRow(lambda call: function(call[0], call[1]), lambda node, a, b: host(a, b))


def _many(function: Binary, host: Callable[..., Any]) -> OnnxRow:
    return OnnxRow(lambda call: reduce(function, call.present), lambda node, *arrays: reduce(host, arrays))


def _integer_divide(a: Array, b: Array) -> Array:
    """Toward zero, as ONNX asks for."""
    return np.asarray(np.trunc(np.divide(a, b)) if a.dtype.kind == "f" else _truncated(a, b)).astype(a.dtype)


def _truncated(a: Array, b: Array) -> Array:
    whole = np.where(b == 0, 1, b)
    quotient = np.abs(a.astype(object)) // np.abs(whole.astype(object))
    return np.asarray(quotient * np.sign(a.astype(object)) * np.sign(whole.astype(object)))


def _host_div(node: OnnxNode, a: Array, b: Array) -> Array:
    return np.asarray(np.divide(a, b)).astype(a.dtype) if a.dtype.kind not in "iu" else _integer_divide(a, b)


def _div(call: NodeCall) -> Results:
    a, b = call[0], call[1]
    if not a.spec.dtype.is_float:
        # Quotients of integers below 2^53 are exact in f64 once rounded toward zero.
        wide = ops.divide(ops.cast(a, dtype_of("f64")), ops.cast(b, dtype_of("f64")))
        return ops.cast(wide, a.spec.dtype)
    return ops.divide(a, b)


def _pow(call: NodeCall) -> Results:
    a, b, known = call[0], call[1], call.known[1]
    if a.spec.dtype.is_float and known is not None and known.shape == () and known in (2, 3):
        # As root mean squares and the GELU of exporters have them: 12 in a small T5 took 1.8 ms of its 6 as powers.
        return ops.square(a) if known == 2 else ops.multiply(a, ops.square(a))
    if a.spec.dtype is b.spec.dtype and a.spec.dtype.is_float:
        return ops.power(a, b)
    wide = a.spec.dtype if a.spec.dtype.is_float else dtype_of("f64")
    return ops.cast(ops.power(ops.cast(a, wide), ops.cast(b, wide)), a.spec.dtype)


def _host_pow(node: OnnxNode, a: Array, b: Array) -> Array:
    return np.asarray(np.power(a.astype(np.result_type(a, b)), b)).astype(a.dtype)


def _numeric_unary(function: Unary, exact: str = "f64") -> Build:
    """In f64 for integers, which our operator refuses."""

    def build(call: NodeCall) -> Results:
        x = call[0]
        return function(x) if x.spec.dtype.is_float else ops.cast(function(ops.cast(x, dtype_of(exact))), x.spec.dtype)

    return build


def _mod(node: OnnxNode, a: Array, b: Array) -> Array:
    return np.asarray(np.fmod(a, b) if node.attributes.get("fmod", 0) else np.mod(a, b)).astype(a.dtype)


def _build_mod(call: NodeCall) -> Results:
    """Python's sign for integers; C's with fmod: a - b · floor(a / b), or with trunc."""
    a, b = call[0], call[1]
    kind = a.spec.dtype
    if not kind.is_float:
        a, b = ops.cast(a, dtype_of("f64")), ops.cast(b, dtype_of("f64"))
    quotient = ops.divide(a, b)
    if call.integer("fmod", 0):
        quotient = ops.where(quotient < 0.0, ops.ceil(quotient), ops.floor(quotient))
    else:
        quotient = ops.floor(quotient)
    rest = a - b * quotient
    # Of an infinite divisor nothing, or all of it, is left.
    endless = ops.logical_and(_is_infinite(b), ops.logical_not(ops.logical_or(_is_infinite(a), ops.is_nan(a))))
    zero = ops.fill_like(a, 0.0)
    same = ops.logical_or(ops.equal(a, zero), ops.equal(ops.less(a, zero), ops.less(b, zero)))
    kept = a if call.integer("fmod", 0) else ops.where(same, a, b)
    rest = ops.where(endless, kept, rest)
    return rest if kind.is_float else ops.cast(rest, kind)


def _is_infinite(x: Operand) -> Operand:
    return ops.equal(abs(x), ops.fill_like(abs(x), math.inf))


def _bit_cast(node: OnnxNode, x: Array) -> Array:
    target = node.attributes["to"]
    assert isinstance(target, int)
    twin = onnx.helper.tensor_dtype_to_np_dtype(target)
    return np.ascontiguousarray(x).view(twin).reshape(x.shape)


def _bits(op: Callable[..., Operand], function: Callable[..., Any]) -> OnnxRow:
    return OnnxRow(
        lambda call: op(*call.present), lambda node, *arrays: np.asarray(function(*arrays)).astype(arrays[0].dtype)
    )


def _shifted(call: NodeCall) -> Results:
    return (ops.shift_left if call.text("direction") == "LEFT" else ops.shift_right)(call[0], call[1])


def _shift(node: OnnxNode, a: Array, b: Array) -> Array:
    left = node.attributes.get("direction") == "LEFT"
    return np.asarray(np.left_shift(a, b) if left else np.right_shift(a, b)).astype(a.dtype)


def _clip(call: NodeCall) -> Results:
    x = call[0]
    if call.node.opset < 11:
        low, high = call.real("min", -math.inf), call.real("max", math.inf)
        return ops.clamp(x, None if low == -math.inf else low, None if high == math.inf else high)
    for position, function in ((1, ops.maximum), (2, ops.minimum)):
        bound = call.maybe(position)
        if bound is not None:
            x = function(x, bound)
    return x


def _cast(call: NodeCall) -> Results:
    number = call.integer("to")
    if onnx.helper.tensor_dtype_to_np_dtype(number) not in TWINS:
        raise Unknown(call.sources[0], f"{call.node.label} to an element type that runs by value alone", whole=True)
    target, x = dtype_named(number, call.node.label), call[0]
    if target is BOOL:
        return ops.not_equal(x, ops.fill_like(x, 0.0)) if x.spec.dtype is not BOOL else x
    return x if x.spec.dtype is target else ops.cast(x, target)


def _host_cast(node: OnnxNode, x: Array) -> Array:
    target = node.attributes["to"]
    assert isinstance(target, int)
    rounding = str(node.attributes.get("round_mode", "up"))
    return _converted(x, target, saturate=bool(node.attributes.get("saturate", 1)), rounding=rounding)


def _converted(x: Array, target: int, *, saturate: bool, rounding: str = "up") -> Array:
    """Elements as ONNX's type `target`; narrow floats saturate unless told otherwise, text is read and written."""
    twin = onnx.helper.tensor_dtype_to_np_dtype(target)
    if target == onnx.TensorProto.STRING:
        return np.array([_written(operand) for operand in x.reshape(-1)], object).reshape(x.shape)
    if x.dtype.kind in "OSU":
        words = [operand.decode() if isinstance(operand, bytes) else str(operand) for operand in x.reshape(-1).tolist()]
        return np.array([float(word) for word in words]).reshape(x.shape).astype(twin)
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(str(twin))
    if bits is not None:
        # Toward zero, then the lowest bits.
        low = -(1 << (bits - 1)) if str(twin).startswith("i") else 0
        return ((x.astype(np.float32).astype(np.int32) - low) % (1 << bits) + low).astype(np.int8).astype(twin)
    if str(twin) == "float8_e8m0fnu":
        return np.asarray(onnx.numpy_helper.to_float8e8m0(x.astype(np.float32), saturate, rounding))
    if saturate and twin not in TWINS and twin.kind not in "iub":
        return np.asarray(onnx.numpy_helper.saturate_cast(x.astype(np.float32), twin))
    return x.astype(twin)


def _written(value: object) -> str:
    return str(value)


def _host_cast_like(node: OnnxNode, x: Array, like: Array) -> Array:
    target = onnx.helper.np_dtype_to_tensor_dtype(like.dtype)
    return _converted(x, target, saturate=bool(node.attributes.get("saturate", 1)))


def _cast_like(call: NodeCall) -> Results:
    target = call[1].spec.dtype
    if target is BOOL:
        return ops.not_equal(call[0], ops.fill_like(call[0], 0.0))
    return ops.cast(call[0], target)


def _elu(call: NodeCall) -> Results:
    x, alpha = call[0], call.real("alpha", 1.0)
    return ops.where(x < 0.0, ops.expm1(ops.minimum(x, ops.fill_like(x, 0.0))) * alpha, x)


def _selu(call: NodeCall) -> Results:
    alpha, gamma = call.real("alpha", 1.67326319217681884765625), call.real("gamma", 1.05070102214813232421875)
    x = call[0]
    return ops.where(x > 0.0, x, ops.expm1(ops.minimum(x, ops.fill_like(x, 0.0))) * alpha) * gamma


def _celu(call: NodeCall) -> Results:
    x, alpha = call[0], call.real("alpha", 1.0)
    below = ops.expm1(ops.minimum(x, ops.fill_like(x, 0.0)) * (1.0 / alpha)) * alpha
    return ops.relu(x) + below


def _leaky(call: NodeCall) -> Results:
    return ops.leaky_relu(call[0], call.real("alpha", 0.01))


def _prelu(call: NodeCall) -> Results:
    x, slope = call[0], call[1]
    zero = ops.fill_like(x, 0.0)
    return ops.where(x < 0.0, x * slope, x) if x.spec.dtype.is_float else ops.where(ops.less(x, zero), x * slope, x)


def _hard_sigmoid(call: NodeCall) -> Results:
    return ops.clamp(call[0] * call.real("alpha", 0.2) + call.real("beta", 0.5), 0.0, 1.0)


def _hard_swish(call: NodeCall) -> Results:
    return call[0] * ops.clamp(call[0] * (1.0 / 6.0) + 0.5, 0.0, 1.0)


def _gelu(call: NodeCall) -> Results:
    return ops.gelu_tanh(call[0]) if call.text("approximate", "none") == "tanh" else ops.gelu(call[0])


def _swish(call: NodeCall) -> Results:
    alpha = call.real("alpha", 1.0)
    return ops.swish(call[0]) if alpha == 1.0 else call[0] * ops.sigmoid(call[0] * alpha)


def _thresholded(call: NodeCall) -> Results:
    x = call[0]
    return ops.where(x > call.real("alpha", 1.0), x, ops.fill_like(x, 0.0))


def _shrink(call: NodeCall) -> Results:
    x, bias, bound = call[0], call.real("bias", 0.0), call.real("lambd", 0.5)
    zero = ops.fill_like(x, 0.0)
    return ops.where(x < -bound, x + bias, ops.where(x > bound, x - bias, zero))


def _softsign(call: NodeCall) -> Results:
    return ops.divide(call[0], abs(call[0]) + 1.0)


def _is_inf(call: NodeCall) -> Results:
    x = call[0]
    parts = []
    if call.integer("detect_positive", 1):
        parts.append(ops.equal(x, ops.fill_like(x, math.inf)))
    if call.integer("detect_negative", 1):
        parts.append(ops.equal(x, ops.fill_like(x, -math.inf)))
    if not parts:
        return ops.equal(ops.fill_like(x, 0.0), ops.fill_like(x, 1.0))
    return reduce(ops.logical_or, parts)


def _mean(call: NodeCall) -> Results:
    return reduce(ops.add, call.present) * (1.0 / len(call.present))


def _logical(function: Binary) -> OnnxRow:
    return OnnxRow(lambda call: function(call[0], call[1]))


def _identity(call: NodeCall) -> Results:
    return call[0]


def _where(call: NodeCall) -> Results:
    return ops.where(call[0], call[1], call[2])


ROWS = {
    "Atan": OnnxRow(lambda call: ops.atan(call[0]), lambda node, x: np.arctan(x)),
    "Asin": OnnxRow(lambda call: ops.asin(call[0]), lambda node, x: np.arcsin(x)),
    "Acos": OnnxRow(lambda call: ops.acos(call[0]), lambda node, x: np.arccos(x)),
    "Abs": OnnxRow(lambda call: abs(call[0]), lambda node, x: np.abs(x)),
    "Neg": OnnxRow(lambda call: -call[0], lambda node, x: np.negative(x)),
    "Add": _binary(ops.add, np.add),
    "Sub": _binary(ops.subtract, np.subtract),
    "Mul": _binary(ops.multiply, np.multiply),
    "Div": OnnxRow(_div, _host_div),
    "Mod": OnnxRow(_build_mod, _mod),
    "Pow": OnnxRow(_pow, _host_pow),
    "Max": _many(ops.maximum, np.maximum),
    "Min": _many(ops.minimum, np.minimum),
    "Sum": _many(ops.add, np.add),
    "Mean": OnnxRow(_mean),
    "Sqrt": _unary(ops.sqrt),
    "Reciprocal": _unary(ops.reciprocal),
    "Exp": _unary(ops.exp),
    "Log": _unary(ops.log),
    "Sin": _unary(ops.sin),
    "Cos": _unary(ops.cos),
    "Tan": _unary(ops.tan),
    "Sinh": _unary(ops.sinh),
    "Cosh": _unary(ops.cosh),
    "Tanh": _unary(ops.tanh),
    "Asinh": _unary(ops.asinh),
    "Acosh": _unary(ops.acosh),
    "Atanh": _unary(ops.atanh),
    "Erf": _unary(ops.erf),
    "Sigmoid": _unary(ops.sigmoid),
    "Relu": _unary(ops.relu),
    "LeakyRelu": OnnxRow(_leaky),
    "PRelu": OnnxRow(_prelu),
    "Elu": OnnxRow(_elu),
    "Selu": OnnxRow(_selu),
    "Celu": OnnxRow(_celu),
    "Gelu": OnnxRow(_gelu),
    "Swish": OnnxRow(_swish),
    "HardSigmoid": OnnxRow(_hard_sigmoid),
    "HardSwish": OnnxRow(_hard_swish),
    "Mish": _unary(lambda x: x * ops.tanh(ops.softplus(x))),
    "Softplus": _unary(ops.softplus),
    "Softsign": OnnxRow(_softsign),
    "ThresholdedRelu": OnnxRow(_thresholded),
    "Shrink": OnnxRow(_shrink),
    "Sign": OnnxRow(_numeric_unary(ops.sign), lambda node, x: np.sign(x)),
    "Floor": _unary(ops.floor),
    "Ceil": _unary(ops.ceil),
    "Round": _unary(ops.round),
    "IsNaN": _unary(ops.is_nan),
    "IsInf": OnnxRow(_is_inf),
    "Clip": OnnxRow(_clip),
    "Cast": OnnxRow(_cast, _host_cast),
    "CastLike": OnnxRow(_cast_like, _host_cast_like),
    "Equal": OnnxRow(lambda call: ops.equal(call[0], call[1]), lambda node, a, b: np.equal(a, b)),
    "Less": _binary(ops.less, np.less),
    "LessOrEqual": _binary(ops.less_equal, np.less_equal),
    "Greater": _binary(ops.greater, np.greater),
    "GreaterOrEqual": _binary(ops.greater_equal, np.greater_equal),
    "And": _logical(ops.logical_and),
    "Or": _logical(ops.logical_or),
    "Xor": _logical(ops.logical_xor),
    "Not": _unary(ops.logical_not),
    "BitCast": OnnxRow(None, _bit_cast),
    "BitwiseAnd": _bits(ops.bitwise_and, np.bitwise_and),
    "BitwiseOr": _bits(ops.bitwise_or, np.bitwise_or),
    "BitwiseXor": _bits(ops.bitwise_xor, np.bitwise_xor),
    "BitwiseNot": _bits(ops.bitwise_not, np.bitwise_not),
    "BitShift": OnnxRow(_shifted, _shift),
    "Where": OnnxRow(_where, lambda node, c, a, b: np.where(c, a, b)),
    "Identity": OnnxRow(_identity, lambda node, x: x),
}
