"""Optimizers as users name them: a row of `nnc.ops.optimizer` and the rate that steers it."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from nnc.arguments import Count, Positive, Rate, Share, checked
from nnc.classes import QUIET, dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.nn.optimization.optimizer_base import RowOptimizer
from nnc.nn.optimization.schedules import RateSchedule
from nnc.ops.optimizer import optimizer as ops
from nnc.ops.optimizer.adafactor import ADAFACTOR, AdafactorAttrs
from nnc.ops.optimizer.update import UpdateOperator

__all__ = [
    "Adadelta", "Adafactor", "Adagrad", "Adam", "Adamax", "AdamW", "Lamb", "Lion", "Muon", "Nadam", "RMSProp", "SGD",
]  # fmt: skip


@checked
@dataclass(frozen=True, slots=True)
class SGD(RowOptimizer):
    """m' = momentum · m + g + decay · w;  w' = w - rate · m'. Without momentum there is no m.

    With `rate_inside` the moment has the rate of its step in it, m' = momentum · m + rate · (g + decay · w), and
    w' = w - m' (Sutskever et al. 2013), as in Keras; it differs where the rate changes.
    """

    row = ops.SGD
    rate: Rate | RateSchedule = 0.01
    momentum: Share = 0.9
    decay: Rate = 0.0
    nesterov: bool = False
    rate_inside: bool = field(default=False, metadata=QUIET)

    def operator(self) -> UpdateOperator[Any]:
        """sgd, or gradient_descent, which keeps no state."""
        return self.row if self.momentum else ops.GRADIENT_DESCENT


@checked
@dataclass(frozen=True, slots=True)
class Adam(ops.AdamAttrs, RowOptimizer):
    """w' = w - rate · m̂ / (√v̂ + ε), m̂ and v̂ the bias-corrected moments (Kingma & Ba 2015).

    With `amsgrad` the largest v so far takes the place of v (Reddi et al. 2018), as in PyTorch and Keras. With
    `epsilon_hat` ε is the paper's ε̂, beside √v without its correction, as in Keras.
    """

    row = ops.ADAM
    rate: Rate | RateSchedule = 1e-3
    amsgrad: bool = False

    def operator(self) -> UpdateOperator[Any]:
        """adam or amsgrad."""
        return ops.AMSGRAD if self.amsgrad else ops.ADAM


@checked
@dataclass(frozen=True, slots=True)
class AdamW(RowOptimizer):
    """Adam whose decay acts on the parameter itself: w' = w - rate · (m̂ / (√v̂ + ε) + decay · w) (Loshchilov 2019)."""

    rate: Rate | RateSchedule = 1e-3
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-8
    decay: Rate = 0.01
    amsgrad: bool = False
    epsilon_hat: bool = field(default=False, metadata=QUIET)

    def operator(self) -> UpdateOperator[Any]:
        """adam or amsgrad."""
        return ops.AMSGRAD if self.amsgrad else ops.ADAM

    def command(self) -> AnyCommand:
        """The command with a decay apart from the gradient."""
        coupled = RowOptimizer.command(self)
        return Command(coupled.op, replace(coupled.attrs, decoupled=True))


@checked
@dataclass(frozen=True, slots=True)
class Nadam(ops.NadamAttrs, RowOptimizer):
    """Adam with Nesterov's momentum, which declines: μ(t) = β₁ (1 - 0.96^(t ψ) / 2) (Dozat 2016).

    w' = w - rate · (μ(t+1) m' / (1 - M μ(t+1)) + (1 - μ(t)) s / (1 - M)) / (√v̂ + ε), M the product of all μ so far and
    s = g + decay · w. ψ is `momentum_decay`, 0.004 in PyTorch and 1 in Keras.
    """

    row = ops.NADAM
    rate: Rate | RateSchedule = 2e-3


