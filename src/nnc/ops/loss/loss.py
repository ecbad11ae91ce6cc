"""Losses: how far x is from a target t, one number per example.

    mean_squared_error:            loss[n] = ⊕ (x - t)²
    smooth_l1:                     loss[n] = ⊕ d² / 2β where |d| < β, else |d| - β / 2;  d = x - t
    binary_cross_entropy:          loss[n] = ⊕ -(w · t · ln x + (1 - t) · ln (1 - x))
    sigmoid_binary_cross_entropy:  the same of x = sigmoid(logit), from the logit, without overflow
    categorical_cross_entropy:     loss[n…] = -sum_c t'[n…, c] · ln x[n…, c]

⊕ is the sum or the mean over all axes but the first; w is `positive_weight`. A target t of classes is their number or
a distribution over the last axis; t' = (1 - s) · t + s / classes, s the label smoothing.

Logarithms are taken, and derivatives divide, by no less than `LEAST` of the element type, so that a wrong certainty
costs much and still learns. 1 - x is 0 or at least half a unit in the last place of 1: that half stands for the 0.

Gradients are pointwise in x, t and, for the sigmoid, its output, so they are written in operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TypeVar

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16, F32, F64, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.graph import Op
from nnc.ops.batching import BatchRule, batched_rows, batched_within
from nnc.ops.elementwise.pointwise import abs, add, affine, divide, exp, log, maximum, minimum, multiply, relu, subtract
from nnc.ops.examples import INDICES, Example
from nnc.ops.movement.broadcast import broadcast_to, reshape
from nnc.ops.movement.fill import scalar_like
from nnc.ops.operand import Operand, T, apply
from nnc.ops.rules import (
    FLOATS,
    Applied,
    Gradients,
    Inplace,
    NotDifferentiable,
    Pattern,
    Specs,
    check_kinds,
    operator,
    single,
)

__all__ = [
    "LossReduction",
    "binary_cross_entropy",
    "categorical_cross_entropy",
    "mean_squared_error",
    "sigmoid_binary_cross_entropy",
    "smooth_l1",
]


@dataclass(frozen=True, slots=True)
class Least:
    """The least probability and the least complement of one whose logarithm is taken, and the least divisor."""

    probability: float
    complement: float
    divisor: float


# Probabilities reach down to the smallest normal number, which no processor takes for zero (in f16 to the smallest of
# all). A weight of up to 100 by the least divisor is finite (in f16 of up to 3).
LEAST = {
    F64: Least(2.0**-1022, 2.0**-53, 2.0**-1000),
    F32: Least(2.0**-126, 2.0**-24, 2.0**-120),
    BF16: Least(2.0**-126, 2.0**-24, 2.0**-120),
    F16: Least(2.0**-24, 2.0**-24, 2.0**-14),
}


class LossReduction(Enum):
    """What becomes of the elements of one example."""

    MEAN = "mean"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class LossAttrs:
    """How the elements of an example become one number."""

    reduction: LossReduction = LossReduction.MEAN


@dataclass(frozen=True, slots=True)
class SmoothL1Attrs:
    """Where the square ends and the straight line begins."""

    beta: float = 1.0
    reduction: LossReduction = LossReduction.MEAN


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropyAttrs:
    """How much a positive target counts against a negative one."""

    positive_weight: float = 1.0
    reduction: LossReduction = LossReduction.MEAN


@dataclass(frozen=True, slots=True)
class CategoricalCrossEntropyAttrs:
    """The share of a target that is spread over all classes."""

    smoothing: float = 0.0


@dataclass(frozen=True, slots=True)
class LabelDistributionAttrs:
    """Number of classes, label smoothing, element type of the result."""

    classes: int
    smoothing: float
    dtype: DType


# ---- inference


def _infer_rows(subject: str, specs: Specs) -> Specs:
    x, target = specs
    check_kinds(FLOATS, x, target)
    if target.dtype is not x.dtype:
        raise DTypeError(subject, got=f"x={x}, target={target}", need="one element type", fix="cast() the target")
    if x.rank < 1 or target.shape != x.shape:
        raise ShapeError(subject, got=f"x={x}, target={target}", need="equal shapes [batch, …]")
    return (replace(x, shape=x.shape[:1]),)


def _infer_squared(attrs: LossAttrs, specs: Specs) -> Specs:
    return _infer_rows("mean_squared_error", specs)


def _infer_smooth(attrs: SmoothL1Attrs, specs: Specs) -> Specs:
    if not 0.0 < attrs.beta < math.inf:
        raise AttributeValueError("smooth_l1", got=f"beta={attrs.beta}", need="a finite number > 0")
    return _infer_rows("smooth_l1", specs)


def _infer_binary(attrs: BinaryCrossEntropyAttrs, specs: Specs) -> Specs:
    if not 0.0 <= attrs.positive_weight < math.inf:
        got = f"positive_weight={attrs.positive_weight}"
        raise AttributeValueError("binary_cross_entropy", got=got, need="a finite number ≥ 0")
    return _infer_rows("binary_cross_entropy", specs)


def _infer_sigmoid(attrs: BinaryCrossEntropyAttrs, specs: Specs) -> Specs:
    return (*_infer_binary(attrs, specs), specs[0])


def _check_smoothing(subject: str, smoothing: float) -> None:
    if not 0.0 <= smoothing <= 1.0:
        raise AttributeValueError(subject, got=f"smoothing={smoothing}", need="0 ≤ smoothing ≤ 1")


def _infer_categorical(attrs: CategoricalCrossEntropyAttrs, specs: Specs) -> Specs:
    x, target = specs
    subject, shown = "categorical_cross_entropy", f"x={x}, target={target}"
    check_kinds(FLOATS, x)
    _check_smoothing(subject, attrs.smoothing)
    if x.rank < 1 or x.shape[-1] == 0:
        raise ShapeError(subject, got=shown, need="at least one class on the last axis")
    if target.dtype.is_float and (target.shape != x.shape or target.dtype is not x.dtype):
        raise ShapeError(subject, got=shown, need=f"a distribution {x} or whole numbers {list(x.shape[:-1])}")
    if not target.dtype.is_float:
        _check_labels(subject, target)
        if target.shape != x.shape[:-1]:
            raise ShapeError(subject, got=shown, need=f"labels of shape {list(x.shape[:-1])}")
    return (replace(x, shape=x.shape[:-1]),)


def _check_labels(subject: str, labels: TensorSpec) -> None:
    if labels.dtype.kind not in ("int", "uint"):
        raise DTypeError(subject, got=f"labels {labels}", need="integers")


def _infer_distribution(attrs: LabelDistributionAttrs, specs: Specs) -> Specs:
    (labels,) = specs
    _check_labels("label_distribution", labels)
    _check_smoothing("label_distribution", attrs.smoothing)
    if attrs.classes < 1 or not attrs.dtype.is_float:
        got = f"{attrs.classes} classes as {attrs.dtype}"
        raise AttributeValueError("label_distribution", got=got, need="at least one class, a float type")
    return (replace(labels, shape=(*labels.shape, attrs.classes), dtype=attrs.dtype),)


# ---- gradients


def _share(reduction: LossReduction, shape: tuple[int, ...]) -> float:
    """What one element counts in the loss of its example."""
    return 1.0 / max(math.prod(shape[1:]), 1) if reduction is LossReduction.MEAN else 1.0


def _per_element(g: Operand, x: Operand, reduction: LossReduction) -> Operand:
    """The gradient of the rows, shared among their elements."""
    part = affine(g, _share(reduction, x.shape))
    return broadcast_to(reshape(part, (x.shape[0], *(1 for _ in x.shape[1:]))), x.shape)


def _at_least(x: Operand, least: float) -> Operand:
    return maximum(x, scalar_like(x, least))


def _log(x: Operand) -> Operand:
    """ln x, x a probability."""
    return log(_at_least(x, LEAST[x.spec.dtype].probability))


def _log_of_complement(x: Operand) -> Operand:
    """ln (1 - x)."""
    return log(_at_least(_complement(x), LEAST[x.spec.dtype].complement))


def _ratio(a: Operand, x: Operand) -> Operand:
    """a / x, x a probability."""
    return divide(a, _at_least(x, LEAST[x.spec.dtype].divisor))


def _ratio_of_complement(a: Operand, x: Operand) -> Operand:
    """a / (1 - x)."""
    least = LEAST[x.spec.dtype]
    return divide(a, _at_least(_complement(x), max(least.complement, least.divisor)))


def _complement(x: Operand) -> Operand:
    return affine(x, -1.0, 1.0)


def _by_difference(call: Applied[LossAttrs] | Applied[SmoothL1Attrs], slope: Operand, g: Operand) -> Gradients:
    """Gradients of x and t for a loss of x - t whose derivative is `slope`."""
    by_x = multiply(_per_element(g, call.inputs[0], call.attrs.reduction), slope)
    return (by_x, affine(by_x, -1.0) if call.needed[1] else None)


def _squared_gradient(call: Applied[LossAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return _by_difference(call, affine(subtract(*call.inputs), 2.0), g)


def _smooth_gradient(call: Applied[SmoothL1Attrs], gradients: Gradients) -> Gradients:
    """The derivative is d / β, but no steeper than ±1."""
    g = single(gradients)
    difference = subtract(*call.inputs)
    scaled = divide(difference, scalar_like(difference, call.attrs.beta))
    return _by_difference(call, maximum(minimum(scaled, scalar_like(scaled, 1.0)), scalar_like(scaled, -1.0)), g)


def _binary_gradient(call: Applied[BinaryCrossEntropyAttrs], gradients: Gradients) -> Gradients:
    """x' = (1 - t) / (1 - x) - w · t / x;  t' = ln (1 - x) - w · ln x."""
    g = single(gradients)
    x, target = call.inputs
    weight, part = call.attrs.positive_weight, _per_element(g, x, call.attrs.reduction)
    by_x = subtract(_ratio_of_complement(_complement(target), x), _ratio(affine(target, weight), x))
    by_target = subtract(_log_of_complement(x), affine(_log(x), weight)) if call.needed[1] else None
    return (multiply(part, by_x), None if by_target is None else multiply(part, by_target))


def _softplus_of_negative(x: Operand) -> Operand:
    """ln (1 + e^-x) = max(-x, 0) + ln (1 + e^-|x|)."""
    return add(relu(affine(x, -1.0)), log(affine(exp(affine(abs(x), -1.0)), 1.0, 1.0)))


def _sigmoid_gradient(call: Applied[BinaryCrossEntropyAttrs], gradients: Gradients) -> Gradients:
    """x' = (1 - t) - (1 + (w - 1) · t) · (1 - p);  t' = (w - 1) · ln (1 + e^-x) - x."""
    g, g_probability = gradients
    (x, target), probability = call.inputs, call.outputs[1]
    slope = multiply(probability, _complement(probability))
    parts = [] if g_probability is None else [multiply(g_probability, slope)]
    by_target = None
    if g is not None:
        extra, part = call.attrs.positive_weight - 1.0, _per_element(g, x, call.attrs.reduction)
        balance = multiply(affine(target, extra, 1.0), _complement(probability))
        parts.append(multiply(part, subtract(_complement(target), balance)))
        if call.needed[1]:
            by_target = multiply(part, subtract(affine(_softplus_of_negative(x), extra), x))
    return (parts[0] if len(parts) == 1 else add(*parts), by_target)


def _categorical_gradient(call: Applied[CategoricalCrossEntropyAttrs], gradients: Gradients) -> Gradients:
    """x' = -g · t' / x;  t' = -(1 - s) · g · ln x for a distribution t."""
    g = single(gradients)
    x, target = call.inputs
    smoothing, classes = call.attrs.smoothing, x.shape[-1]
    if target.spec.dtype.is_float:
        wanted = affine(target, 1.0 - smoothing, smoothing / classes)
    else:
        wanted = apply(LABEL_DISTRIBUTION, LabelDistributionAttrs(classes, smoothing, x.spec.dtype), target)
    part = broadcast_to(reshape(g, (*g.shape, 1)), x.shape)
    by_x = affine(multiply(part, _ratio(wanted, x)), -1.0)
    return (by_x, affine(multiply(part, _log(x)), smoothing - 1.0) if call.needed[1] else None)


