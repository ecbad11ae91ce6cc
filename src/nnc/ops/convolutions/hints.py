"""Hints: the stride and the border of a window, from the sizes before and after, and the check of a given one.

    stride = (a + b / 2) / b            the rounded ratio of the sizes, in whole numbers
    border = (b - 1) · stride - a + w   in all; the larger half before; none where this is negative

a is the input's size, b the output's, w what the window spans: dilation · (kernel - 1) + 1.
"""

from __future__ import annotations

from nnc.core.values.spec import Shape
from nnc.errors import ShapeError
from nnc.ops.convolutions.window import Window, output_sizes

__all__ = ["auto_window", "verify_window"]


def auto_window(sizes: Shape, outputs: Shape, kernel: Shape, dilations: Shape | None = None) -> Window:
    """The window that leads from spatial `sizes` to `outputs`; ShapeError when the formula finds none.

    >>> auto_window((224, 224), (112, 112), (7, 7))
    Window(strides=(2, 2), padding=((3, 2), (3, 2)), dilations=(1, 1))
    """
    spread = (1,) * len(kernel) if dilations is None else dilations
    if not len(sizes) == len(outputs) == len(kernel) == len(spread) or min((*sizes, *outputs, *kernel), default=0) < 1:
        got = f"sizes {list(sizes)} to {list(outputs)}, kernel {list(kernel)}, dilations {list(spread)}"
        raise ShapeError("hint", got=got, need="one entry ≥ 1 per spatial axis")
    strides = tuple((size + wanted // 2) // wanted for size, wanted in zip(sizes, outputs, strict=True))
    borders = []
    for size, wanted, extent, dilation, stride in zip(sizes, outputs, kernel, spread, strides, strict=True):
        total = max((wanted - 1) * stride - size + dilation * (extent - 1) + 1, 0)
        borders.append((total - total // 2, total // 2))
    # More outputs than inputs round to a stride of 0, which no window has.
    window = Window(tuple(max(stride, 1) for stride in strides), tuple(borders), spread)
    verify_window(sizes, outputs, kernel, window)
    return window


def verify_window(sizes: Shape, outputs: Shape, kernel: Shape, window: Window) -> None:
    """ShapeError unless `window` with this `kernel` leads from spatial `sizes` to `outputs`."""
    reached = output_sizes("hint", sizes, kernel, window)
    if reached != outputs:
        raise ShapeError(
            "hint",
            got=f"sizes {list(sizes)} to {list(reached)} by strides {list(window.strides)}",
            need=f"{list(outputs)}",
            fix="give stride and border yourself",
        )
