"""How operators change with the order of axes: the command on permuted operands whose result is permuted too.

    transpose(f(x, …; a), q) = f(transpose(x, p), …; a′)            transpose(x, p)[i…] has x's axis p[k] as axis k

A rule gives a′ and the permutation of each operand and each result for the permutation p of the largest operands.
Operators without a rule know their axes by place: products, convolutions, pools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from nnc.classes import dataclass
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.graph import OpAttr

Permutation = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permuted:
    """Attributes on permuted operands, and the permutations of operands and results, None where one stays.

    A permutation of more axes than an operand has permutes it with leading axes of size 1.
    """

    attrs: object
    inputs: tuple[Permutation | None, ...]
    outputs: tuple[Permutation, ...]


# `Any`: a column holds rules of all operators.
PERMUTED = OpAttr[Callable[[Any, OptionalSpecs, Permutation], Permuted | None]]("permuted")


def identity(rank: int) -> Permutation:
    """The permutation that changes nothing."""
    return tuple(range(rank))


def inverse(permutation: Permutation) -> Permutation:
    """The permutation that undoes `permutation`.

    >>> inverse((0, 3, 1, 2))
    (0, 2, 3, 1)
    """
    return tuple(permutation.index(axis) for axis in range(len(permutation)))


def compose(first: Permutation, second: Permutation) -> Permutation:
    """transpose(transpose(x, first), second) = transpose(x, compose(first, second))"""
    return tuple(first[axis] for axis in second)


def permuted_axes(axes: Iterable[int], permutation: Permutation) -> tuple[int, ...]:
    """Where axes of x are in transpose(x, permutation), ascending."""
    return tuple(sorted(permutation.index(axis) for axis in axes))


def is_free(spec: TensorSpec, permutation: Permutation) -> bool:
    """True when the permutation moves axes of size 1 alone, so that memory stays as it is."""
    shape = (*(1 for _ in range(len(permutation) - spec.rank)), *spec.shape)
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)


def fits(specs: OptionalSpecs, permutation: Permutation) -> bool:
    """Does the permutation have the axes of the largest operand?"""
    return max((spec.rank for spec in specs if spec is not None), default=0) == len(permutation)


def permuted_alike(attrs: object, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    """The rule of pointwise operators: every operand and the result in the same order."""
    return Permuted(attrs, tuple(None if spec is None else p for spec in specs), (p,)) if fits(specs, p) else None


def last_axis_stays(attrs: object, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    """Operators along the last axis, which has to stay the last one."""
    return permuted_alike(attrs, specs, p) if p and p[-1] == len(p) - 1 else None


def elements(spec: TensorSpec, permutation: Permutation) -> int:
    """What a conversion costs: elements moved, none where memory stays."""
    return 0 if is_free(spec, permutation) else math.prod(spec.shape)