# ---- operators

A = TypeVar("A")
_WITHIN = batched_within()


def _of_pairs(
    name: str,
    attributes: type[A],
    infer: Callable[[A, Specs], Specs],
    gradient: Callable[[Applied[A], Gradients], Gradients],
    doc: str,
    batched: BatchRule = _WITHIN,
) -> Op[A]:
    """An operator of x and a target, reduced to a number per example."""
    names: tuple[tuple[str, ...], tuple[str, ...]] = ("x", "target"), ("loss",)
    reduced = Pattern.REDUCTION
    return operator(name, attributes, *names, infer=infer, gradient=gradient, pattern=reduced, batched=batched, doc=doc)


MEAN_SQUARED_ERROR = _of_pairs(
    "mean_squared_error", LossAttrs, _infer_squared, _squared_gradient, "loss[n] = mean or sum of (x - t)²"
)
SMOOTH_L1 = _of_pairs(
    "smooth_l1", SmoothL1Attrs, _infer_smooth, _smooth_gradient,
    "loss[n] = mean or sum of d² / 2β where |d| < β, else |d| - β / 2; d = x - t",
)  # fmt: skip
BINARY_CROSS_ENTROPY = _of_pairs(
    "binary_cross_entropy", BinaryCrossEntropyAttrs, _infer_binary, _binary_gradient,
    "loss[n] = mean or sum of -(w · t · ln x + (1 - t) · ln (1 - x))",
)  # fmt: skip
SIGMOID_BINARY_CROSS_ENTROPY = operator(
    "sigmoid_binary_cross_entropy",
    BinaryCrossEntropyAttrs,
    ("x", "target"),
    ("loss", "probability"),
    infer=_infer_sigmoid,
    gradient=_sigmoid_gradient,
    inplace=Inplace(allowed=((0, 1),)),
    batched=_WITHIN,
    doc="loss[n] = mean or sum of (1 - t) · x + (1 + (w - 1) · t) · ln (1 + e^-x); probability = sigmoid(x)",
)
CATEGORICAL_CROSS_ENTROPY = _of_pairs(
    "categorical_cross_entropy", CategoricalCrossEntropyAttrs, _infer_categorical, _categorical_gradient,
    "loss[n…] = -sum_c t'[n…, c] · ln x[n…, c], t' = (1 - s) · t + s / classes", batched_rows,
)  # fmt: skip
LABEL_DISTRIBUTION = operator(
    "label_distribution",
    LabelDistributionAttrs,
    ("labels",),
    infer=_infer_distribution,
    gradient=NotDifferentiable("labels are whole numbers; give a distribution instead to have its gradient"),
    batched=batched_rows,
    example=Example(LabelDistributionAttrs(4, 0.1, F32), (INDICES,)),
    doc="y[n…, c] = (1 - s) · [c == label[n…]] + s / classes; nan for a label outside the classes",
)