@checked
@dataclass(frozen=True, slots=True)
class Lamb(ops.LambAttrs, RowOptimizer):
    """w' = w - rate · |w| / |d| · d, d = m̂ / (√v̂ + ε) + decay · w, for large batches (You et al. 2020)."""

    row = ops.LAMB
    rate: Rate | RateSchedule = 1e-3
    decay: Rate = 0.01


@checked
@dataclass(frozen=True, slots=True)
class RMSProp(ops.RMSPropAttrs, RowOptimizer):
    """v' = α v + (1 - α) s²;  m' = momentum · m + s / (√v' + ε);  w' = w - rate · m', s = g + decay · w.

    Without momentum there is no m. With `centered` v' - mean'² takes the place of v', mean' = α mean + (1 - α) s
    (Graves 2013). `rate_inside` and `epsilon_inside` are where Keras has them: rate · s / √(v' + ε) in the moment.
    """

    row = ops.RMSPROP
    rate: Rate | RateSchedule = 1e-3
    centered: bool = field(default=False, metadata=QUIET)

    def operator(self) -> UpdateOperator[Any]:
        """rmsprop, or the row that keeps less or more beside a parameter."""
        if self.centered:
            return ops.RMSPROP_CENTERED
        return ops.RMSPROP if self.momentum else ops.RMSPROP_PLAIN


@checked
@dataclass(frozen=True, slots=True)
class Adagrad(ops.AdagradAttrs, RowOptimizer):
    """v' = v + s²;  w' = w - rate · s / (√(v' + initial) + ε), s = g + decay · w (Duchi et al. 2011).

    With `epsilon_inside` the root is √(v' + initial + ε), as in Keras.
    """

    row = ops.ADAGRAD
    rate: Rate | RateSchedule = 0.01


@checked
@dataclass(frozen=True, slots=True)
class Adadelta(ops.AdadeltaAttrs, RowOptimizer):
    """w' = w - rate · d, d = √(u + ε) / √(v' + ε) · s: steps as large as those before (Zeiler 2012)."""

    row = ops.ADADELTA
    rate: Rate | RateSchedule = 1.0


@checked
@dataclass(frozen=True, slots=True)
class Adamax(ops.AdamaxAttrs, RowOptimizer):
    """w' = w - rate · m̂ / u', u' = max(β₂ u, |s| + ε): Adam by the largest slope (Kingma & Ba 2015).

    With `epsilon_outside` u' = max(β₂ u, |s|), and m̂ is divided by u' + ε, as in Keras.
    """

    row = ops.ADAMAX
    rate: Rate | RateSchedule = 2e-3


@checked
@dataclass(frozen=True, slots=True)
class Muon(RowOptimizer):
    """w' = w - rate · (√max(1, out / in) · orthogonal(momentum) + decay · w), for matrices (Jordan et al. 2024).

    Biases and norms take another one: `PerParameter(AdamW(), (("*.weight", Muon()),))`. The reference backend does it.
    """

    row = ops.MUON
    rate: Rate | RateSchedule = 1e-3
    momentum: Share = 0.95
    decay: Rate = 0.1
    nesterov: bool = True
    iterations: Count = 5


@checked
@dataclass(frozen=True, slots=True)
class Adafactor(AdafactorAttrs, RowOptimizer):
    """Adam's steps with a state of rows and columns alone: w[m, n] has m + n numbers beside it (Shazeer & Stern 2018).

    The step is min(rate, 1 / √t) when `relative`, times max(ε₂, rms(w)) when `scaled`, against g / √v clipped to
    rms = `clip`; v forgets by 1 - t^-decline. Numbers are those of PyTorch. The reference backend does it.
    """

    row = ADAFACTOR
    rate: Rate | RateSchedule = 0.01


@checked
@dataclass(frozen=True, slots=True)
class Lion(ops.LionAttrs, RowOptimizer):
    """w' = w - rate · (sign(β₁ m + (1 - β₁) g) + decay · w);  m' = β₂ m + (1 - β₂) g (Chen et al. 2023)."""

    row = ops.LION
    rate: Rate | RateSchedule = 1e-4
