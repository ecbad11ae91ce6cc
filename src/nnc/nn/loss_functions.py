"""Losses as functions, as PyTorch has them: those of `nnc.nn.functional`.

Losses are means over all elements unless `reduction` is "sum" or "none".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from numpy.typing import ArrayLike

from nnc import numerics as n
from nnc import ops
from nnc.arguments import Finite, Positive, Probability, checked
from nnc.core.values.dtype import F32, I64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand, as_operands, host_values
from nnc.errors import DataError

Values: TypeAlias = ArrayLike | ArrayOperand
Reduction: TypeAlias = Literal["mean", "sum", "none"]
DivergenceReduction: TypeAlias = Literal["mean", "batchmean", "sum", "none"]

REDUCTIONS: dict[str, Callable[[ArrayOperand], ArrayOperand]] = {
    "mean": lambda losses: losses.mean(),
    "sum": lambda losses: losses.sum(),
    "none": lambda losses: losses,
}


def difference(x1: Values, x2: Values) -> ArrayOperand:
    """x1 - x2"""
    a, b = as_operands(x1, x2)
    return a - b


def _reduced(losses: ArrayOperand, reduction: Reduction) -> ArrayOperand:
    return REDUCTIONS[reduction](losses)


@checked
def cosine_similarity(x1: Values, x2: Values, dim: int = 1, eps: Positive = 1e-8) -> ArrayOperand:
    """x1 · x2 / max(|x1| |x2|, eps) along the axis"""
    a, b = as_operands(x1, x2)
    lengths = n.linalg.norm(a, axis=dim) * n.linalg.norm(b, axis=dim)
    return (a * b).sum(dim) / n.maximum(lengths, eps)


@checked
def pairwise_distance(
    x1: Values, x2: Values, p: Positive = 2.0, eps: Positive = 1e-6, keepdim: bool = False
) -> ArrayOperand:
    """|x1 - x2 + eps|ₚ along the last axis, which stays as one of one element with `keepdim`"""
    return n.linalg.norm(difference(x1, x2) + eps, ord=p, axis=-1, keepdims=keepdim)


@checked
def mse_loss(input: Values, target: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """(x - y)²"""
    return _reduced(n.square(difference(input, target)), reduction)


@checked
def l1_loss(input: Values, target: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """|x - y|"""
    return _reduced(n.abs(difference(input, target)), reduction)


@checked
def huber_loss(input: Values, target: Values, reduction: Reduction = "mean", delta: Positive = 1.0) -> ArrayOperand:
    """d² / 2 where |d| ≤ delta, else delta · (|d| - delta / 2), d = x - y"""
    size = n.abs(difference(input, target))
    small = n.minimum(size, delta)
    return _reduced(small * (size - small / 2), reduction)


@checked
def smooth_l1_loss(input: Values, target: Values, reduction: Reduction = "mean", beta: Positive = 1.0) -> ArrayOperand:
    """huber_loss / beta"""
    return huber_loss(input, target, reduction, beta) / beta


@checked
def cross_entropy(
    input: Values,
    target: Values,
    weight: Values | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: Probability = 0.0,
) -> ArrayOperand:
    """-weight[class] · log softmax(x)[class]; targets are classes [n, …] or shares of them. Classes are axis 1.

    Of shares and of smoothed labels it is -sum of weight · share · log softmax(x). Targets of `ignore_index` count for
    nothing, and the mean is divided by the weights of the others.
    """
    scores, wanted = as_operands(input, target)
    axis = min(scores.ndim - 1, 1)
    logs = n.log_softmax(scores, axis=axis)
    if not wanted.dtype.is_continuous and not label_smoothing:
        return nll_loss(logs, wanted, weight, ignore_index, reduction)
    weighted = logs if weight is None else logs * _along_classes(weight, logs)
    if not wanted.dtype.is_continuous:
        losses, factors = _of_classes(logs, wanted, weight, ignore_index)
        even = -weighted.mean(axis)
        even = even if factors is None else n.where(factors.astype(F32) == 0.0, 0.0, even)
        losses = losses * (1 - label_smoothing) + even * label_smoothing
        return _weighted_mean(losses, factors, reduction)
    shares = wanted * (1 - label_smoothing) + label_smoothing / scores.shape[axis]
    losses = -(weighted * shares).sum(axis)
    if reduction == "mean" and losses.ndim > 1:
        return losses.sum() / losses.shape[0]
    return _reduced(losses, reduction)


@checked
def nll_loss(
    input: Values,
    target: Values,
    weight: Values | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> ArrayOperand:
    """-weight[class] · x[class]: x is log-probabilities, with classes on axis 1. As `cross_entropy` beside that."""
    logs, wanted = as_operands(input, target)
    losses, factors = _of_classes(logs, wanted, weight, ignore_index)
    return _weighted_mean(losses, factors, reduction)


def _of_classes(
    logs: ArrayOperand, target: ArrayOperand, weight: Values | None, ignore_index: int
) -> tuple[ArrayOperand, ArrayOperand | None]:
    """What each target adds, and how much it counts; None where each counts as one."""
    wanted = target.astype(I64)
    axis = min(logs.ndim - 1, 1)
    # PyTorch's default is no class: eager targets say whether any is that.
    known = host_values(wanted)
    some = ignore_index >= 0 or known is None or bool((known == ignore_index).any())
    kept = n.not_equal(wanted, ignore_index) if some else None
    classes = wanted if kept is None else n.where(kept, wanted, 0)
    losses = -n.take_along_axis(logs, n.expand_dims(classes, axis), axis).squeeze(axis)
    if weight is None and kept is None:
        return losses, None
    factors = (
        n.ones_like(losses) if weight is None else n.take(as_operand(weight, losses).astype(losses.dtype), classes)
    )
    factors = factors if kept is None else n.where(kept, factors, 0.0)
    return losses * factors, factors


def _along_classes(weight: Values, logs: ArrayOperand) -> ArrayOperand:
    """A weight for each class, beside x[n, classes, …]."""
    values = as_operand(weight, logs).astype(logs.dtype)
    return values.reshape(-1, *(1,) * max(logs.ndim - 2, 0))


def _weighted_mean(losses: ArrayOperand, factors: ArrayOperand | None, reduction: Reduction) -> ArrayOperand:
    """Losses that are times their factors already; their mean is divided by those."""
    if factors is None or reduction != "mean":
        return _reduced(losses, reduction)
    return losses.sum() / factors.sum()


@checked
def binary_cross_entropy_with_logits(
    input: Values,
    target: Values,
    weight: Values | None = None,
    reduction: Reduction = "mean",
    pos_weight: Values | None = None,
) -> ArrayOperand:
    """weight · (log(1 + e^x) - x y); what counts for y = 1 is `pos_weight` times as much"""
    x, y = as_operands(input, target)
    if pos_weight is None:
        losses = n.softplus(x) - x * y
    else:
        losses = (1 - y) * n.softplus(x) + as_operand(pos_weight, x) * y * n.softplus(-x)
    return _reduced(losses if weight is None else losses * as_operand(weight, losses), reduction)


@checked
def binary_cross_entropy(
    input: Values, target: Values, weight: Values | None = None, reduction: Reduction = "mean"
) -> ArrayOperand:
    """-weight · (y log p + (1 - y) log(1 - p)); logarithms are no less than -100, as in PyTorch"""
    p, y = as_operands(input, target)
    on, off = n.maximum(n.log(p), -100.0), n.maximum(n.log1p(-p), -100.0)
    losses = -(y * on + (1 - y) * off)
    return _reduced(losses if weight is None else losses * as_operand(weight, losses), reduction)


@checked
def kl_div(
    input: Values, target: Values, reduction: DivergenceReduction = "mean", log_target: bool = False
) -> ArrayOperand:
    """y · (log y - x): x is log-probabilities, and y too where `log_target`; "batchmean" divides by the examples"""
    x, y = as_operands(input, target)
    losses = n.exp(y) * (y - x) if log_target else n.xlogy(y, y) - y * x
    return losses.sum() / losses.shape[0] if reduction == "batchmean" else _reduced(losses, reduction)


@checked
def poisson_nll_loss(
    input: Values, target: Values, log_input: bool = True, eps: Positive = 1e-8, reduction: Reduction = "mean"
) -> ArrayOperand:
    """e^x - y x of a rate's logarithm x, or x - y ln(x + eps) of the rate itself"""
    x, y = as_operands(input, target)
    return _reduced(n.exp(x) - y * x if log_input else x - y * n.log(x + eps), reduction)


