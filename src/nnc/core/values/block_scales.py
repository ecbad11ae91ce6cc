"""Scales of blocks by weighted least squares, over a handful of starting points, as llama.cpp's quantizers search.

    signed_scales:     x[b, i] ≈ scale[b] · q[b, i],            q in -limit … limit - 1
    scales_and_minima: x[b, i] ≈ scale[b] · q[b, i] - minimum[b], q in 0 … limit, minimum ≥ 0

Each starting scale rounds x to integers; for these the best scale (and minimum) follow from sums, and the start whose
error sum_i w · (x - …)² is least wins. `w` are weights per element.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Less than this is a block of zeros.
_LEAST = np.float32(1e-15)
_STEPS = range(-9, 10)


def inverse(x: Floats) -> Floats:
    """1 / x, 0 where x is 0."""
    return np.divide(1, x, out=np.zeros_like(x), where=x != 0)


def quotient(x: Floats, y: Floats | np.float32) -> Floats:
    """x / y, 0 where y is 0."""
    x, y = np.broadcast_arrays(x, y)
    return np.divide(x, y, out=np.zeros(x.shape, np.float32), where=y != 0)


def extreme(x: Floats) -> Floats:
    """The element of each block that is largest in magnitude, with its sign, as [b, 1]."""
    return np.take_along_axis(x, np.abs(x).argmax(-1, keepdims=True), -1)


def signed_scales(x: Floats, weights: Floats, limit: int) -> Floats:
    """scale[b, 1]: for each start -(limit + step / 10) / extreme the best scale is sum w·x·q / sum w·q²."""
    most = extreme(x)
    start = inverse(np.where(np.abs(most) < _LEAST, np.float32(0), most))
    best, gain = np.zeros_like(most), np.zeros_like(most)
    for step in sorted(_STEPS, key=bool):
        q = np.clip(np.rint(-np.float32(limit + 0.1 * step) * start * x), -limit, limit - 1)
        both = (weights * x * q).sum(-1, keepdims=True)
        scale = quotient(both, (weights * q * q).sum(-1, keepdims=True))
        better = scale * both > gain
        best, gain = np.where(better, scale, best), np.where(better, scale * both, gain)
    return best


def scales_and_minima(x: Floats, weights: Floats, limit: int, first: float, steps: int) -> tuple[Floats, Floats]:
    """(scale, minimum)[b, 1]; starts are (limit + first + step / 10) / (max - min)."""
    low, high = np.minimum(x.min(-1, keepdims=True), 0), x.max(-1, keepdims=True)
    start = inverse(high - low)
    best, least = quotient(high - low, np.float32(limit)), low
    whole = weights.sum(-1, keepdims=True)
    mean = (weights * x).sum(-1, keepdims=True)
    error = _error(x, weights, best, least, _rounded(x, limit * start, low, limit))
    for step in range(steps + 1):
        q = _rounded(x, np.float32(limit + first + 0.1 * step) * start, low, limit)
        scale, minimum = _fitted(x, weights, q, whole, mean)
        now = _error(x, weights, scale, minimum, q)
        better = (now < error) & (scale > 0)
        best, least = np.where(better, scale, best), np.where(better, minimum, least)
        error = np.where(better, now, error)
    return best, -least


def _rounded(x: Floats, start: Floats, low: Floats, limit: int) -> Floats:
    return np.clip(np.rint(start * (x - low)), 0, limit)


def _error(x: Floats, weights: Floats, scale: Floats, minimum: Floats, q: Floats) -> Floats:
    error: Floats = (weights * np.square(scale * q + minimum - x)).sum(-1, keepdims=True)
    return error


def _fitted(x: Floats, weights: Floats, q: Floats, whole: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """The scale and the minimum, at most 0, of least error for the integers q."""
    ones = (weights * q).sum(-1, keepdims=True)
    squares = (weights * q * q).sum(-1, keepdims=True)
    both = (weights * q * x).sum(-1, keepdims=True)
    determinant = np.maximum(whole * squares - ones * ones, 0)
    scale = quotient(whole * both - mean * ones, determinant)
    minimum = quotient(squares * mean - ones * both, determinant)
    above = minimum > 0
    return np.where(above, quotient(both, squares), scale), np.where(above, np.float32(0), minimum)
