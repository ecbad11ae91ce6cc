"""Optimizers: commands that turn a gradient and a parameter with its state into their next values.

    gradient_descent:  w' = w - rate · s
    sgd:      m' = momentum · m + (1 - dampening) · s;  w' = w - rate · m'
              nesterov: m' = momentum · m + s;          w' = w - rate · (s + momentum · m')
              rate_inside: the same of rate · s, and a rate of 1 behind it (Sutskever et al. 2013)
    adam:     m' = β₁ m + (1 - β₁) s;  v' = β₂ v + (1 - β₂) s²;  m̂ = m' / (1 - β₁ᵗ);  v̂ = v' / (1 - β₂ᵗ)
              w' = w - rate · m̂ / (√v̂ + ε) [- rate · decay · w when decoupled, with s = g]
              epsilon_hat: ε · √(1 - β₂ᵗ) for ε, which stands beside √v' so (Kingma & Ba 2015, end of section 2)
    nadam:    μ(t) = β₁ (1 - 0.96^(t ψ) / 2), M = μ(1) · … · μ(t), ψ the decline of the momentum (Dozat 2016)
              w' = w - rate · (μ(t+1) m' / (1 - M μ(t+1)) + (1 - μ(t)) s / (1 - M)) / (√v̂ + ε), m' and v̂ as adam
    amsgrad:  as adam, with top' = max(top, v') in the place of v'
    lamb:     d = m̂ / (√v̂ + ε) + decay · w, with s = g;  w' = w - rate · |w| / |d| · d  (no ratio when either is 0)
    rmsprop:  v' = α v + (1 - α) s²;  m' = momentum · m + s / (√v' + ε);  w' = w - rate · m'
              rmsprop_plain has no momentum, rmsprop_centered mean' = α mean + (1 - α) s and v' - mean'² for v'
              rate_inside: as sgd; epsilon_inside: √(v' + ε) for √v' + ε
    adagrad:  v' = v + s²;  w' = w - rate · s / (√(v' + initial) + ε), or √(v' + initial + ε) with epsilon_inside
    adadelta: v' = ρ v + (1 - ρ) s²;  d = √(u + ε) / √(v' + ε) · s;  u' = ρ u + (1 - ρ) d²;  w' = w - rate · d
    adamax:   m' = β₁ m + (1 - β₁) s;  u' = max(β₂ u, |s| + ε);  w' = w - rate / (1 - β₁ᵗ) · m' / u'
              epsilon_outside: u' = max(β₂ u, |s|) and m' / (u' + ε)
    muon:     m' = μ m + (1 - μ) g;  o = orthogonal((1 - μ) g + μ m', or m' without nesterov)
              w' = w - rate · (√max(1, columns / rows) · o + decay · w), of matrices w[rows, columns]
    lion:     w' = w - rate · (sign(β₁ m + (1 - β₁) g) + decay · w);  m' = β₂ m + (1 - β₂) g
    adafactor: `nnc.ops.optimizer.adafactor`

s = g + decay · w unless said. |·| is the 2-norm over the parameter. The rate and the step count t (1 at the first
update) are scalar tensors, so a schedule changes no graph.
"""

from __future__ import annotations

from dataclasses import field

from nnc.arguments import Count, Positive, Rate, Share
from nnc.classes import QUIET, dataclass
from nnc.errors import ShapeError
from nnc.ops.optimizer.update import UpdateOperator, infer_update, update
from nnc.ops.rules import Specs


@dataclass(frozen=True, slots=True)
class GradientDescentAttrs:
    """Weight decay (L2)."""

    decay: Rate = 0.0


@dataclass(frozen=True, slots=True)
class SGDAttrs:
    """Momentum, its dampening, weight decay (L2), Nesterov's look-ahead, and whether the moment has the rate in it."""

    momentum: Share = 0.0
    dampening: float = 0.0
    decay: Rate = 0.0
    nesterov: bool = False
    rate_inside: bool = field(default=False, metadata=QUIET)


@dataclass(frozen=True, slots=True)
class MomentsAttrs:
    """Decay rates of the two moments, ε, weight decay."""

    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-8
    decay: Rate = 0.0


@dataclass(frozen=True, slots=True)
class AdamAttrs(MomentsAttrs):
    """Those of the moments, whether the decay is decoupled (AdamW), and whether ε is the ε̂."""

    decoupled: bool = False
    epsilon_hat: bool = field(default=False, metadata=QUIET)


@dataclass(frozen=True, slots=True)
class NadamAttrs(MomentsAttrs):
    """Those of the moments, with L2 decay, and the decline ψ of the momentum."""

    momentum_decay: Positive = 4e-3


@dataclass(frozen=True, slots=True)
class LambAttrs(MomentsAttrs):
    """Those of the moments, with decoupled decay."""

    epsilon: Positive = 1e-6


@dataclass(frozen=True, slots=True)
class RMSPropAttrs:
    """Decay rate α of the mean square, momentum, ε, weight decay (L2), and where the rate and ε stand."""

    alpha: Share = 0.99
    momentum: Share = 0.0
    epsilon: Positive = 1e-8
    decay: Rate = 0.0
    rate_inside: bool = field(default=False, metadata=QUIET)
    epsilon_inside: bool = field(default=False, metadata=QUIET)


@dataclass(frozen=True, slots=True)
class AdagradAttrs:
    """ε, weight decay (L2), what is added to the sum of squares, and whether ε stands in the root."""

    epsilon: Positive = 1e-10
    decay: Rate = 0.0
    initial: Rate = field(default=0.0, metadata=QUIET)
    epsilon_inside: bool = field(default=False, metadata=QUIET)


