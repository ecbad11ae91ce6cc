"""Random numbers: what they depend on, that they are Philox's, and that they are distributed as they should be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.ops.eager import Array, Eager

from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16, F32, F64, I64, DType
from nnc.core.values.spec import TensorSpec, spec
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.random.random import DROPOUT, DropoutAttrs, dropout, random_normal, random_uniform

MANY = 200_000


def counter(value: int) -> Eager:
    return Eager(np.array(value, np.int64))


def uniform(value: int, of: TensorSpec, seed: int = 0) -> Array:
    return random_uniform(counter(value), of, seed=seed).array


def philox(key: int, high: int, low: int) -> list[int]:
    """The four words of Philox4x64-10 for the key (key, 0) and the counter (low, 0, high, 0), in Python's integers."""
    mask = (1 << 64) - 1
    words, keys = [low, 0, high, 0], [key, 0]
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * words[0], 0xCA5A826395121157 * words[2]
        words = [(right >> 64) ^ words[1] ^ keys[0], right & mask, (left >> 64) ^ words[3] ^ keys[1], left & mask]
        keys = [(keys[0] + 0x9E3779B97F4A7C15) & mask, (keys[1] + 0xBB67AE8584CAA73B) & mask]
    return words


@pytest.mark.parametrize(("seed", "count"), [(0, 0), (7, 3), (2**64 - 1, 2**62)])
def test_the_numbers_are_those_of_the_definition(seed: int, count: int) -> None:
    words = [word for block in (1, 2, 3) for word in philox(seed, count, block)]
    wanted = [(word >> 11) * 2.0**-53 for word in words]
    np.testing.assert_array_equal(uniform(count, spec((3, 4), F64), seed), np.reshape(wanted, (3, 4)))


def test_a_normal_pair_is_box_and_mullers() -> None:
    u = uniform(5, spec((6,), F64), 1)
    y = random_normal(counter(5), spec((5,), F64), 2.0, 3.0, seed=1).array
    for k in range(5):
        radius, angle = math.sqrt(-2 * math.log(1 - u[k - k % 2])), 2 * math.pi * u[k - k % 2 + 1]
        assert y[k] == pytest.approx(2 + 3 * radius * (math.sin(angle) if k % 2 else math.cos(angle)), rel=1e-12)


def test_numbers_depend_on_seed_and_counter_alone() -> None:
    of = spec((64,))
    first = [uniform(count, of) for count in range(4)]
    again = [uniform(count, of) for count in (3, 1, 0, 2)]
    for place, count in enumerate((3, 1, 0, 2)):
        np.testing.assert_array_equal(again[place], first[count])
    drawn = [*first, uniform(0, of, seed=1), uniform(-1, of)]
    for place, one in enumerate(drawn):
        for other in drawn[:place]:
            assert not np.any(one == other)


def test_a_longer_tensor_begins_with_the_shorter_one() -> None:
    np.testing.assert_array_equal(uniform(9, spec((3, 5))).reshape(-1), uniform(9, spec((40,)))[:15])


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16], ids=str)
def test_a_uniform_tensor_fills_its_range(dtype: DType) -> None:
    y = random_uniform(counter(1), spec((MANY,), dtype), -1.0, 3.0).array.astype(np.float64)
    assert y.min() >= -1
    assert y.max() < 3
    assert abs(y.mean() - 1) < 0.02
    assert abs(y.var() - 16 / 12) < 0.02
    counts, _ = np.histogram(y, 16, (-1, 3))
    slack = 6 * math.sqrt(MANY / 16) if dtype in (F64, F32) else 0.1 * MANY / 16
    assert np.all(abs(counts - MANY / 16) < slack)


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_rounding_never_reaches_the_upper_bound(dtype: DType) -> None:
    # Most draws round up to 1 here, when only rounding decides.
    y = random_uniform(counter(1), spec((1000,), dtype), 1 - 2.0**-30, 1.0).array
    assert float(y.max()) < 1


def test_a_normal_tensor_has_its_moments() -> None:
    y = random_normal(counter(3), spec((MANY,), F64), 0.5, 2.0).array
    z = (y - 0.5) / 2
    for power, wanted in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert abs((z**power).mean() - wanted) < 0.06
    for bound, share in ((1, 0.682689), (2, 0.954500), (3, 0.997300)):
        assert abs((abs(z) < bound).mean() - share) < 0.005
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 0.02
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) < 0.02


def test_counters_and_seeds_draw_independent_numbers() -> None:
    of = spec((20_000,), F64)
    drawn = np.stack([uniform(0, of), uniform(1, of), uniform(2, of), uniform(0, of, 1), uniform(0, of, 2)])
    assert np.all(abs(np.corrcoef(drawn) - np.eye(len(drawn))) < 0.05)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(rate: float) -> None:
    x = Eager(np.full(MANY, 2.0, np.float32))
    y, mask = x.apply(Command(DROPOUT, DropoutAttrs(rate)), (x, counter(1)))
    np.testing.assert_array_equal(y.array, np.where(mask.array, np.float32(2 / (1 - rate)), 0))
    assert abs(mask.array.mean() - (1 - rate)) < 0.005
    assert abs(y.array.mean() - 2) < 0.05


def test_dropped_infinities_and_nan_are_gone() -> None:
    y = dropout(Eager(np.full(64, np.inf)), counter(0), 0.5).array
    assert set(y.tolist()) == {0.0, np.inf}


def test_dropout_of_the_entirety() -> None:
    x = Eager(np.ones((4, 5)))
    results = [dropout(x, counter(count), 0.5, entirety=True).array for count in range(64)]
    assert all(len(np.unique(y)) == 1 for y in results)
    assert 16 < sum(y[0, 0] == 2 for y in results) < 48


def test_misuse_is_refused() -> None:
    x = Eager(np.ones(3))
    with pytest.raises(AttributeValueError, match="dropout: got rate=1"):
        dropout(x, counter(0), 1.0)
    with pytest.raises(AttributeValueError, match="random_uniform: .* need low < high"):
        random_uniform(counter(0), spec((3,)), 1.0, 1.0)
    with pytest.raises(AttributeValueError, match="random_normal: .* deviation ≥ 0"):
        random_normal(counter(0), spec((3,)), 0.0, -1.0)
    with pytest.raises(AttributeValueError, match="need 0 ≤ seed < 2\\^64"):
        random_normal(counter(0), spec((3,)), seed=-1)
    with pytest.raises(DTypeError, match="random_uniform: "):
        random_uniform(counter(0), spec((3,), I64))
    with pytest.raises(ShapeError, match="dropout: got counter f64"):
        dropout(x, x, 0.5)
