"""Images with channels first cut into windows, put together, shuffled, given borders and normalized, as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import ClassVar

from nnc.arguments import Count, Finite, Rate, Size, checked
from nnc.classes import dataclass
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.initializers import ones, zeros
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.nn.modules.channels_first_windows import Counts, Sizes, each, window_over
from nnc.ops import Window, add, concatenate, layer_norm, multiply, pad, reshape, slice_axis, transpose

__all__ = [
    "ConstantPad2d", "Fold", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "PixelShuffle", "PixelUnshuffle",
    "ReflectionPad1d", "ReflectionPad2d", "ReplicationPad1d", "ReplicationPad2d", "Unflatten", "Unfold", "ZeroPad2d",
]  # fmt: skip


def shuffled(subject: str, x: T, factor: int) -> T:
    """[…, channels · factor², height, width] → […, channels, height · factor, width · factor]"""
    *outer, channels, height, width = x.shape if x.spec.rank >= 3 else (0, 1, 0, 0)
    if channels % factor**2 or x.spec.rank < 3:
        raise ShapeError(subject, got=str(x.spec), need=f"[…, channels that {factor**2} divides, height, width]")
    kept, deep = len(outer), channels // factor**2
    wide = reshape(x, (*outer, deep, factor, factor, height, width))
    order = (*range(kept), *(kept + place for place in (0, 3, 1, 4, 2)))
    return reshape(transpose(wide, order), (*outer, deep, height * factor, width * factor))


def unshuffled(subject: str, x: T, factor: int) -> T:
    """The inverse of `shuffled`."""
    *outer, channels, height, width = x.shape if x.spec.rank >= 3 else (0, 1, 1, 1)
    if height % factor or width % factor or x.spec.rank < 3:
        raise ShapeError(subject, got=str(x.spec), need=f"[…, channels, sizes that {factor} divides]")
    kept = len(outer)
    parts = reshape(x, (*outer, channels, height // factor, factor, width // factor, factor))
    order = (*range(kept), *(kept + place for place in (0, 2, 4, 1, 3)))
    return reshape(transpose(parts, order), (*outer, channels * factor**2, height // factor, width // factor))


@dataclass(frozen=True, slots=True)
class ImageWindows:
    """Windows over an image of [batch, channels, height, width]: `kernel` places, each a picture of `counts`."""

    subject: str
    kernel: tuple[int, ...]
    window: Window
    sizes: tuple[int, ...]

    @property
    def bordered(self) -> tuple[int, ...]:
        """Sizes with the border."""
        return tuple(size + sum(border) for size, border in zip(self.sizes, self.window.padding, strict=True))

    @property
    def counts(self) -> tuple[int, ...]:
        """Windows along each axis; ShapeError where none fits."""
        spans = [step * (extent - 1) + 1 for step, extent in zip(self.window.dilations, self.kernel, strict=True)]
        counts = tuple(
            (size - span) // stride + 1
            for size, span, stride in zip(self.bordered, spans, self.window.strides, strict=True)
        )
        if min(counts) < 1:
            got = f"windows of {' x '.join(map(str, spans))} on {' x '.join(map(str, self.bordered))}"
            raise ShapeError(self.subject, got=got, need="at least one that fits")
        return counts

    def starts(self) -> Iterator[tuple[int, ...]]:
        """Where each place of the kernel begins."""
        for place in product(*map(range, self.kernel)):
            yield tuple(step * at for step, at in zip(self.window.dilations, place, strict=True))

    def parts(self, x: T) -> T:
        """y[n, c · |kernel| + place, l] = x[n, c, place of window l]"""
        (top, bottom), (left, right) = self.window.padding
        x = pad(x, (0, 0, top, left), (0, 0, bottom, right))
        batch, channels, counts, cuts = x.shape[0], x.shape[1], self.counts, []
        for starts in self.starts():
            cut = x
            for axis, (start, stride, count) in enumerate(zip(starts, self.window.strides, counts, strict=True), 2):
                cut = slice_axis(cut, axis, start, start + stride * (count - 1) + 1, stride)
            cuts.append(reshape(cut, (batch, channels, 1, math.prod(counts))))
        return reshape(concatenate(cuts, 2), (batch, channels * len(cuts), math.prod(counts)))

    def together(self, y: T) -> T:
        """x[n, c, h, w] = sum of y[n, c · |kernel| + place, l] over all places of windows that lie there."""
        counts, places = self.counts, math.prod(self.kernel)
        if y.shape[1] % places or y.shape[2] != math.prod(counts):
            need = f"[batch, channels · {places}, {math.prod(counts)} windows]"
            raise ShapeError(self.subject, got=str(y.spec), need=need)
        batch, channels = y.shape[0], y.shape[1] // places
        split, total = reshape(y, (batch, channels, places, *counts)), None
        for number, starts in enumerate(self.starts()):
            part = reshape(slice_axis(split, 2, number, number + 1), (batch, channels, *counts))
            lying = self._lying(part, starts)
            total = lying if total is None else add(total, lying)
        assert total is not None
        for axis, (size, (before, _)) in enumerate(zip(self.sizes, self.window.padding, strict=True), 2):
            total = slice_axis(total, axis, before, before + size)
        return total

    def _lying(self, part: T, starts: tuple[int, ...]) -> T:
        """The elements at their places in an image of zeros with the border."""
        for axis, (start, stride, size) in enumerate(zip(starts, self.window.strides, self.bordered, strict=True), 2):
            shape, rank = part.shape, part.spec.rank
            wide = reshape(part, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
            after = [0] * (rank + 1)
            after[axis + 1] = stride - 1
            wider = (*shape[:axis], shape[axis] * stride, *shape[axis + 1 :])
            spread = reshape(pad(wide, (0,) * (rank + 1), tuple(after)), wider)
            spread = slice_axis(spread, axis, 0, min(spread.shape[axis], size - start))
            before, behind = [0] * rank, [0] * rank
            before[axis], behind[axis] = start, size - start - spread.shape[axis]
            part = pad(spread, tuple(before), tuple(behind))
        return part


def image_windows(
    subject: str, sizes: tuple[int, ...], kernel: Counts, dilation: Counts, padding: Sizes, stride: Counts
) -> ImageWindows:
    """Windows under PyTorch's words."""
    kernels = each(subject, "kernel_size", kernel, 2)
    return ImageWindows(subject, kernels, window_over(subject, kernels, stride, padding, dilation), sizes)


