from __future__ import annotations

import math

import numpy as np
import pytest

from nnc.core.spec import spec
from nnc.nn.initializers import generator_for, glorot_uniform, he_uniform, ones, zeros


def test_numbers_depend_on_seed_and_path_alone() -> None:
    one, same = (generator_for(1, "a.weight").random(4) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    for seed, path in ((2, "a.weight"), (1, "b.weight"), (1, "a.bias")):
        assert not np.array_equal(one, generator_for(seed, path).random(4))


def test_a_first_value_is_the_same_in_every_version() -> None:
    assert generator_for(0, "0.weight").random() == 0.06644801036227066


@pytest.mark.parametrize(
    ("initializer", "shape", "bound"),
    [
        (he_uniform, (600, 10), math.sqrt(6 / 600)),
        (he_uniform, (3, 3, 16, 32), math.sqrt(6 / 144)),
        (glorot_uniform, (300, 100), math.sqrt(6 / 400)),
        (glorot_uniform, (3, 3, 16, 32), math.sqrt(6 / (9 * 48))),
    ],
)
def test_uniform_values_fill_their_range(initializer, shape: tuple[int, ...], bound: float) -> None:
    values = initializer(generator_for(0, "w"), spec(shape))
    assert values.shape == shape
    assert np.abs(values).max() <= bound
    assert np.abs(values).max() > 0.99 * bound
    assert abs(values.mean()) < 0.1 * bound


def test_constants() -> None:
    generator = generator_for(0, "b")
    np.testing.assert_array_equal(zeros(generator, spec((3,))), np.zeros(3))
    np.testing.assert_array_equal(ones(generator, spec((3,))), np.ones(3))
