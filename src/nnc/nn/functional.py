"""Layers, activations and losses as functions, as PyTorch has them: `import nnc.nn.functional as F`.

    loss = F.cross_entropy(net(x), labels)          x = F.relu(x)          shares = F.softmax(scores, dim=-1)
    y = F.conv2d(x, weight, bias, padding=1)        F.scaled_dot_product_attention(q, k, v, is_causal=True)

They take arrays, eager and traced values. What exists under one name in `nnc` is that here too. Images have their
channels first, and weights PyTorch's order of axes, [out, in, …]. Losses are means over all elements unless `reduction`
is "sum" or "none".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

from nnc import numerics as n
from nnc import ops
from nnc.arguments import Count, Finite, Positive, Probability, Size, checked
from nnc.core.values.dtype import BOOL, F32, I64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand, as_operands
from nnc.dynamic.transforms.randomness import dropout as drop
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.image_functions import affine_grid as affine_grid
from nnc.nn.image_functions import avg_pool1d as avg_pool1d
from nnc.nn.image_functions import batch_norm as batch_norm
from nnc.nn.image_functions import conv_transpose2d as conv_transpose2d
from nnc.nn.image_functions import fold as fold
from nnc.nn.image_functions import glu as glu
from nnc.nn.image_functions import grid_sample as grid_sample
from nnc.nn.image_functions import group_norm as group_norm
from nnc.nn.image_functions import gumbel_softmax as gumbel_softmax
from nnc.nn.image_functions import hardtanh as hardtanh
from nnc.nn.image_functions import instance_norm as instance_norm
from nnc.nn.image_functions import max_pool1d as max_pool1d
from nnc.nn.image_functions import pixel_shuffle as pixel_shuffle
from nnc.nn.image_functions import pixel_unshuffle as pixel_unshuffle
from nnc.nn.image_functions import rms_norm as rms_norm
from nnc.nn.image_functions import softmin as softmin
from nnc.nn.image_functions import unfold as unfold
from nnc.nn.layers.activation import Hardsigmoid, Hardswish, LogSigmoid, Mish, Softsign
from nnc.nn.loss_functions import REDUCTIONS as REDUCTIONS
from nnc.nn.loss_functions import DivergenceReduction as DivergenceReduction
from nnc.nn.loss_functions import Reduction as Reduction
from nnc.nn.loss_functions import Values as Values
from nnc.nn.loss_functions import binary_cross_entropy as binary_cross_entropy
from nnc.nn.loss_functions import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from nnc.nn.loss_functions import cosine_embedding_loss as cosine_embedding_loss
from nnc.nn.loss_functions import cosine_similarity as cosine_similarity
from nnc.nn.loss_functions import cross_entropy as cross_entropy
from nnc.nn.loss_functions import ctc_loss as ctc_loss
from nnc.nn.loss_functions import huber_loss as huber_loss
from nnc.nn.loss_functions import kl_div as kl_div
from nnc.nn.loss_functions import l1_loss as l1_loss
from nnc.nn.loss_functions import mse_loss as mse_loss
from nnc.nn.loss_functions import nll_loss as nll_loss
from nnc.nn.loss_functions import pairwise_distance as pairwise_distance
from nnc.nn.loss_functions import poisson_nll_loss as poisson_nll_loss
from nnc.nn.loss_functions import smooth_l1_loss as smooth_l1_loss
from nnc.nn.loss_functions import triplet_margin_loss as triplet_margin_loss
from nnc.nn.modules.channels_first_pools import AvgPool2d, MaxPool2d
from nnc.nn.modules.channels_first_windows import (
    Counts,
    Padding,
    Sizes,
    adaptive_average,
    convolved,
    each,
    window_over,
    with_channels_last,
)
from nnc.numerics import gelu as gelu
from nnc.numerics import relu as relu
from nnc.numerics import sigmoid as sigmoid
from nnc.numerics import softplus as softplus
from nnc.numerics import tanh as tanh
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

__all__ = [
    "adaptive_avg_pool2d", "affine_grid", "avg_pool1d", "avg_pool2d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv_transpose2d", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "elu", "embedding", "fold", "gelu", "glu",
    "grid_sample", "group_norm", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh", "huber_loss",
    "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax",
    "logsigmoid", "max_pool1d", "max_pool2d", "mish", "mse_loss", "nll_loss", "normalize", "one_hot", "pad",
    "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "relu", "relu6", "rms_norm",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softmin", "softplus",
    "softsign", "tanh", "triplet_margin_loss", "unfold",
]  # fmt: skip

# Borders under PyTorch's names.
BORDERS: dict[str, Literal["constant", "reflect", "edge", "wrap"]] = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


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


def selu(input: Values) -> ArrayOperand:
    """1.0507 · elu(x, 1.6733) (Klambauer et al. 2017)"""
    return ops.selu(as_operand(input))


def relu6(input: Values) -> ArrayOperand:
    """min(max(x, 0), 6)"""
    return ops.clamp(as_operand(input), 0.0, 6.0)


def mish(input: Values) -> ArrayOperand:
    """x · tanh(log(1 + e^x)) (Misra 2019)"""
    return Mish.function(as_operand(input))


def hardswish(input: Values) -> ArrayOperand:
    """x · hardsigmoid(x)"""
    return Hardswish.function(as_operand(input))


def hardsigmoid(input: Values) -> ArrayOperand:
    """min(max(x + 3, 0), 6) / 6"""
    return Hardsigmoid.function(as_operand(input))


def logsigmoid(input: Values) -> ArrayOperand:
    """-ln(1 + e^-x)"""
    return LogSigmoid.function(as_operand(input))


def softsign(input: Values) -> ArrayOperand:
    """x / (1 + |x|)"""
    return Softsign.function(as_operand(input))


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


# ---- layers


@checked
def linear(input: Values, weight: Values, bias: Values | None = None) -> ArrayOperand:
    """y[…, out] = x[…, in] @ weight[out, in]ᵀ + bias[out]"""
    x, w = as_operands(input, weight)
    y = x @ n.swapaxes(w, -1, -2)
    return y if bias is None else y + as_operand(bias, y)


@checked
def embedding(input: Values, weight: Values) -> ArrayOperand:
    """Rows of weight[rows, width] by their numbers: [*input.shape, width]"""
    table, places = as_operands(weight, input)
    return n.take(table, places, axis=0)


@checked
def layer_norm(
    input: Values,
    normalized_shape: Count | Sequence[Count],
    weight: Values | None = None,
    bias: Values | None = None,
    eps: Positive = 1e-5,
) -> ArrayOperand:
    """(x - mean) / √(variance + eps) · weight + bias, over the last axes, whose sizes are `normalized_shape`"""
    x = as_operand(input)
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[-len(sizes) :] != sizes:
        raise ShapeError("layer_norm", got=f"x={x.spec}", need=f"{list(sizes)} as its last sizes")
    scale, shift = (None if value is None else as_operand(value, x) for value in (weight, bias))
    return ops.layer_norm(x, scale, shift, axes=tuple(range(-len(sizes), 0)), epsilon=eps)


@checked
def scaled_dot_product_attention(
    query: Values,
    key: Values,
    value: Values,
    attn_mask: Values | None = None,
    dropout_p: Probability = 0.0,
    is_causal: bool = False,
    scale: Positive | None = None,
) -> ArrayOperand:
    """softmax(scale · q kᵀ + mask) v of q[…, rows, d], k[…, columns, d], v[…, columns, e]

    The scale is 1 / √d unless given. A mask of booleans says which columns a row sees, one of numbers is added. Causal
    rows see columns up to their own.
    """
    q, k, v = as_operands(query, key, value)
    if q.ndim < 2 or k.ndim < 2:
        raise ShapeError("scaled_dot_product_attention", got=f"q={q.spec}, k={k.spec}", need="[…, rows, d]")
    scores = (q @ n.swapaxes(k, -1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = n.tril(n.ones(scores.shape[-2:], dtype=BOOL, device=scores.device))
        scores = n.where(seen, scores, -math.inf)
    if attn_mask is not None:
        mask = as_operand(attn_mask, scores)
        scores = n.where(mask, scores, -math.inf) if mask.dtype is BOOL else scores + mask
    return dropout(n.softmax(scores, axis=-1), dropout_p, training=dropout_p > 0.0) @ v


def _convolution(
    name: str,
    rank: int,
    input: Values,
    weight: Values,
    bias: Values | None,
    shape: tuple[Counts, Padding, Counts],
    groups: int,
) -> ArrayOperand:
    """By weight[out, in / groups, spatial…]; stride, padding and dilation are the `shape` of its window."""
    x, w = as_operands(input, weight)
    if w.spec.rank != rank + 2:
        raise ShapeError(name, got=f"weight={w.spec}", need=f"[out, in / groups, {', '.join('kij'[:rank])}]")
    kernel, shift = ops.transpose(w, (*range(2, rank + 2), 1, 0)), None if bias is None else as_operand(bias, x)
    window = window_over(name, w.shape[2:], *shape)
    return with_channels_last(name, x, rank, lambda last: convolved(last, kernel, shift, window, groups))


@checked
def conv1d(
    input: Values,
    weight: Values,
    bias: Values | None = None,
    stride: Counts = 1,
    padding: Padding = 0,
    dilation: Counts = 1,
    groups: Count = 1,
) -> ArrayOperand:
    """`nn.Conv1d` with weight[out, in / groups, k]"""
    return _convolution("conv1d", 1, input, weight, bias, (stride, padding, dilation), groups)


@checked
def conv2d(
    input: Values,
    weight: Values,
    bias: Values | None = None,
    stride: Counts = 1,
    padding: Padding = 0,
    dilation: Counts = 1,
    groups: Count = 1,
) -> ArrayOperand:
    """`nn.Conv2d` with weight[out, in / groups, kh, kw]"""
    return _convolution("conv2d", 2, input, weight, bias, (stride, padding, dilation), groups)


@checked
def max_pool2d(input: Values, kernel_size: Counts, stride: Counts | None = None, padding: Sizes = 0) -> ArrayOperand:
    """`nn.MaxPool2d`"""
    return MaxPool2d(kernel_size, stride, padding).pooled(as_operand(input))


@checked
def avg_pool2d(
    input: Values, kernel_size: Counts, stride: Counts | None = None, padding: Sizes = 0, count_include_pad: bool = True
) -> ArrayOperand:
    """`nn.AvgPool2d`"""
    return AvgPool2d(kernel_size, stride, padding, count_include_pad).pooled(as_operand(input))


@checked
def adaptive_avg_pool2d(input: Values, output_size: Counts) -> ArrayOperand:
    """`nn.AdaptiveAvgPool2d`"""
    return adaptive_average("adaptive_avg_pool2d", as_operand(input), output_size, 2)


@checked
def pad(
    input: Values,
    pad: Sequence[Size],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
    value: Finite = 0.0,
) -> ArrayOperand:
    """x with a border: (before, after) of the last axis, then of the one in front of it …"""
    x, widths = as_operand(input), list(pad)
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        need = f"pairs (before, after) for up to {x.ndim} axes, the last first"
        raise ArgumentError("pad", got=f"pad={tuple(widths)} of {x.spec}", need=need)
    pairs = [(widths[place], widths[place + 1]) for place in range(0, len(widths), 2)][::-1]
    return n.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, BORDERS[mode], value)


@checked
def interpolate(
    input: Values,
    size: Counts | None = None,
    scale_factor: Positive | None = None,
    mode: Literal["nearest", "bilinear"] = "nearest",
    align_corners: bool = False,
) -> ArrayOperand:
    """An image x[batch, channels, height, width] at another `size`, or at its own times `scale_factor`"""
    x = as_operand(input)
    if (size is None) == (scale_factor is None) or x.ndim != 4:
        need = "[batch, channels, height, width], and size= or scale_factor="
        raise ArgumentError("interpolate", got=f"{x.spec}, size={size}, scale_factor={scale_factor}", need=need)
    if size is None:
        assert scale_factor is not None
        height, width = (math.floor(extent * scale_factor) for extent in x.shape[2:])
    else:
        height, width = each("interpolate", "size", size, 2)
    return with_channels_last(
        "interpolate", x, 2, lambda last: ops.upsample(last, (height, width), mode, align_corners=align_corners)
    )


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.nn.functional'", name, LAYERS, lambda: globals(), "nn.functional.")