def unfolded(subject: str, x: T, kernel: Counts, dilation: Counts, padding: Sizes, stride: Counts) -> T:
    """The windows of [batch, channels, height, width], or of one example."""
    if x.spec.rank not in (3, 4):
        raise ShapeError(subject, got=str(x.spec), need="[batch, channels, height, width], or one example of it")
    whole = x if x.spec.rank == 4 else reshape(x, (1, *x.shape))
    y = image_windows(subject, whole.shape[2:], kernel, dilation, padding, stride).parts(whole)
    return y if x.spec.rank == 4 else reshape(y, y.shape[1:])


def folded(subject: str, y: T, output: Counts, kernel: Counts, dilation: Counts, padding: Sizes, stride: Counts) -> T:
    """The image whose windows were summed where they lie on each other."""
    if y.spec.rank not in (2, 3):
        raise ShapeError(subject, got=str(y.spec), need="[batch, channels · places, windows], or one example of it")
    whole = y if y.spec.rank == 3 else reshape(y, (1, *y.shape))
    sizes = each(subject, "output_size", output, 2)
    x = image_windows(subject, sizes, kernel, dilation, padding, stride).together(whole)
    return x if y.spec.rank == 3 else reshape(x, x.shape[1:])


@checked
@dataclass(frozen=True, slots=True)
class PixelShuffle(Layer):
    """Channels become places: [batch, channels · factor², h, w] → [batch, channels, h · factor, w · factor].

    Shi et al. 2016.

    >>> nn.PixelShuffle(2)(nnc.ones((1, 8, 3, 3))).shape
    (1, 2, 6, 6)
    """

    upscale_factor: Count

    def build(self, scope: Scope[T], x: T) -> T:
        return shuffled("PixelShuffle", x, self.upscale_factor)


@checked
@dataclass(frozen=True, slots=True)
class PixelUnshuffle(Layer):
    """The inverse of `PixelShuffle`.

    >>> nn.PixelUnshuffle(2)(nnc.ones((1, 2, 6, 6))).shape
    (1, 8, 3, 3)
    """

    downscale_factor: Count

    def build(self, scope: Scope[T], x: T) -> T:
        return unshuffled("PixelUnshuffle", x, self.downscale_factor)


