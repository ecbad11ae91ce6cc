"""Random tensors and dropout. The numbers depend on `seed`, on the input `counter` and on the place alone.

    random_uniform:  y[…] ~ U[low, high)        random_normal:  y[…] ~ N(mean, deviation²)
    dropout:         y = x / (1 - rate) where mask, else 0;  mask[…] = 1 with probability 1 - rate

The counter is a scalar i64 tensor: whoever runs the graph advances it, so that a compiled step draws new numbers each
time and the same counter draws the same ones, whatever the order of execution or the number of threads. Two commands
that must not draw the same numbers have different seeds.

Every backend draws the same words, and what it computes of them agrees within the tolerance table. Word w[i] is
output i of Philox4x64-10 (Salmon et al. 2011) with the key (seed, 0) and the counter (i / 4 + 1, 0, counter, 0);
element i, in row-major order, has u[i] = (w[i] >> 11) · 2^-53.

    uniform:  low + (high - low) · u[i], and the largest number below `high` where rounding would give `high`
    normal:   mean + deviation · √(-2 ln(1 - u[2k])) · (cos, sin)(2π u[2k + 1]) for elements 2k and 2k + 1
    dropout:  mask[i] = u[i] ≥ rate
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL, I64, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.batching import BatchedCall
from nnc.ops.elementwise.pointwise import affine, where
from nnc.ops.examples import COUNT, MATRIX, Example
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.movement import concatenate, slice_axis
from nnc.ops.number import as_float
from nnc.ops.operand import Operand, T, apply
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import FLOATS, Applied, Gradients, Inplace, NotDifferentiable, Specs, check_kinds, operator

__all__ = ["dropout", "random_normal", "random_uniform"]

# One more than the largest seed: seeds are half of the generator's key.
SEEDS = 1 << 64


@dataclass(frozen=True, slots=True)
class UniformAttrs:
    """Bounds, spec of the result and the seed."""

    spec: TensorSpec
    low: float = 0.0
    high: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_seed("random_uniform", self.seed)
        if not (-math.inf < as_float(self.low) < as_float(self.high) < math.inf):
            raise AttributeValueError("random_uniform", got="bounds without room", need="low < high, both finite")


@dataclass(frozen=True, slots=True)
class NormalAttrs:
    """Mean, standard deviation, spec of the result and the seed."""

    spec: TensorSpec
    mean: float = 0.0
    deviation: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_seed("random_normal", self.seed)
        if not (math.isfinite(as_float(self.mean)) and 0.0 <= as_float(self.deviation) < math.inf):
            raise AttributeValueError("random_normal", got="a mean or deviation", need="finite, deviation ≥ 0")


@dataclass(frozen=True, slots=True)
class DropoutAttrs:
    """Probability of dropping an element, the seed, and whether one draw decides for the `entirety` of x."""

    rate: float = 0.5
    seed: int = 0
    entirety: bool = False

    def __post_init__(self) -> None:
        _check_seed("dropout", self.seed)
        if not 0.0 <= self.rate < 1.0:
            raise AttributeValueError("dropout", got=f"rate={self.rate}", need="0 ≤ rate < 1")


def _check_seed(subject: str, seed: int) -> None:
    if not 0 <= seed < SEEDS:
        raise AttributeValueError(subject, got="a seed outside its range", need="0 ≤ seed < 2^64")


def largest_below(high: float, dtype: DType) -> float:
    """The largest number of the element type below `high`, which a draw is at most."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(high).astype(dtype.numpy)
    return float(rounded if float(rounded) < high else np.nextafter(rounded, dtype.numpy.type(-np.inf)))


def _check_counter(subject: str, counter: TensorSpec) -> None:
    if counter.shape != () or counter.dtype is not I64:
        raise ShapeError(subject, got=f"counter {counter}", need="a scalar i64[]")


def _infer_drawn(attrs: UniformAttrs | NormalAttrs, specs: Specs) -> Specs:
    _check_counter("random", specs[0])
    check_kinds(FLOATS, attrs.spec)
    return (attrs.spec,)


def _infer_dropout(attrs: DropoutAttrs, specs: Specs) -> Specs:
    x, counter = specs
    check_kinds(FLOATS, x)
    _check_counter("dropout", counter)
    return (x, replace(x, shape=() if attrs.entirety else x.shape, dtype=BOOL))


def _dropout_gradient(call: Applied[DropoutAttrs], gradients: Gradients) -> Gradients:
    g = gradients[0]
    assert g is not None
    return (where(call.outputs[1], affine(g, 1.0 / (1.0 - call.attrs.rate)), scalar_like(g, 0.0)), None)


def _batched_dropout(call: BatchedCall[DropoutAttrs]) -> tuple[Operand, ...]:
    """One counter draws one mask, the same for all examples."""
    call.plain(1)

    def masked(inputs: Sequence[Operand]) -> Sequence[Operand]:
        x, counter = inputs
        mask = x.apply(Command(DROPOUT, call.attrs), (fill_like(x, 1.0), counter))[1]
        return where(mask, affine(x, 1.0 / (1.0 - call.attrs.rate)), scalar_like(x, 0.0)), mask

    return call.composed(masked)


def _batched_draw(call: BatchedCall[UniformAttrs] | BatchedCall[NormalAttrs]) -> tuple[Operand, ...]:
    """A draw for each example, by its own counter."""
    counters = call.spread(0)
    drawn = [call.apply([reshape(slice_axis(counters, 0, row, row + 1), ())])[0] for row in range(call.size)]
    return (concatenate([reshape(value, (1, *value.shape)) for value in drawn]),)


_DRAWN = NotDifferentiable("the numbers do not depend on anything differentiable")

RANDOM_UNIFORM = operator(
    "random_uniform",
    UniformAttrs,
    ("counter",),
    infer=_infer_drawn,
    gradient=_DRAWN,
    batched=_batched_draw,
    example=Example(UniformAttrs(MATRIX), (COUNT,)),
    doc="y[…] ~ U[low, high)",
)
RANDOM_NORMAL = operator(
    "random_normal",
    NormalAttrs,
    ("counter",),
    infer=_infer_drawn,
    gradient=_DRAWN,
    batched=_batched_draw,
    example=Example(NormalAttrs(MATRIX), (COUNT,)),
    doc="y[…] ~ N(mean, deviation²)",
)
DROPOUT = operator(
    "dropout",
    DropoutAttrs,
    ("x", "counter"),
    ("y", "mask"),
    infer=_infer_dropout,
    gradient=_dropout_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    precision=FOLLOW,
    batched=_batched_dropout,
    example=Example(DropoutAttrs(), (MATRIX, COUNT)),
    doc="y = x / (1 - rate) where mask, else 0",
)


def random_uniform(counter: T, spec: TensorSpec, low: float = 0.0, high: float = 1.0, *, seed: int = 0) -> T:
    """Numbers in [low, high)."""
    return apply(RANDOM_UNIFORM, UniformAttrs(spec, float(low), float(high), seed), counter)


def random_normal(counter: T, spec: TensorSpec, mean: float = 0.0, deviation: float = 1.0, *, seed: int = 0) -> T:
    """Normally distributed numbers."""
    return apply(RANDOM_NORMAL, NormalAttrs(spec, float(mean), float(deviation), seed), counter)


def dropout(x: T, counter: T, rate: float, *, seed: int = 0, entirety: bool = False) -> T:
    """`x` with a share `rate` of its elements set to zero, the others scaled to keep the mean.

    With `entirety` the whole of `x` is kept or dropped at once.
    """
    return apply(DROPOUT, DropoutAttrs(float(rate), seed, entirety), x, counter)
