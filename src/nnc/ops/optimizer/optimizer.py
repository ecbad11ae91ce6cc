"""Optimizers: commands that turn a gradient and a parameter with its state into their next values.

    gradient_descent:  w' = w - rate · s
    sgd:      m' = momentum · m + (1 - dampening) · s;  w' = w - rate · m'
              nesterov: m' = momentum · m + s;          w' = w - rate · (s + momentum · m')
    adam:     m' = β₁ m + (1 - β₁) s;  v' = β₂ v + (1 - β₂) s²;  m̂ = m' / (1 - β₁ᵗ);  v̂ = v' / (1 - β₂ᵗ)
              w' = w - rate · m̂ / (√v̂ + ε) [- rate · decay · w when decoupled, with s = g]
    amsgrad:  as adam, with top' = max(top, v') in the place of v'
    lamb:     d = m̂ / (√v̂ + ε) + decay · w, with s = g;  w' = w - rate · |w| / |d| · d  (no ratio when either is 0)
    rmsprop:  v' = α v + (1 - α) s²;  m' = momentum · m + s / (√v' + ε);  w' = w - rate · m'
    adagrad:  v' = v + s²;  w' = w - rate · s / (√v' + ε)
    adadelta: v' = ρ v + (1 - ρ) s²;  d = √(u + ε) / √(v' + ε) · s;  u' = ρ u + (1 - ρ) d²;  w' = w - rate · d
    adamax:   m' = β₁ m + (1 - β₁) s;  u' = max(β₂ u, |s| + ε);  w' = w - rate / (1 - β₁ᵗ) · m' / u'
    muon:     m' = μ m + (1 - μ) g;  o = orthogonal((1 - μ) g + μ m', or m' without nesterov)
              w' = w - rate · (√max(1, columns / rows) · o + decay · w), of matrices w[rows, columns]
    lion:     w' = w - rate · (sign(β₁ m + (1 - β₁) g) + decay · w);  m' = β₂ m + (1 - β₂) g
    adafactor: `nnc.ops.optimizer.adafactor`

s = g + decay · w unless said. |·| is the 2-norm over the parameter. The rate and the step count t (1 at the first
update) are scalar tensors, so a schedule changes no graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnc.classes import dataclass
from nnc.core.values.spec import TensorSpec
from nnc.errors import ShapeError
from nnc.graph import Op
from nnc.ops.batching import batched_before
from nnc.ops.examples import MATRIX, SCALAR, Example
from nnc.ops.optimizer.adafactor import ADAFACTOR, factored_specs
from nnc.ops.rules import FLOATS, NUMBERS, Inplace, NotDifferentiable, Specs, check_kinds, operator
from nnc.ops.work import per_element

_REASON = NotDifferentiable("an update is the end of a training step; differentiate the loss instead")


@dataclass(frozen=True, slots=True)
class GradientDescentAttrs:
    """Weight decay (L2)."""

    decay: float = 0.0


@dataclass(frozen=True, slots=True)
class SGDAttrs:
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


@dataclass(frozen=True, slots=True)
class LambAttrs:
    """Decay rates of the two moments, ε, decoupled weight decay."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    decay: float = 0.0


@dataclass(frozen=True, slots=True)
class RMSPropAttrs:
    """Decay rate α of the mean square, momentum, ε, weight decay (L2)."""

    alpha: float = 0.99
    momentum: float = 0.0
    epsilon: float = 1e-8
    decay: float = 0.0


@dataclass(frozen=True, slots=True)
class AdagradAttrs:
    """ε and weight decay (L2)."""

    epsilon: float = 1e-10
    decay: float = 0.0


@dataclass(frozen=True, slots=True)
class AdadeltaAttrs:
    """Decay rate ρ of both mean squares, ε, weight decay (L2)."""

    rho: float = 0.9
    epsilon: float = 1e-6
    decay: float = 0.0


@dataclass(frozen=True, slots=True)
class AdamaxAttrs:
    """Decay rates of the moment and of the largest slope, ε, weight decay (L2)."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0


@dataclass(frozen=True, slots=True)
class MuonAttrs:
    """Momentum μ, decoupled weight decay, Nesterov's look-ahead, and iterations towards an orthogonal matrix."""

    momentum: float = 0.95
    decay: float = 0.1
    nesterov: bool = True
    iterations: int = 5
    epsilon: float = 1e-7


@dataclass(frozen=True, slots=True)
class LionAttrs:
    """Weight of the old moment in the direction and in the next moment; decoupled weight decay."""

    beta1: float = 0.9
    beta2: float = 0.99
    decay: float = 0.0


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


def _infer_gradient_descent(attrs: GradientDescentAttrs, specs: Specs) -> Specs:
    return _infer_update("gradient_descent", 0, specs)