@checked
@dataclass(frozen=True, slots=True)
class Unfold(Layer):
    """Windows of an image as columns: y[n, c · |kernel| + place, l] = x[n, c, place of window l].

    >>> nn.Unfold(3, padding=1)(nnc.ones((2, 4, 5, 5))).shape
    (2, 36, 25)
    """

    kernel_size: Counts
    dilation: Counts = 1
    padding: Sizes = 0
    stride: Counts = 1

    def build(self, scope: Scope[T], x: T) -> T:
        return unfolded("Unfold", x, self.kernel_size, self.dilation, self.padding, self.stride)


@checked
@dataclass(frozen=True, slots=True)
class Fold(Layer):
    """Columns as windows of an image, added where they lie on each other: what `Unfold` is differentiated to.

    >>> nn.Fold(4, kernel_size=2)(nnc.ones((1, 4, 9)))[0, 0, 1].tolist()
    [2.0, 4.0, 4.0, 2.0]
    """

    output_size: Counts
    kernel_size: Counts
    dilation: Counts = 1
    padding: Sizes = 0
    stride: Counts = 1

    def build(self, scope: Scope[T], x: T) -> T:
        return folded("Fold", x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


@checked
@dataclass(frozen=True, slots=True)
class Unflatten(Layer):
    """The axis `dim` as several of sizes `unflattened_size`, of which one may be -1.

    >>> nn.Unflatten(1, (2, -1))(nnc.ones((3, 8))).shape
    (3, 2, 4)
    """

    dim: int
    unflattened_size: tuple[int, ...] | list[int]

    def build(self, scope: Scope[T], x: T) -> T:
        rank = x.spec.rank
        if not -rank <= self.dim < rank:
            raise ShapeError("Unflatten", got=str(x.spec), need=f"an axis {self.dim}")
        axis, sizes = self.dim % rank, [*self.unflattened_size]
        known = math.prod(size for size in sizes if size != -1)
        if sizes.count(-1) == 1 and known > 0 and not x.shape[axis] % known:
            sizes[sizes.index(-1)] = x.shape[axis] // known
        if min(sizes, default=0) < 0 or math.prod(sizes) != x.shape[axis] or not sizes:
            need = f"sizes whose product is {x.shape[axis]}"
            raise ShapeError("Unflatten", got=f"{x.spec} as {self.unflattened_size} on axis {axis}", need=need)
        return reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@dataclass(frozen=True, slots=True)
class _Border(Layer):
    """A border of the last axes: one width, or (before, after) of the last axis and then of the one in front of it."""

    padding: Size | tuple[Size, ...]
    rank: ClassVar[int] = 2
    mode: ClassVar[str] = "constant"

    def build(self, scope: Scope[T], x: T) -> T:
        return self.bordered(x, 0.0)

    def bordered(self, x: T, value: float) -> T:
        """x with its border."""
        kind, given = type(self).__name__, self.padding
        widths = (given,) * (2 * self.rank) if isinstance(given, int) else given
        if len(widths) != 2 * self.rank:
            need = f"one width, or {2 * self.rank}: before and after, of the last axis first"
            raise ArgumentError(kind, got=f"padding={given}", need=need)
        if x.spec.rank not in (self.rank + 1, self.rank + 2):
            raise ShapeError(kind, got=str(x.spec), need=f"[batch, channels, {self.rank} sizes], or one example of it")
        kept = (0,) * (x.spec.rank - self.rank)
        before, after = ((*kept, *widths[side::2][::-1]) for side in (0, 1))
        return pad(x, before, after, self.mode, value)


@checked
@dataclass(frozen=True, slots=True)
class ZeroPad2d(_Border):
    """Zeros around the height and width: one width, or (left, right, top, bottom).

    >>> nn.ZeroPad2d((1, 0, 2, 0))(nnc.ones((1, 3, 4, 4))).shape
    (1, 3, 6, 5)
    """


@checked
@dataclass(frozen=True, slots=True)
class ConstantPad2d(_Border):
    """`value` around the height and width: one width, or (left, right, top, bottom).

    >>> nn.ConstantPad2d(1, 7.0)(nnc.ones((1, 1, 1, 1))).tolist()
    [[[[7.0, 7.0, 7.0], [7.0, 1.0, 7.0], [7.0, 7.0, 7.0]]]]
    """

    value: Finite = 0.0

    def build(self, scope: Scope[T], x: T) -> T:
        return self.bordered(x, self.value)


@checked
@dataclass(frozen=True, slots=True)
class ReflectionPad2d(_Border):
    """The image mirrored at its edges, which stand once.

    >>> nn.ReflectionPad2d((1, 1, 0, 0))(nnc.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[2.0, 1.0, 2.0, 3.0, 2.0]]]
    """

    mode: ClassVar[str] = "reflect"


@checked
@dataclass(frozen=True, slots=True)
class ReplicationPad2d(_Border):
    """The edges of the image repeated.

    >>> nn.ReplicationPad2d((1, 1, 0, 0))(nnc.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 3.0, 3.0]]]
    """

    mode: ClassVar[str] = "edge"


@checked
@dataclass(frozen=True, slots=True)
class ReflectionPad1d(ReflectionPad2d):
    """As `ReflectionPad2d`, of one axis.

    >>> nn.ReflectionPad1d(2)(nnc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]]
    """

    rank: ClassVar[int] = 1


@checked
@dataclass(frozen=True, slots=True)
class ReplicationPad1d(ReplicationPad2d):
    """As `ReplicationPad2d`, of one axis.

    >>> nn.ReplicationPad1d(1)(nnc.tensor([[1.0, 2.0]])).tolist()
    [[1.0, 1.0, 2.0, 2.0]]
    """

    rank: ClassVar[int] = 1


def normalized_instances(subject: str, x: T, rank: int, epsilon: float) -> T:
    """(x - mean) / √(variance + ε) of each channel of each example, whose `rank` last axes are places."""
    if x.spec.rank not in (rank + 1, rank + 2):
        raise ShapeError(subject, got=str(x.spec), need=f"[batch, channels, {rank} sizes], or one example of it")
    return layer_norm(x, axes=tuple(range(x.spec.rank - rank, x.spec.rank)), epsilon=epsilon)


def scaled_channels(y: T, weight: T | None, bias: T | None, rank: int) -> T:
    """y · weight + bias, of the channels in front of `rank` axes."""
    if weight is not None:
        y = multiply(y, reshape(weight, (*weight.shape, *(1,) * rank)))
    return y if bias is None else add(y, reshape(bias, (*bias.shape, *(1,) * rank)))


@checked
@dataclass(frozen=True, slots=True)
class InstanceNorm2d(Layer):
    """Each channel of each example normalized over its places (Ulyanov et al. 2016), without running statistics.

    >>> nn.InstanceNorm2d(3)(nnc.ones((2, 3, 8, 8))).shape
    (2, 3, 8, 8)
    """

    num_features: Count
    eps: Rate = 1e-5
    momentum: Rate = 0.1
    affine: bool = False
    track_running_stats: bool = False
    rank: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.track_running_stats:
            got, fix = "track_running_stats=True", f"nn.BatchNorm{self.rank}d, or leave it out"
            raise ArgumentError(type(self).__name__, got=got, need="statistics of each example", fix=fix)

    def build(self, scope: Scope[T], x: T) -> T:
        kind = type(self).__name__
        y = normalized_instances(kind, x, self.rank, self.eps)
        if x.shape[-1 - self.rank] != self.num_features:
            raise ShapeError(kind, got=str(x.spec), need=f"{self.num_features} channels in front of the sizes")
        if not self.affine:
            return y
        sizes = (self.num_features,)
        weight, bias = (scope.parameter(name, sizes, x, values) for name, values in (("weight", ones), ("bias", zeros)))
        return scaled_channels(y, weight, bias, self.rank)


@checked
@dataclass(frozen=True, slots=True)
class InstanceNorm1d(InstanceNorm2d):
    """As `InstanceNorm2d`, over one axis.

    >>> nn.InstanceNorm1d(3)(nnc.ones((2, 3, 8))).shape
    (2, 3, 8)
    """

    rank: ClassVar[int] = 1


@checked
@dataclass(frozen=True, slots=True)
class InstanceNorm3d(InstanceNorm2d):
    """As `InstanceNorm2d`, over three axes.

    >>> nn.InstanceNorm3d(3)(nnc.ones((2, 3, 4, 4, 4))).shape
    (2, 3, 4, 4, 4)
    """

    rank: ClassVar[int] = 3
