"""Convolutions whose axes stand in any order, as `jax.lax` has them.

y[n, o…, f] = sum_{k…, c} x[n, o · stride + k · dilation - before…, c] · w[k…, c, f], of x with zeros between its rows

`dimension_numbers` are three texts, such as ("NHWC", "HWIO", "NHWC"): N the batch, C features, I and O those of the
filters, any other letter a spatial axis. Without them it is ("NCHW", "OIHW", "NCHW").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nnc import ops
from nnc.arguments import Count, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import AnyDType
from nnc.errors import ArgumentError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, pair
from nnc.numerics.jax_names.slices import pad
from nnc.numerics.shapes import flip
from nnc.ops.convolutions.window import Window, same_border

__all__ = [
    "ConvDimensionNumbers", "conv", "conv_dimension_numbers", "conv_general_dilated", "conv_transpose",
    "conv_with_general_padding",
]  # fmt: skip

Sizes = Sequence[Count]
Padding = str | Sequence[Sequence[int]]
SPATIAL = {1: "H", 2: "HW", 3: "DHW"}


class ConvDimensionNumbers(NamedTuple):
    """Places of axes: batch, features and spatial ones of x and of the result; out, in and spatial ones of filters."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


@checked
def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Sequence[Any] | None
) -> ConvDimensionNumbers:
    """Where the axes stand, by three texts.

    >>> nnc.lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC")).lhs_spec
    (0, 3, 1, 2)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    letters = SPATIAL.get(rank - 2)
    if letters is None or len(rhs_shape) != rank:
        got = f"{rank} and {len(rhs_shape)} axes"
        raise ShapeError("conv", got=got, need="3 to 5 of each: one to three spatial ones", origin=caller_origin())
    texts = (f"NC{letters}", f"OI{letters}", f"NC{letters}") if dimension_numbers is None else dimension_numbers
    places = [_places(text, first) for text, first in zip(texts, ("NC", "OI", "NC"), strict=False)]
    if len(places) != 3 or any(place is None or len(place) != rank for place in places):
        need = f'three texts of {rank} letters, such as ("N{letters}C", "{letters}IO", "N{letters}C")'
        raise ArgumentError("dimension_numbers", got=repr(texts), need=need, origin=caller_origin())
    spatial = [character for character in texts[0] if character not in "NC"]
    ordered = [_places(text, first + "".join(spatial)) for text, first in zip(texts, ("NC", "OI", "NC"), strict=True)]
    if any(place is None for place in ordered):
        raise ArgumentError("dimension_numbers", got=repr(texts), need="the same spatial letters in all three")
    return ConvDimensionNumbers(*(tuple(place) for place in ordered if place is not None))


def _places(text: Any, first: str) -> list[int] | None:  # noqa: ANN401  # a text, or whatever was given for one
    """The places of these letters, and of the others behind them; None where the text lacks one, or has it twice."""
    if not isinstance(text, str) or len(set(text)) != len(text) or not set(first) <= set(text):
        return None
    return [text.index(letter) for letter in (*first, *(letter for letter in text if letter not in first))]


@checked
def conv_general_dilated(
    lhs: AnyArray,
    rhs: AnyArray,
    window_strides: Sizes,
    padding: Padding,
    lhs_dilation: Sizes | None = None,
    rhs_dilation: Sizes | None = None,
    dimension_numbers: Sequence[Any] | None = None,
    feature_group_count: Count = 1,
    batch_group_count: Count = 1,
    precision: object = None,
    preferred_element_type: AnyDType | None = None,
) -> Array:
    """The convolution of x by filters; `lhs_dilation` puts zeros between the rows of x.

    >>> x, w = nnc.ones((1, 8, 8, 3)), nnc.ones((3, 3, 3, 4))
    >>> nnc.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")).shape
    (1, 4, 4, 4)
    """
    x, w = pair(lhs, rhs)
    if preferred_element_type is not None:
        x, w = x.astype(preferred_element_type), w.astype(preferred_element_type)
    if batch_group_count != 1:
        got = f"batch_group_count={batch_group_count}"
        raise ArgumentError(
            "conv_general_dilated", got=got, need="1", fix="feature_group_count=", origin=caller_origin()
        )
    places = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    spatial = len(x.shape) - 2
    steps, apart, between = (_each(name, sizes, spatial) for name, sizes in (
        ("window_strides", window_strides), ("rhs_dilation", rhs_dilation), ("lhs_dilation", lhs_dilation),
    ))  # fmt: skip
    last = x.transpose(places.lhs_spec[0], *places.lhs_spec[2:], places.lhs_spec[1])
    kernel = w.transpose(*places.rhs_spec[2:], places.rhs_spec[1], places.rhs_spec[0])
    if any(step > 1 for step in between):
        last = pad(last, 0, [(0, 0, 0), *((0, 0, step - 1) for step in between), (0, 0, 0)])
    extents = [(size - 1) * step + 1 for size, step in zip(kernel.shape[:spatial], apart, strict=True)]
    edges = borders(padding, last.shape[1:-1], extents, steps)
    if any(edge < 0 for pair_of in edges for edge in pair_of):
        cut = [(min(before, 0), min(after, 0), 0) for before, after in edges]
        last, edges = pad(last, 0, [(0, 0, 0), *cut, (0, 0, 0)]), [(max(b, 0), max(a, 0)) for b, a in edges]
    y = ops.convolution(last, kernel, window=Window(steps, tuple(edges), apart), groups=feature_group_count)
    order = (places.out_spec[0], *places.out_spec[2:], places.out_spec[1])
    return y.transpose(*(order.index(place) for place in range(len(order))))


def _each(name: str, sizes: Sizes | None, count: int) -> tuple[int, ...]:
    values = (1,) * count if sizes is None else tuple(sizes)
    if len(values) != count:
        raise ArgumentError(name, got=f"{len(values)} of them", need=f"{count}", origin=caller_origin())
    return values


def borders(
    padding: Padding, sizes: Sequence[int], extents: Sequence[int], steps: Sequence[int]
) -> list[tuple[int, int]]:
    """Zeros before and behind each axis: "VALID" none, "SAME" so many that each step has a window."""
    if not isinstance(padding, str):
        edges = [(int(edge[0]), int(edge[1])) for edge in padding if len(edge) == 2]
        if len(edges) != len(sizes) or len(edges) != len(list(padding)):
            raise ArgumentError("padding", got=repr(padding), need=f"{len(sizes)} pairs", origin=caller_origin())
        return edges
    if padding not in ("VALID", "SAME", "SAME_LOWER"):
        raise ArgumentError("padding", got=repr(padding), need='"SAME", "VALID", or pairs', origin=caller_origin())
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    edges = list(map(same_border, sizes, extents, steps))
    return edges if padding == "SAME" else [(after, before) for before, after in edges]


def conv(lhs: AnyArray, rhs: AnyArray, window_strides: Sizes, padding: Padding, precision: object = None) -> Array:
    """The convolution of x[n, c, …] by filters [out, in, …].

    >>> nnc.lax.conv(nnc.ones((1, 3, 8, 8)), nnc.ones((4, 3, 3, 3)), (1, 1), "VALID").shape
    (1, 4, 6, 6)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision)


