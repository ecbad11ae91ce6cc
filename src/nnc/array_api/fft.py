"""Fourier transforms: the standard's extension `fft`. Gradients flow through all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from nnc import ops
from nnc.arguments import shown
from nnc.array_api.creation import chosen_device
from nnc.array_api.data_types import check_real, numpy_work
from nnc.array_api.elementwise import checked_array
from nnc.array_api.manipulation import place_of
from nnc.core.values.device import Device
from nnc.core.values.dtype import F32, DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import tensor
from nnc.errors import ArgumentError, ArityError, AttributeValueError, DTypeError
from nnc.ops.movement.broadcast import normalize_axes
from nnc.ops.rules import CONTINUOUS, FLOATS

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

Array = ArrayOperand
Axes = Sequence[int] | None
# What goes one way by a norm goes back by the other.
TURNED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """sum_n x[n] · e^(-2πi · k · n / N) along the axis."""
    return ops.fft(checked_array("fft", x, ("complex",)), n, axis, norm)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """What `fft` makes into x."""
    return ops.ifft(checked_array("ifft", x, ("complex",)), n, axis, norm)


def fftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Array:
    """`fft` along several axes, all when None."""
    return _along(fft, checked_array("fftn", x, ("complex",)), s, axes, norm)


def ifftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Array:
    """What `fftn` makes into x."""
    return _along(ifft, checked_array("ifftn", x, ("complex",)), s, axes, norm)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The first half of `fft` of real numbers."""
    return ops.rfft(checked_array("rfft", x, FLOATS), n, axis, norm)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """What `rfft` makes into x."""
    return ops.irfft(checked_array("irfft", x, CONTINUOUS), n, axis, norm)


def _some_sizes(name: str, x: Array, s: Sequence[int] | None, axes: Axes) -> tuple[list[int], list[int]]:
    sizes, places = _sizes(x, s, axes)
    if not places:
        raise AttributeValueError(name, got=f"no axes of {x.spec}", need="at least one: the last has the half")
    return sizes, places


def rfftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Array:
    """`rfft` along the last of several axes, `fft` along the others."""
    sizes, places = _some_sizes("rfftn", checked_array("rfftn", x, FLOATS), s, axes)
    half = ops.rfft(x, sizes[-1], places[-1], norm)
    return _along(fft, half, sizes[:-1], places[:-1], norm)


def irfftn(x: Array, /, *, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Array:
    """What `rfftn` makes into x."""
    sizes, places = _some_sizes("irfftn", checked_array("irfftn", x, CONTINUOUS), s, axes)
    whole = _along(ops.ifft, x, sizes[:-1], places[:-1], norm)
    return ops.irfft(whole, None if s is None else sizes[-1], places[-1], norm)


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The real transform of numbers whose second half are conjugates of the first."""
    return ops.irfft(ops.conjugate(checked_array("hfft", x, CONTINUOUS)), n, axis, TURNED.get(norm, norm))


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """What `hfft` makes into x."""
    return ops.conjugate(ops.rfft(checked_array("ihfft", x, FLOATS), n, axis, TURNED.get(norm, norm)))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None) -> Array:
    """The frequencies of `fft`."""
    _check_frequencies("fftfreq", n, d)
    with numpy_work("fftfreq"):
        return _frequencies(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None) -> Array:
    """The frequencies of `rfft`."""
    _check_frequencies("rfftfreq", n, d)
    with numpy_work("rfftfreq"):
        return _frequencies(np.fft.rfftfreq(n, d), dtype, device)


def _check_frequencies(name: str, n: int, d: float) -> None:
    check_real(name, d)
    if n < 1 or not 0.0 < abs(d) < math.inf:
        raise AttributeValueError(
            name, got=f"n={shown(n)}, d={shown(d)}", need="a count ≥ 1 and a spacing that is not 0"
        )


def _frequencies(values: np.ndarray, dtype: DType | None, device: Device | None) -> Array:
    chosen = dtype or F32
    if not chosen.is_float:
        raise DTypeError("fftfreq", got=str(chosen), need="a real floating-point type")
    with chosen_device(device):
        return tensor(values.astype(chosen.numpy))


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """The frequency 0 in the middle."""
    return _shifted(x, axes, lambda size: size // 2)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """What `fftshift` makes into x."""
    return _shifted(x, axes, lambda size: -(size // 2))


def _shifted(x: Array, axes: int | Sequence[int] | None, by: Callable[[int], int]) -> Array:
    shifted = checked_array("fftshift", x).twin()
    for axis in normalize_axes("fftshift", axes, x.ndim):
        shifted = ops.roll(shifted, by(x.shape[axis]), axis)
    return shifted


def _sizes(x: Array, s: Sequence[int] | None, axes: Axes) -> tuple[list[int], list[int]]:
    """Sizes and axes of a transform along several: the last ones where sizes alone are given."""
    places = list(range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)) if axes is None else list(axes)
    places = [place_of("fft", place, x.ndim) for place in places]
    if isinstance(cast(object, s), str | bytes):
        raise ArgumentError("fft", got=f"s={shown(s)}", need="a size for each axis")
    if s is not None and len(s) != len(places):
        raise ArityError("fft", got=f"{len(s)} sizes for axes {places}", need="a size for each axis")
    return list(s) if s is not None else [x.shape[place] for place in places], places


def _along(rule: Callable[..., Array], x: Array, s: Sequence[int] | None, axes: Axes, norm: str) -> Array:
    sizes, places = _sizes(x, s, axes)
    for size, place in zip(sizes, places, strict=True):
        x = rule(x, n=size, axis=place, norm=norm)
    return x
