"""Optimizers under Keras' names and with its defaults: each is one of `nnc.nn`, as Keras writes its formula.

In the formulas g is the gradient, t the number of the update from 1, and a the rate. `weight_decay` multiplies the
weights by 1 - a · decay before the update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from nnc.arguments import Positive, Rate, Share
from nnc.arguments import checked as checked
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError
from nnc.keras.named import named
from nnc.keras.optimizers import schedules as schedules
from nnc.keras.optimizers.base_optimizer import LearningRate
from nnc.keras.optimizers.base_optimizer import Optimizer as Optimizer
from nnc.nn.optimization import optimizers as rules
from nnc.nn.optimization.optimizer_base import Optimizer as Rule


class SGD(Optimizer):
    """v' = momentum · v + a g;  w' = w - v', or with nesterov w - (a g + momentum · v'): `nn.SGD`.

    >>> from nnc import keras
    >>> w = keras.Variable([1.0, 2.0])
    >>> keras.optimizers.SGD(0.5).apply_gradients([([2.0, 2.0], w)])
    >>> w.tolist()
    [0.0, 1.0]
    """

    def __init__(
        self, learning_rate: LearningRate = 0.01, momentum: Share = 0.0, nesterov: bool = False, **options: Any
    ) -> None:
        super().__init__(learning_rate, rule=rules.SGD(0.0, momentum, 0.0, nesterov, rate_inside=True), **options)


class Adam(Optimizer):
    """m' = β₁ m + (1 - β₁) g;  v' = β₂ v + (1 - β₂) g²;  w' = w - a √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m' / (√v' + ε)"""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: Share = 0.9,
        beta_2: Share = 0.999,
        epsilon: Positive = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        rule = rules.Adam(0.0, beta_1, beta_2, epsilon, amsgrad=amsgrad, epsilon_hat=True)
        super().__init__(learning_rate, rule=rule, **options)


class AdamW(Optimizer):
    """Adam whose decay of weights is 0.004 by default: `nn.AdamW`."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        weight_decay: Rate | None = 0.004,
        beta_1: Share = 0.9,
        beta_2: Share = 0.999,
        epsilon: Positive = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        rule = rules.AdamW(0.0, beta_1, beta_2, epsilon, weight_decay or 0.0, amsgrad, epsilon_hat=True)
        super().__init__(learning_rate, rule=rule, **options)
        self.weight_decay = weight_decay or 0.0


class _OfMoments(Optimizer):
    """One of `nnc.nn` that is told of two moments of the gradient and ε, and of nothing else."""

    kind: ClassVar[Callable[..., Rule]]

    def __init_subclass__(cls, of: Callable[..., Rule] | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            cls.kind = of

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: Share = 0.9,
        beta_2: Share = 0.999,
        epsilon: Positive = 1e-7,
        **options: Any,
    ) -> None:
        rule = type(self).kind(rate=0.0, beta1=beta_1, beta2=beta_2, epsilon=epsilon)
        super().__init__(learning_rate, rule=rule, **options)


class Nadam(_OfMoments, of=partial(rules.Nadam, momentum_decay=1.0)):
    """Adam with Nesterov's momentum β₁ (1 - 0.96ᵗ / 2) (Dozat 2016): `nn.Nadam`."""


class Adamax(_OfMoments, of=partial(rules.Adamax, epsilon_outside=True)):
    """m' = β₁ m + (1 - β₁) g;  u' = max(β₂ u, |g|);  w' = w - a / (1 - β₁ᵗ) · m' / (u' + ε): `nn.Adamax`."""


class RMSprop(Optimizer):
    """v' = ρ v + (1 - ρ) g²;  w' = w - a g / √(v' + ε), with momentum of that, centered v' - mean²: `nn.RMSProp`."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: Share = 0.9,
        momentum: Share = 0.0,
        epsilon: Positive = 1e-7,
        centered: bool = False,
        **options: Any,
    ) -> None:
        places = {"rate_inside": True, "epsilon_inside": True}
        rule = rules.RMSProp(rate=0.0, alpha=rho, momentum=momentum, epsilon=epsilon, centered=centered, **places)
        super().__init__(learning_rate, rule=rule, **options)


class Adagrad(Optimizer):
    """v' = v + g²;  w' = w - a g / √(v' + initial_accumulator_value + ε): `nn.Adagrad`."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        initial_accumulator_value: Rate = 0.1,
        epsilon: Positive = 1e-7,
        **options: Any,
    ) -> None:
        rule = rules.Adagrad(rate=0.0, epsilon=epsilon, initial=initial_accumulator_value, epsilon_inside=True)
        super().__init__(learning_rate, rule=rule, **options)


class Adadelta(Optimizer):
    """v' = ρ v + (1 - ρ) g²;  d = √(u + ε) / √(v' + ε) · g;  u' = ρ u + (1 - ρ) d²;  w' = w - a d: `nn.Adadelta`."""

    def __init__(
        self, learning_rate: LearningRate = 0.001, rho: Share = 0.95, epsilon: Positive = 1e-7, **options: Any
    ) -> None:
        super().__init__(learning_rate, rule=rules.Adadelta(rate=0.0, rho=rho, epsilon=epsilon), **options)


class Lion(Optimizer):
    """w' = w - a · sign(β₁ m + (1 - β₁) g);  m' = β₂ m + (1 - β₂) g: `nn.Lion`."""

    def __init__(
        self, learning_rate: LearningRate = 0.001, beta_1: Share = 0.9, beta_2: Share = 0.99, **options: Any
    ) -> None:
        super().__init__(learning_rate, rule=rules.Lion(rate=0.0, beta1=beta_1, beta2=beta_2), **options)


class Lamb(_OfMoments, of=partial(rules.Lamb, decay=0.0)):
    """w' = w - a · |w| / |d| · d, d = m̂ / (√v̂ + ε), for large batches (You et al. 2020): `nn.Lamb`."""


NAMES: dict[str, type[Optimizer]] = {
    kind.__name__.lower(): kind for kind in (SGD, Adam, AdamW, Nadam, Adamax, RMSprop, Adagrad, Adadelta, Lion, Lamb)
}


def get(value: object) -> Optimizer:
    """The optimizer of that name, or the object itself.

    >>> from nnc import keras
    >>> keras.optimizers.get("adam").name
    'adam'
    """
    if isinstance(value, str):
        return named("optimizer", value.lower(), NAMES)()
    if isinstance(value, Mapping) and "class_name" in value:
        return named("optimizer", str(value["class_name"]).lower(), NAMES)(**value.get("config", {}))
    if isinstance(value, type) and issubclass(value, Optimizer):
        return value()
    if not isinstance(value, Optimizer):
        got, need = f"optimizer={type(value).__name__}", "a name or one of keras.optimizers"
        fix = "keras.optimizers.Adam(learning_rate=1e-3)"
        raise ArgumentError("compile", got=got, need=need, fix=fix, origin=caller_origin())
    return value
