from __future__ import annotations

import math

import numpy as np
import pytest

from nnc.nn.layers.initializers import generator_for, glorot_uniform, he_uniform, ones, zeros


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
    values = np.empty(shape, np.float32)
    initializer(generator_for(0, "w"), values)
    assert np.abs(values).max() <= bound
    assert np.abs(values).max() > 0.99 * bound
    assert abs(values.mean()) < 0.1 * bound


def test_constants() -> None:
    generator, values = generator_for(0, "b"), np.empty(3)
    zeros(generator, values)
    np.testing.assert_array_equal(values, np.zeros(3))
    ones(generator, values)
    np.testing.assert_array_equal(values, np.ones(3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_chunks_are_the_numbers_of_one_draw(dtype: type[np.floating]) -> None:
    values = np.empty((300, 500), dtype)
    he_uniform(generator_for(3, "w"), values)
    bound = math.sqrt(6 / 300)
    whole = generator_for(3, "w").uniform(-bound, bound, values.shape)
    np.testing.assert_array_equal(values, whole.astype(dtype))
