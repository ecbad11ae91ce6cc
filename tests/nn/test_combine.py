from __future__ import annotations

import pytest

from nnc.errors import AttributeValueError
from nnc.nn import Dense, Model, ReLU, Sequential


def test_parts_are_named_by_position_or_keyword() -> None:
    layer = Sequential(Dense(8), ReLU(), head=Sequential(Dense(2)))
    assert [name for name, _ in layer.parts] == ["0", "1", "head"]
    assert list(Model(layer, (3,)).parameters) == ["0.weight", "0.bias", "head.0.weight", "head.0.bias"]
    assert repr(layer) == (
        "Sequential(0=Dense(units=8, bias=True), 1=ReLU(), head=Sequential(0=Dense(units=2, bias=True)))"
    )


def test_only_layers_are_parts() -> None:
    with pytest.raises(AttributeValueError, match="1: function; need layers"):
        Sequential(Dense(8), lambda x: x)  # type: ignore[arg-type]  # no layer, on purpose
