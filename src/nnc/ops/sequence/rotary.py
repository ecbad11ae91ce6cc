"""Rotary position embedding: pairs of features turn by angles that grow with the position.

    rotary:         (y₁, y₂)[…, i] = (x₁ · cos a - x₂ · sin a, x₁ · sin a + x₂ · cos a),  a = angle[…, i]
    rotary_angles:  angle[…, i] = position[…] · base^(-i / pairs)

Pair i of `pairs` is features (i, i + pairs), or (2i, 2i + 1) when interleaved; features behind the pairs stay. The
inverse turns back. x is [batch, rows, heads, features], angles [rows, pairs] or [batch, rows, pairs].
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import spec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.batching import BatchedCall, batched_rows, batched_within
from nnc.ops.elementwise.pointwise import affine, cast, multiply
from nnc.ops.examples import HEADS, INDICES, Example
from nnc.ops.movement.broadcast import broadcast_to, reduce_sum, reshape
from nnc.ops.movement.movement import slice_axis
from nnc.ops.operand import Operand, T, apply
from nnc.ops.precision import Precision, Runs
from nnc.ops.rules import (
    FLOATS,
    NUMBERS,
    Applied,
    Gradients,
    Inplace,
    NotDifferentiable,
    Pattern,
    Specs,
    check_kinds,
    operator,
    single,
)

__all__ = ["rotary_angles", "rotary_embedding"]


@dataclass(frozen=True, slots=True)
class RotaryAttrs:
    """How features are paired, and the sense of the turn."""

    interleaved: bool = False
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class RotaryAnglesAttrs:
    """Number of pairs, the base of their frequencies, the element type of the angles."""

    pairs: int
    base: float = 10000.0
    dtype: DType = F32


def _infer(attrs: RotaryAttrs, specs: Specs) -> Specs:
    x, angles = specs
    check_kinds(FLOATS, x, angles)
    if x.rank != 4 or angles.rank not in (2, 3):
        need = "x[batch, rows, heads, features], angles[rows, pairs] or [batch, rows, pairs]"
        raise ShapeError("rotary", got=f"x={x}, angles={angles}", need=need)
    if angles.shape[:-1] != x.shape[3 - angles.rank : 2] or 2 * angles.shape[-1] > x.shape[-1]:
        need = f"angles of {list(x.shape[3 - angles.rank : 2])} and at most {x.shape[-1] // 2} pairs"
        raise ShapeError("rotary", got=f"x={x}, angles={angles}", need=need)
    return (x,)


def _infer_angles(attrs: RotaryAnglesAttrs, specs: Specs) -> Specs:
    (positions,) = specs
    check_kinds(NUMBERS, positions)
    if attrs.pairs < 1 or not attrs.dtype.is_float or not 0.0 < attrs.base < math.inf:
        got = f"{attrs.pairs} pairs, base {attrs.base}, {attrs.dtype}"
        raise AttributeValueError("rotary_angles", got=got, need="at least one pair, a base > 0, a float type")
    return (replace(positions, shape=(*positions.shape, attrs.pairs), dtype=attrs.dtype),)


def _by_angles(attrs: RotaryAttrs, g: Operand, x: Operand, angles: Operand) -> Operand:
    """A quarter turn further on is the derivative: angle' = ± sum over pair and heads of g · rotary(x, angle ± π/2)."""
    sense = -1.0 if attrs.inverse else 1.0
    turned = apply(ROTARY, attrs, x, affine(angles, 1.0, sense * math.pi / 2))
    pairs = angles.shape[-1]
    product = slice_axis(multiply(g, turned), 3, 0, 2 * pairs)
    split = (pairs, 2) if attrs.interleaved else (2, pairs)
    both = reduce_sum(reshape(product, (*product.shape[:3], *split)), 4 if attrs.interleaved else 3)
    total = reduce_sum(both, (2,) if angles.spec.rank == 3 else (0, 2))
    return cast(affine(total, sense), angles.spec.dtype)


def _gradient(call: Applied[RotaryAttrs], gradients: Gradients) -> Gradients:
    """A turn's transpose is the turn back."""
    g = single(gradients)
    x, angles = call.inputs
    back = replace(call.attrs, inverse=not call.attrs.inverse)
    by_x = apply(ROTARY, back, g, angles) if call.needed[0] else None
    return (by_x, _by_angles(call.attrs, g, x, angles) if call.needed[1] else None)


def _batched(call: BatchedCall[RotaryAttrs]) -> tuple[Operand, ...]:
    """A longer batch; angles that are the same for all of it stay so, unless each example has its own."""
    angles, batch = call.spec(1), call.spec(0).shape[0]
    if angles.rank == 3 or not call.batched[1]:
        return batched_within(*(() if angles.rank == 3 else (1,)))(call)
    return call.composed(lambda inputs: call.again([inputs[0], broadcast_to(inputs[1], (batch, *angles.shape))]))


ROTARY = operator(
    "rotary",
    RotaryAttrs,
    ("x", "angles"),
    infer=_infer,
    gradient=_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    precision=Precision(Runs.FOLLOW, (1,)),
    batched=_batched,
    example=Example(RotaryAttrs(), (HEADS, spec((4, 2)))),
    doc="(y₁, y₂) = (x₁ · cos a - x₂ · sin a, x₁ · sin a + x₂ · cos a) for each pair of features",
)
ROTARY_ANGLES = operator(
    "rotary_angles",
    RotaryAnglesAttrs,
    ("positions",),
    infer=_infer_angles,
    gradient=NotDifferentiable("positions are counted, not learned; learn the angles instead"),
    pattern=Pattern.INJECTIVE,
    batched=batched_rows,
    example=Example(RotaryAnglesAttrs(4, 100.0, F32), (INDICES,)),
    doc="y[…, i] = position[…] · base^(-i / pairs)",
)


def rotary_embedding(x: T, angles: T, *, interleaved: bool = False) -> T:
    """x[batch, rows, heads, features] with its pairs of features turned by the angles (Su et al. 2021)."""
    return apply(ROTARY, RotaryAttrs(interleaved), x, angles)


def rotary_angles(positions: T, pairs: int, *, base: float = 10000.0, dtype: DType = F32) -> T:
    """The usual angles of positions[…]: […, pairs], from 1 down to about 1 / base radians per step."""
    return apply(ROTARY_ANGLES, RotaryAnglesAttrs(pairs, base, dtype), positions)
