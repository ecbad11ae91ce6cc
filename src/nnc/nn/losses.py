"""Losses as functions, as MLX has them in `mlx.nn.losses`: classes on the last axis, each example's loss or a mean.

loss = nn.losses.cross_entropy(model(x), y, reduction="mean")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nnc import numerics as n
from nnc.arguments import Finite, Positive, Probability, checked
from nnc.core.values.dtype import I64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand, as_operands
from nnc.nn.functional import REDUCTIONS, Reduction, Values, binary_cross_entropy_with_logits
from nnc.nn.functional import binary_cross_entropy as _of_probabilities
from nnc.nn.loss_functions import difference
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

__all__ = [
    "binary_cross_entropy", "cosine_similarity_loss", "cross_entropy", "hinge_loss", "huber_loss", "kl_div_loss",
    "l1_loss", "log_cosh_loss", "mse_loss", "nll_loss", "smooth_l1_loss", "triplet_loss",
]  # fmt: skip


@checked
def cross_entropy(
    logits: Values,
    targets: Values,
    weights: Values | None = None,
    axis: int = -1,
    label_smoothing: Probability = 0.0,
    reduction: Reduction = "none",
) -> ArrayOperand:
    """-log softmax(x)[class] for each example; targets are classes, or shares of them where they have as many axes.

    >>> cross_entropy([[2.0, 0.0, 0.0]], [0], reduction="mean").item()
    0.2395448386669159
    """
    scores, wanted = as_operands(logits, targets)
    logs = n.log_softmax(scores, axis=axis)
    smooth = label_smoothing
    if wanted.ndim == scores.ndim:
        losses = -(logs * (wanted * (1 - smooth) + smooth / scores.shape[axis])).sum(axis)
    else:
        losses = nll_loss(logs, wanted, axis)
        losses = losses * (1 - smooth) - logs.mean(axis) * smooth if smooth else losses
    return REDUCTIONS[reduction](losses if weights is None else losses * as_operand(weights, losses))


@checked
def nll_loss(inputs: Values, targets: Values, axis: int = -1, reduction: Reduction = "none") -> ArrayOperand:
    """-x[class] of log-probabilities"""
    logs, labels = as_operands(inputs, targets)
    places = n.expand_dims(labels.astype(I64), axis)
    return REDUCTIONS[reduction](-n.take_along_axis(logs, places, axis).squeeze(axis))


@checked
def binary_cross_entropy(
    inputs: Values,
    targets: Values,
    weights: Values | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> ArrayOperand:
    """log(1 + e^x) - x y of logits, or -(y log p + (1 - y) log(1 - p)) of probabilities"""
    compute = binary_cross_entropy_with_logits if with_logits else _of_probabilities
    return compute(inputs, targets, weights, reduction)


@checked
def mse_loss(predictions: Values, targets: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """(x - y)²"""
    return REDUCTIONS[reduction](n.square(difference(predictions, targets)))


@checked
def l1_loss(predictions: Values, targets: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """|x - y|"""
    return REDUCTIONS[reduction](n.abs(difference(predictions, targets)))


@checked
def huber_loss(inputs: Values, targets: Values, delta: Positive = 1.0, reduction: Reduction = "none") -> ArrayOperand:
    """d² / 2 where |d| ≤ delta, else delta · (|d| - delta / 2), d = x - y"""
    distance = n.abs(difference(inputs, targets))
    near = n.minimum(distance, delta)
    return REDUCTIONS[reduction](near * (distance - near / 2))


@checked
def smooth_l1_loss(
    predictions: Values, targets: Values, beta: Positive = 1.0, reduction: Reduction = "mean"
) -> ArrayOperand:
    """huber_loss / beta"""
    return huber_loss(predictions, targets, beta, reduction) / beta


@checked
def log_cosh_loss(inputs: Values, targets: Values, reduction: Reduction = "none") -> ArrayOperand:
    """ln cosh(x - y)"""
    distance = difference(inputs, targets)
    return REDUCTIONS[reduction](n.logaddexp(distance, -distance) - 0.6931471805599453)


@checked
def hinge_loss(inputs: Values, targets: Values, reduction: Reduction = "none") -> ArrayOperand:
    """max(1 - x y, 0)"""
    x, y = as_operands(inputs, targets)
    return REDUCTIONS[reduction](n.relu(1 - x * y))


@checked
def kl_div_loss(inputs: Values, targets: Values, axis: int = -1, reduction: Reduction = "none") -> ArrayOperand:
    """sum e^y · (y - x) of log-probabilities x and y"""
    x, y = as_operands(inputs, targets)
    return REDUCTIONS[reduction]((n.exp(y) * (y - x)).sum(axis))


@checked
def cosine_similarity_loss(
    x1: Values, x2: Values, axis: int = 1, eps: Positive = 1e-8, reduction: Reduction = "none"
) -> ArrayOperand:
    """x1 · x2 / max(|x1| |x2|, eps)"""
    a, b = as_operands(x1, x2)
    lengths = n.linalg.norm(a, axis=axis) * n.linalg.norm(b, axis=axis)
    return REDUCTIONS[reduction]((a * b).sum(axis) / n.maximum(lengths, eps))


@checked
def triplet_loss(
    anchors: Values,
    positives: Values,
    negatives: Values,
    axis: int = -1,
    p: int = 2,
    margin: Finite = 1.0,
    eps: Positive = 1e-6,
    reduction: Reduction = "none",
) -> ArrayOperand:
    """max(|a - p| - |a - n| + margin, 0), lengths as (Σ |d|ᵖ + eps)^(1/p)"""
    anchor, *others = as_operands(anchors, positives, negatives)
    near, far = (((n.abs(anchor - other) ** p).sum(axis) + eps) ** (1.0 / p) for other in others)
    return REDUCTIONS[reduction](n.relu(near - far + margin))


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.nn.losses'", name, LAYERS, lambda: globals(), "nn.losses.")
