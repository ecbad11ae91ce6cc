"""Reading and adding at positions that a tensor of integers names.

    index_select:    y[…, i…, …] = x[…, index[i…], …] along `axis`
    scatter_add:     y[…, index[i…], …] += x[…, i…, …] along `axis`, y zero before
    gather:          y[…, k, …] = x[…, index[…, k, …], …] along `axis` (index has the rank of x)
    scatter_along:   y[…, index[…, k, …], …] += x[…, k, …] along `axis`, y zero before
    scatter:         y = x, but y[…, index[…, k, …], …] = updates[…, k, …] along `axis`, the last k where several meet
    one_hot:         y[i…, c] = 1 where index[i…] == c, else 0

Of the first four, each is the gradient of its neighbour. In all but the last an index outside 0 ≤ index < size is an
IndexRangeError when it is met. one_hot gives zeros there, so that -1 can stand for "no class".
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.dtype import F32, I64, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, batched_behind, batched_rows
from nnc.ops.elementwise.pointwise import equal, where
from nnc.ops.examples import INDICES, MATRIX, PLACES, Example
from nnc.ops.movement.broadcast import broadcast_to, reshape
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.generate import arange_like
from nnc.ops.operand import Operand, T, apply
from nnc.ops.rules import (
    ARITHMETIC,
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

__all__ = ["gather", "index_select", "one_hot", "scatter", "scatter_add", "scatter_along"]


@dataclass(frozen=True, slots=True)
class AxisAttrs:
    """The axis that indices run along."""

    axis: int


@dataclass(frozen=True, slots=True)
class ScatterAttrs:
    """The axis that indices run along, and its size in the result."""

    axis: int
    size: int


@dataclass(frozen=True, slots=True)
class OneHotAttrs:
    """Number of classes and element type of the result."""

    classes: int
    dtype: DType = F32


def _check(subject: str, axis: int, rank: int, index: TensorSpec) -> None:
    """The axis is one of `rank`, the index holds integers."""
    if not 0 <= axis < rank:
        raise AttributeValueError(subject, got=f"axis {axis} of {rank}", need=f"0 ≤ axis < {rank}")
    if index.dtype.kind not in ("int", "uint"):
        raise DTypeError(subject, got=f"index {index}", need="integers")


def _infer_select(attrs: AxisAttrs, specs: Specs) -> Specs:
    x, index = specs
    _check("index_select", attrs.axis, x.rank, index)
    return (replace(x, shape=(*x.shape[: attrs.axis], *index.shape, *x.shape[attrs.axis + 1 :])),)


def _infer_scatter_add(attrs: ScatterAttrs, specs: Specs) -> Specs:
    x, index = specs
    check_kinds(ARITHMETIC, x)
    _check("scatter_add", attrs.axis, x.rank - index.rank + 1, index)
    if x.shape[attrs.axis : attrs.axis + index.rank] != index.shape:
        raise ShapeError("scatter_add", got=f"x={x}, index={index}", need=f"x's axes from {attrs.axis} on as the index")
    return (replace(x, shape=(*x.shape[: attrs.axis], attrs.size, *x.shape[attrs.axis + index.rank :])),)


def _check_along(subject: str, axis: int, x: TensorSpec, index: TensorSpec) -> None:
    _check(subject, axis, x.rank, index)
    others = (*x.shape[:axis], *x.shape[axis + 1 :])
    if index.rank != x.rank or (*index.shape[:axis], *index.shape[axis + 1 :]) != others:
        raise ShapeError(subject, got=f"x={x}, index={index}", need=f"equal sizes except on axis {axis}")


def _infer_gather(attrs: AxisAttrs, specs: Specs) -> Specs:
    x, index = specs
    _check_along("gather", attrs.axis, x, index)
    return (replace(x, shape=index.shape),)


def _infer_scatter_along(attrs: ScatterAttrs, specs: Specs) -> Specs:
    x, index = specs
    check_kinds(ARITHMETIC, x)
    _check_along("scatter_along", attrs.axis, x, index)
    if x.shape != index.shape:
        raise ShapeError("scatter_along", got=f"x={x}, index={index}", need="equal shapes")
    return (replace(x, shape=(*x.shape[: attrs.axis], attrs.size, *x.shape[attrs.axis + 1 :])),)


def _infer_scatter(attrs: AxisAttrs, specs: Specs) -> Specs:
    x, index, updates = specs
    _check_along("scatter", attrs.axis, x, index)
    if (updates.shape, updates.dtype) != (index.shape, x.dtype):
        raise ShapeError(
            "scatter", got=f"x={x}, index={index}, updates={updates}", need="updates of x's type per index"
        )
    return (x,)


def _infer_one_hot(attrs: OneHotAttrs, specs: Specs) -> Specs:
    (index,) = specs
    if attrs.classes < 1:
        raise AttributeValueError("one_hot", got=f"{attrs.classes} classes", need="at least one")
    _check("one_hot", 0, 1, index)
    return (replace(index, shape=(*index.shape, attrs.classes), dtype=attrs.dtype),)


def _select_gradient(call: Applied[AxisAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    x, index = call.inputs
    return (scatter_add(g, index, call.attrs.axis, x.shape[call.attrs.axis]), None)


def _scatter_add_gradient(call: Applied[ScatterAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (index_select(g, call.inputs[1], call.attrs.axis), None)


def _gather_gradient(call: Applied[AxisAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    x, index = call.inputs
    return (scatter_along(g, index, call.attrs.axis, x.shape[call.attrs.axis]), None)


def _scatter_along_gradient(call: Applied[ScatterAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (gather(g, call.inputs[1], call.attrs.axis), None)


def _scatter_gradient(call: Applied[AxisAttrs], gradients: Gradients) -> Gradients:
    """x' = g but 0 where something was written; updates' = g there, 0 for those that another one wrote over."""
    g, axis = single(gradients), call.attrs.axis
    _, index, updates = call.inputs
    by_x = scatter(g, index, fill_like(updates, 0.0), axis) if call.needed[0] else None
    if not call.needed[2]:
        return (by_x, None, None)
    shape = tuple(index.shape[axis] if place == axis else 1 for place in range(index.spec.rank))
    turn = broadcast_to(reshape(arange_like(index, index.shape[axis], dtype=I64), shape), index.shape)
    nobody = broadcast_to(scalar_like(turn, 0.0), g.shape)
    stays = equal(gather(scatter(nobody, index, turn, axis), index, axis), turn)
    read = gather(g, index, axis)
    return (by_x, None, where(stays, read, fill_like(read, 0.0)))


def _batched_select(call: BatchedCall[AxisAttrs]) -> tuple[Operand, ...]:
    """Rows of all examples at once; where each has an index of its own, elements at its places."""
    axis = call.attrs.axis
    if call.batched == (True, True):
        return call.composed(lambda given: [_gathered(given[0], given[1], axis)])
    if call.batched[0]:
        return call.apply([call.spread(0), call.plain(1)], AxisAttrs(axis + 1))
    return tuple(call.fronted(y, axis) for y in call.apply([call.plain(0), call.spread(1)]))


def _batched_scatter(call: BatchedCall[ScatterAttrs]) -> tuple[Operand, ...]:
    axis, size = call.attrs.axis, call.attrs.size
    if call.batched[1]:
        return call.composed(lambda given: [_scattered(given[0], given[1], axis, size)])
    return call.apply([call.spread(0), call.plain(1)], ScatterAttrs(axis + 1, size))


def _gathered(x: T, index: T, axis: int) -> T:
    """index_select as gather: the index repeated for all elements around the axis."""
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    picked = gather(reshape(x, (before, x.shape[axis], after)), _places(index, before, after), 1)
    return reshape(picked, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def _scattered(x: T, index: T, axis: int, size: int) -> T:
    """scatter_add as scatter_along."""
    behind = axis + index.spec.rank
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[behind:])
    rows = reshape(x, (before, index.spec.elements, after))
    added = scatter_along(rows, _places(index, before, after), 1, size)
    return reshape(added, (*x.shape[:axis], size, *x.shape[behind:]))


def _places(index: T, before: int, after: int) -> T:
    count = index.spec.elements
    return broadcast_to(reshape(index, (1, count, 1)), (before, count, after))


INDEX_SELECT = operator(
    "index_select",
    AxisAttrs,
    ("x", "index"),
    infer=_infer_select,
    gradient=_select_gradient,
    pattern=Pattern.INJECTIVE,
    batched=_batched_select,
    example=Example(AxisAttrs(0), (MATRIX, INDICES)),
    doc="y[…, i…, …] = x[…, index[i…], …]",
)
SCATTER_ADD = operator(
    "scatter_add",
    ScatterAttrs,
    ("x", "index"),
    infer=_infer_scatter_add,
    gradient=_scatter_add_gradient,
    batched=_batched_scatter,
    example=Example(ScatterAttrs(0, 8), (MATRIX, INDICES)),
    doc="y[…, index[i…], …] += x[…, i…, …]",
)
GATHER = operator(
    "gather",
    AxisAttrs,
    ("x", "index"),
    infer=_infer_gather,
    gradient=_gather_gradient,
    pattern=Pattern.INJECTIVE,
    batched=batched_behind(lambda attrs: replace(attrs, axis=attrs.axis + 1)),
    example=Example(AxisAttrs(0), (MATRIX, PLACES)),
    doc="y[…, k, …] = x[…, index[…, k, …], …]",
)
SCATTER_ALONG = operator(
    "scatter_along",
    ScatterAttrs,
    ("x", "index"),
    infer=_infer_scatter_along,
    gradient=_scatter_along_gradient,
    batched=batched_behind(lambda attrs: replace(attrs, axis=attrs.axis + 1)),
    example=Example(ScatterAttrs(0, 8), (MATRIX, PLACES)),
    doc="y[…, index[…, k, …], …] += x[…, k, …]",
)
SCATTER = operator(
    "scatter",
    AxisAttrs,
    ("x", "index", "updates"),
    infer=_infer_scatter,
    gradient=_scatter_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    batched=batched_behind(lambda attrs: replace(attrs, axis=attrs.axis + 1)),
    example=Example(AxisAttrs(0), (MATRIX, PLACES, MATRIX)),
    doc="y = x, but y[…, index[…, k, …], …] = updates[…, k, …], the last k where several meet",
)
ONE_HOT = operator(
    "one_hot",
    OneHotAttrs,
    ("index",),
    infer=_infer_one_hot,
    gradient=NotDifferentiable("an index does not change smoothly"),
    pattern=Pattern.INJECTIVE,
    batched=batched_rows,
    example=Example(OneHotAttrs(4, F32), (INDICES,)),
    doc="y[i…, c] = 1 where index[i…] == c, else 0",
)


def index_select(x: T, index: T, axis: int = 0) -> T:
    """Rows of `x` along `axis`, in the order that `index` names (an embedding look-up for axis 0)."""
    return apply(INDEX_SELECT, AxisAttrs(axis + x.spec.rank if axis < 0 else axis), x, index)


def scatter_add(x: T, index: T, axis: int, size: int) -> T:
    """Add the rows of `x` into zeros of `size` rows at the places that `index` names."""
    rank = x.spec.rank - index.spec.rank + 1
    return apply(SCATTER_ADD, ScatterAttrs(axis + rank if axis < 0 else axis, size), x, index)


def gather(x: T, index: T, axis: int) -> T:
    """Elements of `x` along `axis` at the places that `index` (of the same rank) names."""
    return apply(GATHER, AxisAttrs(axis + x.spec.rank if axis < 0 else axis), x, index)


def scatter_along(x: T, index: T, axis: int, size: int) -> T:
    """Add the elements of `x` into zeros along `axis` at the places that `index` names."""
    return apply(SCATTER_ALONG, ScatterAttrs(axis + x.spec.rank if axis < 0 else axis, size), x, index)


def scatter(x: T, index: T, updates: T, axis: int) -> T:
    """`x` with the elements of `updates` along `axis` at the places that `index` names."""
    return apply(SCATTER, AxisAttrs(axis + x.spec.rank if axis < 0 else axis), x, index, updates)


def one_hot(index: T, classes: int, dtype: DType = F32) -> T:
    """A row of zeros with a one at `index`, for each index; zeros alone where the index names no class."""
    return apply(ONE_HOT, OneHotAttrs(classes, dtype), index)
