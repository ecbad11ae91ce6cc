"""Products, windows and scans over any axes, as `jax.lax` has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import Any

from nnc.arguments import Count, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import AnyDType
from nnc.dynamic.tree import Tree, flatten, map_leaves
from nnc.errors import ArgumentError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, as_array, pair, place_of
from nnc.numerics.jax_names.general_convolutions import Padding, borders
from nnc.numerics.jax_names.slices import pad
from nnc.numerics.products import einsum, matmul
from nnc.numerics.shapes import concatenate, flip

__all__ = ["associative_scan", "batch_matmul", "dot_general", "reduce_window"]

Axes = Sequence[Sequence[int]]


@checked
def dot_general(
    lhs: AnyArray,
    rhs: AnyArray,
    dimension_numbers: Sequence[Axes],
    precision: object = None,
    preferred_element_type: AnyDType | None = None,
) -> Array:
    """Sums of products over axes of x and y, ((of x, of y), (batches of x, of y)).

    The result has the batches first, then what is left of x, then of y.

    >>> nnc.lax.dot_general(nnc.ones((5, 2, 3)), nnc.ones((5, 3, 4)), (([2], [1]), ([0], [0]))).shape
    (5, 2, 4)
    """
    x, y = pair(lhs, rhs)
    if preferred_element_type is not None:
        x, y = x.astype(preferred_element_type), y.astype(preferred_element_type)
    summed, batches = _two(dimension_numbers, (x.ndim, y.ndim))
    for first, second in zip((*summed[0], *batches[0]), (*summed[1], *batches[1]), strict=True):
        if x.shape[first] != y.shape[second]:
            got = f"{x.spec}, {y.spec}, axes {first} and {second}"
            raise ShapeError("dot_general", got=got, need="axes of one size", origin=caller_origin())
    letters = iter(ascii_letters)
    left, right = [next(letters) for _ in x.shape], [next(letters) for _ in y.shape]
    for first, second in zip((*batches[0], *summed[0]), (*batches[1], *summed[1]), strict=True):
        right[second] = left[first]
    used = {*batches[0], *summed[0]}, {*batches[1], *summed[1]}
    kept = [left[place] for place in batches[0]]
    kept += [left[place] for place in range(x.ndim) if place not in used[0]]
    kept += [right[place] for place in range(y.ndim) if place not in used[1]]
    return einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", x, y)


def _two(numbers: Sequence[Axes], ranks: tuple[int, int]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Axes that are summed, and those of batches, of each operand; each at most once."""
    try:
        (a, b), (c, d) = numbers
        groups = [tuple(map(int, axes)) for axes in (a, b, c, d)]
    except (TypeError, ValueError):
        groups = []
    fits = len(groups) == 4 and len(groups[0]) == len(groups[1]) and len(groups[2]) == len(groups[3])
    for rank, mine in zip(ranks, ((0, 2), (1, 3)), strict=True):
        axes = [axis for group in mine for axis in groups[group]] if fits else []
        fits = fits and len(set(axes)) == len(axes) and all(0 <= axis < rank for axis in axes)
    if not fits:
        need = "((axes of x, of y), (batches of x, of y)), each axis once"
        raise ArgumentError("dot_general", got=repr(numbers), need=need, origin=caller_origin())
    return [(groups[0], groups[1]), (groups[2], groups[3])]


def batch_matmul(lhs: AnyArray, rhs: AnyArray, precision: object = None) -> Array:
    """The product of the last two axes.

    >>> nnc.lax.batch_matmul(nnc.ones((5, 2, 3)), nnc.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    return matmul(lhs, rhs)


@checked
def reduce_window(
    operand: AnyArray,
    init_value: AnyArray,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[Count],
    window_strides: Sequence[Count] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[Count] | None = None,
    window_dilation: Sequence[Count] | None = None,
) -> Array:
    """All elements of each window taken together by `computation`, such as `lax.max`; borders are the initial value.

    >>> nnc.lax.reduce_window(nnc.arange(6.0), -nnc.inf, nnc.lax.max, (2,), (2,), "VALID").tolist()
    [1.0, 3.0, 5.0]
    """
    x, start = pair(operand, init_value)
    given = (window_dimensions, window_strides, window_dilation, base_dilation)
    sizes, steps, apart, between = ((1,) * x.ndim if row is None else tuple(row) for row in given)
    if not len(sizes) == len(steps) == len(apart) == len(between) == x.ndim:
        got = f"windows {sizes}, strides {steps} of {x.spec}"
        raise ShapeError("reduce_window", got=got, need="one for each axis", origin=caller_origin())
    x = pad(x, start, [(0, 0, step - 1) for step in between])
    extents = [(size - 1) * step + 1 for size, step in zip(sizes, apart, strict=True)]
    x = pad(x, start, [(before, after, 0) for before, after in borders(padding, x.shape, extents, steps)])
    for axis, (size, step, gap, extent) in enumerate(zip(sizes, steps, apart, extents, strict=True)):
        count = (x.shape[axis] - extent) // step + 1
        if count < 1:
            got = f"a window of {extent} on axis {axis} of {x.spec}"
            raise ShapeError("reduce_window", got=got, need="room for it", origin=caller_origin())
        before = [slice(None)] * axis
        ends = [place * gap for place in range(size)]
        parts = [x[(*before, slice(end, end + (count - 1) * step + 1, step))] for end in ends]
        x = parts[0]
        for part in parts[1:]:
            x = as_array(computation(x, part))
    return x


@checked
def associative_scan(fn: Callable[[Any, Any], Any], elems: Tree, reverse: bool = False, axis: int = 0) -> Tree:
    """y[i] = x[0] ∘ x[1] ∘ … ∘ x[i] along the axis, of a function that is associative, in log₂ n calls of it.

    >>> nnc.lax.associative_scan(nnc.lax.add, nnc.arange(5)).tolist()
    [0, 1, 3, 6, 10]
    """
    arrays = map_leaves(as_array, elems)
    leaves, _ = flatten(arrays)
    if not leaves:
        return elems
    place = place_of("associative_scan", axis, leaves[0].ndim)
    sizes = {leaf.shape[place] if leaf.ndim > place else 0 for leaf in leaves}
    if len(sizes) != 1:
        got = ", ".join(str(leaf.spec) for leaf in leaves)
        raise ShapeError("associative_scan", got=got, need=f"one size of axis {axis}", origin=caller_origin())
    rows, apart, before = map_leaves(lambda x: flip(x, place), arrays) if reverse else arrays, 1, [slice(None)] * place

    def part(tree: Tree, begin: int | None, end: int | None) -> Tree:
        return map_leaves(lambda x: x[(*before, slice(begin, end))], tree)

    while apart < leaves[0].shape[place]:
        ahead, earlier, later = part(rows, 0, apart), part(rows, 0, -apart), part(rows, apart, None)
        heads, shape = flatten(ahead)
        tails, _ = flatten(fn(earlier, later))
        if len(tails) != len(heads):
            got = f"{len(tails)} leaves of fn"
            raise ArgumentError("associative_scan", got=got, need=f"the {len(heads)} of elems", origin=caller_origin())
        joined = [concatenate([head, as_array(tail)], place) for head, tail in zip(heads, tails, strict=True)]
        rows, apart = shape.unflatten(joined), apart * 2
    return map_leaves(lambda x: flip(x, place), rows) if reverse else rows
