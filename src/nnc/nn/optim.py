"""Optimizers as PyTorch has them: made of the parameters that they change, with its defaults.

    optimizer = optim.SGD(net.parameters(), lr=0.1)
    loss = ((net(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

Without parameters they are MLX's, `optim.Adam(learning_rate=0.1).update(net, gradients)`. Names in small letters are
optax's (`nnc.nn.optimization.transformations`), and `lr_scheduler` has PyTorch's schedules. All of them hold an
optimizer of `nnc.nn`, whose command and state are those of everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nnc.arguments import Positive, Rate, Share, checked
from nnc.nn.optimization import lr_scheduler, optimizers, transformations
from nnc.nn.optimization.schedules import RateSchedule
from nnc.nn.optimization.step_optimizer import ParameterSource, StepOptimizer
from nnc.nn.optimization.transformations import *
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

__all__ = ["SGD", "Adam", "AdamW", "RMSprop", "StepOptimizer", "lr_scheduler", *transformations.__all__]


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


@checked
def RMSprop(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource | None = None,
    lr: Rate | RateSchedule = 0.01,
    alpha: Share = 0.99,
    eps: Positive = 1e-8,
    weight_decay: Rate = 0.0,
    momentum: Share = 0.0,
) -> StepOptimizer:
    """v' = α v + (1 - α) g²;  m' = momentum · m + g / (√v' + ε);  w' = w - lr · m'."""
    return StepOptimizer(params, optimizers.RMSProp(lr, alpha, momentum, eps, weight_decay))


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.nn.optim'", name, LAYERS, lambda: globals(), "optim.")
