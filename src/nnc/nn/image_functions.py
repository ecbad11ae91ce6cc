"""Functions of images and of normalization in PyTorch's words: [batch, channels, height, width]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nnc import numerics as n
from nnc import ops
from nnc.arguments import Count, Finite, Positive, Probability, Rate, Size, checked
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand, as_operands, no_grad
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.activation import gated
from nnc.nn.loss_functions import Values
from nnc.nn.modules.channels_first_pools import AvgPool1d, MaxPool1d
from nnc.nn.modules.channels_first_shapes import (
    folded,
    normalized_instances,
    scaled_channels,
    shuffled,
    unfolded,
    unshuffled,
)
from nnc.nn.modules.channels_first_windows import Counts, Sizes, each, window_over, with_channels_last

__all__ = [
    "affine_grid", "avg_pool1d", "batch_norm", "conv_transpose2d", "fold", "glu", "grid_sample", "group_norm",
    "gumbel_softmax", "hardtanh", "instance_norm", "max_pool1d", "pixel_shuffle", "pixel_unshuffle", "rms_norm",
    "softmin", "unfold",
]  # fmt: skip


@checked
def unfold(
    input: Values, kernel_size: Counts, dilation: Counts = 1, padding: Sizes = 0, stride: Counts = 1
) -> ArrayOperand:
    """`nn.Unfold`: y[n, c · |kernel| + place, l] = x[n, c, place of window l]"""
    return unfolded("unfold", as_operand(input), kernel_size, dilation, padding, stride)


@checked
def fold(
    input: Values,
    output_size: Counts,
    kernel_size: Counts,
    dilation: Counts = 1,
    padding: Sizes = 0,
    stride: Counts = 1,
) -> ArrayOperand:
    """`nn.Fold`: windows added where they lie on each other"""
    return folded("fold", as_operand(input), output_size, kernel_size, dilation, padding, stride)


@checked
def pixel_shuffle(input: Values, upscale_factor: Count) -> ArrayOperand:
    """`nn.PixelShuffle`"""
    return shuffled("pixel_shuffle", as_operand(input), upscale_factor)


@checked
def pixel_unshuffle(input: Values, downscale_factor: Count) -> ArrayOperand:
    """`nn.PixelUnshuffle`"""
    return unshuffled("pixel_unshuffle", as_operand(input), downscale_factor)


@checked
def conv_transpose2d(
    input: Values,
    weight: Values,
    bias: Values | None = None,
    stride: Counts = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: Count = 1,
    dilation: Counts = 1,
) -> ArrayOperand:
    """The transpose of `conv2d`, by weight[in, out / groups, height, width]"""
    x, kernel = as_operands(input, weight)
    if kernel.ndim != 4:
        raise ShapeError("conv_transpose2d", got=str(kernel.spec), need="weight[in, out / groups, height, width]")
    window = window_over("conv_transpose2d", kernel.shape[2:], stride, padding, dilation)
    extra = each("conv_transpose2d", "output_padding", output_padding, 2)
    turned, added = kernel.transpose(2, 3, 1, 0), None if bias is None else as_operand(bias, x)
    return with_channels_last(
        "conv_transpose2d",
        x,
        2,
        lambda last: ops.convolution_transpose(last, turned, added, window=window, groups=groups, output_padding=extra),
    )


@checked
def max_pool1d(input: Values, kernel_size: Counts, stride: Counts | None = None, padding: Sizes = 0) -> ArrayOperand:
    """`nn.MaxPool1d`"""
    return MaxPool1d(kernel_size, stride, padding).pooled(as_operand(input))


@checked
def avg_pool1d(input: Values, kernel_size: Counts, stride: Counts | None = None, padding: Sizes = 0) -> ArrayOperand:
    """`nn.AvgPool1d`"""
    return AvgPool1d(kernel_size, stride, padding).pooled(as_operand(input))


# ---- normalization


def _scaled(y: ArrayOperand, weight: Values | None, bias: Values | None, axes: int) -> ArrayOperand:
    """y · weight + bias, of the channels in front of so many axes."""
    scale, shift = (None if value is None else as_operand(value, y) for value in (weight, bias))
    return scaled_channels(y, scale, shift, axes)


@checked
def batch_norm(
    input: Values,
    running_mean: Values | None,
    running_var: Values | None,
    weight: Values | None = None,
    bias: Values | None = None,
    training: bool = False,
    momentum: Probability = 0.1,
    eps: Positive = 1e-5,
) -> ArrayOperand:
    """(x - mean) / √(variance + ε) · weight + bias of each channel (axis 1)

    In `training` by the batch, of which running statistics that are variables take `momentum`; else by these.
    """
    x = as_operand(input)
    if x.ndim < 2:
        raise ShapeError("batch_norm", got=str(x.spec), need="[batch, channels, …]")
    axes = (0, *range(2, x.ndim))
    if training:
        mean, variance, count = n.mean(x, axis=axes), n.var(x, axis=axes, correction=0), x.size // x.shape[1]
        with no_grad():
            for kept, new in ((running_mean, mean), (running_var, variance * (count / max(count - 1, 1)))):
                if isinstance(kept, Variable):
                    kept.mul_(1.0 - momentum).add_(new.detach() * momentum)
    elif running_mean is None or running_var is None:
        got, fix = "no running statistics", "training=True, or running_mean= and running_var="
        raise ArgumentError("batch_norm", got=got, need="both where training=False", fix=fix)
    else:
        mean, variance = as_operand(running_mean, x), as_operand(running_var, x)
    shape = (-1, *(1,) * (x.ndim - 2))
    y = (x - mean.reshape(*shape)) * n.rsqrt(variance.reshape(*shape) + eps)
    return _scaled(y, weight, bias, x.ndim - 2)


@checked
def group_norm(
    input: Values, num_groups: Count, weight: Values | None = None, bias: Values | None = None, eps: Positive = 1e-5
) -> ArrayOperand:
    """Each example's channels (axis 1) in groups, each normalized over its channels and all places"""
    x = as_operand(input)
    if x.ndim < 2 or x.shape[1] % num_groups:
        raise ShapeError("group_norm", got=str(x.spec), need=f"[batch, channels that {num_groups} divides, …]")
    split = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    y = ops.layer_norm(split, axes=tuple(range(2, split.ndim)), epsilon=eps).reshape(*x.shape)
    return _scaled(y, weight, bias, x.ndim - 2)


