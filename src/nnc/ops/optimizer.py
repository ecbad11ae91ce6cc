"""Optimizers: commands that turn a gradient and a parameter with its state into their next values.

    sgd:   m' = momentum · m + (1 - dampening) · (g + decay · w);  w' = w - rate · m'
           nesterov: m' = momentum · m + g + decay · w;            w' = w - rate · (g + decay · w + momentum · m')
    adam:  m' = β₁ m + (1 - β₁) g;  v' = β₂ v + (1 - β₂) g²;       g includes decay · w unless decoupled
           w' = w - rate · (m' / (1 - β₁ᵗ)) / (√(v' / (1 - β₂ᵗ)) + ε) [- rate · decay · w when decoupled]

The rate and the step count t (1 at the first update) are scalar tensors, so a schedule changes no graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnc.core.spec import TensorSpec
from nnc.errors import ShapeError
from nnc.graph import Op
from nnc.ops.rules import FLOATS, NUMBERS, Inplace, NotDifferentiable, Specs, check_kinds, operator

_REASON = NotDifferentiable("an update is the end of a training step; differentiate the loss instead")


@dataclass(frozen=True, slots=True)
class SgdAttrs:
    """Momentum, its dampening, weight decay (L2) and Nesterov's look-ahead."""

    momentum: float = 0.0
    dampening: float = 0.0
    decay: float = 0.0
    nesterov: bool = False


@dataclass(frozen=True, slots=True)
class AdamAttrs:
    """Decay rates of the two moments, ε, weight decay, and whether it is decoupled (AdamW)."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    decoupled: bool = False


def _infer_update(subject: str, states: int, specs: tuple[TensorSpec, ...]) -> Specs:
    g, w, *rest = specs
    scalars = rest[states:]
    check_kinds(FLOATS, *specs[: states + 2])
    check_kinds(NUMBERS, *scalars)
    if any(spec.shape != w.shape or spec.dtype is not w.dtype for spec in (g, *rest[:states])):
        raise ShapeError(subject, got=", ".join(map(str, specs)), need=f"gradient and state as the parameter, {w}")
    if any(spec.shape != () for spec in scalars):
        raise ShapeError(subject, got=", ".join(map(str, scalars)), need="scalars for rate and step")
    return (w, *rest[:states])


def _infer_sgd(attrs: SgdAttrs, specs: Specs) -> Specs:
    return _infer_update("sgd", 1, specs)


def _infer_adam(attrs: AdamAttrs, specs: Specs) -> Specs:
    return _infer_update("adam", 2, specs)


SGD = operator(
    "sgd",
    SgdAttrs,
    ("g", "w", "m", "rate"),
    ("w", "m"),
    infer=_infer_sgd,
    gradient=_REASON,
    inplace=Inplace(allowed=((1, 0), (2, 1), (0, 0), (0, 1))),
    doc="m' = momentum · m + (1 - dampening)(g + decay · w); w' = w - rate · m'",
)
ADAM = operator(
    "adam",
    AdamAttrs,
    ("g", "w", "m", "v", "rate", "step"),
    ("w", "m", "v"),
    infer=_infer_adam,
    gradient=_REASON,
    inplace=Inplace(allowed=((1, 0), (2, 1), (3, 2), (0, 0), (0, 1), (0, 2))),
    doc="w' = w - rate · m̂ / (√v̂ + ε), m̂ and v̂ the bias-corrected moments (Kingma & Ba 2015)",
)

# How many state tensors of the parameter's shape each optimizer keeps, and which scalars it reads after them.
STATE_NAMES: dict[Op[SgdAttrs] | Op[AdamAttrs], tuple[str, ...]] = {SGD: ("momentum",), ADAM: ("moment", "variance")}
SCALAR_NAMES: dict[Op[SgdAttrs] | Op[AdamAttrs], tuple[str, ...]] = {SGD: ("rate",), ADAM: ("rate", "step")}
