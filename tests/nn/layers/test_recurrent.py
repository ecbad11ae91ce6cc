from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import AttributeValueError, ShapeError
from nnc.nn import LSTM, Model


def test_layers_feed_each_other() -> None:
    model = Model(LSTM(4, 2), (5, 3), backend="reference")
    shapes = {path: tensor.shape for path, tensor in model.parameters.items()}
    assert shapes == {
        "0.input_weight": (3, 16),
        "0.state_weight": (4, 16),
        "0.bias": (16,),
        "1.input_weight": (4, 16),
        "1.state_weight": (4, 16),
        "1.bias": (16,),
    }
    assert model.predict(np.ones((2, 5, 3), np.float32)).shape == (2, 5, 4)


def test_an_example_depends_on_no_other_and_a_step_on_no_later_one() -> None:
    model = Model(LSTM(4), (5, 3), backend="reference")
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    changed = x.copy()
    changed[1, 3:] += 1.0
    one, other = model.predict(x), model.predict(changed)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1, :3], other[1, :3])
    assert not np.array_equal(one[1, 3:], other[1, 3:])


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(AttributeValueError, match="units=0"):
        LSTM(0)
    with pytest.raises(ShapeError, match="batch, steps, features"):
        Model(LSTM(4), (5,))
