"""Windows over images with channels first, for layers and functions that are written as PyTorch has them.

Kernels have channels last. Between two such layers the axes go there and back again, which passes leave out of compiled
programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from nnc.arguments import Count, Size
from nnc.core.values.spec import Layout
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.layer import T
from nnc.ops import Window, convolution, reduce_mean, reshape, transpose
from nnc.ops.movement.layout import layout_permutation

# One number for all spatial axes, or one for each.
Counts: TypeAlias = Count | tuple[Count, ...]
Sizes: TypeAlias = Size | tuple[Size, ...]
Padding: TypeAlias = Sizes | Literal["same", "valid"]


def each(subject: str, name: str, value: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A number for each spatial axis."""
    values = (value,) * rank if isinstance(value, int) else value
    if len(values) != rank:
        raise ArgumentError(subject, got=f"{name}={value}", need=f"one number, or {rank}")
    return values


def window_over(
    subject: str, kernel: tuple[int, ...], stride: Counts, padding: Padding, dilation: Counts = 1
) -> Window:
    """Strides, borders and dilations; "same" keeps the sizes, the smaller half of a border goes before."""
    rank = len(kernel)
    strides, dilations = each(subject, "stride", stride, rank), each(subject, "dilation", dilation, rank)
    if padding == "same":
        if max(strides) > 1:
            raise ArgumentError(subject, got=f'padding="same", stride={stride}', need="stride 1", fix="a number")
        totals = [step * (extent - 1) for extent, step in zip(kernel, dilations, strict=True)]
        return Window(strides, tuple((total // 2, total - total // 2) for total in totals), dilations)
    borders = each(subject, "padding", 0 if padding == "valid" else padding, rank)
    return Window(strides, tuple((border, border) for border in borders), dilations)


def with_channels_last(subject: str, x: T, rank: int, compute: Callable[[T], T]) -> T:
    """`compute` of [batch, spatial…, channels], for x[batch, channels, spatial…] or one example of it.

    One spatial axis becomes two, of which the first has size 1.
    """
    if x.spec.rank not in (rank + 1, rank + 2):
        axes = ", ".join(("depth", "height", "width")[-rank:])
        raise ShapeError(subject, got=str(x.spec), need=f"[batch, channels, {axes}], or one example of it")
    whole = x if x.spec.rank == rank + 2 else reshape(x, (1, *x.shape))
    last = transpose(whole, layout_permutation(Layout.NHWC, rank + 2))
    if rank == 1:
        y = compute(reshape(last, (last.shape[0], 1, *last.shape[1:])))
        y = reshape(y, (y.shape[0], *y.shape[2:]))
    else:
        y = compute(last)
    first = transpose(y, layout_permutation(Layout.NCHW, rank + 2))
    return first if x.spec.rank == rank + 2 else reshape(first, first.shape[1:])


def for_kernels(window: Window) -> Window:
    """Of one spatial axis, that of two of which the first has size 1."""
    if len(window.strides) > 1:
        return window
    return Window((1, *window.strides), ((0, 0), *window.padding), (1, *window.dilations))


def convolved(last: T, weight: T, bias: T | None, window: Window, groups: int) -> T:
    """The convolution of what `with_channels_last` gives with weight[spatial…, in / groups, out]."""
    kernel = weight if len(window.strides) > 1 else reshape(weight, (1, *weight.shape))
    return convolution(last, kernel, bias, window=for_kernels(window), groups=groups)


def adaptive_average(subject: str, x: T, output_size: Counts, rank: int) -> T:
    """Means over equal parts of the last axes."""
    targets, sizes = each(subject, "output_size", output_size, rank), x.shape[-rank:]
    if x.spec.rank < rank + 1 or any(size % target for size, target in zip(sizes, targets, strict=True)):
        need = f"{rank} axes that {' and '.join(map(str, targets))} divide, behind the channels"
        raise ShapeError(subject, got=str(x.spec), need=need, fix="nn.functional.interpolate before")
    outer, places = x.shape[:-rank], range(rank)
    if set(targets) == {1}:
        return reduce_mean(x, tuple(len(outer) + place for place in places), keepdims=True)
    pairs = [(target, size // target) for size, target in zip(sizes, targets, strict=True)]
    split = reshape(x, (*outer, *(length for pair in pairs for length in pair)))
    return reduce_mean(split, tuple(len(outer) + 2 * place + 1 for place in places))
