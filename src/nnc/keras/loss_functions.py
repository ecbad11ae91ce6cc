"""Losses as functions under Keras' names: a number for each example. Probabilities are cut to 1e-7 … 1 - 1e-7."""

from __future__ import annotations

import math

from nnc import numerics as n
from nnc.arguments import Positive, Probability, Rate, checked
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.errors import ShapeError
from nnc.keras.metric_states import single
from nnc.nn import functional as fn
from nnc.nn.functional import Values
from nnc.nn.optimization.losses import (
    BinaryCrossEntropy,
    Hinge,
    Huber,
    LogCosh,
    MeanAbsoluteError,
    MeanSquaredError,
    PointwiseLoss,
)
from nnc.ops import softmax_cross_entropy

EPSILON = 1e-7


def operands(y_true: Values, y_pred: Values) -> tuple[ArrayOperand, ArrayOperand]:
    """Both as operands of the prediction's type, of one rank."""
    wanted, given = as_single(y_true), as_single(y_pred)
    wanted = wanted if wanted.dtype is given.dtype else wanted.astype(given.dtype)
    wanted, given = same_rank(wanted, given)
    if wanted.shape != given.shape and not (len(wanted.shape) == len(given.shape) and 1 in wanted.shape + given.shape):
        got = f"y_true {tuple(wanted.shape)}, y_pred {tuple(given.shape)}"
        fix = "the sparse loss for numbers of classes, or keras.utils.to_categorical(y)"
        raise ShapeError("loss", got=got, need="the same shape", fix=fix, origin=caller_origin())
    if wanted.shape != given.shape:
        wide = tuple(map(max, wanted.shape, given.shape))
        return n.broadcast_to(wanted, wide), n.broadcast_to(given, wide)
    return wanted, given


def as_single(value: Values) -> ArrayOperand:
    """An operand; what NumPy has in 64 bits as f32."""
    return value if isinstance(value, ArrayOperand) else as_operand(single(value))


def same_rank(wanted: ArrayOperand, given: ArrayOperand) -> tuple[ArrayOperand, ArrayOperand]:
    """A last axis of size 1 that one of them lacks is added."""
    if len(wanted.shape) == len(given.shape) - 1 and given.shape[-1] == 1:
        return n.expand_dims(wanted, -1), given
    if len(given.shape) == len(wanted.shape) - 1 and wanted.shape[-1] == 1:
        return wanted, n.expand_dims(given, -1) if len(given.shape) == 1 else given
    return wanted, given


def _mean(loss: PointwiseLoss, y_true: Values, y_pred: Values) -> ArrayOperand:
    """The mean over the last axis of what a loss of `nnc.nn` is the mean of."""
    t, y = operands(y_true, y_pred)
    return n.mean(loss.each(y, t), axis=-1)


def mean_squared_error(y_true: Values, y_pred: Values) -> ArrayOperand:
    """mean (y_pred - y_true)² over the last axis: `nn.MeanSquaredError`"""
    return _mean(MeanSquaredError(), y_true, y_pred)


def mean_absolute_error(y_true: Values, y_pred: Values) -> ArrayOperand:
    """mean |y_pred - y_true| over the last axis: `nn.MeanAbsoluteError`"""
    return _mean(MeanAbsoluteError(), y_true, y_pred)


def mean_absolute_percentage_error(y_true: Values, y_pred: Values) -> ArrayOperand:
    """100 · mean |y_pred - y_true| / max(|y_true|, 1e-7)"""
    t, y = operands(y_true, y_pred)
    return 100.0 * n.mean(n.abs((t - y) / n.maximum(n.abs(t), EPSILON)), axis=-1)


def mean_squared_logarithmic_error(y_true: Values, y_pred: Values) -> ArrayOperand:
    """mean (ln(1 + y_pred) - ln(1 + y_true))²"""
    t, y = (n.log(n.maximum(x, EPSILON) + 1.0) for x in operands(y_true, y_pred))
    return mean_squared_error(t, y)


