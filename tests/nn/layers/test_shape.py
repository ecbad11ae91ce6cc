from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import AttributeValueError, ShapeError
from nnc.nn import Clamp, GlobalAveragePool, Identity, Model, PadChannels, Sequential

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


def test_channels_are_padded_with_zeros() -> None:
    y = Model(PadChannels(1, 2), (3, 4, 5), backend="reference").predict(X)
    np.testing.assert_array_equal(y, np.pad(X, ((0, 0), (0, 0), (0, 0), (1, 2))))
    with pytest.raises(AttributeValueError, match="-1"):
        PadChannels(-1, 0)


def test_a_global_pool_is_the_mean_of_all_positions() -> None:
    y = Model(GlobalAveragePool(), (3, 4, 5), backend="reference").predict(X)
    np.testing.assert_allclose(y, X.mean((1, 2)), rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match="three dimensions"):
        Model(GlobalAveragePool(), (3,))


def test_clamped_and_passed_through() -> None:
    y = Model(Sequential(Identity(), Clamp(-0.5, 0.25)), (3, 4, 5), backend="reference").predict(X)
    np.testing.assert_array_equal(y, X.clip(-0.5, 0.25))