@dataclass(frozen=True, slots=True)
class AdadeltaAttrs:
    """Decay rate ρ of both mean squares, ε, weight decay (L2)."""

    rho: Share = 0.9
    epsilon: Positive = 1e-6
    decay: Rate = 0.0


@dataclass(frozen=True, slots=True)
class AdamaxAttrs(MomentsAttrs):
    """Those of the moments, the second one the largest slope, with L2 decay, and whether ε is added behind all."""

    epsilon_outside: bool = field(default=False, metadata=QUIET)


@dataclass(frozen=True, slots=True)
class MuonAttrs:
    """Momentum μ, decoupled weight decay, Nesterov's look-ahead, and iterations towards an orthogonal matrix."""

    momentum: Share = 0.95
    decay: Rate = 0.1
    nesterov: bool = True
    iterations: Count = 5
    epsilon: float = 1e-7


@dataclass(frozen=True, slots=True)
class LionAttrs:
    """Weight of the old moment in the direction and in the next moment; decoupled weight decay."""

    beta1: Share = 0.9
    beta2: Share = 0.99
    decay: Rate = 0.0


def _infer_muon(attrs: MuonAttrs, specs: Specs) -> Specs:
    if specs[1].rank != 2:
        fix = "another optimizer for it: PerParameter(AdamW(), ((pattern of matrices, Muon()),))"
        raise ShapeError("muon", got=f"a parameter {specs[1]}", need="a matrix", fix=fix)
    return infer_update(MUON, specs)


GRADIENT_DESCENT = update("gradient_descent", GradientDescentAttrs, {}, work=2, doc="w' = w - rate · (g + decay · w)")
SGD = update(
    "sgd",
    SGDAttrs,
    {"m": "momentum"},
    work=4,
    doc="m' = momentum · m + (1 - dampening)(g + decay · w); w' = w - rate · m'",
)
ADAM = update(
    "adam",
    AdamAttrs,
    {"m": "moment", "v": "variance"},
    work=12,
    counted=True,
    doc="w' = w - rate · m̂ / (√v̂ + ε), m̂ and v̂ the bias-corrected moments (Kingma & Ba 2015)",
)
AMSGRAD = update(
    "amsgrad",
    AdamAttrs,
    {"m": "moment", "v": "variance", "top": "top"},
    work=13,
    counted=True,
    doc="w' = w - rate · m̂ / (√(top' / (1 - β₂ᵗ)) + ε), top' = max(top, v') (Reddi et al. 2018)",
)
NADAM = update(
    "nadam",
    NadamAttrs,
    {"m": "moment", "v": "variance"},
    work=14,
    counted=True,
    doc="w' = w - rate · (μ(t+1) m' / (1 - M μ(t+1)) + (1 - μ(t)) s / (1 - M)) / (√v̂ + ε) (Dozat 2016)",
)
LAMB = update(
    "lamb",
    LambAttrs,
    {"m": "moment", "v": "variance"},
    work=16,
    counted=True,
    whole=True,
    doc="w' = w - rate · |w| / |d| · d, d = m̂ / (√v̂ + ε) + decay · w (You et al. 2020)",
)
RMSPROP = update(
    "rmsprop",
    RMSPropAttrs,
    {"m": "moment", "v": "variance"},
    work=8,
    doc="v' = α v + (1 - α) s²; m' = momentum · m + s / (√v' + ε); w' = w - rate · m' (Hinton 2012)",
)
RMSPROP_PLAIN = update(
    "rmsprop_plain",
    RMSPropAttrs,
    {"v": "variance"},
    work=7,
    doc="v' = α v + (1 - α) s²; w' = w - rate · s / (√v' + ε) (Hinton 2012)",
)
RMSPROP_CENTERED = update(
    "rmsprop_centered",
    RMSPropAttrs,
    {"m": "moment", "v": "variance", "mean": "mean"},
    work=11,
    doc="as rmsprop, of v' - mean'² in the place of v', mean' = α mean + (1 - α) s (Graves 2013)",
)
ADAGRAD = update(
    "adagrad",
    AdagradAttrs,
    {"v": "variance"},
    work=6,
    doc="v' = v + s²; w' = w - rate · s / (√v' + ε) (Duchi et al. 2011)",
)
LION = update(
    "lion",
    LionAttrs,
    {"m": "moment"},
    work=8,
    doc="w' = w - rate · (sign(β₁ m + (1 - β₁) g) + decay · w); m' = β₂ m + (1 - β₂) g (Chen et al. 2023)",
)
ADADELTA = update(
    "adadelta",
    AdadeltaAttrs,
    {"v": "variance", "u": "delta"},
    work=12,
    doc="v' = ρ v + (1 - ρ) s²; d = √(u + ε) / √(v' + ε) · s; u' = ρ u + (1 - ρ) d²; w' = w - rate · d (Zeiler 2012)",
)
ADAMAX = update(
    "adamax",
    AdamaxAttrs,
    {"m": "moment", "u": "top"},
    work=8,
    counted=True,
    doc="w' = w - rate / (1 - β₁ᵗ) · m' / u', u' = max(β₂ u, |s| + ε) (Kingma & Ba 2015)",
)
MUON: UpdateOperator[MuonAttrs] = update(
    "muon",
    MuonAttrs,
    {"m": "moment"},
    work=100,
    whole=True,
    infer=_infer_muon,
    doc="w' = w - rate · (√max(1, columns / rows) · orthogonal(momentum) + decay · w) (Jordan et al. 2024)",
)
