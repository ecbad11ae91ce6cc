"""Functions made of other operators: repetition, Einstein sums, and commands of NNC's catalogue that need no kernel.

They add no operator, so they need no kernel and no gradient of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from numbers import Integral

from nnc.core.values.spec import Shape
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.elementwise.pointwise import abs as absolute
from nnc.ops.elementwise.pointwise import add, affine, cast, equal, multiply, not_equal, power, subtract, where
from nnc.ops.movement.broadcast import broadcast_to, normalize_axes, reduce_sum, reshape
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.movement import concatenate, slice_axis, transpose
from nnc.ops.operand import T
from nnc.ops.products.products import gemm
from nnc.ops.reduction.reduction import reduce_max, reduce_min, reduce_norm

__all__ = [
    "complex_multiply", "einsum", "masked_fill", "norm", "outer", "product_of", "scaled_add", "scaled_multiply",
    "split", "stack", "sum_of", "tile",
]  # fmt: skip

# Parts of nothing are nothing; so many of them are still a slip.
MOST_EMPTY = 1 << 16


def tile(x: T, repeats: Sequence[int]) -> T:
    """y = x repeated `repeats[k]` times along axis k."""
    if len(repeats) != x.spec.rank or min(repeats, default=1) < 1:
        raise AttributeValueError("tile", got=f"repeats {list(repeats)} for {x.spec}", need="one count ≥ 1 per axis")
    for axis, count in enumerate(repeats):
        if count > 1:
            shape = (*x.shape[:axis], count * x.shape[axis], *x.shape[axis + 1 :])
            lead, rest = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
            x = reshape(broadcast_to(reshape(x, (lead, 1, rest)), (lead, count, rest)), shape)
    return x


def stack(operands: Sequence[T], axis: int = 0) -> T:
    """The operands one behind another along a new axis."""
    if not operands:
        raise ShapeError("stack", got="no operands", need="at least one")
    rank = operands[0].spec.rank + 1
    if not -rank <= axis < rank:
        raise AttributeValueError("stack", got=f"axis {axis} for {operands[0].spec}", need=f"-{rank} ≤ axis < {rank}")
    place = axis % rank
    return concatenate(
        [reshape(operand, (*operand.shape[:place], 1, *operand.shape[place:])) for operand in operands], place
    )


def split(x: T, parts: int | Sequence[int], axis: int = 0) -> tuple[T, ...]:
    """Views of `x` along `axis`: so many of equal size, or those between the given places."""
    (along,) = normalize_axes("split", axis, x.spec.rank)
    size = x.shape[along]
    parts = int(parts) if isinstance(parts, Integral) else parts
    if isinstance(parts, int) and (parts < 1 or size % parts or parts > max(size, MOST_EMPTY)):
        need = f"a divisor of {size}" if size else f"1 to {MOST_EMPTY} empty parts"
        raise ShapeError("split", got=f"{x.spec} in {parts} parts", need=need)
    ends = range(size // parts, size, size // parts) if isinstance(parts, int) and size else parts
    if isinstance(ends, int):
        return (x,) * ends
    places = [0, *ends, size]
    return tuple(slice_axis(x, along, first, last) for first, last in pairwise(places))


def outer(a: T, b: T) -> T:
    """y[i, j] = a[i] · b[j], of vectors."""
    if (a.spec.rank, b.spec.rank) != (1, 1):
        raise ShapeError("outer", got=f"{a.spec}, {b.spec}", need="one axis each", fix="reshape them")
    return multiply(reshape(a, (-1, 1)), b)


def norm(x: T, axes: int | Iterable[int] | None = None, *, order: float = 2.0, keepdims: bool = False) -> T:
    """y = (sum over axes of |x|^order)^(1 / order); of order ±∞ the largest and smallest |x|, of 0 how many are not 0.

    Its derivative at 0 is 0 for orders of 1 and more.
    """
    if math.isnan(order):
        raise AttributeValueError("norm", got="order=nan", need="a number, inf or -inf")
    if order == 2:
        return reduce_norm(x, axes, keepdims=keepdims)
    size = absolute(x)
    if math.isinf(order):
        return (reduce_max if order > 0 else reduce_min)(size, axes, keepdims=keepdims)
    if order in (0, 1):
        counted = size if order else cast(not_equal(size, scalar_like(size, 0.0)), size.spec.dtype)
        return reduce_sum(counted, axes, keepdims=keepdims)
    summed = reduce_sum(power(size, scalar_like(size, order)), axes, keepdims=keepdims)
    exponent = scalar_like(summed, 1.0 / order)
    if order < 0:
        return power(summed, exponent)
    # The root is infinitely steep at 0: there it is 0 and flat.
    still = equal(summed, scalar_like(summed, 0.0))
    return where(still, scalar_like(summed, 0.0), power(where(still, scalar_like(summed, 1.0), summed), exponent))


def sum_of(first: T, *rest: T) -> T:
    """y = x₀ + x₁ + … (NNC's EWSUM)."""
    return reduce(add, rest, first)


def product_of(first: T, *rest: T) -> T:
    """y = x₀ · x₁ · … (NNC's EWPROD)."""
    return reduce(multiply, rest, first)


def scaled_add(a: T, b: T, p: float = 1.0, q: float = 1.0) -> T:
    """y = p · a + q · b (NNC's ADD)."""
    return add(affine(a, p), affine(b, q))


def scaled_multiply(a: T, b: T, p: float = 1.0) -> T:
    """y = p · a · b (NNC's MUL)."""
    return affine(multiply(a, b), p)


def masked_fill(x: T, mask: T, value: float) -> T:
    """y = value where `mask` (bool), else x."""
    return where(mask, scalar_like(x, value), x)


def complex_multiply(a: T, b: T) -> T:
    """Pairs (re, im) along the last axis as complex numbers: y = a · b (NNC's CMUL); other axes broadcast."""
    if min(a.spec.rank, b.spec.rank) < 1 or a.shape[-1] != b.shape[-1] or a.shape[-1] % 2:
        raise ShapeError("complex_multiply", got=f"a={a.spec}, b={b.spec}", need="equal, even last axes")
    (re, im), (other_re, other_im) = _parts(a), _parts(b)
    real = subtract(multiply(re, other_re), multiply(im, other_im))
    imaginary = add(multiply(re, other_im), multiply(im, other_re))
    split = (*real.shape, 1)
    pairs = concatenate([reshape(real, split), reshape(imaginary, split)], len(split) - 1)
    return reshape(pairs, (*real.shape[:-1], 2 * real.shape[-1]))


def _parts(pairs: T) -> tuple[T, T]:
    """Every even and every odd element along the last axis, as views."""
    axis = pairs.spec.rank - 1
    return tuple(slice_axis(pairs, axis, first, pairs.shape[axis], 2) for first in (0, 1))  # type: ignore[return-value]  # two parts


def einsum(equation: str, *operands: T) -> T:
    """Einstein sum, such as `einsum("bij,bjk->bik", a, b)`, as transposes, products and sums, from left to right.

    A letter twice in one operand takes its diagonal (a view). Letters that only one operand has and the result has
    not are summed first; two operands are multiplied by one batched gemm. The result is written out behind `->`, each
    letter once; ellipses are not taken.
    """
    inputs, output = _parse(equation, operands)
    terms = [_diagonal(letters, operand) for letters, operand in zip(inputs, operands, strict=True)]
    while len(terms) > 1:
        (left, a), (right, b), *rest = terms
        kept = set(output).union(*(letters for letters, _ in rest))
        terms = [_contract(left, a, right, b, kept), *rest]
    letters, x = _sum_out(*terms[0], set(output))
    return transpose(x, _order(letters, output))


def _parse(equation: str, operands: Sequence[T]) -> tuple[list[str], str]:
    left, arrow, output = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    fitting = len(inputs) == len(operands) and all(
        (letters.isalpha() or not letters) and len(letters) == operand.spec.rank
        for letters, operand in zip(inputs, operands, strict=True)
    )
    if not (operands and arrow and fitting and set(output) <= set(left) - {","} and len(set(output)) == len(output)):
        shown = ", ".join(str(operand.spec) for operand in operands)
        raise AttributeValueError(
            "einsum", got=f"{equation!r} for {shown}", need='a letter per axis and a result, like "ij,jk->ik"'
        )
    sizes: dict[str, int] = {}
    for letters, operand in zip(inputs, operands, strict=True):
        for letter, size in zip(letters, operand.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError("einsum", got=f"{letter} of {sizes[letter]} and of {size}", need="one size per letter")
    return inputs, output


def _diagonal(letters: str, x: T) -> tuple[str, T]:
    """The view of `x` in which each letter has one axis: its strides are the sums of the axes that share the letter."""
    distinct = "".join(dict.fromkeys(letters))
    if distinct == letters:
        return letters, x
    strides = tuple(
        sum(stride for other, stride in zip(letters, x.strides, strict=True) if other == letter) for letter in distinct
    )
    shape = tuple(x.shape[letters.index(letter)] for letter in distinct)
    return distinct, x.alias(replace(x.spec, shape=shape), x.offset, strides)


def _sum_out(letters: str, x: T, kept: set[str]) -> tuple[str, T]:
    axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
    return "".join(letter for letter in letters if letter in kept), (reduce_sum(x, axes) if axes else x)


def _contract(left: str, a: T, right: str, b: T, kept: set[str]) -> tuple[str, T]:
    """One batched gemm: [batch, rows, inner] @ [batch, inner, columns]."""
    left, a = _sum_out(left, a, kept | set(right))
    right, b = _sum_out(right, b, kept | set(left))
    batch = [letter for letter in left if letter in right and letter in kept]
    inner = [letter for letter in left if letter in right and letter not in kept]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    sizes = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
    first = reshape(transpose(a, _order(left, batch + rows + inner)), _merged(sizes, batch, rows, inner))
    second = reshape(transpose(b, _order(right, batch + inner + columns)), _merged(sizes, batch, inner, columns))
    result = batch + rows + columns
    return "".join(result), reshape(gemm(first, second), tuple(sizes[letter] for letter in result))


def _order(letters: str, wanted: Sequence[str]) -> tuple[int, ...]:
    return tuple(letters.index(letter) for letter in wanted)


def _merged(sizes: dict[str, int], batch: Sequence[str], *groups: Sequence[str]) -> Shape:
    """Each group of letters as one axis; no axis for an empty batch."""
    wanted = (batch, *groups) if batch else groups
    return tuple(math.prod(sizes[letter] for letter in group) for group in wanted)
