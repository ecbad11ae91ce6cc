"""Sum over axes and broadcasting: each is the other's gradient.

reduce_sum:    y[kept] = sum over reduced axes of x[kept, reduced]
broadcast_to:  y[i…] = x[i… with 0 where x has size 1]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from operator import index

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import MAX_DIMENSIONS, OptionalSpecs, Shape, broadcast_shapes, check_shape, contiguous_strides
from nnc.errors import AttributeValueError, ShapeError
from nnc.graph import Op
from nnc.ops.batching import BatchedCall, batched_behind
from nnc.ops.examples import MATRIX, ROW, Example
from nnc.ops.movement.copy import contiguous
from nnc.ops.number import integers_of
from nnc.ops.operand import Operand, T, apply, apply_command
from nnc.ops.permutation import Permutation, Permuted, fits, permuted_axes
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import ARITHMETIC, Applied, Gradients, Pattern, Specs, check_kinds, operator, single

__all__ = ["broadcast_to", "reduce_sum", "reshape"]


@dataclass(frozen=True, slots=True)
class ReduceAttrs:
    """Axes to reduce, non-negative and ascending; `keepdims` leaves them with size 1."""

    axes: tuple[int, ...]
    keepdims: bool = False


@dataclass(frozen=True, slots=True)
class BroadcastAttrs:
    """The shape to broadcast to."""

    shape: Shape


def reduced_shape(shape: Shape, attrs: ReduceAttrs) -> Shape:
    """The shape after reduction.

    >>> reduced_shape((2, 3, 4), ReduceAttrs((1,)))
    (2, 4)
    """
    kept = [
        1 if axis in attrs.axes else size for axis, size in enumerate(shape) if attrs.keepdims or axis not in attrs.axes
    ]
    return tuple(kept)


def normalize_axes(subject: str, axes: int | Iterable[int] | None, rank: int) -> tuple[int, ...]:
    """Ascending non-negative axes; None means all. AttributeValueError when out of range or repeated."""
    chosen = tuple(range(rank)) if axes is None else tuple([index(axis) for axis in integers_of(axes)])
    wrapped = tuple(sorted(axis + rank if axis < 0 else axis for axis in chosen))
    if any(not 0 <= axis < rank for axis in wrapped) or len(set(wrapped)) != len(wrapped):
        raise AttributeValueError(subject, got=f"axes {list(chosen)}", need=f"distinct axes of {rank} dimensions")
    return wrapped


def reduced(op: Op[ReduceAttrs], x: T, axes: int | Iterable[int] | None, keepdims: bool) -> T:
    """`op` of x over `axes` (all when None)."""
    if type(keepdims) is bool and (axes is None or type(axes) is int):
        return apply_command(_reduction(op, axes, x.spec.rank, keepdims), x)
    return apply(op, ReduceAttrs(normalize_axes(op.name, axes, x.spec.rank), _plain(keepdims)), x)


def _plain(truth: bool | np.bool_) -> bool:
    """NumPy's truth values, which come out of its comparisons, as Python's."""
    return bool(truth) if isinstance(truth, np.bool_) else truth


@lru_cache(maxsize=256)
def _reduction(op: Op[ReduceAttrs], axes: int | None, rank: int, keepdims: bool) -> AnyCommand:
    """Made once each, for eager code."""
    return Command(op, ReduceAttrs(normalize_axes(op.name, axes, rank), keepdims))


def infer_reduction(attrs: ReduceAttrs, specs: Specs) -> Specs:
    """The input's spec without the reduced axes."""
    (x,) = specs
    if normalize_axes("reduce", attrs.axes, x.rank) != attrs.axes:
        raise AttributeValueError("reduce", got=f"axes {list(attrs.axes)}", need="ascending axes ≥ 0")
    return (replace(x, shape=reduced_shape(x.shape, attrs)),)


def _infer_sum(attrs: ReduceAttrs, specs: Specs) -> Specs:
    check_kinds(ARITHMETIC, *specs)
    return infer_reduction(attrs, specs)


def _infer_broadcast(attrs: BroadcastAttrs, specs: Specs) -> Specs:
    (x,) = specs
    if len(attrs.shape) < x.rank or broadcast_shapes("broadcast_to", x.shape, attrs.shape) != attrs.shape:
        raise ShapeError(
            "broadcast_to", got=f"{x} to {list(attrs.shape)}", need="sizes of x equal to the target's or 1"
        )
    return (replace(x, shape=check_shape(attrs.shape)),)


