"""Complex numbers: parts, conjugates, magnitudes. (`real` is in `pointwise.py`, beside the cast that undoes it.)

The gradient of a real result by z = x + iy is ∂/∂x - i · ∂/∂y, as JAX has it: for holomorphic functions it is
g · f'(z), by the same rules as of real numbers, and a step against its conjugate descends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnc.core.values.dtype import C64, C128, F32, F64
from nnc.core.values.spec import broadcast_shapes, spec
from nnc.errors import DTypeError
from nnc.ops.elementwise.pointwise import affine, cast, divide, equal, multiply, real, where
from nnc.ops.elementwise.rows import FORWARD, part, same
from nnc.ops.examples import MATRIX, Example
from nnc.ops.function import BinaryOperator, ComplexOperator
from nnc.ops.movement.broadcast import sum_to
from nnc.ops.movement.fill import scalar_like
from nnc.ops.operand import Operand
from nnc.ops.rules import Applied, Gradients, NoAttrs, Pattern, Specs, describe, single

__all__ = ["complex_of", "conjugate", "imaginary", "magnitude"]


def _infer_complex(attrs: NoAttrs, specs: Specs) -> Specs:
    a, b = specs
    if a.dtype not in (F64, F32) or a.dtype is not b.dtype:
        raise DTypeError("complex", got=f"{a}, {b}", need="f32 or f64, both", fix="cast() them first")
    shape = broadcast_shapes("complex", a.shape, b.shape)
    return (replace(a, shape=shape, dtype=C128 if a.dtype is F64 else C64),)


def _complex_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    a, b = call.inputs
    return (sum_to(real(g), a.shape), sum_to(affine(imaginary(g), -1.0), b.shape))


def _conjugate_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    return (conjugate(single(gradients)),)


def _magnitude_slope(g: Operand, z: Operand, y: Operand) -> Operand:
    """g · conj(z) / |z|, and 0 at 0."""
    safe = where(equal(y, scalar_like(y, 0.0)), scalar_like(y, 1.0), y)
    return multiply(cast(divide(g, safe), z.spec.dtype), conjugate(z))


complex_of = BinaryOperator("complex", ("a", "b"), "y = a + i · b")
describe(
    complex_of,
    infer=_infer_complex,
    gradient=_complex_gradient,
    pattern=Pattern.BROADCAST,
    example=Example(NoAttrs(), (MATRIX, MATRIX), fixed=(0, 1)),
)
conjugate = ComplexOperator("conjugate", "y = conjugate of z", keeps_reals=True)
describe(
    conjugate,
    infer=same(("complex",)),
    gradient=_conjugate_gradient,
    pattern=Pattern.ELEMENTWISE,
    example=Example(NoAttrs(), (spec((4, 4), C64),)),
)
FORWARD.set(conjugate, np.conjugate)
imaginary = part(
    "imaginary", "y = imaginary part of z", np.imag, lambda g, z, y: complex_of(scalar_like(g, 0.0), affine(g, -1.0))
)
magnitude = part("magnitude", "y = |z|; its derivative at 0 is 0", np.abs, _magnitude_slope)

_NONE = NoAttrs()
