from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import check, random

from nnc.codegen.ir.builder import F32
from nnc.codegen.kernels.convolutions.pooling import Pooling


def two_by_two(kind: str, channels: int) -> Pooling:
    return Pooling(kind, F32, 3, channels, (6, 8), (3, 4), (2, 2), (2, 2), (0, 0), (1, 1))


@pytest.mark.parametrize("channels", [1, 16, 19])
def test_windows_side_by_side(channels: int) -> None:
    x = random((3, 6, 8, channels))
    x[0, 0, 0] = x[0, 1, 1]  # a tie: the first position takes the gradient
    blocks = x.reshape(3, 3, 2, 4, 2, channels).transpose(0, 1, 3, 2, 4, 5).reshape(3, 3, 4, 4, channels)
    y, g = blocks.max(3), random((3, 3, 4, channels), seed=1)
    chosen = np.eye(4, dtype=np.float32)[blocks.argmax(3)].transpose(0, 1, 2, 4, 3)

    def spread(values: np.ndarray) -> np.ndarray:
        split = values.reshape(3, 3, 4, 2, 2, channels).transpose(0, 1, 3, 2, 4, 5)
        return np.ascontiguousarray(split.reshape(3, 6, 8, channels))

    check(two_by_two("max_pool", channels), [x], [y])
    check(two_by_two("max_pool_gradient", channels), [g, x, y], [spread(chosen * g[:, :, :, None])])
    check(two_by_two("max_pool_gather", channels), [x, x, y], [y])
    check(two_by_two("average_pool", channels), [x], [blocks.mean(3)])
    shares = np.repeat(g[:, :, :, None] / 4, 4, axis=3)
    check(two_by_two("average_pool_gradient", channels), [g], [spread(shares)])


@pytest.mark.parametrize("count_border", [False, True])
def test_overlapping_windows_with_a_border(count_border: bool) -> None:
    x = random((2, 5, 3))
    pool = Pooling("average_pool", F32, 2, 3, (5,), (5,), (3,), (1,), (1,), (1,), count_border)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (0, 0)))
    total = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    count = np.array([3] * 5 if count_border else [2, 3, 3, 3, 2])[None, :, None]
    check(pool, [x], [(total / count).astype(np.float32)])


def test_nan_wins() -> None:
    x = random((1, 4, 1))
    x[0, 1] = np.nan
    want = np.array([[[np.nan], [x[0, 2:].max()]]], np.float32)
    check(Pooling("max_pool", F32, 1, 1, (4,), (2,), (2,), (2,), (0,), (1,)), [x], [want])
