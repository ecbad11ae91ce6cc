"""Softmax over the last axis, its logarithm, and the cross entropy of class labels.

softmax:                y[…, c] = e^(x[…, c] - m) / sum_d e^(x[…, d] - m),  m = max_d x[…, d]
log_softmax:            y[…, c] = x[…, c] - m - ln sum_d e^(x[…, d] - m)
softmax_cross_entropy:  loss[n] = -log_softmax(x)[n, label[n]],  p = softmax(x)
"""

from __future__ import annotations

from dataclasses import replace

from nnc.core.values.command import Command
from nnc.core.values.spec import TensorSpec
from nnc.errors import DTypeError, ShapeError
from nnc.ops.batching import batched_rows
from nnc.ops.elementwise.pointwise import add, exp, multiply, subtract
from nnc.ops.examples import LABELS, MATRIX, ROW, Example
from nnc.ops.function import UnaryOperator
from nnc.ops.movement.broadcast import broadcast_to, reduce_sum, reshape
from nnc.ops.operand import Operand, T, apply
from nnc.ops.permutation import last_axis_stays
from nnc.ops.rules import (
    FLOATS,
    Applied,
    Gradients,
    Inplace,
    NoAttrs,
    Pattern,
    Specs,
    check_kinds,
    describe,
    operator,
    single,
)
from nnc.ops.work import per_element

__all__ = ["log_softmax", "softmax", "softmax_cross_entropy"]

_NONE = NoAttrs()


def _infer_rows(attrs: NoAttrs, specs: Specs) -> Specs:
    (x,) = specs
    check_kinds(FLOATS, x)
    if x.rank == 0 or x.shape[-1] == 0:
        raise ShapeError("softmax", got=str(x), need="at least one element on the last axis")
    return (x,)


def _check_labels(subject: str, x: TensorSpec, labels: TensorSpec) -> None:
    if labels.dtype.kind not in ("int", "uint"):
        raise DTypeError(subject, got=f"labels {labels}", need="integers")
    if x.rank < 1 or labels.shape != x.shape[:-1]:
        raise ShapeError(subject, got=f"x={x}, labels={labels}", need=f"labels of shape {list(x.shape[:-1])}")


def _infer_loss(attrs: NoAttrs, specs: Specs) -> Specs:
    x, labels = specs
    _infer_rows(attrs, (x,))
    _check_labels("softmax_cross_entropy", x, labels)
    return (replace(x, shape=x.shape[:-1]), x)


def _infer_loss_gradient(attrs: NoAttrs, specs: Specs) -> Specs:
    g, p, labels = specs
    _infer_rows(attrs, (p,))
    _check_labels("softmax_cross_entropy_gradient", p, labels)
    if g.shape != p.shape[:-1] or g.dtype is not p.dtype:
        raise ShapeError("softmax_cross_entropy_gradient", got=f"g={g}, p={p}", need=f"g of shape {list(p.shape[:-1])}")
    return (p,)


def _softmax_gradient(g: Operand, y: Operand) -> Operand:
    """x' = y · (g - sum_d g[d] · y[d])."""
    product = multiply(g, y)
    return subtract(product, multiply(y, reduce_sum(product, -1, keepdims=True)))


def _gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (_softmax_gradient(g, call.outputs[0]),)


def _log_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (subtract(g, multiply(exp(call.outputs[0]), reduce_sum(g, -1, keepdims=True))),)


def _loss_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    g_loss, g_probability = gradients
    probability, labels = call.outputs[1], call.inputs[1]
    parts = []
    if g_loss is not None:
        parts.append(apply(SOFTMAX_CROSS_ENTROPY_GRADIENT, _NONE, g_loss, probability, labels))
    if g_probability is not None:
        parts.append(_softmax_gradient(g_probability, probability))
    return (parts[0] if len(parts) == 1 else add(parts[0], parts[1]), None)