@checked
def huber(y_true: Values, y_pred: Values, delta: Positive = 1.0) -> ArrayOperand:
    """mean of d² / 2 where |d| ≤ delta, else delta · |d| - delta² / 2: `nn.Huber`"""
    return _mean(Huber(delta), y_true, y_pred)


def log_cosh(y_true: Values, y_pred: Values) -> ArrayOperand:
    """mean ln cosh(y_pred - y_true): `nn.LogCosh`"""
    return _mean(LogCosh(), y_true, y_pred)


def poisson(y_true: Values, y_pred: Values) -> ArrayOperand:
    """mean y_pred - y_true · ln y_pred: `nn.functional.poisson_nll_loss` of a rate"""
    t, y = operands(y_true, y_pred)
    return n.mean(fn.poisson_nll_loss(y, t, log_input=False, eps=EPSILON, reduction="none"), axis=-1)


def kl_divergence(y_true: Values, y_pred: Values) -> ArrayOperand:
    """Σ y_true · ln(y_true / y_pred): `nn.functional.kl_div`"""
    t, y = (n.clip(x, EPSILON, 1.0) for x in operands(y_true, y_pred))
    return n.sum(fn.kl_div(n.log(y), t, reduction="none"), axis=-1)


def _hinges(y_true: Values, y_pred: Values) -> ArrayOperand:
    """max(1 - y_true · y_pred, 0) of signs; targets of 0 and 1 are -1 and 1."""
    t, y = operands(y_true, y_pred)
    is_binary = n.all((t == 0.0) | (t == 1.0))
    return Hinge().each(y, n.where(is_binary, 2.0 * t - 1.0, t))


def hinge(y_true: Values, y_pred: Values) -> ArrayOperand:
    """mean max(1 - y_true · y_pred, 0), of signs: `nn.Hinge`"""
    return n.mean(_hinges(y_true, y_pred), axis=-1)


def squared_hinge(y_true: Values, y_pred: Values) -> ArrayOperand:
    """mean max(1 - y_true · y_pred, 0)²"""
    return n.mean(n.square(_hinges(y_true, y_pred)), axis=-1)


def categorical_hinge(y_true: Values, y_pred: Values) -> ArrayOperand:
    """max(largest of the others - that of the class + 1, 0)"""
    t, y = operands(y_true, y_pred)
    return n.maximum(n.max((1.0 - t) * y, axis=-1) - n.sum(t * y, axis=-1) + 1.0, 0.0)


@checked
def cosine_similarity(y_true: Values, y_pred: Values, axis: int = -1) -> ArrayOperand:
    """Σ of the product of unit vectors, `nn.functional.cosine_similarity`; the loss is minus it."""
    t, y = operands(y_true, y_pred)
    return fn.cosine_similarity(t, y, dim=axis, eps=1e-12)


@checked
def binary_crossentropy(
    y_true: Values, y_pred: Values, from_logits: bool = False, label_smoothing: Probability = 0.0
) -> ArrayOperand:
    """mean of -t ln p - (1 - t) ln(1 - p) over the last axis: `nn.functional.binary_cross_entropy` of p or logits"""
    t, y = operands(y_true, y_pred)
    t = t * (1.0 - label_smoothing) + 0.5 * label_smoothing if label_smoothing else t
    if from_logits:
        return _mean(BinaryCrossEntropy(), t, y)
    return n.mean(fn.binary_cross_entropy(n.clip(y, EPSILON, 1.0 - EPSILON), t, reduction="none"), axis=-1)


@checked
def binary_focal_crossentropy(
    y_true: Values,
    y_pred: Values,
    apply_class_balancing: bool = False,
    alpha: Probability = 0.25,
    gamma: Rate = 2.0,
    from_logits: bool = False,
) -> ArrayOperand:
    """mean of (1 - p of the right class)^gamma times the cross entropy"""
    t, y = operands(y_true, y_pred)
    p = n.clip(n.sigmoid(y) if from_logits else y, EPSILON, 1.0 - EPSILON)
    right = t * p + (1.0 - t) * (1.0 - p)
    each = n.power(1.0 - right, gamma) * -n.log(right)
    each = each * (t * alpha + (1.0 - t) * (1.0 - alpha)) if apply_class_balancing else each
    return n.mean(each, axis=-1)


