"""Layers, masks among them, give the numbers that Keras 3.15 gave (JAX backend) for the same weights and arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.keras.layer_rows import rows

from nnc import keras

EXPECTED = json.loads((Path(__file__).parent / "layer_numbers.json").read_text(encoding="utf-8"))
OURS = dict(rows(keras))


def test_every_number_is_compared() -> None:
    assert OURS.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", OURS)
def test_numbers_of_layers_are_those_of_keras(name: str) -> None:
    np.testing.assert_allclose(OURS[name](), EXPECTED[name], rtol=2e-5, atol=5e-6)
