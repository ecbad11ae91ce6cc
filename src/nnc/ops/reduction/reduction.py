"""Mean, extrema and their positions over axes. (`reduce_sum` is in `broadcast.py`.)

y[kept] = ⊕ over reduced axes of x[kept, reduced]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL, I64, U8
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.graph import Op
from nnc.ops.elementwise.pointwise import affine, cast, divide, equal, is_nan, logical_not, multiply, where
from nnc.ops.examples import MATRIX, Example
from nnc.ops.movement.broadcast import (
    ReduceAttrs,
    batched_reduction,
    infer_reduction,
    normalize_axes,
    permuted_reduction,
    reduce_sum,
    reduced,
    spread,
)
from nnc.ops.movement.fill import FILL, FillAttrs, scalar_like
from nnc.ops.operand import T
from nnc.ops.rules import (
    CONTINUOUS,
    FLOATS,
    NUMBERS,
    Applied,
    Gradients,
    NotDifferentiable,
    Pattern,
    Specs,
    check_kinds,
    operator,
    single,
)

__all__ = [
    "argmax",
    "argmin",
    "reduce_all",
    "reduce_any",
    "reduce_is_nan",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_norm",
]


def _infer_extremum(attrs: ReduceAttrs, specs: Specs) -> Specs:
    (x,) = specs
    check_kinds(NUMBERS, x)
    _check_elements(attrs, x)
    return infer_reduction(attrs, specs)


def _check_elements(attrs: ReduceAttrs, x: TensorSpec) -> None:
    if any(x.shape[axis] == 0 for axis in normalize_axes("reduce", attrs.axes, x.rank)):
        raise ShapeError("reduce", got=f"{x} over axes {list(attrs.axes)}", need="at least one element to choose from")


def _infer_mean(attrs: ReduceAttrs, specs: Specs) -> Specs:
    check_kinds(CONTINUOUS, *specs)
    _check_elements(attrs, specs[0])
    return infer_reduction(attrs, specs)


def _infer_norm(attrs: ReduceAttrs, specs: Specs) -> Specs:
    check_kinds(FLOATS, *specs)
    return infer_reduction(attrs, specs)


def _infer_position(attrs: ReduceAttrs, specs: Specs) -> Specs:
    if len(attrs.axes) != 1:
        raise AttributeValueError("position", got=f"axes {list(attrs.axes)}", need="exactly one axis")
    return (replace(_infer_extremum(attrs, specs)[0], dtype=I64),)


def _mean_gradient(call: Applied[ReduceAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    count = math.prod(call.inputs[0].shape[axis] for axis in call.attrs.axes)
    return (spread(affine(g, 1.0 / max(count, 1)), call.inputs[0], call.attrs),)


def _extremum_gradient(call: Applied[ReduceAttrs], gradients: Gradients) -> Gradients:
    """Equal shares to all positions that hold the extremum."""
    g = single(gradients)
    x, y = call.inputs[0], call.outputs[0]
    hit = cast(equal(x, spread(y, x, call.attrs)), x.spec.dtype)
    count = spread(reduce_sum(hit, call.attrs.axes, keepdims=call.attrs.keepdims), x, call.attrs)
    return (multiply(divide(hit, count), spread(g, x, call.attrs)),)


def _norm_gradient(call: Applied[ReduceAttrs], gradients: Gradients) -> Gradients:
    """x' = g · x / y, and 0 where y is 0, the least steep slope there."""
    g = single(gradients)
    x, y = call.inputs[0], call.outputs[0]
    slope = divide(g, where(equal(y, scalar_like(y, 0.0)), scalar_like(y, 1.0), y))
    return (multiply(spread(slope, x, call.attrs), x),)


def _extremum(name: str, doc: str) -> Op[ReduceAttrs]:
    return operator(
        name,
        ReduceAttrs,
        ("x",),
        infer=_infer_extremum,
        gradient=_extremum_gradient,
        pattern=Pattern.REDUCTION,
        permuted=permuted_reduction,
        batched=batched_reduction,
        example=Example(ReduceAttrs((1,)), (MATRIX,)),
        doc=doc,
    )


def _position(name: str, doc: str) -> Op[ReduceAttrs]:
    return operator(
        name,
        ReduceAttrs,
        ("x",),
        infer=_infer_position,
        gradient=NotDifferentiable("an index does not change smoothly"),
        pattern=Pattern.REDUCTION,
        permuted=permuted_reduction,
        batched=batched_reduction,
        example=Example(ReduceAttrs((1,)), (MATRIX,)),
        doc=doc,
    )


REDUCE_MEAN = operator(
    "reduce_mean",
    ReduceAttrs,
    ("x",),
    infer=_infer_mean,
    gradient=_mean_gradient,
    pattern=Pattern.REDUCTION,
    permuted=permuted_reduction,
    batched=batched_reduction,
    example=Example(ReduceAttrs((1,)), (MATRIX,)),
    doc="y = mean of x over axes",
)
REDUCE_MAX = _extremum("reduce_max", "y = largest x over axes; nan wins")
REDUCE_MIN = _extremum("reduce_min", "y = smallest x over axes; nan wins")
ARGMAX = _position("argmax", "y = first index of the largest x along the axis, as i64; of the first nan if any")
ARGMIN = _position("argmin", "y = first index of the smallest x along the axis, as i64; of the first nan if any")
REDUCE_NORM = operator(
    "reduce_norm",
    ReduceAttrs,
    ("x",),
    infer=_infer_norm,
    gradient=_norm_gradient,
    pattern=Pattern.REDUCTION,
    permuted=permuted_reduction,
    batched=batched_reduction,
    example=Example(ReduceAttrs((1,)), (MATRIX,)),
    doc="y = √(sum of x² over axes), NNC's REDUCE_NORM2",
)


def reduce_mean(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = mean of x over `axes` (all when None)."""
    return reduced(REDUCE_MEAN, x, axes, keepdims)


def reduce_max(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = largest x over `axes` (all when None)."""
    return reduced(REDUCE_MAX, x, axes, keepdims)


def reduce_min(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = smallest x over `axes` (all when None)."""
    return reduced(REDUCE_MIN, x, axes, keepdims)


def reduce_norm(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = √(sum of x² over `axes`) (all when None); its derivative at 0 is 0."""
    return reduced(REDUCE_NORM, x, axes, keepdims)


def reduce_any(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = is any of the bool `x` over `axes` true? Of none, no."""
    kept = ReduceAttrs(normalize_axes("reduce_any", axes, x.spec.rank), keepdims)
    if any(x.shape[axis] == 0 for axis in kept.axes):
        return x.apply(Command(FILL, FillAttrs(0.0, infer_reduction(kept, (x.spec,))[0])), ())[0]
    return cast(reduce_max(cast(x, U8), kept.axes, keepdims=keepdims), BOOL)


def reduce_all(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = are all of the bool `x` over `axes` true? Of none, yes."""
    return logical_not(reduce_any(logical_not(x), axes, keepdims=keepdims))


def reduce_is_nan(x: T, axes: int | Iterable[int] | None = None, *, keepdims: bool = False) -> T:
    """y = is any x over `axes` not a number? (NNC's REDUCE_ISNAN)"""
    return reduce_any(is_nan(x), axes, keepdims=keepdims)


def argmax(x: T, axis: int, *, keepdims: bool = False) -> T:
    """y = first index of the largest x along `axis`."""
    return reduced(ARGMAX, x, axis, keepdims)


def argmin(x: T, axis: int, *, keepdims: bool = False) -> T:
    """y = first index of the smallest x along `axis`."""
    return reduced(ARGMIN, x, axis, keepdims)
