"""Movement of elements: transpose, concatenate, take a region, embed a region in zeros.

transpose:    y[i₀, i₁, …] = x[…] with y's axis k = x's axis permutation[k]
concatenate:  y = x₀, x₁, … one after another along an axis
embed:        y[p] = sum of x[i…] over all i with offset + i · stride … = p, zero where there is none
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.spec import OptionalSpecs, Shape, check_shape, contiguous_strides
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, batched_behind
from nnc.ops.examples import MATRIX, Example
from nnc.ops.movement.copy import contiguous
from nnc.ops.number import LEAST
from nnc.ops.operand import Operand, T, apply
from nnc.ops.permutation import Permutation, Permuted, fits
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import Applied, Gradients, Inplace, Pattern, Specs, operator, single

__all__ = ["concatenate", "slice_axis", "transpose"]


@dataclass(frozen=True, slots=True)
class TransposeAttrs:
    """`permutation[k]` is the input axis that becomes output axis k."""

    permutation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConcatenateAttrs:
    """The axis along which the inputs follow each other."""

    axis: int


@dataclass(frozen=True, slots=True)
class EmbedAttrs:
    """The result's shape and where the input lies in its memory (offset and strides in elements)."""

    shape: Shape
    offset: int
    strides: Shape


def _infer_transpose(attrs: TransposeAttrs, specs: Specs) -> Specs:
    (x,) = specs
    if sorted(attrs.permutation) != list(range(x.rank)):
        raise AttributeValueError(
            "transpose", got=f"{list(attrs.permutation)} for {x}", need=f"a permutation of {x.rank} axes"
        )
    return (replace(x, shape=tuple(x.shape[axis] for axis in attrs.permutation)),)


def _infer_concatenate(attrs: ConcatenateAttrs, specs: Specs) -> Specs:
    first = specs[0]
    axis = attrs.axis
    if not 0 <= axis < first.rank:
        raise AttributeValueError("concatenate", got=f"axis {axis} for {first}", need=f"0 ≤ axis < {first.rank}")
    for other in specs[1:]:
        if other.dtype is not first.dtype:
            raise DTypeError("concatenate", got=f"{first}, {other}", need="one element type")
        rest, other_rest = ((*operand.shape[:axis], *operand.shape[axis + 1 :]) for operand in (first, other))
        if other.rank != first.rank or rest != other_rest:
            raise ShapeError("concatenate", got=f"{first}, {other}", need=f"equal sizes except on axis {axis}")
    total = sum(spec.shape[axis] for spec in specs)
    return (replace(first, shape=(*first.shape[:axis], total, *first.shape[axis + 1 :])),)


def _infer_embed(attrs: EmbedAttrs, specs: Specs) -> Specs:
    (x,) = specs
    shape = check_shape(attrs.shape)
    if len(attrs.strides) != x.rank:
        raise AttributeValueError("embed", got=f"strides {list(attrs.strides)} for {x}", need="one per axis")
    # Of what has no elements, and of axes of one, all others would do.
    if not all(LEAST <= step < -LEAST for step in (attrs.offset, *attrs.strides)):
        raise AttributeValueError("embed", got="a place beyond 2^63", need="an offset and strides of 64 bits")
    reach = [(size - 1) * stride for size, stride in zip(x.shape, attrs.strides, strict=True)]
    first = attrs.offset + sum(step for step in reach if step < 0)
    last = attrs.offset + sum(step for step in reach if step > 0)
    if x.elements and not (first >= 0 and last < math.prod(shape)):
        raise ShapeError("embed", got=f"{x} at elements {first}..{last}", need=f"a place inside {list(shape)}")
    return (replace(x, shape=shape),)