@checked
def cosine_embedding_loss(
    input1: Values, input2: Values, target: Values, margin: Finite = 0.0, reduction: Reduction = "mean"
) -> ArrayOperand:
    """1 - cos(a, b) where y = 1, max(0, cos(a, b) - margin) where y = -1"""
    cosine = cosine_similarity(input1, input2, dim=-1)
    return _reduced(n.where(as_operand(target, cosine) > 0, 1.0 - cosine, n.relu(cosine - margin)), reduction)


@checked
def triplet_margin_loss(
    anchor: Values,
    positive: Values,
    negative: Values,
    margin: Positive = 1.0,
    p: Positive = 2.0,
    eps: Positive = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> ArrayOperand:
    """max(|a - p| - |a - n| + margin, 0), of `pairwise_distance`s; with `swap` of min(|a - n|, |p - n|)"""
    near, far = (pairwise_distance(anchor, other, p, eps) for other in (positive, negative))
    if swap:
        far = n.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(n.relu(near - far + margin), reduction)


@checked
def ctc_loss(
    log_probs: Values,
    targets: Values,
    input_lengths: Values,
    target_lengths: Values,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> ArrayOperand:
    """-log p(targets | log_probs[steps, batch, classes]) over all alignments (Graves et al. 2006).

    Targets are [batch, labels], or all labels in a row. The mean is of what each costs for each of its labels.
    """
    logs, labels, *lengths = as_operands(log_probs, targets, input_lengths, target_lengths)
    steps, said = (length.astype(I64) for length in lengths)
    single = logs.ndim == 2
    if single:
        logs, labels, steps, said = n.expand_dims(logs, 1), labels.reshape(1, -1), steps.reshape(1), said.reshape(1)
    _check_lengths(logs, steps)
    if labels.ndim == 1:
        labels = _rows_of_labels(labels, said)
    losses = ops.ctc_loss(n.swapaxes(logs, 0, 1), labels, steps, said, blank, zero_infinity=zero_infinity)
    if reduction == "mean":
        losses = losses / n.maximum(said, 1).astype(losses.dtype)
    losses = losses.squeeze(0) if single and reduction == "none" else losses
    return _reduced(losses, reduction)


def _check_lengths(logs: ArrayOperand, steps: ArrayOperand) -> None:
    """DataError where more steps are asked for than there are."""
    known = host_values(steps)
    most = int(known.max()) if known is not None and known.ndim and known.size else 0
    if logs.ndim == 3 and most > logs.shape[0]:
        raise DataError("ctc_loss", got=f"an input length of {most}", need=f"lengths up to the {logs.shape[0]} steps")


def _rows_of_labels(labels: ArrayOperand, said: ArrayOperand) -> ArrayOperand:
    """Labels that stand one example behind the other as rows; what follows an example's own is not read."""
    total = labels.shape[0]
    known = host_values(said)
    width = total if known is None else int(known.max(initial=0))
    if not total:
        return n.zeros((said.shape[0], 0), device=labels.device)
    begins = (n.cumsum(said) - said).reshape(-1, 1)
    places = begins + n.arange(width, device=begins.device)
    return n.take(labels, n.minimum(places, total - 1))
