"""Random tensors and dropout. The numbers depend on `seed` and on the input `counter` alone.

    random_uniform:  y[…] ~ U[low, high)        random_normal:  y[…] ~ N(mean, deviation²)
    dropout:         y = x · mask / (1 - rate),  mask[…] = 1 with probability 1 - rate

The counter is a scalar i64 tensor: whoever runs the graph advances it, so that a compiled step draws new numbers each
time and the same counter draws the same ones, whatever the order of execution or the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnc.core.dtype import BOOL, I64
from nnc.core.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.operand import T, apply
from nnc.ops.pointwise import affine, cast, multiply
from nnc.ops.rules import Applied, Gradients, Inplace, NotDifferentiable, Specs, operator


@dataclass(frozen=True, slots=True)
class UniformAttrs:
    """Bounds, spec of the result and the seed."""

    spec: TensorSpec
    low: float = 0.0
    high: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class NormalAttrs:
    """Mean, standard deviation, spec of the result and the seed."""

    spec: TensorSpec
    mean: float = 0.0
    deviation: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class DropoutAttrs:
    """Probability of dropping an element, and the seed."""

    rate: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate < 1.0:
            raise AttributeValueError("dropout", got=f"rate={self.rate}", need="0 ≤ rate < 1")


def _check_counter(subject: str, counter: TensorSpec) -> None:
    if counter.shape != () or counter.dtype is not I64:
        raise ShapeError(subject, got=f"counter {counter}", need="a scalar i64[]")


def _infer_drawn(attrs: UniformAttrs | NormalAttrs, specs: Specs) -> Specs:
    _check_counter("random", specs[0])
    return (attrs.spec,)


def _infer_dropout(attrs: DropoutAttrs, specs: Specs) -> Specs:
    x, counter = specs
    _check_counter("dropout", counter)
    return (x, replace(x, dtype=BOOL))


def _dropout_gradient(call: Applied[DropoutAttrs], gradients: Gradients) -> Gradients:
    g = gradients[0]
    assert g is not None
    mask = cast(call.outputs[1], g.spec.dtype)
    return (affine(multiply(g, mask), 1.0 / (1.0 - call.attrs.rate)), None)


_DRAWN = NotDifferentiable("the numbers do not depend on anything differentiable")

RANDOM_UNIFORM = operator(
    "random_uniform", UniformAttrs, ("counter",), infer=_infer_drawn, gradient=_DRAWN, doc="y[…] ~ U[low, high)"
)
RANDOM_NORMAL = operator(
    "random_normal", NormalAttrs, ("counter",), infer=_infer_drawn, gradient=_DRAWN, doc="y[…] ~ N(mean, deviation²)"
)
DROPOUT = operator(
    "dropout",
    DropoutAttrs,
    ("x", "counter"),
    ("y", "mask"),
    infer=_infer_dropout,
    gradient=_dropout_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    doc="y = x · mask / (1 - rate)",
)


def random_uniform(counter: T, spec: TensorSpec, low: float = 0.0, high: float = 1.0, *, seed: int = 0) -> T:
    """Numbers in [low, high)."""
    return apply(RANDOM_UNIFORM, UniformAttrs(spec, low, high, seed), counter)


def random_normal(counter: T, spec: TensorSpec, mean: float = 0.0, deviation: float = 1.0, *, seed: int = 0) -> T:
    """Normally distributed numbers."""
    return apply(RANDOM_NORMAL, NormalAttrs(spec, mean, deviation, seed), counter)


def dropout(x: T, counter: T, rate: float, *, seed: int = 0) -> T:
    """`x` with a share `rate` of its elements set to zero, the others scaled to keep the mean."""
    return apply(DROPOUT, DropoutAttrs(rate, seed), x, counter)