@checked
def instance_norm(
    input: Values, weight: Values | None = None, bias: Values | None = None, eps: Positive = 1e-5
) -> ArrayOperand:
    """Each channel of each example normalized over its places"""
    x = as_operand(input)
    if x.ndim < 3:
        raise ShapeError("instance_norm", got=str(x.spec), need="[batch, channels, sizes]")
    return _scaled(normalized_instances("instance_norm", x, x.ndim - 2, eps), weight, bias, x.ndim - 2)


@checked
def rms_norm(
    input: Values, normalized_shape: Count | Sequence[Count], weight: Values | None = None, eps: Rate | None = None
) -> ArrayOperand:
    """x / √(mean of x² + ε) over the last axes, of sizes `normalized_shape`, times weight; ε is that of the type"""
    x = as_operand(input)
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not sizes or x.shape[-len(sizes) :] != sizes:
        raise ShapeError("rms_norm", got=str(x.spec), need=f"{list(sizes)} as its last sizes")
    axes = tuple(range(x.ndim - len(sizes), x.ndim))
    scale = None if weight is None else as_operand(weight, x)
    return ops.rms_norm(x, scale, axes=axes, epsilon=n.finfo(x.dtype).eps if eps is None else eps)


# ---- places


@checked
def grid_sample(
    input: Values,
    grid: Values,
    mode: Literal["bilinear", "nearest"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> ArrayOperand:
    """x at the places grid[batch, height, width, (x, y)], from -1 at the first edge to 1 at the last one"""
    x, places = as_operands(input, grid)
    way = "linear" if mode == "bilinear" else mode
    return with_channels_last(
        "grid_sample", x, 2, lambda last: ops.grid_sample(last, places, way, padding_mode, align_corners=align_corners)
    )


@checked
def affine_grid(theta: Values, size: Sequence[Size], align_corners: bool = False) -> ArrayOperand:
    """grid[n, h, w] = theta[n] · (x, y, 1), for images of `size` [batch, channels, height, width]"""
    matrices, sizes = as_operand(theta), tuple(size)
    if len(sizes) != 4 or matrices.shape != (sizes[0], 2, 3) or min(sizes) < 1:
        need = "theta[batch, 2, 3] and size (batch, channels, height, width)"
        raise ShapeError("affine_grid", got=f"{matrices.spec}, size={sizes}", need=need)
    rows, columns = (_centres(count, align_corners) for count in sizes[2:])
    places = n.stack([n.broadcast_to(columns[None, :], sizes[2:]), n.broadcast_to(rows[:, None], sizes[2:])], -1)
    flat = places.reshape(1, -1, 2).astype(matrices.dtype)
    moved = flat @ n.swapaxes(matrices[:, :, :2], 1, 2) + matrices[:, None, :, 2]
    return moved.reshape(sizes[0], *sizes[2:], 2)


def _centres(count: int, corners: bool) -> ArrayOperand:
    """Middles of so many parts of [-1, 1], or with `corners` its ends and between."""
    reach = 1.0 if corners else 1.0 - 1.0 / count
    return n.linspace(-reach, reach, count) if count > 1 else n.zeros(1)


# ---- activations


@checked
def glu(input: Values, dim: int = -1) -> ArrayOperand:
    """a · sigmoid(b), of the halves a and b along an axis"""
    x = as_operand(input)
    if not -x.ndim <= dim < x.ndim or x.shape[dim] % 2:
        raise ShapeError("glu", got=f"{x.spec}, dim={dim}", need="an axis of an even size")
    return gated(x, dim % x.ndim)


@checked
def gumbel_softmax(logits: Values, tau: Positive = 1.0, hard: bool = False, dim: int = -1) -> ArrayOperand:
    """softmax((logits + noise) / tau) with noise of Gumbel(0, 1); `hard` gives ones and zeros with its gradient"""
    x = as_operand(logits)
    with x.device:
        noise = n.random.gumbel(x.shape, x.dtype)
    soft = n.softmax((x + noise) / tau, dim)
    if not hard:
        return soft
    chosen = n.moveaxis(ops.one_hot(n.argmax(soft, axis=dim), soft.shape[dim], x.dtype), -1, dim)
    return chosen - soft.detach() + soft


@checked
def hardtanh(input: Values, min_val: Finite = -1.0, max_val: Finite = 1.0) -> ArrayOperand:
    """min(max(x, min_val), max_val)"""
    return ops.clamp(as_operand(input), min_val, max_val)


@checked
def softmin(input: Values, dim: int = -1) -> ArrayOperand:
    """softmax(-x) along an axis"""
    return n.softmax(-as_operand(input), dim)
