"""Activations and losses as functions, as PyTorch has them: `import nnc.nn.functional as F`.

    loss = F.cross_entropy(net(x), labels)          x = F.relu(x)          shares = F.softmax(scores, dim=-1)

They take arrays, eager and traced values. What exists under one name in `nnc` is that here too. Losses are means over
all elements unless `reduction` is "sum" or "none".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from numpy.typing import ArrayLike

from nnc import numerics as n
from nnc import ops
from nnc.arguments import Finite, Positive, Probability, checked
from nnc.core.values.dtype import F32, I64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms.randomness import dropout as drop
from nnc.numerics import gelu as gelu
from nnc.numerics import relu as relu
from nnc.numerics import sigmoid as sigmoid
from nnc.numerics import softplus as softplus
from nnc.numerics import tanh as tanh
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

Values: TypeAlias = ArrayLike | ArrayOperand
Reduction: TypeAlias = Literal["mean", "sum", "none"]

REDUCTIONS: dict[str, Callable[[ArrayOperand], ArrayOperand]] = {
    "mean": lambda losses: losses.mean(),
    "sum": lambda losses: losses.sum(),
    "none": lambda losses: losses,
}


def _reduced(losses: ArrayOperand, reduction: Reduction) -> ArrayOperand:
    return REDUCTIONS[reduction](losses)


# ---- activations


@checked
def softmax(input: Values, dim: int = -1) -> ArrayOperand:
    """e^x / sum e^x along the axis."""
    return n.softmax(input, axis=dim)


@checked
def log_softmax(input: Values, dim: int = -1) -> ArrayOperand:
    """x - log sum e^x along the axis."""
    return n.log_softmax(input, axis=dim)


def silu(input: Values) -> ArrayOperand:
    """x / (1 + e^-x)"""
    return ops.swish(as_operand(input))


@checked
def leaky_relu(input: Values, negative_slope: Finite = 0.01) -> ArrayOperand:
    """x where x > 0, else negative_slope · x"""
    return ops.leaky_relu(as_operand(input), negative_slope)


@checked
def elu(input: Values, alpha: Finite = 1.0) -> ArrayOperand:
    """x where x > 0, else alpha · (e^x - 1)"""
    return ops.elu(as_operand(input), alpha)


@checked
def dropout(input: Values, p: Probability = 0.5, training: bool = True) -> ArrayOperand:
    """In training each element is dropped with probability p, and the others are divided by 1 - p."""
    x = as_operand(input)
    return drop(x, p) if training else x


@checked
def normalize(input: Values, p: Positive = 2.0, dim: int = 1, eps: Positive = 1e-12) -> ArrayOperand:
    """x / max(|x|ₚ, eps) along the axis"""
    x = as_operand(input)
    norm = n.linalg.norm(x, ord=p, axis=dim, keepdims=True)
    return x / n.maximum(norm, eps)


@checked
def one_hot(tensor: Values, num_classes: int) -> ArrayOperand:
    """1 at the class, 0 elsewhere: [*tensor.shape, num_classes], f32"""
    return ops.one_hot(as_operand(tensor).astype(I64), num_classes, F32)


@checked
def cosine_similarity(x1: Values, x2: Values, dim: int = 1, eps: Positive = 1e-8) -> ArrayOperand:
    """x1 · x2 / max(|x1| |x2|, eps) along the axis"""
    a, b = as_operand(x1), as_operand(x2)
    lengths = n.linalg.norm(a, axis=dim) * n.linalg.norm(b, axis=dim)
    return (a * b).sum(dim) / n.maximum(lengths, eps)


@checked
def pairwise_distance(x1: Values, x2: Values, p: Positive = 2.0, eps: Positive = 1e-6) -> ArrayOperand:
    """|x1 - x2 + eps|ₚ along the last axis"""
    return n.linalg.norm(as_operand(x1) - as_operand(x2) + eps, ord=p, axis=-1)


# ---- losses


@checked
def mse_loss(input: Values, target: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """(x - y)²"""
    return _reduced(n.square(as_operand(input) - as_operand(target)), reduction)


@checked
def l1_loss(input: Values, target: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """|x - y|"""
    return _reduced(n.abs(as_operand(input) - as_operand(target)), reduction)


@checked
def huber_loss(input: Values, target: Values, reduction: Reduction = "mean", delta: Positive = 1.0) -> ArrayOperand:
    """d² / 2 where |d| ≤ delta, else delta · (|d| - delta / 2), d = x - y"""
    size = n.abs(as_operand(input) - as_operand(target))
    small = n.minimum(size, delta)
    return _reduced(small * (size - small / 2), reduction)


@checked
def smooth_l1_loss(input: Values, target: Values, reduction: Reduction = "mean", beta: Positive = 1.0) -> ArrayOperand:
    """huber_loss / beta"""
    return huber_loss(input, target, reduction, beta) / beta


@checked
def cross_entropy(
    input: Values, target: Values, reduction: Reduction = "mean", label_smoothing: Probability = 0.0
) -> ArrayOperand:
    """-log softmax(x)[class]; targets are classes [n, …] or shares of them. Classes are axis 1, as in PyTorch.

    Of shares and of smoothed labels it is -sum of share · log softmax(x).
    """
    scores, wanted = as_operand(input), as_operand(target)
    axis = min(scores.ndim - 1, 1)
    logs = n.log_softmax(scores, axis=axis)
    if wanted.dtype.is_continuous:
        shares = wanted * (1 - label_smoothing) + label_smoothing / scores.shape[axis]
        losses = -(logs * shares).sum(axis)
    else:
        losses = nll_loss(logs, wanted, "none")
        if label_smoothing > 0.0:
            losses = losses * (1 - label_smoothing) - logs.mean(axis) * label_smoothing
    if reduction == "mean" and wanted.dtype.is_continuous and losses.ndim > 1:
        return losses.sum() / losses.shape[0]
    return _reduced(losses, reduction)


@checked
def nll_loss(input: Values, target: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """-x[class]: x is log-probabilities, with classes on axis 1"""
    logs, wanted = as_operand(input), as_operand(target).astype(I64)
    axis = min(logs.ndim - 1, 1)
    chosen = n.take_along_axis(logs, n.expand_dims(wanted, axis), axis)
    return _reduced(-chosen.squeeze(axis), reduction)


@checked
def binary_cross_entropy_with_logits(input: Values, target: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """log(1 + e^x) - x y"""
    x, y = as_operand(input), as_operand(target)
    return _reduced(n.softplus(x) - x * y, reduction)


@checked
def binary_cross_entropy(input: Values, target: Values, reduction: Reduction = "mean") -> ArrayOperand:
    """-(y log p + (1 - y) log(1 - p)); logarithms are no less than -100, as in PyTorch"""
    p, y = as_operand(input), as_operand(target)
    on, off = n.maximum(n.log(p), -100.0), n.maximum(n.log1p(-p), -100.0)
    return _reduced(-(y * on + (1 - y) * off), reduction)


@checked
def triplet_margin_loss(
    anchor: Values, positive: Values, negative: Values, margin: Positive = 1.0, reduction: Reduction = "mean"
) -> ArrayOperand:
    """max(|a - p| - |a - n| + margin, 0)"""
    near, far = pairwise_distance(anchor, positive), pairwise_distance(anchor, negative)
    return _reduced(n.relu(near - far + margin), reduction)


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.nn.functional'", name, LAYERS, lambda: globals(), "nn.functional.")
