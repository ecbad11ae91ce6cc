"""Sliding windows over the spatial axes, shared by convolution and pooling.

    output size = floor((size + before + after - dilation · (window - 1) - 1) / stride) + 1

Activations are [batch, spatial…, channels] (layout NHWC, in 1 to 3 spatial dimensions).
"""

from __future__ import annotations

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.spec import MAX_DIMENSIONS, Layout, TensorSpec
from nnc.errors import AttributeValueError, LayoutError, ShapeError

__all__ = ["Window", "window_of"]


@checked
@dataclass(frozen=True, slots=True)
class Window:
    """Stride, zero border (before, after) and dilation for each spatial axis."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    def __post_init__(self) -> None:
        ranks = {len(self.strides), len(self.padding), len(self.dilations)}
        sizes_ok = all(step > 0 for step in (*self.strides, *self.dilations))
        if len(ranks) != 1 or not sizes_ok or any(edge < 0 for pair in self.padding for edge in pair):
            got = f"strides {self.strides}, padding {self.padding}, dilations {self.dilations}"
            raise AttributeValueError(
                "window", got=got, need="one entry per spatial axis; strides, dilations ≥ 1; padding ≥ 0"
            )


def check_layout(subject: str, spec: TensorSpec) -> None:
    """LayoutError unless the channels are on the last axis."""
    if spec.layout is not Layout.NHWC:
        raise LayoutError(
            subject, got=str(spec), need="channels last (NHWC)", fix="transpose() the channels to the end"
        )


def output_sizes(subject: str, sizes: tuple[int, ...], kernel: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """Spatial sizes of the result; ShapeError when the window does not fit.

    >>> output_sizes("pool", (8, 8), (2, 2), window_of(2, stride=2, rank=2))
    (4, 4)
    """
    if not len(sizes) == len(kernel) == len(window.strides):
        raise ShapeError(
            subject,
            got=f"spatial sizes {list(sizes)}, kernel {list(kernel)}",
            need=f"{len(window.strides)} spatial axes",
        )
    results = []
    for size, extent, stride, (before, after), dilation in zip(
        sizes, kernel, window.strides, window.padding, window.dilations, strict=True
    ):
        slack = size + before + after - dilation * (extent - 1) - 1
        if slack < 0 or extent < 1:
            raise ShapeError(
                subject,
                got=f"size {size} with border {before}+{after}",
                need=f"room for a window of {dilation * (extent - 1) + 1}",
            )
        results.append(slack // stride + 1)
    return tuple(results)


def same_border(size: int, extent: int, stride: int) -> tuple[int, int]:
    """Zeros before and behind an axis where each of ⌈size / stride⌉ steps has a window; the smaller half goes before.

    >>> same_border(7, 3, 2), same_border(8, 3, 2)
    ((1, 1), (0, 1))
    """
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def window_of(
    kernel: int | tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | str = 0,
    dilation: int = 1,
    rank: int = 2,
) -> Window:
    """A Window from short forms; padding "same" keeps the size at stride 1 (the larger half goes before)."""
    if not 1 <= rank <= MAX_DIMENSIONS:
        raise AttributeValueError("window", got=f"rank {rank}", need=f"1..{MAX_DIMENSIONS} spatial axes")
    extents = (kernel,) * rank if isinstance(kernel, int) else kernel
    strides = (stride,) * rank if isinstance(stride, int) else stride
    if padding == "same":
        totals = [dilation * (extent - 1) for extent in extents]
        borders = tuple((total - total // 2, total // 2) for total in totals)
    elif isinstance(padding, int):
        borders = ((padding, padding),) * rank
    else:
        raise AttributeValueError("window", got=f"padding {padding!r}", need='an integer or "same"')
    return Window(strides, borders, (dilation,) * rank)