def conv_with_general_padding(
    lhs: AnyArray,
    rhs: AnyArray,
    window_strides: Sizes,
    padding: Padding,
    lhs_dilation: Sizes | None,
    rhs_dilation: Sizes | None,
) -> Array:
    """`conv` with zeros between rows, of x and of filters.

    >>> x, w = nnc.ones((1, 3, 8, 8)), nnc.ones((4, 3, 3, 3))
    >>> nnc.lax.conv_with_general_padding(x, w, (1, 1), [(1, 1), (1, 1)], (1, 1), (2, 2)).shape
    (1, 4, 6, 6)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)


@checked
def conv_transpose(
    lhs: AnyArray,
    rhs: AnyArray,
    strides: Sizes,
    padding: Padding,
    rhs_dilation: Sizes | None = None,
    dimension_numbers: Sequence[Any] | None = None,
    transpose_kernel: bool = False,
) -> Array:
    """The convolution of x with `strides` - 1 zeros between its rows: "SAME" gives size · stride. Channels are last.

    With `transpose_kernel` it is the gradient of a convolution by these filters.

    >>> nnc.lax.conv_transpose(nnc.ones((1, 4, 4, 3)), nnc.ones((3, 3, 3, 8)), (2, 2), "SAME").shape
    (1, 8, 8, 8)
    """
    x, w = pair(lhs, rhs)
    spatial = x.ndim - 2
    letters = SPATIAL.get(spatial, "")
    last = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    places = conv_dimension_numbers(x.shape, w.shape, last if dimension_numbers is None else dimension_numbers)
    apart, steps = _each("rhs_dilation", rhs_dilation, spatial), _each("strides", strides, spatial)
    extents = [(w.shape[place] - 1) * step + 1 for place, step in zip(places.rhs_spec[2:], apart, strict=True)]
    edges: Padding = padding
    if isinstance(padding, str):
        edges = [_turned(padding, extent, step) for extent, step in zip(extents, steps, strict=True)]
    if transpose_kernel:
        out, inward, *rest = places.rhs_spec
        w = flip(w, tuple(rest))
        places = places._replace(rhs_spec=(inward, out, *rest))
    return conv_general_dilated(x, w, (1,) * spatial, edges, steps, apart, places)


def _turned(padding: str, extent: int, step: int) -> tuple[int, int]:
    """The border of a transposed convolution."""
    if padding not in ("VALID", "SAME"):
        raise ArgumentError("padding", got=repr(padding), need='"SAME", "VALID", or pairs', origin=caller_origin())
    total = extent + step - 2 + (max(extent - step, 0) if padding == "VALID" else 0)
    before = extent - 1 if padding == "VALID" or step > extent - 1 else -(-total // 2)
    return before, total - before
