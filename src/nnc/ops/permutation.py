"""How operators change with the order of axes: the command on permuted operands whose result is permuted too.

    transpose(f(x, …; a), q) = f(transpose(x, p), …; a′)            transpose(x, p)[i…] has x's axis p[k] as axis k

A rule gives a′ and the permutation of each operand and each result for the permutation p of the largest operands.
Operators without a rule know their axes by place: products, convolutions, pools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from nnc.core.command import AnyCommand, Command
from nnc.core.spec import Layout, TensorSpec
from nnc.graph import Op, OpAttr
from nnc.ops.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs
from nnc.ops.fill import FILL
from nnc.ops.fused import is_fusable
from nnc.ops.layout import CONVERT_LAYOUT, LayoutAttrs
from nnc.ops.movement import CONCATENATE, TRANSPOSE, ConcatenateAttrs, TransposeAttrs
from nnc.ops.operators import OPERATORS
from nnc.ops.reduction import ARGMAX, ARGMIN, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_NORM
from nnc.ops.resize import FLIP, PAD, FlipAttrs, PadAttrs
from nnc.ops.softmaxes import LOG_SOFTMAX, SOFTMAX

Permutation = tuple[int, ...]
OptionalSpecs = tuple[TensorSpec | None, ...]


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


def permutation_of(command: AnyCommand, x: TensorSpec) -> Permutation | None:
    """The permutation that a conversion command applies to x; None for other commands."""
    if command.op is TRANSPOSE:
        permutation: Permutation = command.attrs.permutation
        return permutation
    return layout_permutation(command.attrs.target, x.rank) if command.op is CONVERT_LAYOUT else None


def layout_permutation(target: Layout, rank: int) -> Permutation:
    """The permutation of a conversion to `target` from the other layout."""
    if target is Layout.NHWC:
        return (0, *range(2, rank), 1)
    return (0, rank - 1, *range(1, rank - 1))


def conversion(x: TensorSpec, permutation: Permutation, target: Layout) -> AnyCommand | None:
    """The command that permutes x and gives it the layout `target`; None when no single command does both."""
    if target is x.layout:
        return Command(TRANSPOSE, TransposeAttrs(permutation))
    fits = x.rank > 1 and permutation == layout_permutation(target, x.rank)
    return Command(CONVERT_LAYOUT, LayoutAttrs(target)) if fits else None


# ---- rules


def _fits(specs: OptionalSpecs, permutation: Permutation) -> bool:
    return max((spec.rank for spec in specs if spec is not None), default=0) == len(permutation)


def _pointwise(attrs: object, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    return Permuted(attrs, tuple(None if spec is None else p for spec in specs), (p,)) if _fits(specs, p) else None


def _broadcast(attrs: BroadcastAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    if len(attrs.shape) != len(p):
        return None
    return Permuted(BroadcastAttrs(tuple(attrs.shape[axis] for axis in p)), (p,), (p,))


def _reduction(attrs: ReduceAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    if not _fits(specs, p):
        return None
    kept = [axis for axis in p if axis not in attrs.axes]
    result = p if attrs.keepdims else tuple(sorted(kept).index(axis) for axis in kept)
    return Permuted(replace(attrs, axes=permuted_axes(attrs.axes, p)), (p,), (result,))


def _concatenation(attrs: ConcatenateAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    if not _fits(specs, p):
        return None
    return Permuted(ConcatenateAttrs(p.index(attrs.axis)), tuple(p for _ in specs), (p,))


def _pad(attrs: PadAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    before, after = (tuple(sizes[axis] for axis in p) for sizes in (attrs.before, attrs.after))
    return Permuted(replace(attrs, before=before, after=after), (p,), (p,)) if _fits(specs, p) else None


def _flip(attrs: FlipAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    return Permuted(FlipAttrs(permuted_axes(attrs.axes, p)), (p,), (p,)) if _fits(specs, p) else None


def _last_axis(attrs: object, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    """Operators along the last axis, which has to stay the last one."""
    return _pointwise(attrs, specs, p) if p and p[-1] == len(p) - 1 else None


_REDUCTIONS = (REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_NORM, ARGMAX, ARGMIN)
# `Any`: operators of all attribute types.
RULES: Mapping[Op[Any], Callable[[Any, OptionalSpecs, Permutation], Permuted | None]] = MappingProxyType(
    {
        **{op: _pointwise for op in OPERATORS if is_fusable(op) and op not in (FILL, BROADCAST_TO)},
        BROADCAST_TO: _broadcast,
        **dict.fromkeys(_REDUCTIONS, _reduction),
        CONCATENATE: _concatenation,
        PAD: _pad,
        FLIP: _flip,
        SOFTMAX: _last_axis,
        LOG_SOFTMAX: _last_axis,
    }
)
for _op, _rule in RULES.items():
    PERMUTED.set(_op, _rule)


def elements(spec: TensorSpec, permutation: Permutation) -> int:
    """What a conversion costs: elements moved, none where memory stays."""
    return 0 if is_free(spec, permutation) else math.prod(spec.shape)
