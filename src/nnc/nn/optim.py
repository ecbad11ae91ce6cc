"""Optimizers as PyTorch has them: made of the parameters that they change, with its defaults.

    optimizer = optim.SGD(net.parameters(), lr=0.1)
    loss = ((net(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

Without parameters they are MLX's, `optim.Adam(0.1).update(net, gradients)`. Names in small letters are
optax's (`nnc.nn.optimization.transformations`), and `lr_scheduler` has PyTorch's schedules. All of them hold an
optimizer of `nnc.nn`, whose command and state are those of everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from nnc.arguments import Positive, Rate, Share, checked
from nnc.nn.optimization import lr_scheduler, optimizers, rowwise_losses, transformations
from nnc.nn.optimization.lbfgs import LBFGS as LBFGS
from nnc.nn.optimization.rowwise_losses import *
from nnc.nn.optimization.schedules import RateSchedule
from nnc.nn.optimization.step_optimizer import ParameterSource, StepOptimizer
from nnc.nn.optimization.transformations import *
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

Made = TypeVar("Made", bound=Callable[..., StepOptimizer])


def by_rate(function: Made) -> Made:
    """The optimizer, also with the rate in front where no parameters are given, as in MLX: `optim.SGD(0.1)`."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> StepOptimizer:  # noqa: ANN401  # what the function takes
        if args and (callable(args[0]) or isinstance(args[0], int | float | RateSchedule)):
            args = (None, *args)
        if isinstance(kwargs.get("betas"), list):
            kwargs["betas"] = tuple(kwargs["betas"])
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]  # of the same arguments


__all__ = [
    "LBFGS", "SGD", "AdaDelta", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "NAdam",
    "RMSprop", "StepOptimizer", "lr_scheduler", *rowwise_losses.__all__,
    *transformations.__all__,
]  # fmt: skip


@by_rate
@checked
def SGD(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 1e-3,
    momentum: Share = 0.0,
    weight_decay: Rate = 0.0,
    nesterov: bool = False,
) -> StepOptimizer:
    """m' = momentum · m + g + decay · w;  w' = w - lr · m'.

    >>> w = nnc.variable([1.0, 2.0])
    >>> optimizer = optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    Variable(f32[2], recorded)
    [0. 0.]
    """
    return StepOptimizer(params, optimizers.SGD(lr, momentum, weight_decay, nesterov))


@by_rate
@checked
def Adam(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 1e-3,
    betas: tuple[Share, Share] = (0.9, 0.999),
    eps: Positive = 1e-8,
    weight_decay: Rate = 0.0,
    amsgrad: bool = False,
) -> StepOptimizer:
    """w' = w - lr · m̂ / (√v̂ + ε), with decay added to the gradient.

    >>> net = nn.Dense(1)
    >>> optimizer = optim.Adam(net.parameters(), lr=0.1)
    >>> net(nnc.ones((4, 2))).mean().backward()
    >>> optimizer.step()
    """
    return StepOptimizer(params, optimizers.Adam(lr, *betas, eps, weight_decay, amsgrad=amsgrad))


@by_rate
@checked
def AdamW(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 1e-3,
    betas: tuple[Share, Share] = (0.9, 0.999),
    eps: Positive = 1e-8,
    weight_decay: Rate = 0.01,
    amsgrad: bool = False,
) -> StepOptimizer:
    """Adam whose decay acts on the parameter itself."""
    return StepOptimizer(params, optimizers.AdamW(lr, *betas, eps, weight_decay, amsgrad))


@by_rate
@checked
def RMSprop(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 0.01,
    alpha: Share = 0.99,
    eps: Positive = 1e-8,
    weight_decay: Rate = 0.0,
    momentum: Share = 0.0,
    centered: bool = False,
) -> StepOptimizer:
    """v' = α v + (1 - α) g²;  m' = momentum · m + g / (√v' + ε);  w' = w - lr · m'; centered of v' - mean'²."""
    return StepOptimizer(params, optimizers.RMSProp(lr, alpha, momentum, eps, weight_decay, centered=centered))


@by_rate
@checked
def NAdam(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 2e-3,
    betas: tuple[Share, Share] = (0.9, 0.999),
    eps: Positive = 1e-8,
    weight_decay: Rate = 0.0,
    momentum_decay: Positive = 4e-3,
) -> StepOptimizer:
    """Adam with Nesterov's momentum, which declines (Dozat 2016): `nn.Nadam`."""
    return StepOptimizer(params, optimizers.Nadam(lr, *betas, eps, weight_decay, momentum_decay))


@by_rate
@checked
def Adagrad(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 0.01,
    eps: Positive = 1e-10,
    weight_decay: Rate = 0.0,
) -> StepOptimizer:
    """v' = v + g²;  w' = w - lr · g / (√v' + ε), with decay added to the gradient."""
    return StepOptimizer(params, optimizers.Adagrad(epsilon=eps, decay=weight_decay, rate=lr))


@by_rate
@checked
def Adadelta(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 1.0,
    rho: Share = 0.9,
    eps: Positive = 1e-6,
    weight_decay: Rate = 0.0,
) -> StepOptimizer:
    """v' = ρ v + (1 - ρ) g²;  d = g · √(u + ε) / √(v' + ε);  u' = ρ u + (1 - ρ) d²;  w' = w - lr · d."""
    return StepOptimizer(params, optimizers.Adadelta(rho=rho, epsilon=eps, decay=weight_decay, rate=lr))


AdaDelta = Adadelta


@by_rate
@checked
def Adamax(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 2e-3,
    betas: tuple[Share, Share] = (0.9, 0.999),
    eps: Positive = 1e-8,
    weight_decay: Rate = 0.0,
) -> StepOptimizer:
    """w' = w - lr · m̂ / u, of u' = max(β₂ u, |g| + ε)."""
    return StepOptimizer(params, optimizers.Adamax(lr, *betas, eps, weight_decay))


@by_rate
@checked
def Lion(  # noqa: N802  # as MLX calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 1e-4,
    betas: tuple[Share, Share] = (0.9, 0.99),
    weight_decay: Rate = 0.0,
) -> StepOptimizer:
    """w' = w - lr · (sign(β₁ m + (1 - β₁) g) + decay · w);  m' = β₂ m + (1 - β₂) g."""
    return StepOptimizer(params, optimizers.Lion(lr, *betas, weight_decay))


@by_rate
@checked
def Adafactor(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 0.01,
    weight_decay: Rate = 0.0,
) -> StepOptimizer:
    """Adam whose second moments of matrices are kept by rows and columns: `nn.Adafactor`."""
    return StepOptimizer(params, optimizers.Adafactor(decay=weight_decay, rate=lr))


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.nn.optim'", name, LAYERS, lambda: globals(), "optim.")