def is_scattered(shape: Shape, strides: Shape) -> bool:
    """True when each stride is longer than all that the shorter ones reach, so that no two elements meet."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _transpose_gradient(call: Applied[TransposeAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    inverse = tuple(call.attrs.permutation.index(axis) for axis in range(len(call.attrs.permutation)))
    return (transpose(g, inverse),)


def _concatenate_gradient(call: Applied[ConcatenateAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    axis, start, parts = call.attrs.axis, 0, []
    for operand in call.inputs:
        stop = start + operand.shape[axis]
        parts.append(slice_axis(g, axis, start, stop))
        start = stop
    return tuple(parts)


def _embed_gradient(call: Applied[EmbedAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    whole = g if g.strides == contiguous_strides(g.shape) else contiguous(g)
    return (whole.alias(call.inputs[0].spec, whole.offset + call.attrs.offset, call.attrs.strides),)


def _permuted_concatenation(attrs: ConcatenateAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    if not fits(specs, p):
        return None
    return Permuted(ConcatenateAttrs(p.index(attrs.axis)), tuple(p for _ in specs), (p,))


def _batched_embed(call: BatchedCall[EmbedAttrs]) -> tuple[Operand, ...]:
    shape, offset, strides = call.attrs.shape, call.attrs.offset, call.attrs.strides
    return call.apply([call.spread(0)], EmbedAttrs((call.size, *shape), offset, (math.prod(shape), *strides)))


TRANSPOSE = operator(
    "transpose",
    TransposeAttrs,
    ("x",),
    infer=_infer_transpose,
    gradient=_transpose_gradient,
    pattern=Pattern.INJECTIVE,
    precision=FOLLOW,
    batched=batched_behind(lambda attrs: TransposeAttrs((0, *(axis + 1 for axis in attrs.permutation)))),
    example=Example(TransposeAttrs((1, 0)), (MATRIX,)),
    doc="y's axis k = x's axis permutation[k]",
)
CONCATENATE = operator(
    "concatenate",
    ConcatenateAttrs,
    ("x",),
    infer=_infer_concatenate,
    gradient=_concatenate_gradient,
    inplace=Inplace(),
    pattern=Pattern.INJECTIVE,
    variadic=True,
    precision=FOLLOW,
    permuted=_permuted_concatenation,
    batched=batched_behind(lambda attrs: ConcatenateAttrs(attrs.axis + 1)),
    example=Example(ConcatenateAttrs(0), (MATRIX, MATRIX)),
    doc="y = x₀, x₁, … one after another along the axis",
)
EMBED = operator(
    "embed",
    EmbedAttrs,
    ("x",),
    infer=_infer_embed,
    gradient=_embed_gradient,
    pattern=Pattern.INJECTIVE,
    precision=FOLLOW,
    batched=_batched_embed,
    example=Example(EmbedAttrs((8, 4), 0, (4, 1)), (MATRIX,)),
    doc="y = zeros, then y.flat[offset + sum(i · strides)] += x[i…]",
)


def transpose(x: T, permutation: tuple[int, ...] | None = None) -> T:
    """Permute axes; reverse them when no permutation is given."""
    order = tuple(reversed(range(x.spec.rank))) if permutation is None else tuple(permutation)
    return x if order == tuple(range(x.spec.rank)) else apply(TRANSPOSE, TransposeAttrs(order), x)


def concatenate(operands: tuple[T, ...] | list[T], axis: int = 0) -> T:
    """The operands one after another along `axis`."""
    if not operands:
        raise ShapeError("concatenate", got="no operands", need="at least one")
    rank = operands[0].spec.rank
    attrs = ConcatenateAttrs(axis + rank if axis < 0 else axis)
    return operands[0] if len(operands) == 1 else operands[0].apply(Command(CONCATENATE, attrs), operands)[0]


def slice_axis(x: T, axis: int, start: int, stop: int, step: int = 1) -> T:
    """x[start:stop:step] along `axis`, step ≥ 1: a view, no copy."""
    if not 0 <= axis < x.spec.rank:
        raise AttributeValueError("slice", got=f"axis {axis} of {x.spec}", need=f"0 ≤ axis < {x.spec.rank}")
    size = x.shape[axis]
    if step < 1:
        raise AttributeValueError("slice", got=f"step {step}", need="step ≥ 1", fix="flip() the axis")
    if not 0 <= start <= stop <= size:
        raise ShapeError("slice", got=f"{start}:{stop} on axis {axis} of {x.spec}", need=f"0 ≤ start ≤ stop ≤ {size}")
    count = -(-(stop - start) // step)
    spec = replace(x.spec, shape=(*x.shape[:axis], count, *x.shape[axis + 1 :]))
    strides = (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1 :])
    return x.alias(spec, x.offset + start * x.strides[axis], strides)


def embed(x: T, attrs: EmbedAttrs) -> T:
    """`x` laid into a zero tensor of `attrs.shape`; elements that fall on one place are added up."""
    return apply(EMBED, attrs, x)
