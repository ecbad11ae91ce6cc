"""Layers over spatial axes, [batch, spatial…, channels]: their rank, sizes for each axis, and windows that move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from nnc import numerics as n
from nnc.arguments import Count
from nnc.errors import ArgumentError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.named import refused
from nnc.ops import Window
from nnc.ops.convolutions.window import same_border

Sizes: TypeAlias = Count | tuple[Count, ...] | list[Count]


def per_axis(subject: str, name: str, value: Sizes, rank: int) -> tuple[int, ...]:
    """One size for each of `rank` axes."""
    given: Any = value
    sizes = tuple(map(int, given)) if hasattr(given, "__len__") else (int(given),) * rank
    if len(sizes) != rank:
        raise ArgumentError(subject, got=f"{name}={value!r}", need=f"a number, or {rank} of them")
    return sizes


def window_over(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], padding: str, dilations: Sequence[int] = ()
) -> Window:
    """The window that moves over these sizes."""
    dilations = dilations or (1,) * len(kernel)
    borders = []
    for size, extent, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        reach = dilation * (extent - 1)
        same = same_border(size, reach + 1, stride) if padding == "same" else (0, 0)
        borders.append((reach, 0) if padding == "causal" else same)
    return Window(tuple(strides), tuple(borders), tuple(dilations))


def in_rows(x: Any, function: Callable[[Any], Any]) -> Any:
    """A function of pictures for x[batch, steps, channels], as pictures of one row."""
    y = function(n.expand_dims(x, 1))
    return n.reshape(y, (y.shape[0], *y.shape[2:]))


def check_format(subject: str, data_format: str | None) -> None:
    """ArgumentError for channels first."""
    if data_format == "channels_first":
        fix = "leave it out, and give images [batch, height, width, channels]; nn.Conv2d has channels first"
        raise refused(subject, "data_format", data_format, fix)


class SpatialLayer(Layer):
    """Over [batch, `rank` axes, channels]: subclasses say the rank, `class Conv2D(…, rank=2)`."""

    rank: ClassVar[int]
    # The axes beside those of the rank; 0 leaves the check of inputs to the layer.
    other_axes: ClassVar[int] = 2

    def __init_subclass__(cls, rank: int = 0) -> None:
        super().__init_subclass__()
        if rank:
            cls.rank, cls.dimensions = rank, rank + cls.other_axes if cls.other_axes else 0
