"""Optimizers under Keras' names, with its formulas and defaults.

In the formulas g is the gradient, t the number of the update from 1, and a the rate; decay of weights is a · decay · w.
"""

from __future__ import annotations

from typing import Any

from nnc import numerics as n
from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError
from nnc.keras.named import named
from nnc.keras.optimizers import schedules as schedules
from nnc.keras.optimizers.base_optimizer import LearningRate
from nnc.keras.optimizers.base_optimizer import Optimizer as Optimizer

Slots = dict[str, Any]


@checked
class SGD(Optimizer):
    """v' = momentum · v + g;  w' = w - a · v', or with nesterov w - a · (momentum · v' + g)

    >>> from nnc import keras
    >>> w = keras.Variable([1.0, 2.0])
    >>> keras.optimizers.SGD(0.5).apply_gradients([([2.0, 2.0], w)])
    >>> w.tolist()
    [0.0, 1.0]
    """

    def __init__(
        self, learning_rate: LearningRate = 0.01, momentum: float = 0.0, nesterov: bool = False, **options: Any
    ) -> None:
        self.momentum, self.nesterov = momentum, nesterov
        super().__init__(learning_rate, **options)
        if momentum:
            self.slots = ("velocity",)  # type: ignore[misc]  # of this one

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        if not self.momentum:
            return rate * g, {}
        velocity = self.momentum * slots["velocity"] - rate * g
        change = rate * g - self.momentum * velocity if self.nesterov else -velocity
        return change, {"velocity": velocity}


@checked
class Adam(Optimizer):
    """m' = β₁ m + (1 - β₁) g;  v' = β₂ v + (1 - β₂) g²;  w' = w - a √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m' / (√v' + ε)"""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        self.slots = ("m", "v", "largest") if amsgrad else ("m", "v")  # type: ignore[misc]  # of this one
        super().__init__(learning_rate, **options)

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        m = slots["m"] + (g - slots["m"]) * (1.0 - self.beta_1)
        v = slots["v"] + (g * g - slots["v"]) * (1.0 - self.beta_2)
        scaled = rate * n.sqrt(1.0 - power(self.beta_2, step)) / (1.0 - power(self.beta_1, step))
        news = {"m": m, "v": v}
        if self.amsgrad:
            v = news["largest"] = n.maximum(slots["largest"], v)
        return scaled * m / (n.sqrt(v) + self.epsilon), news


@checked
class AdamW(Adam):
    """Adam whose decay of weights is 0.004 by default."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        weight_decay: float | None = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **options)


@checked
class Nadam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016): u = β₁ (1 - 0.5 · 0.96ᵗ)"""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        # The product of all u so far is one number, which each weight keeps beside its own slots.
        self.slots = ("m", "v", "product")  # type: ignore[misc]  # of this one
        super().__init__(learning_rate, **options)

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        now = self.beta_1 * (1.0 - 0.5 * power(0.96, step))
        later = self.beta_1 * (1.0 - 0.5 * power(0.96, step + 1.0))
        product = n.where(step <= 1.0, n.ones_like(slots["product"]), slots["product"]) * now
        m = slots["m"] + (g - slots["m"]) * (1.0 - self.beta_1)
        v = slots["v"] + (g * g - slots["v"]) * (1.0 - self.beta_2)
        ahead = later * m / (1.0 - product * later) + (1.0 - now) * g / (1.0 - product)
        spread = v / (1.0 - power(self.beta_2, step))
        return rate * ahead / (n.sqrt(spread) + self.epsilon), {"m": m, "v": v, "product": product}


@checked
class Adamax(Optimizer):
    """m' = β₁ m + (1 - β₁) g;  u' = max(β₂ u, |g|);  w' = w - a / (1 - β₁ᵗ) · m' / (u' + ε)"""

    slots = ("m", "u")

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        super().__init__(learning_rate, **options)

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        m = slots["m"] + (g - slots["m"]) * (1.0 - self.beta_1)
        u = n.maximum(self.beta_2 * slots["u"], n.abs(g))
        return rate * m / ((1.0 - power(self.beta_1, step)) * (u + self.epsilon)), {"m": m, "u": u}


