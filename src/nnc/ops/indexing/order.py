"""Sorting, the largest elements, and running sums along an axis.

    sort:            values[…, k, …] = k-th smallest (or largest) of x along `axis`, index = where it was
    top_k:           the first `count` of the sorted elements
    searchsorted:    y[…, k] = how many elements of the row x[…] in order are less than values[…, k] (with `right`: not
                     larger); one row x[:] is for values of any shape
    cumulative_sum:  y[k] = x[0] + … + x[k] along `axis` (exclusive: up to k - 1; reverse: from the end)

Equal elements keep their order, in both directions; nan counts as larger than all numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.batching import BatchedCall, batched_behind
from nnc.ops.examples import MATRIX, ROW, Example
from nnc.ops.indexing.indexing import scatter_along
from nnc.ops.movement.broadcast import reshape
from nnc.ops.operand import Operand, T, apply
from nnc.ops.rules import (
    ARITHMETIC,
    Applied,
    Gradients,
    Inplace,
    NotDifferentiable,
    Specs,
    check_kinds,
    operator,
    single,
)

__all__ = ["cumsum", "searchsorted", "sort", "top_k"]


@dataclass(frozen=True, slots=True)
class SortAttrs:
    """The axis to sort along, and the direction."""

    axis: int
    descending: bool = False


@dataclass(frozen=True, slots=True)
class TopAttrs:
    """The axis, how many elements to keep, and whether the largest or the smallest come first."""

    axis: int
    count: int
    largest: bool = True


@dataclass(frozen=True, slots=True)
class ScanAttrs:
    """The axis to run along, whether to leave the element itself out, and the direction."""

    axis: int
    exclusive: bool = False
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class SearchAttrs:
    """Whether equal elements stand to the left of a value."""

    right: bool = False


def _check_axis(subject: str, axis: int, x: TensorSpec) -> None:
    if not 0 <= axis < x.rank:
        raise AttributeValueError(subject, got=f"axis {axis} for {x}", need=f"0 ≤ axis < {x.rank}")


def _infer_sort(attrs: SortAttrs, specs: Specs) -> Specs:
    (x,) = specs
    _check_axis("sort", attrs.axis, x)
    return (x, replace(x, dtype=I64))


def _infer_top(attrs: TopAttrs, specs: Specs) -> Specs:
    (x,) = specs
    _check_axis("top_k", attrs.axis, x)
    if not 0 <= attrs.count <= x.shape[attrs.axis]:
        raise AttributeValueError("top_k", got=f"count {attrs.count}", need=f"0 ≤ count ≤ {x.shape[attrs.axis]}")
    kept = replace(x, shape=(*x.shape[: attrs.axis], attrs.count, *x.shape[attrs.axis + 1 :]))
    return (kept, replace(kept, dtype=I64))


def _infer_scan(attrs: ScanAttrs, specs: Specs) -> Specs:
    check_kinds(ARITHMETIC, specs[0])
    _check_axis("cumulative_sum", attrs.axis, specs[0])
    return specs


def _infer_search(attrs: SearchAttrs, specs: Specs) -> Specs:
    x, values = specs
    if x.dtype is not values.dtype or not x.rank or (x.rank > 1 and x.shape[:-1] != values.shape[:-1]):
        need = "a row, or rows of the axes that values have before their last one, and values of its element type"
        raise ShapeError("searchsorted", got=f"{x}, {values}", need=need)
    return (replace(values, dtype=I64),)


def _batched_search(call: BatchedCall[SearchAttrs]) -> tuple[Operand, ...]:
    """One row for all examples, or rows of each."""
    if call.spec(0).rank == 1 and not call.batched[0]:
        return call.apply([call.plain(0), call.spread(1)])
    rows, values = call.spread(0), call.spread(1)
    if call.spec(0).rank > 1:
        return call.apply([rows, values])
    (places,) = call.apply([rows, reshape(values, (call.size, math.prod(call.spec(1).shape)))])
    return (reshape(places, values.shape),)


def _sort_gradient(call: Applied[SortAttrs], gradients: Gradients) -> Gradients:
    g = gradients[0]
    assert g is not None
    return (scatter_along(g, call.outputs[1], call.attrs.axis, call.inputs[0].shape[call.attrs.axis]),)


def _top_gradient(call: Applied[TopAttrs], gradients: Gradients) -> Gradients:
    g = gradients[0]
    assert g is not None
    return (scatter_along(g, call.outputs[1], call.attrs.axis, call.inputs[0].shape[call.attrs.axis]),)


def _scan_gradient(call: Applied[ScanAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(CUMULATIVE_SUM, replace(call.attrs, reverse=not call.attrs.reverse), g),)


SORT = operator(
    "sort",
    SortAttrs,
    ("x",),
    ("values", "index"),
    infer=_infer_sort,
    gradient=_sort_gradient,
    batched=batched_behind(lambda attrs: replace(attrs, axis=attrs.axis + 1)),
    example=Example(SortAttrs(1), (MATRIX,)),
    doc="x in order along the axis",
)
TOP_K = operator(
    "top_k",
    TopAttrs,
    ("x",),
    ("values", "index"),
    infer=_infer_top,
    gradient=_top_gradient,
    batched=batched_behind(lambda attrs: replace(attrs, axis=attrs.axis + 1)),
    example=Example(TopAttrs(1, 2), (MATRIX,)),
    doc="the count first of sort(x)",
)
SEARCHSORTED = operator(
    "searchsorted",
    SearchAttrs,
    ("x", "values"),
    infer=_infer_search,
    gradient=NotDifferentiable("a position does not change smoothly"),
    batched=_batched_search,
    example=Example(SearchAttrs(), (ROW, MATRIX)),
    doc="y = where each value belongs in the row x, which is in order; of rows x[…, n] in that of its place",
)
CUMULATIVE_SUM = operator(
    "cumulative_sum",
    ScanAttrs,
    ("x",),
    infer=_infer_scan,
    gradient=_scan_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    batched=batched_behind(lambda attrs: replace(attrs, axis=attrs.axis + 1)),
    example=Example(ScanAttrs(1), (MATRIX,)),
    doc="y[k] = x[0] + … + x[k]",
)


def sort(x: T, axis: int = -1, *, descending: bool = False) -> tuple[T, T]:
    """(values in order, where they were)."""
    values, index = x.apply(Command(SORT, SortAttrs(axis + x.spec.rank if axis < 0 else axis, descending)), (x,))
    return values, index


def top_k(x: T, count: int, axis: int = -1, *, largest: bool = True) -> tuple[T, T]:
    """(the `count` largest or smallest values, where they were)."""
    values, index = x.apply(Command(TOP_K, TopAttrs(axis + x.spec.rank if axis < 0 else axis, count, largest)), (x,))
    return values, index


def searchsorted(x: T, values: T, *, right: bool = False) -> T:
    """y = how many elements of the row x, which is in order, are less than each value; with `right` not larger.

    Rows x[…, n] are for values[…, m], each row for those of its own place, as in PyTorch.
    """
    return apply(SEARCHSORTED, SearchAttrs(right), x, values)


def cumsum(x: T, axis: int = -1, *, exclusive: bool = False, reverse: bool = False) -> T:
    """Running sum along `axis`."""
    return apply(CUMULATIVE_SUM, ScanAttrs(axis + x.spec.rank if axis < 0 else axis, exclusive, reverse), x)
