"""Connectionist temporal classification (Graves et al. 2006): the cost of labels that nobody has aligned with time.

    loss[n] = -ln sum over alignments a of labels[n] with the first lengths[n] steps of e^(sum over t of x[n, t, a[t]])

An alignment names a class per step; its labels are what remains when repetitions, then blanks are taken out. x are
logarithms of probabilities; no probability is taken for less than e^-1e30. Labels that no alignment gives, such as more
labels than steps, cost infinity, or 0 with `zero_infinity`, and have the gradient 0 either way.

The sum is taken step by step over the extended labels e = (blank, l0, blank, l1, …, blank), 2 s + 1 of them:

    alpha[t, i] = x[t, e[i]] + ln (e^alpha[t-1, i] + e^alpha[t-1, i-1] + e^alpha[t-1, i-2] where e[i] ∉ {blank, e[i-2]})

The gradient is one operator, whose own gradient is that of these steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.dtype import BF16, F16, F32, I32, I64
from nnc.core.values.spec import OptionalSpecs, TensorSpec, spec
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.batching import batched_within
from nnc.ops.decomposition import by_decomposition, pull_back
from nnc.ops.elementwise.pointwise import (
    add,
    affine,
    cast,
    equal,
    exp,
    greater,
    less,
    log,
    logical_or,
    maximum,
    multiply,
    subtract,
    where,
)
from nnc.ops.examples import Example
from nnc.ops.indexing.indexing import gather
from nnc.ops.movement.broadcast import broadcast_to, reshape
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.generate import arange_like
from nnc.ops.movement.movement import concatenate, slice_axis
from nnc.ops.operand import T, apply
from nnc.ops.rules import FLOATS, Applied, Gradients, Specs, check_kinds, operator, single

__all__ = ["ctc_loss"]

# The logarithm of what cannot be; twice of it is still a number in f32.
NOTHING, LEAST = -1e30, -1e29


@dataclass(frozen=True, slots=True)
class CtcAttrs:
    """The class that stands for no label, and whether impossible labels cost nothing."""

    blank: int = 0
    zero_infinity: bool = False


def _check(attrs: CtcAttrs, specs: Specs) -> TensorSpec:
    x, labels, lengths, label_lengths = specs
    shown = f"x={x}, labels={labels}, lengths={lengths}, label_lengths={label_lengths}"
    check_kinds(FLOATS, x)
    if any(operand.dtype.kind not in ("int", "uint") for operand in (labels, lengths, label_lengths)):
        raise DTypeError("ctc_loss", got=shown, need="labels and lengths of integers")
    batch = x.shape[:1]
    fits = x.rank == 3 and labels.rank == 2 and labels.shape[:1] == lengths.shape == label_lengths.shape == batch
    if not fits or not x.shape[1]:
        raise ShapeError(
            "ctc_loss", got=shown, need="x[n, t, c] with t ≥ 1, labels[n, s], lengths[n], label_lengths[n]"
        )
    if not 0 <= attrs.blank < x.shape[2]:
        raise AttributeValueError("ctc_loss", got=f"blank={attrs.blank}", need=f"0 ≤ blank < {x.shape[2]}")
    return x


def _infer(attrs: CtcAttrs, specs: Specs) -> Specs:
    x = _check(attrs, specs)
    return (replace(x, shape=x.shape[:1]),)


def _infer_gradient(attrs: CtcAttrs, specs: Specs) -> Specs:
    return (_check(attrs, specs),)


def _work(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    x, labels = inputs[0], inputs[1]
    assert x is not None
    assert labels is not None
    return 100 * x.shape[0] * x.shape[1] * (2 * labels.shape[1] + 1)


def _gradient(call: Applied[CtcAttrs], gradients: Gradients) -> Gradients:
    g, x = single(gradients), call.inputs[0]
    slope = apply(CTC_GRADIENT, call.attrs, *call.inputs)
    return (multiply(broadcast_to(reshape(g, (*g.shape, 1, 1)), x.shape), slope), None, None, None)


# ---- the same in steps


def _composed_gradient(attrs: CtcAttrs, inputs: Sequence[T]) -> tuple[T]:
    ones = fill_like(reshape(slice_axis(slice_axis(inputs[0], 1, 0, 1), 2, 0, 1), inputs[0].shape[:1]), 1.0)
    needed = (True, False, False, False)
    slope = pull_back(lambda given: [composed_ctc(attrs, given)], inputs, (ones,), needed)[0]
    assert slope is not None
    return (slope,)  # type: ignore[return-value]  # made of operands of this kind


def composed_ctc(attrs: CtcAttrs, inputs: Sequence[T]) -> T:
    """The loss by its steps, each in operators."""
    x, labels, lengths, label_lengths = inputs
    batch, steps, _ = x.shape
    lengths, label_lengths = cast(lengths, I64), cast(label_lengths, I64)
    extended = _extended(labels, label_lengths, attrs.blank)
    width = extended.shape[1]
    index = broadcast_to(reshape(extended, (batch, 1, width)), (batch, steps, width))
    costs = gather(cast(x, F32) if x.spec.dtype in (F16, BF16) else x, index, 2)
    costs = maximum(costs, scalar_like(costs, NOTHING))
    skip = _skip(extended, attrs.blank, costs)
    first = less(arange_like(extended, width), scalar_like(extended, 2))
    alpha = where(broadcast_to(first, (batch, width)), _at(costs, 0), scalar_like(costs, NOTHING))
    for step in range(1, steps):
        ways = (alpha, _shifted(alpha, 1), add(_shifted(alpha, 2), skip))
        later = add(_total(ways), _at(costs, step))
        goes_on = reshape(greater(lengths, scalar_like(lengths, step)), (batch, 1))
        alpha = where(broadcast_to(goes_on, (batch, width)), later, alpha)
    return cast(_ended(attrs, alpha, lengths, label_lengths), x.spec.dtype)


def _extended(labels: T, label_lengths: T, blank: int) -> T:
    """blank, label, blank, label, …, blank; blanks behind the last label."""
    batch, count = labels.shape
    labels = cast(labels, I64)
    inside = less(arange_like(labels, count), reshape(label_lengths, (batch, 1)))
    blanks = broadcast_to(scalar_like(labels, blank), (batch, count))
    known = where(inside, labels, blanks)
    pairs = concatenate([reshape(sequence, (batch, count, 1)) for sequence in (blanks, known)], 2)
    return concatenate([reshape(pairs, (batch, 2 * count)), broadcast_to(scalar_like(labels, blank), (batch, 1))], 1)


def _skip(extended: T, blank: int, like: T) -> T:
    """0 where the step before may have been two places back, else NOTHING."""
    batch, width = extended.shape
    apart = min(width, 2)
    back = concatenate(
        [broadcast_to(scalar_like(extended, blank), (batch, apart)), slice_axis(extended, 1, 0, width - apart)], 1
    )
    none = logical_or(equal(extended, scalar_like(extended, blank)), equal(extended, back))
    return where(none, scalar_like(like, NOTHING), scalar_like(like, 0.0))


def _at(costs: T, step: int) -> T:
    return reshape(slice_axis(costs, 1, step, step + 1), (costs.shape[0], costs.shape[2]))


def _shifted(alpha: T, places: int) -> T:
    batch, width = alpha.shape
    places = min(places, width)
    nothing = broadcast_to(scalar_like(alpha, NOTHING), (batch, places))
    return concatenate([nothing, slice_axis(alpha, 1, 0, width - places)], 1)


def _total(ways: Sequence[T]) -> T:
    """ln sum e^way."""
    largest = ways[0]
    for way in ways[1:]:
        largest = maximum(largest, way)
    parts = [exp(subtract(way, largest)) for way in ways]
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return add(largest, log(total))


def _ended(attrs: CtcAttrs, alpha: T, lengths: T, label_lengths: T) -> T:
    """The loss of alignments that end with the last label or the blank behind it."""
    batch, zero = alpha.shape[0], scalar_like(lengths, 0)
    empty = equal(label_lengths, zero)
    last = affine(label_lengths, 2.0)
    before = maximum(affine(last, 1.0, -1.0), zero)
    ends = [reshape(gather(alpha, reshape(place, (batch, 1)), 1), (batch,)) for place in (last, before)]
    total = _total((ends[0], where(empty, scalar_like(alpha, NOTHING), ends[1])))
    at_once = where(empty, scalar_like(total, 0.0), scalar_like(total, NOTHING))
    total = where(equal(lengths, zero), at_once, total)
    impossible = scalar_like(total, 0.0 if attrs.zero_infinity else float("inf"))
    return where(less(total, scalar_like(total, LEAST)), impossible, affine(total, -1.0))


_EXAMPLE = Example(CtcAttrs(), (spec((2, 4, 3)), spec((2, 2), I32), spec((2,), I32), spec((2,), I32)))
CTC_LOSS = operator(
    "ctc_loss",
    CtcAttrs,
    ("x", "labels", "lengths", "label_lengths"),
    ("loss",),
    infer=_infer,
    gradient=_gradient,
    work=_work,
    batched=batched_within(),
    example=_EXAMPLE,
    doc="loss[n] = -ln sum over alignments a of e^(sum_t x[n, t, a[t]])",
)
CTC_GRADIENT = operator(
    "ctc_gradient",
    CtcAttrs,
    ("x", "labels", "lengths", "label_lengths"),
    ("slope",),
    infer=_infer_gradient,
    gradient=by_decomposition(_composed_gradient),
    work=_work,
    batched=batched_within(),
    example=_EXAMPLE,
    doc="slope[n, t, c] = ∂loss[n] / ∂x[n, t, c] of ctc_loss",
)


def ctc_loss(x: T, labels: T, lengths: T, label_lengths: T, blank: int = 0, *, zero_infinity: bool = False) -> T:
    """The cost of labels[n, s] (the first `label_lengths`) under log-probabilities x[n, t, c] (the first `lengths`)."""
    return apply(CTC_LOSS, CtcAttrs(blank, zero_infinity), x, labels, lengths, label_lengths)