@checked
class RMSprop(Optimizer):
    """v' = ρ v + (1 - ρ) g²;  w' = w - a g / √(v' + ε), with momentum of the quotient, and centered v' - mean²"""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **options: Any,
    ) -> None:
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        more = (*(("momentum",) if momentum else ()), *(("mean",) if centered else ()))
        self.slots = ("v", *more)  # type: ignore[misc]  # of this one
        super().__init__(learning_rate, **options)

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        v = self.rho * slots["v"] + (1.0 - self.rho) * g * g
        news, spread = {"v": v}, v + self.epsilon
        if self.centered:
            mean = news["mean"] = self.rho * slots["mean"] + (1.0 - self.rho) * g
            spread = v - mean * mean + self.epsilon
        change = rate * g * n.rsqrt(spread)
        if self.momentum:
            change = news["momentum"] = self.momentum * slots["momentum"] + change
        return change, news


@checked
class Adagrad(Optimizer):
    """v' = v + g²;  w' = w - a g / √(v' + ε); v begins at initial_accumulator_value"""

    slots = ("v",)

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        self.first, self.epsilon = initial_accumulator_value, epsilon
        super().__init__(learning_rate, **options)

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        v = slots["v"] + g * g
        return rate * g * n.rsqrt(v + self.epsilon), {"v": v}


@checked
class Adadelta(Optimizer):
    """v' = ρ v + (1 - ρ) g²;  d = √(u + ε) / √(v' + ε) · g;  u' = ρ u + (1 - ρ) d²;  w' = w - a d"""

    slots = ("v", "u")

    def __init__(
        self, learning_rate: LearningRate = 0.001, rho: float = 0.95, epsilon: float = 1e-7, **options: Any
    ) -> None:
        self.rho, self.epsilon = rho, epsilon
        super().__init__(learning_rate, **options)

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        v = self.rho * slots["v"] + (1.0 - self.rho) * g * g
        d = n.sqrt(slots["u"] + self.epsilon) * n.rsqrt(v + self.epsilon) * g
        return rate * d, {"v": v, "u": self.rho * slots["u"] + (1.0 - self.rho) * d * d}


@checked
class Lion(Optimizer):
    """w' = w - a · sign(β₁ m + (1 - β₁) g);  m' = β₂ m + (1 - β₂) g"""

    slots = ("m",)

    def __init__(
        self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, **options: Any
    ) -> None:
        self.beta_1, self.beta_2 = beta_1, beta_2
        super().__init__(learning_rate, **options)

    def rule(self, g: Any, w: Any, slots: Slots, rate: Any, step: Any) -> tuple[Any, Slots]:
        m = slots["m"]
        return rate * n.sign(m * self.beta_1 + g * (1.0 - self.beta_1)), {
            "m": m * self.beta_2 + g * (1.0 - self.beta_2)
        }


def power(base: float, x: Any) -> Any:
    """base^x of an operand"""
    return n.power(n.full_like(x, base), x)


NAMES: dict[str, type[Optimizer]] = {
    kind.__name__.lower(): kind for kind in (SGD, Adam, AdamW, Nadam, Adamax, RMSprop, Adagrad, Adadelta, Lion)
}


def get(value: Any) -> Optimizer:
    """The optimizer of that name, or the object itself.

    >>> from nnc import keras
    >>> keras.optimizers.get("adam").name
    'adam'
    """
    if isinstance(value, str):
        return named("optimizer", value.lower(), NAMES)()
    if isinstance(value, type) and issubclass(value, Optimizer):
        return value()
    if not isinstance(value, Optimizer):
        got, need = f"optimizer={type(value).__name__}", "a name or one of keras.optimizers"
        fix = "keras.optimizers.Adam(learning_rate=1e-3)"
        raise ArgumentError("compile", got=got, need=need, fix=fix, origin=caller_origin())
    return value
