"""Fourier transforms under the names of `numpy.fft`, `jax.numpy.fft`, `mlx.core.fft` and `torch.fft`.

Real arrays are taken as complex ones where need be. Gradients flow through all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc import ops
from nnc.array_api import fft as standard
from nnc.core.values.dtype import C64, C128, F64
from nnc.dynamic.arrays.promotion import continuous
from nnc.numerics.conversion import AnyArray, Array, as_array
from nnc.ops.number import integers_of

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Axes = Sequence[int] | None
PLANE = (-2, -1)


def _complex(x: AnyArray) -> Array:
    array = continuous(as_array(x))
    return array if array.dtype.kind == "complex" else ops.cast(array, C128 if array.dtype is F64 else C64)


def _real(x: AnyArray) -> Array:
    return continuous(as_array(x))


def fft(x: AnyArray, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """sum_n x[n] · e^(-2πi · k · n / N) along the axis.

    >>> nnc.fft.fft([1.0, 0.0]).real
    Variable(f32[2], constant)
    [1. 1.]
    """
    return standard.fft(_complex(x), n=n, axis=axis, norm=norm or "backward")


def ifft(x: AnyArray, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """What `fft` makes into x.

    >>> nnc.fft.ifft([1.0, 1.0]).real
    Variable(f32[2], constant)
    [1. 0.]
    """
    return standard.ifft(_complex(x), n=n, axis=axis, norm=norm or "backward")


def fftn(x: AnyArray, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Array:
    """`fft` along several axes, all when None."""
    return standard.fftn(_complex(x), s=s, axes=axes, norm=norm or "backward")


def ifftn(x: AnyArray, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Array:
    """What `fftn` makes into x."""
    return standard.ifftn(_complex(x), s=s, axes=axes, norm=norm or "backward")


def fft2(x: AnyArray, s: Sequence[int] | None = None, axes: Sequence[int] = PLANE, norm: str | None = None) -> Array:
    """`fft` along the last two axes.

    >>> nnc.fft.fft2(nnc.ones((4, 4))).shape
    (4, 4)
    """
    return fftn(x, s, axes, norm)


def ifft2(x: AnyArray, s: Sequence[int] | None = None, axes: Sequence[int] = PLANE, norm: str | None = None) -> Array:
    """What `fft2` makes into x."""
    return ifftn(x, s, axes, norm)


def rfft(x: AnyArray, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first half of `fft` of real numbers.

    >>> nnc.fft.rfft(nnc.ones(8)).shape
    (5,)
    """
    return standard.rfft(_real(x), n=n, axis=axis, norm=norm or "backward")


def irfft(x: AnyArray, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """What `rfft` makes into x.

    >>> nnc.fft.irfft(nnc.fft.rfft([1.0, 2.0, 3.0, 4.0]))
    Variable(f32[4], constant)
    [1. 2. 3. 4.]
    """
    return standard.irfft(_real(x), n=n, axis=axis, norm=norm or "backward")


def rfftn(x: AnyArray, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Array:
    """`rfft` along the last of several axes, `fft` along the others."""
    return standard.rfftn(_real(x), s=s, axes=axes, norm=norm or "backward")


def irfftn(x: AnyArray, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Array:
    """What `rfftn` makes into x."""
    return standard.irfftn(_real(x), s=s, axes=axes, norm=norm or "backward")


def rfft2(x: AnyArray, s: Sequence[int] | None = None, axes: Sequence[int] = PLANE, norm: str | None = None) -> Array:
    """`rfftn` along the last two axes."""
    return rfftn(x, s, axes, norm)


def irfft2(x: AnyArray, s: Sequence[int] | None = None, axes: Sequence[int] = PLANE, norm: str | None = None) -> Array:
    """What `rfft2` makes into x."""
    return irfftn(x, s, axes, norm)


def hfft(x: AnyArray, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """`fft` of a signal that is symmetric: real numbers."""
    return standard.hfft(_complex(x), n=n, axis=axis, norm=norm or "backward")


def ihfft(x: AnyArray, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """What `hfft` makes into x."""
    return standard.ihfft(_real(x), n=n, axis=axis, norm=norm or "backward")


def fftfreq(n: int, d: float = 1.0) -> Array:
    """The frequencies of `fft`, of samples at distance d.

    >>> nnc.fft.fftfreq(4)
    Variable(f32[4], constant)
    [ 0.    0.25 -0.5  -0.25]
    """
    return standard.fftfreq(n, d=d)


def rfftfreq(n: int, d: float = 1.0) -> Array:
    """The frequencies of `rfft`, of samples at distance d."""
    return standard.rfftfreq(n, d=d)


def fftshift(x: AnyArray, axes: int | Sequence[int] | None = None) -> Array:
    """The frequency 0 in the middle of the axes.

    >>> nnc.fft.fftshift([0, 1, 2, 3])
    Variable(i64[4], constant)
    [2 3 0 1]
    """
    return standard.fftshift(as_array(x), axes=axes if axes is None else integers_of(axes))


def ifftshift(x: AnyArray, axes: int | Sequence[int] | None = None) -> Array:
    """What `fftshift` makes into x."""
    return standard.ifftshift(as_array(x), axes=axes if axes is None else integers_of(axes))
