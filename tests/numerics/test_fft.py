"""Fourier transforms, against NumPy's."""

from __future__ import annotations

import numpy as np
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

X = np.random.default_rng(9).standard_normal((2, 4, 6))
CALLS: list[Call] = [
    lambda xp, x: xp.fft.fft(x),
    lambda xp, x: xp.fft.ifft(x, axis=1),
    lambda xp, x: xp.fft.fft(x, n=5, norm="ortho"),
    lambda xp, x: xp.fft.rfft(x),
    lambda xp, x: xp.fft.irfft(x, n=7),
    lambda xp, x: xp.fft.fft2(x),
    lambda xp, x: xp.fft.ifft2(x),
    lambda xp, x: xp.fft.fftn(x),
    lambda xp, x: xp.fft.ifftn(x, axes=(0, 1)),
    lambda xp, x: xp.fft.rfft2(x),
    lambda xp, x: xp.fft.irfft2(x),
    lambda xp, x: xp.fft.rfftn(x),
    lambda xp, x: xp.fft.irfftn(x, axes=(1, 2)),
    lambda xp, x: xp.fft.hfft(x),
    lambda xp, x: xp.fft.ihfft(x),
    lambda xp, x: xp.fft.fftshift(x),
    lambda xp, x: xp.fft.ifftshift(x, axes=[1]),
    lambda xp, x: xp.fft.fftfreq(6, d=0.5),
    lambda xp, x: xp.fft.rfftfreq(6),
]


def test_values() -> None:
    agree(CALLS, X)
    agree([call for place, call in enumerate(CALLS) if place not in (3, 9, 11, 14)], X + 1j * X[::-1])
    agree([CALLS[place] for place in (0, 2, 3, 4)], np.arange(8))


def test_compiled() -> None:
    agree_compiled(CALLS, X)


def test_gradients() -> None:
    slopes_agree([lambda xp, x: xp.abs(xp.fft.fft2(x)) ** 2, lambda xp, x: xp.fft.irfft(xp.fft.rfft(x) * 2j)], X)
