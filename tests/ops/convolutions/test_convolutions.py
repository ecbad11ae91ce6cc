"""The transposed convolution against its sum written out; it undoes the shape of a convolution."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, check_gradients

from nnc.core.values.spec import Shape
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.convolutions.convolutions import convolution, convolution_transpose
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import square

GENERATOR = np.random.default_rng(17)


def expected(x: Array, w: Array, window: Window, groups: int, sizes: Shape) -> Array:
    channels, filters = w.shape[-2], w.shape[-1] // groups
    y = np.zeros((x.shape[0], *sizes, channels * groups))
    for o in product(*map(range, x.shape[1:-1])):
        for k in product(*map(range, w.shape[:-2])):
            moves = zip(o, k, window.strides, window.dilations, window.padding, strict=True)
            place = tuple(a * s + b * d - before for a, b, s, d, (before, _) in moves)
            if not all(0 <= p < size for p, size in zip(place, sizes, strict=True)):
                continue
            for group in range(groups):
                own, inner = (
                    slice(group * channels, (group + 1) * channels),
                    slice(group * filters, (group + 1) * filters),
                )
                y[(slice(None), *place, own)] += x[(slice(None), *o, inner)] @ w[(*k, slice(None), inner)].T
    return y


# Shape of x, shape of w, window, groups, output padding, sizes of y.
CASES: tuple[tuple[Shape, Shape, Window, int, Shape, Shape], ...] = (
    ((2, 3, 2), (3, 4, 2), Window((2,), ((1, 1),), (1,)), 1, (1,), (6,)),
    ((1, 3, 4, 2), (3, 2, 3, 2), Window((2, 1), ((1, 0), (0, 1)), (1, 2)), 1, (), (6, 5)),
    ((1, 3, 3, 4), (2, 2, 1, 4), Window((2, 2), ((0, 0), (0, 0)), (1, 1)), 2, (1, 0), (7, 6)),
    ((1, 2, 2, 2, 1), (2, 2, 2, 2, 1), Window((1, 2, 1), ((0, 0),) * 3, (1, 1, 1)), 1, (0, 1, 0), (3, 5, 3)),
)


@pytest.mark.parametrize(("data", "kernel", "window", "groups", "extra", "sizes"), CASES)
def test_transposed_convolution(
    data: Shape, kernel: Shape, window: Window, groups: int, extra: Shape, sizes: Shape
) -> None:
    x, w = GENERATOR.standard_normal(data), GENERATOR.standard_normal(kernel)
    bias = GENERATOR.standard_normal(kernel[-2] * groups)
    y = convolution_transpose(*map(Eager, (x, w, bias)), window=window, groups=groups, output_padding=extra)
    assert y.shape[1:-1] == sizes
    np.testing.assert_allclose(y.array, expected(x, w, window, groups, sizes) + bias, atol=1e-12)
    assert convolution(y, Eager(w), window=window, groups=groups).shape == x.shape
    check_gradients(
        lambda v: [
            square(convolution_transpose(*v, window=window, groups=groups, output_padding=extra)),
        ],
        [0.3 * x, 0.3 * w, bias],
    )


def test_refusals() -> None:
    x, w = Eager(np.ones((1, 3, 3, 2))), Eager(np.ones((3, 3, 4, 2)))
    window = Window((2, 2), ((1, 1), (1, 1)), (1, 1))
    for extra in ((2, 0), (-1, 0), (1,)):
        with pytest.raises(AttributeValueError, match="output_padding"):
            convolution_transpose(x, w, window=window, output_padding=extra)
    with pytest.raises(ShapeError, match="4 dimensions"):
        convolution_transpose(Eager(np.ones((3, 3, 2))), w, window=window)
    with pytest.raises(ShapeError):
        convolution_transpose(x, Eager(np.ones((3, 3, 4, 3))), window=window)
    with pytest.raises(ShapeError):
        convolution_transpose(x, w, Eager(np.ones(3)), window=window)
