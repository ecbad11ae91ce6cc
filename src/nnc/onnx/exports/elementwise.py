"""Element by element: as ONNX's own nodes, or composed of others. Transposes go through."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.core.values.dtype import BOOL, U8
from nnc.onnx.exporter import ExportCall, ExportOperand, ExportRow, OnnxWriter, Written, number_of
from nnc.ops.composed.fused import FusedAttrs


def aligned(writer: OnnxWriter, op: str, operands: tuple[ExportOperand, ...], rank: int, **attributes: object) -> str:
    """The node on the sources of operands that are all transposed alike; what is smaller is turned the other way."""
    names = [writer.name_of(value) for value in operands]
    turned = [writer.turned(name) for name in names]
    orders = {value[1] for value in turned if value is not None and len(value[1]) == rank}
    largest = max((value.spec.elements for value in operands), default=0)
    small = all(value is not None or two.spec.elements < largest for value, two in zip(turned, operands, strict=True))
    if len(orders) != 1 or not small:
        return writer.node(op, *names, **attributes)
    (order,) = orders
    back = tuple(order.index(axis) for axis in range(rank))
    sources = []
    for name, source, operand in zip(names, turned, operands, strict=True):
        if source is not None and source[1] == order:
            sources.append(source[0])
        elif operand.spec.elements == 1 and operand.spec.rank == 0:
            sources.append(name)
        else:
            wide = (1,) * (rank - operand.spec.rank) + operand.shape
            kept = [axis for axis in back if wide[axis] != 1]
            whole = kept == sorted(kept)
            target = tuple(wide[axis] for axis in back)
            sources.append(
                writer.reshape(name, target) if whole else writer.transpose(writer.reshape(name, wide), back)
            )
    return writer.transpose(writer.node(op, *sources, **attributes), order)


def plain(op: str, **attributes: object) -> ExportRow:
    """One node of the same meaning."""

    def write(call: ExportCall) -> Written:
        operands = tuple(call[place] for place in range(len(call.operands)))
        return aligned(call.writer, op, operands, call.outputs[0].rank, **attributes)

    return write


def _cast(call: ExportCall) -> Written:
    """Floats become integers toward zero, saturating, nan as 0; what ONNX leaves open is clipped before."""
    x, kind = call[0], call.attrs.dtype
    if not x.spec.dtype.is_float or kind.is_float or kind is BOOL:
        return aligned(call.writer, "Cast", (x,), x.spec.rank, to=number_of(kind))
    limits = np.iinfo(kind.numpy)
    wide = ops.where(ops.is_nan(x), ops.fill_like(x, 0.0), x)
    high = (
        np.nextafter(x.spec.dtype.numpy.type(limits.max), x.spec.dtype.numpy.type(0))
        if kind.itemsize > 2
        else limits.max
    )
    clipped = ops.minimum(ops.maximum(wide, ops.fill_like(x, float(limits.min))), ops.fill_like(x, float(high)))
    return aligned(call.writer, "Cast", (clipped,), x.spec.rank, to=number_of(kind))


def _affine(call: ExportCall) -> Written:
    """y = scale · x + shift"""
    w, x, attrs = call.writer, call[0], call.attrs
    y = x
    for op, number, nothing in (("Mul", attrs.scale, 1.0), ("Add", attrs.shift, 0.0)):
        if number != nothing:
            other = call.of(w.constant(number, x.spec.dtype), x.spec, shape=())
            y = call.of(aligned(w, op, (y, other), x.spec.rank), x.spec)
    return y if y is not x else w.node("Identity", call.name(0))


def _expm1(call: ExportCall) -> Written:
    """tanh(x / 2) · (e^x + 1), without loss near 0"""
    x = call[0]
    return ops.where(ops.abs(x) < 1.0, ops.tanh(x * 0.5) * (ops.exp(x) + 1.0), ops.exp(x) - 1.0)


def _log1p(call: ExportCall) -> Written:
    """2 · artanh(x / (x + 2)) near 0"""
    x, w = call[0], call.writer
    near = call.of(w.node("Atanh", w.name_of(x / (x + 2.0))), x.spec) * 2.0
    return ops.where(ops.abs(x) < 0.5, near, ops.log(x + 1.0))


def _gelu(call: ExportCall) -> Written:
    x = call[0]
    return x * 0.5 * (ops.erf(x * math.sqrt(0.5)) + 1.0)


def _gelu_tanh(call: ExportCall) -> Written:
    x = call[0]
    return x * 0.5 * (ops.tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)


def _preference(call: ExportCall) -> Written:
    a, b = call[0], call[1]
    kind = call.outputs[0].dtype
    return (ops.cast(a > b, kind) + ops.cast(a >= b, kind)) * 0.5


def _safe(b: ExportOperand) -> tuple[ExportOperand, ExportOperand]:
    """Whether a divisor is 0, and the divisor with 1 instead."""
    zero = ops.equal(b, ops.fill_like(b, 0))
    return zero, ops.where(zero, ops.fill_like(b, 1), b)


def _remainder(call: ExportCall) -> Written:
    zero, divisor = _safe(call[1])
    y = call.of(call.writer.node("Mod", call.name(0), call.writer.name_of(divisor)), call.outputs[0])
    return ops.where(zero, ops.fill_like(y, 0), y)


def _floor_divide(call: ExportCall) -> Written:
    """(a - a mod b) / b, exact"""
    a, b = call[0], call[1]
    zero, divisor = _safe(b)
    exact = a - ops.remainder(a, divisor)
    y = call.of(call.writer.node("Div", call.writer.name_of(exact), call.writer.name_of(divisor)), call.outputs[0])
    return ops.where(zero, ops.fill_like(y, 0), y)


def _not_equal(call: ExportCall) -> Written:
    return ops.logical_not(ops.equal(call[0], call[1]))


def _equal(call: ExportCall) -> Written:
    return aligned(call.writer, "Equal", (call[0], call[1]), call.outputs[0].rank)


def _ordered(op: str) -> ExportRow:
    """A comparison; truth values are compared as integers."""

    def write(call: ExportCall) -> Written:
        a, b = (ops.cast(value, U8) if value.spec.dtype is BOOL else value for value in (call[0], call[1]))
        return aligned(call.writer, op, (a, b), call.outputs[0].rank)

    return write


def _fused(call: ExportCall) -> Written:
    """Step after step."""
    attrs: FusedAttrs = call.attrs
    values = list(call.operands)
    for step in attrs.steps:
        inputs = [values[place] for place in step.operands]
        names = step.command.op.inputs
        count = len(names) if isinstance(names, tuple) else len(inputs)
        values.append(call.writer.apply(step.command, [*inputs, *[None] * (count - len(inputs))])[0])
    return values[-1] or ""


EXPORTS: dict[str, ExportRow] = {
    **{
        name: plain(op)
        for name, op in {
            "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "tanh": "Tanh",
            "sigmoid": "Sigmoid", "relu": "Relu", "sin": "Sin", "cos": "Cos", "atan": "Atan", "erf": "Erf",
            "tan": "Tan", "sinh": "Sinh", "cosh": "Cosh", "asin": "Asin", "acos": "Acos", "asinh": "Asinh",
            "acosh": "Acosh", "atanh": "Atanh",
            "absolute": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round",
            "softplus": "Softplus", "is_nan": "IsNaN", "logical_not": "Not", "add": "Add", "subtract": "Sub",
            "multiply": "Mul", "divide": "Div", "maximum": "Max", "minimum": "Min", "power": "Pow",
            "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "bitwise_and": "BitwiseAnd",
            "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "bitwise_not": "BitwiseNot", "where": "Where",
            "copy": "Identity",
            "to_device": "Identity",
        }.items()
    },
    "stop_gradient": lambda call: call[0],
    "equal": _equal,
    "not_equal": _not_equal,
    "less": _ordered("Less"),
    "less_equal": _ordered("LessOrEqual"),
    "greater": _ordered("Greater"),
    "greater_equal": _ordered("GreaterOrEqual"),
    "cast": _cast,
    "affine": _affine,
    "square": lambda call: call[0] * call[0],
    "rsqrt": lambda call: ops.reciprocal(ops.sqrt(call[0])),
    "erfc": lambda call: 1.0 - ops.erf(call[0]),
    "expm1": _expm1,
    "log1p": _log1p,
    "step": lambda call: ops.cast(ops.greater(call[0], ops.fill_like(call[0], 0)), call.outputs[0].dtype),
    "swish": lambda call: call[0] * ops.sigmoid(call[0]),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "preference": _preference,
    "remainder": _remainder,
    "floor_divide": _floor_divide,
    "fused_pointwise": _fused,
    "fused_reduction": _fused,
    "fused_output": _fused,
}  # fmt: skip
