"""The discrete Fourier transform along an axis of complex numbers, and the transforms made of it.

    fft:   y[k] = sum_n x[n] · e^(-2πi · k · n / N); the inverse has e^(+…) and is not divided by N

Its matrix is symmetric, so the gradient of a transform is the same transform of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import C64, C128, F64
from nnc.core.values.spec import OptionalSpecs, TensorSpec, spec
from nnc.errors import AttributeValueError, DTypeError
from nnc.ops.batching import batched_behind
from nnc.ops.convolutions.resize import flip, pad
from nnc.ops.elementwise.complex_numbers import conjugate
from nnc.ops.elementwise.pointwise import affine, cast, real
from nnc.ops.examples import Example
from nnc.ops.movement.broadcast import normalize_axes
from nnc.ops.movement.movement import concatenate, slice_axis
from nnc.ops.operand import T, apply_command
from nnc.ops.rules import Applied, Gradients, Specs, check_kinds, operator, single
from nnc.ops.work import present

__all__ = ["fft", "ifft", "irfft", "rfft"]

# What a transform and its inverse are multiplied by: N to the power of these.
NORMS = {"backward": (0.0, -1.0), "ortho": (-0.5, -0.5), "forward": (-1.0, 0.0)}


@dataclass(frozen=True, slots=True)
class FourierAttrs:
    """The axis, and the sign of the exponent."""

    axis: int
    inverse: bool = False


def _infer(attrs: FourierAttrs, specs: Specs) -> Specs:
    (x,) = specs
    check_kinds(("complex",), x)
    if not 0 <= attrs.axis < x.rank or not x.shape[attrs.axis]:
        raise AttributeValueError("fft", got=f"axis {attrs.axis} of {x}", need="an axis with elements")
    return specs


def _gradient(call: Applied[FourierAttrs], gradients: Gradients) -> Gradients:
    return (apply_command(Command(FFT, call.attrs), single(gradients)),)


def _work(attrs: FourierAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """5 · N · log₂ N of each row."""
    x = present(inputs[0])
    return 5 * x.elements * max(x.shape[attrs.axis].bit_length() - 1, 1)


FFT = operator(
    "fft",
    FourierAttrs,
    ("x",),
    infer=_infer,
    gradient=_gradient,
    work=_work,
    batched=batched_behind(lambda attrs: replace(attrs, axis=attrs.axis + 1)),
    example=Example(FourierAttrs(1), (spec((4, 4), C64),)),
    doc="y[k] = sum_n x[n] · e^(∓2πi · k · n / N)",
)


def fft(x: T, n: int | None = None, axis: int = -1, norm: str = "backward") -> T:
    """The transform of `n` elements along `axis`: cut off, or with zeros behind them; of real numbers too."""
    return _transform(x, n, axis, norm, inverse=False)


def ifft(x: T, n: int | None = None, axis: int = -1, norm: str = "backward") -> T:
    """What `fft` makes into x."""
    return _transform(x, n, axis, norm, inverse=True)


def rfft(x: T, n: int | None = None, axis: int = -1, norm: str = "backward") -> T:
    """The first n // 2 + 1 of the transform of real numbers: the others are their conjugates."""
    if not x.spec.dtype.is_float:
        raise DTypeError("rfft", got=str(x.spec), need="real numbers", fix="fft() takes complex ones")
    y = fft(x, n, axis, norm)
    along = axis % x.spec.rank
    return slice_axis(y, along, 0, y.shape[along] // 2 + 1)


def irfft(x: T, n: int | None = None, axis: int = -1, norm: str = "backward") -> T:
    """What `rfft` makes into x: n real numbers, 2 · (size - 1) of them when None."""
    (along,) = normalize_axes("irfft", axis, x.spec.rank)
    size = 2 * (x.shape[along] - 1) if n is None else n
    if size < 1:
        raise AttributeValueError("irfft", got=f"n={size}", need="1 or more")
    half = _sized(_complex(x), size // 2 + 1, along)
    mirrored = slice_axis(half, along, 1, (size + 1) // 2)
    return real(ifft(concatenate((half, conjugate(flip(mirrored, along))), along), None, along, norm))


def _transform(x: T, n: int | None, axis: int, norm: str, *, inverse: bool) -> T:
    if norm not in NORMS:
        raise AttributeValueError("fft", got=f"norm={norm!r}", need=" or ".join(NORMS))
    (along,) = normalize_axes("fft", axis, x.spec.rank)
    given = _complex(x) if n is None else _sized(_complex(x), n, along)
    y = apply_command(Command(FFT, FourierAttrs(along, inverse)), given)
    exponent = NORMS[norm][inverse]
    return affine(y, math.pow(y.shape[along], exponent)) if exponent else y


def _complex(x: T) -> T:
    if x.spec.dtype.kind == "complex":
        return x
    return cast(x, C128 if x.spec.dtype is F64 else C64)


def _sized(x: T, count: int, axis: int) -> T:
    """The first `count` elements along the axis, zeros behind the last."""
    if count < 1:
        raise AttributeValueError("fft", got=f"n={count}", need="1 or more")
    missing = count - x.shape[axis]
    if missing <= 0:
        return slice_axis(x, axis, 0, count)
    behind = tuple(missing if place == axis else 0 for place in range(x.spec.rank))
    return pad(x, (0,) * x.spec.rank, behind)
