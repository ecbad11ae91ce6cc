"""Windows of signals, as NumPy samples them: y[i] for i of 0 to m - 1, f32[m].

hanning(m), hamming(m), blackman(m), bartlett(m)
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from nnc.array_api.data_types import numpy_work
from nnc.dynamic.eager import tensor
from nnc.numerics.conversion import Array

__all__ = ["bartlett", "blackman", "hamming", "hanning"]


def hanning(m: int) -> Array:
    """The window 0.5 - 0.5 · cos(2π n / (m - 1))."""
    return _window(np.hanning, m)


def hamming(m: int) -> Array:
    """The window 0.54 - 0.46 · cos(2π n / (m - 1))."""
    return _window(np.hamming, m)


def blackman(m: int) -> Array:
    """The window 0.42 - 0.5 · cos(2π n / (m - 1)) + 0.08 · cos(4π n / (m - 1))."""
    return _window(np.blackman, m)


def bartlett(m: int) -> Array:
    """The window that rises and falls in lines."""
    return _window(np.bartlett, m)


def _window(rule: Callable[[int], np.ndarray], m: int) -> Array:
    with numpy_work("window"):
        return tensor(rule(operator.index(m)).astype(np.float32))