def _infer_sgd(attrs: SGDAttrs, specs: Specs) -> Specs:
    return _infer_update("sgd", 1, specs)


def _infer_adam(attrs: AdamAttrs, specs: Specs) -> Specs:
    return _infer_update("adam", 2, specs)


def _infer_amsgrad(attrs: AdamAttrs, specs: Specs) -> Specs:
    return _infer_update("amsgrad", 3, specs)


def _infer_lamb(attrs: LambAttrs, specs: Specs) -> Specs:
    return _infer_update("lamb", 2, specs)


def _infer_rmsprop(attrs: RMSPropAttrs, specs: Specs) -> Specs:
    return _infer_update("rmsprop", 2, specs)


def _infer_adagrad(attrs: AdagradAttrs, specs: Specs) -> Specs:
    return _infer_update("adagrad", 1, specs)


def _infer_lion(attrs: LionAttrs, specs: Specs) -> Specs:
    return _infer_update("lion", 1, specs)


def _infer_adadelta(attrs: AdadeltaAttrs, specs: Specs) -> Specs:
    return _infer_update("adadelta", 2, specs)


def _infer_adamax(attrs: AdamaxAttrs, specs: Specs) -> Specs:
    return _infer_update("adamax", 2, specs)


def _infer_muon(attrs: MuonAttrs, specs: Specs) -> Specs:
    if specs[1].rank != 2:
        fix = "another optimizer for it: PerParameter(AdamW(), ((pattern of matrices, Muon()),))"
        raise ShapeError("muon", got=f"a parameter {specs[1]}", need="a matrix", fix=fix)
    return _infer_update("muon", 1, specs)


def _in_place(states: int) -> Inplace:
    """Parameter and states stay where they are; any result may take over the gradient's memory."""
    stay = ((index + 1, index) for index in range(states + 1))
    return Inplace(allowed=(*stay, *((0, index) for index in range(states + 1))))


GRADIENT_DESCENT = operator(
    "gradient_descent",
    GradientDescentAttrs,
    ("g", "w", "rate"),
    ("w",),
    infer=_infer_gradient_descent,
    gradient=_REASON,
    inplace=_in_place(0),
    work=per_element(2),
    batched=batched_before(-1),
    example=Example(GradientDescentAttrs(), (MATRIX, MATRIX, SCALAR), fixed=(2,)),
    doc="w' = w - rate · (g + decay · w)",
)
SGD = operator(
    "sgd",
    SGDAttrs,
    ("g", "w", "m", "rate"),
    ("w", "m"),
    infer=_infer_sgd,
    gradient=_REASON,
    inplace=_in_place(1),
    work=per_element(4),
    batched=batched_before(-1),
    example=Example(SGDAttrs(), (*(MATRIX,) * 3, SCALAR), fixed=(3,)),
    doc="m' = momentum · m + (1 - dampening)(g + decay · w); w' = w - rate · m'",
)
ADAM = operator(
    "adam",
    AdamAttrs,
    ("g", "w", "m", "v", "rate", "step"),
    ("w", "m", "v"),
    infer=_infer_adam,
    gradient=_REASON,
    inplace=_in_place(2),
    work=per_element(12),
    batched=batched_before(-2, -1),
    example=Example(AdamAttrs(), (*(MATRIX,) * 4, SCALAR, SCALAR), fixed=(4, 5)),
    doc="w' = w - rate · m̂ / (√v̂ + ε), m̂ and v̂ the bias-corrected moments (Kingma & Ba 2015)",
)
AMSGRAD = operator(
    "amsgrad",
    AdamAttrs,
    ("g", "w", "m", "v", "top", "rate", "step"),
    ("w", "m", "v", "top"),
    infer=_infer_amsgrad,
    gradient=_REASON,
    inplace=_in_place(3),
    work=per_element(13),
    batched=batched_before(-2, -1),
    example=Example(AdamAttrs(), (*(MATRIX,) * 5, SCALAR, SCALAR), fixed=(5, 6)),
    doc="w' = w - rate · m̂ / (√(top' / (1 - β₂ᵗ)) + ε), top' = max(top, v') (Reddi et al. 2018)",
)
LAMB = operator(
    "lamb",
    LambAttrs,
    ("g", "w", "m", "v", "rate", "step"),
    ("w", "m", "v"),
    infer=_infer_lamb,
    gradient=_REASON,
    inplace=_in_place(2),
    work=per_element(16),
    example=Example(LambAttrs(), (*(MATRIX,) * 4, SCALAR, SCALAR), fixed=(4, 5)),
    doc="w' = w - rate · |w| / |d| · d, d = m̂ / (√v̂ + ε) + decay · w (You et al. 2020)",
)
RMSPROP = operator(
    "rmsprop",
    RMSPropAttrs,
    ("g", "w", "m", "v", "rate"),
    ("w", "m", "v"),
    infer=_infer_rmsprop,
    gradient=_REASON,
    inplace=_in_place(2),
    work=per_element(8),
    batched=batched_before(-1),
    example=Example(RMSPropAttrs(), (*(MATRIX,) * 4, SCALAR), fixed=(4,)),
    doc="v' = α v + (1 - α) s²; m' = momentum · m + s / (√v' + ε); w' = w - rate · m' (Hinton 2012)",
)
ADAGRAD = operator(
    "adagrad",
    AdagradAttrs,
    ("g", "w", "v", "rate"),
    ("w", "v"),
    infer=_infer_adagrad,
    gradient=_REASON,
    inplace=_in_place(1),
    work=per_element(6),
    batched=batched_before(-1),
    example=Example(AdagradAttrs(), (*(MATRIX,) * 3, SCALAR), fixed=(3,)),
    doc="v' = v + s²; w' = w - rate · s / (√v' + ε) (Duchi et al. 2011)",
)
LION = operator(
    "lion",
    LionAttrs,
    ("g", "w", "m", "rate"),
    ("w", "m"),
    infer=_infer_lion,
    gradient=_REASON,
    inplace=_in_place(1),
    work=per_element(8),
    batched=batched_before(-1),
    example=Example(LionAttrs(), (*(MATRIX,) * 3, SCALAR), fixed=(3,)),
    doc="w' = w - rate · (sign(β₁ m + (1 - β₁) g) + decay · w); m' = β₂ m + (1 - β₂) g (Chen et al. 2023)",
)

