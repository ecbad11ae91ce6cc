from __future__ import annotations

import numpy as np
import pytest

from nnc.core.values.dtype import BF16, I32
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.nn import Embedding, Model, PositionEmbedding


def test_rows_are_looked_up() -> None:
    model = Model(Embedding(7, 3), (4,), input_dtype=I32, backend="reference")
    tokens = np.array([[0, 6, 2, 2], [5, 1, 0, 3]], np.int32)
    np.testing.assert_array_equal(model.predict(tokens), model.parameters["weight"].numpy()[tokens])


def test_the_table_is_of_the_type_asked_for() -> None:
    model = Model(Embedding(7, 3, dtype=BF16), (4,), input_dtype=I32)
    assert model.parameters["weight"].dtype is BF16


def test_positions_are_added_from_the_first_on() -> None:
    model = Model(PositionEmbedding(6), (4, 3), backend="reference")
    x = np.ones((2, 4, 3), np.float32)
    np.testing.assert_array_equal(model.predict(x), x + model.parameters["weight"].numpy()[:4])


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(DTypeError, match="input_dtype"):
        Model(Embedding(7, 3), (4,))
    with pytest.raises(ShapeError, match="at most 3 steps"):
        Model(PositionEmbedding(3), (4, 3))
    with pytest.raises(AttributeValueError, match="count=0"):
        Embedding(0, 3)