def _sum_gradient(call: Applied[ReduceAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (spread(g, call.inputs[0], call.attrs),)


def _broadcast_gradient(call: Applied[BroadcastAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (sum_to(g, call.inputs[0].shape),)


def _permuted_broadcast(attrs: BroadcastAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    if len(attrs.shape) != len(p):
        return None
    return Permuted(BroadcastAttrs(tuple(attrs.shape[axis] for axis in p)), (p,), (p,))


def permuted_reduction(attrs: ReduceAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    """The rule of reductions: other axes are reduced, and the kept ones stay in the order of p."""
    if not fits(specs, p):
        return None
    kept = [axis for axis in p if axis not in attrs.axes]
    result = p if attrs.keepdims else tuple(sorted(kept).index(axis) for axis in kept)
    return Permuted(replace(attrs, axes=permuted_axes(attrs.axes, p)), (p,), (result,))


def _behind(attrs: ReduceAttrs) -> ReduceAttrs:
    return replace(attrs, axes=tuple(axis + 1 for axis in attrs.axes))


# The rule of reductions.
batched_reduction = batched_behind(_behind)


def _batched_broadcast(call: BatchedCall[BroadcastAttrs]) -> tuple[Operand, ...]:
    shape = call.attrs.shape
    return call.apply([call.aligned(0, len(shape))], BroadcastAttrs((call.size, *shape)))


REDUCE_SUM = operator(
    "reduce_sum",
    ReduceAttrs,
    ("x",),
    infer=_infer_sum,
    gradient=_sum_gradient,
    pattern=Pattern.REDUCTION,
    permuted=permuted_reduction,
    batched=batched_reduction,
    example=Example(ReduceAttrs((1,)), (MATRIX,)),
    doc="y[kept] = sum over axes of x",
)
BROADCAST_TO = operator(
    "broadcast_to",
    BroadcastAttrs,
    ("x",),
    infer=_infer_broadcast,
    gradient=_broadcast_gradient,
    pattern=Pattern.BROADCAST,
    precision=FOLLOW,
    permuted=_permuted_broadcast,
    batched=_batched_broadcast,
    example=Example(BroadcastAttrs((4, 4)), (ROW,)),
    doc="y[i…] = x[i… with 0 where x has size 1]",
)


def reshape(x: T, shape: Iterable[int]) -> T:
    """The same elements in the same order under another shape; one size may be -1. No copy when contiguous."""
    target = tuple(shape)
    if target.count(-1) == 1:
        known = math.prod(check_shape((size for size in target if size != -1), "reshape"))
        missing = x.spec.elements // known if known else 0
        target = tuple(missing if size == -1 else size for size in target)
    spec = replace(x.spec, shape=check_shape(target, "reshape"))
    if spec.elements != x.spec.elements:
        raise ShapeError("reshape", got=f"{x.spec} to {list(shape)}", need=f"{x.spec.elements} elements on both sides")
    if spec.shape == x.shape:
        return x
    source = x if x.strides == contiguous_strides(x.shape) else contiguous(x)
    return source.alias(spec, source.offset, contiguous_strides(spec.shape))


def broadcast_to(x: T, shape: Shape) -> T:
    """Repeat along axes of size 1 (and new leading axes) up to `shape`."""
    return x if x.shape == tuple(shape) else apply(BROADCAST_TO, BroadcastAttrs(tuple(shape)), x)


def tiled(x: T, times: Shape, subject: str) -> T:
    """x so many times along each axis; `times` has a number ≥ 0 for each axis, and more in front for new ones."""
    front = len(times) - x.spec.rank
    if front < 0:
        got, need = f"{times} of {x.spec}", f"{x.spec.rank} numbers or more"
        raise ShapeError(subject, got=got, need=need, fix="nnc.tile(x, times)")
    if any(time < 0 for time in times):
        raise ShapeError(subject, got=str(times), need="numbers ≥ 0")
    shape = (*(1,) * front, *x.shape)
    narrow, wide = list[int](), list[int]()
    for place, (time, size) in enumerate(zip(times, shape, strict=True)):
        if time == 1 and place and times[place - 1] == 1:
            # Axes in a row that stay as they are count as one.
            narrow[-1], wide[-1] = narrow[-1] * size, wide[-1] * size
        else:
            narrow += [size] if time == 1 or size == 1 else [1, size]
            wide += [size] if time == 1 else [time] if size == 1 else [time, size]
    if len(narrow) > MAX_DIMENSIONS:
        first = next(place for place, time in enumerate(times) if time != 1)
        ones = (1,) * len(times)
        rest = tiled(x, (*ones[: first + 1], *times[first + 1 :]), subject)
        return tiled(rest, (*ones[:first], times[first], *ones[first + 1 :]), subject)
    spread = broadcast_to(reshape(x, narrow), tuple(wide))
    return reshape(spread, [time * size for time, size in zip(times, shape, strict=True)])


def reduce_sum(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = sum of x over `axes` (all when None)."""
    return reduced(REDUCE_SUM, x, axes, keepdims)


def spread(g: T, like: Operand, attrs: ReduceAttrs) -> T:
    """Undo a reduction's shape: repeat `g` along the reduced axes to the shape of `like`."""
    kept = tuple(1 if axis in attrs.axes else size for axis, size in enumerate(like.shape))
    return broadcast_to(reshape(g, kept), like.shape)


def sum_to(g: T, shape: Shape) -> T:
    """Sum `g` over the axes along which `shape` was broadcast to `g.shape`."""
    lead = g.spec.rank - len(shape)
    axes = [axis for axis, size in enumerate(g.shape) if axis < lead or (shape[axis - lead] == 1 and size != 1)]
    return reshape(reduce_sum(g, axes), shape) if axes else g