def _loss_gradient_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    """x' = g · (p - onehot): by g it is sum_c h · (p - onehot), by p it is h · g."""
    h = single(gradients)
    g, p, labels = call.inputs
    by_g = apply(LABEL_DIFFERENCE, _NONE, h, p, labels) if call.needed[0] else None
    by_p = multiply(h, broadcast_rows(g, h)) if call.needed[1] else None
    return (by_g, by_p, None)


def _infer_difference(attrs: NoAttrs, specs: Specs) -> Specs:
    h, p, labels = specs
    _infer_rows(attrs, (p,))
    _check_labels("label_difference", p, labels)
    if h.shape != p.shape or h.dtype is not p.dtype:
        raise ShapeError("label_difference", got=f"h={h}, p={p}", need="equal shapes and element types")
    return (replace(h, shape=h.shape[:-1]),)


def _difference_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    h, p, labels = call.inputs
    by_h = apply(SOFTMAX_CROSS_ENTROPY_GRADIENT, _NONE, g, p, labels) if call.needed[0] else None
    by_p = multiply(h, broadcast_rows(g, h)) if call.needed[1] else None
    return (by_h, by_p, None)


softmax = UnaryOperator("softmax", ("x",), "y[…, c] = e^x[…, c] / sum_d e^x[…, d], over the last axis")
describe(
    softmax,
    infer=_infer_rows,
    gradient=_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    pattern=Pattern.OPAQUE,
    work=per_element(5),
    permuted=last_axis_stays,
    batched=batched_rows,
)
log_softmax = UnaryOperator("log_softmax", ("x",), "y[…, c] = x[…, c] - ln sum_d e^x[…, d], over the last axis")
describe(
    log_softmax,
    infer=_infer_rows,
    gradient=_log_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    work=per_element(5),
    permuted=last_axis_stays,
    batched=batched_rows,
)
SOFTMAX_CROSS_ENTROPY = operator(
    "softmax_cross_entropy",
    NoAttrs,
    ("x", "labels"),
    ("loss", "probability"),
    infer=_infer_loss,
    gradient=_loss_gradient,
    inplace=Inplace(allowed=((0, 1),)),
    work=per_element(5),
    batched=batched_rows,
    example=Example(_NONE, (MATRIX, LABELS)),
    doc="loss[n] = ln sum_d e^x[n, d] - x[n, label[n]]; probability = softmax(x)",
)
SOFTMAX_CROSS_ENTROPY_GRADIENT = operator(
    "softmax_cross_entropy_gradient",
    NoAttrs,
    ("g", "probability", "labels"),
    infer=_infer_loss_gradient,
    gradient=_loss_gradient_gradient,
    inplace=Inplace(allowed=((1, 0),)),
    work=per_element(2),
    batched=batched_rows,
    example=Example(_NONE, (ROW, MATRIX, LABELS)),
    doc="y[n, c] = g[n] · (p[n, c] - [c == label[n]])",
)
LABEL_DIFFERENCE = operator(
    "label_difference",
    NoAttrs,
    ("h", "probability", "labels"),
    infer=_infer_difference,
    gradient=_difference_gradient,
    batched=batched_rows,
    example=Example(_NONE, (MATRIX, MATRIX, LABELS)),
    doc="y[n] = sum_c h[n, c] · (p[n, c] - [c == label[n]])",
)


# Made once, for eager code.
_CROSS_ENTROPY = Command(SOFTMAX_CROSS_ENTROPY, _NONE)


def softmax_cross_entropy(x: T, labels: T) -> tuple[T, T]:
    """(loss per row, probabilities) of logits `x` and integer `labels`."""
    loss, probability = x.apply(_CROSS_ENTROPY, (x, labels))
    return loss, probability


def broadcast_rows(g: T, like: Operand) -> T:
    """`g` with a new last axis, repeated to the shape of `like`."""
    return broadcast_to(reshape(g, (*g.shape, 1)), like.shape)