@checked
def categorical_crossentropy(
    y_true: Values, y_pred: Values, from_logits: bool = False, label_smoothing: Probability = 0.0, axis: int = -1
) -> ArrayOperand:
    """-Σ t · ln p, of shares of classes"""
    t, y = operands(y_true, y_pred)
    if not -len(y.shape) <= axis < len(y.shape):
        got = f"axis={axis} of y_pred {tuple(y.shape)}"
        raise ShapeError("categorical_crossentropy", got=got, need="an axis of classes", origin=caller_origin())
    if label_smoothing:
        t = t * (1.0 - label_smoothing) + label_smoothing / max(y.shape[axis], 1)
    return -n.sum(t * _logarithms(y, from_logits, axis), axis=axis)


@checked
def sparse_categorical_crossentropy(
    y_true: Values, y_pred: Values, from_logits: bool = False, ignore_class: int | None = None, axis: int = -1
) -> ArrayOperand:
    """-ln p of the class, a number; classes of `ignore_class` count for nothing"""
    classes, y = as_single(y_true), as_single(y_pred)
    if classes.shape and len(classes.shape) == len(y.shape) and classes.shape[-1] == 1:
        classes = n.squeeze(classes, axis=-1)
    if not y.shape or tuple(classes.shape) != tuple(y.shape[:-1]) or axis not in (-1, len(y.shape) - 1):
        got = f"y_true {tuple(classes.shape)}, y_pred {tuple(y.shape)}"
        fix = 'loss="categorical_crossentropy" for shares of classes'
        raise ShapeError("loss", got=got, need="a class for each row", fix=fix, origin=caller_origin())
    classes = classes.astype("int32")
    kept = None if ignore_class is None else classes != ignore_class
    places = classes if kept is None else n.where(kept, classes, 0)
    if from_logits:
        each = softmax_cross_entropy(y, places)[0]
    else:
        each = -n.squeeze(n.take_along_axis(_logarithms(y, False, -1), n.expand_dims(places, -1), axis=-1), axis=-1)
    return each if kept is None else n.where(kept, each, 0.0)


def _logarithms(y: ArrayOperand, from_logits: bool, axis: int) -> ArrayOperand:
    if from_logits:
        return n.log_softmax(y, axis=axis)
    y = y / n.sum(y, axis=axis, keepdims=True)
    return n.log(n.clip(y, EPSILON, 1.0 - EPSILON))


def reduced(
    each: ArrayOperand, sample_weight: Values | None, reduction: str, mask: ArrayOperand | None = None
) -> ArrayOperand:
    """The losses of examples as Keras reduces them; a mean is that of what a mask says is real."""
    weight = None if sample_weight is None else _beside(as_single(sample_weight), each)
    if mask is not None:
        real = _beside(mask, each)
        if reduction == "sum_over_batch_size":
            real = real * (math.prod(mask.shape) / n.maximum(n.sum(mask.astype(each.dtype)), 1.0))
        weight = real if weight is None else weight * real
    each = each if weight is None else each * weight
    if reduction == "none":
        return each
    total = n.sum(each)
    if reduction == "sum":
        return total
    if reduction == "mean_with_sample_weight" and weight is not None:
        return total / n.sum(n.broadcast_to(weight, each.shape))
    return total / max(math.prod(each.shape), 1)


def _beside(weight: ArrayOperand, each: ArrayOperand) -> ArrayOperand:
    """Weights of examples, or of places in them, as those of all losses."""
    weight = weight.astype(each.dtype)
    while len(weight.shape) > len(each.shape) and weight.shape[-1] == 1:
        weight = n.squeeze(weight, axis=-1)
    return n.reshape(weight, (*weight.shape, *(1,) * (len(each.shape) - len(weight.shape))))
