"""Optimizers as PyTorch has them: made of the parameters that they change, with its defaults.

    optimizer = optim.SGD(net.parameters(), lr=0.1)
    loss = ((net(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

They hold an optimizer of `nnc.nn`, whose command and state are those of everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Positive, Rate, Share, checked
from nnc.core.values.tensor import as_array
from nnc.dynamic import eager
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, FormatError
from nnc.nn.optimization import optimizers
from nnc.nn.optimization.in_place import update_in_place
from nnc.nn.optimization.optimizers import Optimizer as Rule
from nnc.nn.state.layer_state import LayerState, Parameters
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

ParameterSource = Parameters | Iterable[Variable]


class StepOptimizer:
    """`step()` changes the parameters by their gradients, `p.grad`; those without one stay as they are."""

    def __init__(self, parameters: ParameterSource, rule: Rule) -> None:
        self.rule = rule
        if isinstance(parameters, Parameters):
            self._layer = parameters.layer
        else:
            self._layer = _Group(parameters)

    def step(self) -> None:
        """One update."""
        trained = self._layer.trainable_parameters()
        gradients = {path: variable.grad for path, variable in trained.items()}
        update_in_place(
            self.rule,
            self._layer,
            {path: gradient for path, gradient in gradients.items() if gradient is not None},
            None,
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, whether or not zeros are asked for."""
        self._layer.zero_grad()

    @property
    def lr(self) -> float:
        """The rate; of a schedule that of its first update."""
        return self.rule.scalars(1)["rate"]

    @lr.setter
    def lr(self, rate: float) -> None:
        self.rule = self.rule.at_rate(rate)

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """What the optimizer keeps, by path of the parameter and name."""
        return {name: np.array(value.numpy()) for name, value in self._layer.own.optimizer_state.items()}

    def load_state_dict(self, values: Mapping[str, ArrayLike]) -> None:
        """Go on with this state, which an optimizer of the same parameters and kind had."""
        own, trained = self._layer.own, self._layer.trainable_parameters()
        for path in trained:
            part = self.rule.at(path)
            own.optimizer_kinds[path] = None if part is None else part.command().op
            missing = [name for name in ({} if part is None else part.state_names()) if f"{path}.{name}" not in values]
            if missing:
                raise FormatError("state", got=f"no {path}.{missing[0]}", need="the state of each parameter")
        own.optimizer_state = {name: eager.tensor(as_array(value)) for name, value in values.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule!r})"


class _Group(LayerState):
    """Variables without a layer, by their positions."""

    __slots__ = ()

    def __init__(self, parameters: Iterable[Variable]) -> None:
        for place, variable in enumerate(parameters):
            if not isinstance(variable, Variable) or not variable.graph.is_leaf(variable):
                need, fix = "leaf variables", "net.parameters(), after a first call of net(x)"
                raise ArgumentError("optim", got=f"a {type(variable).__name__}", need=need, fix=fix)
            self.own.variables[str(place)] = variable


@checked
def SGD(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource, lr: Rate = 1e-3, momentum: Share = 0.0, weight_decay: Rate = 0.0, nesterov: bool = False
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
    params: ParameterSource,
    lr: Rate = 1e-3,
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
    params: ParameterSource,
    lr: Rate = 1e-3,
    betas: tuple[Share, Share] = (0.9, 0.999),
    eps: Positive = 1e-8,
    weight_decay: Rate = 0.01,
    amsgrad: bool = False,
) -> StepOptimizer:
    """Adam whose decay acts on the parameter itself."""
    return StepOptimizer(params, optimizers.AdamW(lr, *betas, eps, weight_decay, amsgrad))


@checked
def RMSprop(  # noqa: N802  # as PyTorch calls it
    params: ParameterSource,
    lr: Rate = 0.01,
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