ADADELTA = operator(
    "adadelta",
    AdadeltaAttrs,
    ("g", "w", "v", "u", "rate"),
    ("w", "v", "u"),
    infer=_infer_adadelta,
    gradient=_REASON,
    inplace=_in_place(2),
    work=per_element(12),
    batched=batched_before(-1),
    example=Example(AdadeltaAttrs(), (*(MATRIX,) * 4, SCALAR), fixed=(4,)),
    doc="v' = ρ v + (1 - ρ) s²; d = √(u + ε) / √(v' + ε) · s; u' = ρ u + (1 - ρ) d²; w' = w - rate · d (Zeiler 2012)",
)
ADAMAX = operator(
    "adamax",
    AdamaxAttrs,
    ("g", "w", "m", "u", "rate", "step"),
    ("w", "m", "u"),
    infer=_infer_adamax,
    gradient=_REASON,
    inplace=_in_place(2),
    work=per_element(8),
    batched=batched_before(-2, -1),
    example=Example(AdamaxAttrs(), (*(MATRIX,) * 4, SCALAR, SCALAR), fixed=(4, 5)),
    doc="w' = w - rate / (1 - β₁ᵗ) · m' / u', u' = max(β₂ u, |s| + ε) (Kingma & Ba 2015)",
)
MUON = operator(
    "muon",
    MuonAttrs,
    ("g", "w", "m", "rate"),
    ("w", "m"),
    infer=_infer_muon,
    gradient=_REASON,
    inplace=_in_place(1),
    work=per_element(100),
    example=Example(MuonAttrs(), (*(MATRIX,) * 3, SCALAR), fixed=(3,)),
    doc="w' = w - rate · (√max(1, columns / rows) · orthogonal(momentum) + decay · w) (Jordan et al. 2024)",
)


# The state tensors that each optimizer keeps (`state_specs`), and the scalars that it reads after them.
# `Any`: optimizers of all attribute types.
STATE_NAMES: Mapping[Op[Any], tuple[str, ...]] = {
    GRADIENT_DESCENT: (),
    SGD: ("momentum",),
    ADAM: ("moment", "variance"),
    AMSGRAD: ("moment", "variance", "top"),
    LAMB: ("moment", "variance"),
    RMSPROP: ("moment", "variance"),
    ADAGRAD: ("variance",),
    LION: ("moment",),
    ADADELTA: ("variance", "delta"),
    ADAMAX: ("moment", "top"),
    MUON: ("moment",),
    ADAFACTOR: ("row", "column"),
}
SCALAR_NAMES: Mapping[Op[Any], tuple[str, ...]] = {
    op: op.inputs[2 + len(states) :] for op, states in STATE_NAMES.items() if isinstance(op.inputs, tuple)
}


def state_specs(op: Op[Any], parameter: TensorSpec) -> tuple[TensorSpec, ...]:
    """Specs of the state tensors: the parameter's, unless an optimizer keeps less."""
    if op is ADAFACTOR:
        return factored_specs(parameter)
    return (parameter,) * len(STATE_NAMES[op])
