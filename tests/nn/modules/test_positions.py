"""Turned queries and waves of sines, beside the formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, ShapeError

X = np.random.default_rng(3).standard_normal((2, 3, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("offset", [0, 7])
def test_pairs_are_turned_by_their_steps(traditional: bool, offset: int) -> None:
    angles = 0.5 * (np.arange(5)[:, None] + offset) * 100.0 ** (-np.arange(2) / 2)
    first, second = (X[..., 0:4:2], X[..., 1:4:2]) if traditional else (X[..., :2], X[..., 2:4])
    turned = first * np.cos(angles) - second * np.sin(angles), first * np.sin(angles) + second * np.cos(angles)
    both = np.stack(turned, -1).reshape(2, 3, 5, 4) if traditional else np.concatenate(turned, -1)
    rope = nn.RoPE(4, traditional, base=100, scale=0.5)
    expected = np.concatenate([both, X[..., 4:]], -1)
    np.testing.assert_allclose(rope(nnc.tensor(X), offset=offset).numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(nnc.compile(lambda x: rope(x, offset))(X).numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(rope(nnc.tensor(X[0, 0]), offset).numpy(), expected[0, 0], atol=1e-5)


@pytest.mark.parametrize("cos_first", [False, True])
def test_waves_of_positions(cos_first: bool) -> None:
    encoding = nn.SinusoidalPositionalEncoding(8, scale=2.0, cos_first=cos_first, full_turns=True)
    turned = np.arange(5)[:, None] * 1e-4 ** (np.arange(4) / 3) * 2 * np.pi
    parts = [np.sin(turned), np.cos(turned)][:: -1 if cos_first else 1]
    np.testing.assert_allclose(encoding(nnc.arange(5)).numpy(), 2 * np.concatenate(parts, -1), atol=1e-4)
    assert nn.SinusoidalPositionalEncoding(8).scale == 0.5
    assert np.isinf(nn.SinusoidalPositionalEncoding(4, max_freq=1e308, full_turns=True).frequencies[0])


def test_sizes_that_do_not_fit_are_refused() -> None:
    for made in (nn.RoPE, nn.SinusoidalPositionalEncoding):
        with pytest.raises(ArgumentError, match="an even number"):
            made(3)
    with pytest.raises(ShapeError, match="8 features or more"):
        nn.RoPE(8)(nnc.ones((2, 6)))
    assert repr(nn.RoPE(4)) == "RoPE(4, traditional=False)"
    assert repr(nn.SinusoidalPositionalEncoding(4)) == "SinusoidalPositionalEncoding(4)"