# ---- functions


def mean_squared_error(x: T, target: T, *, reduction: LossReduction = LossReduction.MEAN) -> T:
    """Mean (or sum) of the squared differences of each example."""
    return apply(MEAN_SQUARED_ERROR, LossAttrs(reduction), x, target)


def smooth_l1(x: T, target: T, *, beta: float = 1.0, reduction: LossReduction = LossReduction.MEAN) -> T:
    """A square near zero, a straight line beyond ±beta (Girshick 2015)."""
    return apply(SMOOTH_L1, SmoothL1Attrs(beta, reduction), x, target)


def binary_cross_entropy(
    x: T, target: T, *, positive_weight: float = 1.0, reduction: LossReduction = LossReduction.MEAN
) -> T:
    """Cross entropy of probabilities x and targets between 0 and 1."""
    return apply(BINARY_CROSS_ENTROPY, BinaryCrossEntropyAttrs(positive_weight, reduction), x, target)


def sigmoid_binary_cross_entropy(
    x: T, target: T, *, positive_weight: float = 1.0, reduction: LossReduction = LossReduction.MEAN
) -> tuple[T, T]:
    """(loss per example, probabilities) of logits x and targets between 0 and 1."""
    attrs = BinaryCrossEntropyAttrs(positive_weight, reduction)
    loss, probability = x.apply(Command(SIGMOID_BINARY_CROSS_ENTROPY, attrs), (x, target))
    return loss, probability


def categorical_cross_entropy(x: T, target: T, *, smoothing: float = 0.0) -> T:
    """Cross entropy of probabilities x[…, classes] and class numbers, or distributions over the classes."""
    return apply(CATEGORICAL_CROSS_ENTROPY, CategoricalCrossEntropyAttrs(smoothing), x, target)
