from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import AttributeValueError, ShapeError
from nnc.nn import ConvolutionTranspose, ConvolutionTranspose3D, Model, Upsample


def test_a_transposed_convolution_spreads_each_pixel() -> None:
    model = Model(ConvolutionTranspose(3), (2, 2, 4), backend="reference")
    x = np.random.default_rng(0).standard_normal((1, 2, 2, 4)).astype(np.float32)
    weight = model.parameters["weight"].numpy()
    assert weight.shape == (2, 2, 3, 4)
    want = np.einsum("nijc,klfc->nikjlf", x, weight).reshape(1, 4, 4, 3)
    np.testing.assert_allclose(model.predict(x), want, rtol=1e-4, atol=1e-5)


def test_sizes_follow_stride_padding_and_the_extra_row() -> None:
    assert Model(ConvolutionTranspose(1, 3, 2, 1, 1), (5, 6, 2)).output_shape == (10, 12, 1)
    assert Model(ConvolutionTranspose(1, 4, 2, 1), (5, 6, 2)).output_shape == (10, 12, 1)


def test_upsampling_repeats_pixels() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    y = Model(Upsample(3), (2, 2, 1), backend="reference").predict(x)
    np.testing.assert_array_equal(y, x.repeat(3, 1).repeat(3, 2))
    assert Model(Upsample(2, "bilinear"), (2, 3, 1)).output_shape == (4, 6, 1)


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(AttributeValueError, match="stride=0"):
        ConvolutionTranspose(3, stride=0)
    with pytest.raises(AttributeValueError, match="cubic"):
        Upsample(2, "cubic")
    with pytest.raises(ShapeError, match="batch, height, width, channels"):
        Model(Upsample(), (4, 4))


def test_a_transposed_convolution_spreads_each_voxel() -> None:
    model = Model(ConvolutionTranspose3D(3, (1, 2, 2), (1, 2, 2)), (2, 2, 3, 4), backend="reference")
    x = np.random.default_rng(0).standard_normal((1, 2, 2, 3, 4)).astype(np.float32)
    weight = model.parameters["weight"].numpy()
    assert weight.shape == (1, 2, 2, 3, 4)
    want = np.einsum("nzijc,klfc->nzikjlf", x, weight[0]).reshape(1, 2, 4, 6, 3)
    np.testing.assert_allclose(model.predict(x), want, rtol=1e-4, atol=1e-5)
    assert Model(ConvolutionTranspose3D(1, 3, 2, 1, 1), (5, 6, 4, 2)).output_shape == (10, 12, 8, 1)
