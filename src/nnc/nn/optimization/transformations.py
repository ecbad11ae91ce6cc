"""What optax has: transformations of gradients with their state outside, and schedules by its names.

    tx = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(1e-3))
    state = tx.init(params)
    updates, state = tx.update(grads, state, params)
    params = optim.apply_updates(params, updates)

A transformation is an optimizer of `nnc.nn` seen so: updates are its new parameters less the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from nnc.arguments import Count, Finite, Positive, Rate, Share, checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.state import constant_of
from nnc.dynamic.tree import Tree, flatten
from nnc.errors import ArityError
from nnc.nn.optimization import optimizers
from nnc.nn.optimization.chains import (
    AddDecay,
    ChainedChange,
    ClipNorm,
    ClipValue,
    OptimizerChain,
    Scale,
    ScaleBySchedule,
)
from nnc.nn.optimization.chains import chain as chain_of
from nnc.nn.optimization.chains import global_norm as norm_of
from nnc.nn.optimization.optimizer_base import Optimizer, State, by_path
from nnc.nn.optimization.schedules import (
    Constant,
    Cosine,
    Joined,
    LinearSchedule,
    Milestones,
    Polynomial,
    RateSchedule,
    StepDecay,
    Warmup,
)
from nnc.nn.state.layer_state import LayerState
from nnc.ops.elementwise.pointwise import add, subtract
from nnc.ops.movement.fill import fill_like

__all__ = [
    "Transformation", "adagrad", "adam", "adamw", "add_decayed_weights", "apply_updates", "chain", "clip",
    "clip_by_global_norm", "clip_grad_norm", "constant_schedule", "cosine_decay", "cosine_decay_schedule",
    "exponential_decay", "global_norm", "incremental_update", "join_schedules", "lamb", "linear_schedule", "lion",
    "piecewise_constant_schedule", "polynomial_schedule", "rmsprop", "scale", "scale_by_adam", "scale_by_learning_rate",
    "scale_by_schedule", "sgd", "step_decay", "trace", "warmup_cosine_decay_schedule",
]  # fmt: skip

LearningRate: TypeAlias = Rate | RateSchedule


@dataclass(frozen=True, slots=True)
class Transformation:
    """Updates of parameters by their gradients: an optimizer whose state the caller keeps, in optax's order."""

    optimizer: Optimizer

    def init(self, params: Tree) -> State:
        """The state before the first update."""
        return self.optimizer.init(params)

    def update(self, updates: Tree, state: Tree = None, params: Tree = None) -> tuple[Tree, State] | None:
        """(what is to be added to the parameters, new state) of gradients.

        Where nothing reads the parameters, as in a decay, they may be left out. `update(net, gradients)` of a layer or
        module gives its parameters their new values.
        """
        if isinstance(updates, LayerState):
            self.optimizer.update(updates, state)
            return None
        if state is None:
            fix = "state = tx.init(params)"
            raise ArityError("update", got="no state", need="one", fix=fix, origin=caller_origin())
        leaves, structure = flatten(updates if params is None else params)
        given = [as_operand(leaf) for leaf in leaves]
        olds = [fill_like(leaf, 0.0) if params is None else constant_of(leaf) for leaf in given]
        if params is None and _reads_parameters(self.optimizer):
            fix = "tx.update(grads, state, params)"
            raise ArityError("update", got="no parameters", need="them, for the decay", fix=fix, origin=caller_origin())
        news, following = self.optimizer.update(structure.unflatten(olds), updates, state)
        moves = [subtract(new, old) for new, old in zip(flatten(news)[0], olds, strict=True)]
        return structure.unflatten(moves), following


def _reads_parameters(optimizer: Optimizer) -> bool:
    """Whether updates depend on the parameters beside their gradients."""
    if isinstance(optimizer, OptimizerChain):
        parts = (*optimizer.before, *optimizer.after)
        return any(isinstance(part, AddDecay) for part in parts) or _reads_parameters(optimizer.optimizer)
    return isinstance(optimizer, optimizers.Lamb | optimizers.Adafactor) or getattr(optimizer, "decay", 0.0) > 0.0


@checked
def chain(*parts: Transformation | ChainedChange | Optimizer | RateSchedule) -> Transformation:
    """The parts one behind the other; see `nn.chain`."""
    return Transformation(chain_of(*[part.optimizer if isinstance(part, Transformation) else part for part in parts]))


def apply_updates(params: Tree, updates: Tree) -> Tree:
    """params + updates, leaf by leaf."""
    leaves, structure = flatten(params)
    pairs = zip(leaves, flatten(updates)[0], strict=True)
    return structure.unflatten([add(as_operand(leaf), move) for leaf, move in pairs])


@checked
def incremental_update(new_tensors: Tree, old_tensors: Tree, step_size: Finite) -> Tree:
    """step_size · new + (1 - step_size) · old, leaf by leaf: a mean that forgets.

    >>> nnc.optim.incremental_update({"w": nnc.ones(())}, {"w": nnc.zeros(())}, 0.25)["w"].item()
    0.25
    """
    leaves, structure = flatten(old_tensors)
    moves = zip(map(as_operand, leaves), map(as_operand, flatten(new_tensors)[0]), strict=True)
    return structure.unflatten([old + (new - old) * step_size for old, new in moves])


def global_norm(updates: Tree) -> ArrayOperand:
    """sqrt(sum over all leaves and all their elements of g²)"""
    return norm_of(by_path(updates))


@checked
def clip_grad_norm(grads: Tree, max_norm: Positive) -> tuple[Tree, ArrayOperand]:
    """(gradients whose norm over all is at most `max_norm`, the norm that they had), as MLX has it."""
    slopes = by_path(grads)
    norm = norm_of(slopes)
    clipped = ClipNorm(max_norm).changed(slopes, {}, norm)
    return flatten(grads)[1].unflatten(list(clipped.values())), norm


# ---- parts


@checked
def clip_by_global_norm(max_norm: Positive) -> ChainedChange:
    """nn.ClipNorm"""
    return ClipNorm(max_norm)


@checked
def clip(max_delta: Positive) -> ChainedChange:
    """nn.ClipValue"""
    return ClipValue(max_delta)


@checked
def scale(step_size: Finite) -> ChainedChange:
    """nn.Scale"""
    return Scale(step_size)


@checked
def scale_by_schedule(step_size_fn: RateSchedule) -> ChainedChange:
    """nn.ScaleBySchedule"""
    return ScaleBySchedule(step_size_fn)


@checked
def scale_by_learning_rate(learning_rate: LearningRate) -> Transformation:
    """-learning_rate · g"""
    return Transformation(optimizers.SGD(learning_rate, momentum=0.0))


@checked
def scale_by_adam(b1: Share = 0.9, b2: Share = 0.999, eps: Positive = 1e-8) -> Transformation:
    """m̂ / (√v̂ + ε), which a part behind it scales by a rate below 0."""
    return Transformation(OptimizerChain(optimizers.Adam(1.0, b1, b2, eps), (), (Scale(-1.0),)))


@checked
def trace(decay: Share, nesterov: bool = False) -> Transformation:
    """m = decay · m + g, with `nesterov` once more decay · m + g of that, which a part behind it scales.

    >>> tx = nnc.optim.chain(nnc.optim.trace(0.5), nnc.optim.scale(-1.0))
    >>> state = tx.init(nnc.zeros(()))
    >>> for _ in range(3):
    ...     move, state = tx.update(nnc.ones(()), state)
    >>> move.item()
    -1.75
    """
    return Transformation(OptimizerChain(optimizers.SGD(1.0, decay, 0.0, nesterov), (), (Scale(-1.0),)))


@checked
def add_decayed_weights(weight_decay: Rate) -> ChainedChange:
    """nn.AddDecay"""
    return AddDecay(weight_decay)


# ---- optimizers, with the defaults of optax


@checked
def sgd(learning_rate: LearningRate, momentum: Share | None = None, nesterov: bool = False) -> Transformation:
    """nn.SGD"""
    return Transformation(optimizers.SGD(learning_rate, momentum or 0.0, 0.0, nesterov))


@checked
def adam(learning_rate: LearningRate, b1: Share = 0.9, b2: Share = 0.999, eps: Positive = 1e-8) -> Transformation:
    """nn.Adam"""
    return Transformation(optimizers.Adam(learning_rate, b1, b2, eps))


@checked
def adamw(
    learning_rate: LearningRate, b1: Share = 0.9, b2: Share = 0.999, eps: Positive = 1e-8, weight_decay: Rate = 1e-4
) -> Transformation:
    """nn.AdamW"""
    return Transformation(optimizers.AdamW(learning_rate, b1, b2, eps, weight_decay))


@checked
def lion(learning_rate: LearningRate, b1: Share = 0.9, b2: Share = 0.99, weight_decay: Rate = 1e-3) -> Transformation:
    """nn.Lion"""
    return Transformation(optimizers.Lion(rate=learning_rate, beta1=b1, beta2=b2, decay=weight_decay))


@checked
def lamb(learning_rate: LearningRate, weight_decay: Rate = 0.0) -> Transformation:
    """nn.Lamb"""
    return Transformation(optimizers.Lamb(rate=learning_rate, decay=weight_decay))


@checked
def rmsprop(learning_rate: LearningRate, decay: Share = 0.9, eps: Positive = 1e-8) -> Transformation:
    """nn.RMSProp"""
    return Transformation(optimizers.RMSProp(rate=learning_rate, alpha=decay, epsilon=eps))


@checked
def adagrad(learning_rate: LearningRate, eps: Positive = 1e-7) -> Transformation:
    """nn.Adagrad"""
    return Transformation(optimizers.Adagrad(rate=learning_rate, epsilon=eps))


# ---- schedules


@checked
def constant_schedule(value: Rate) -> RateSchedule:
    """nn.Constant"""
    return Constant(value)


@checked
def linear_schedule(init_value: Rate, end_value: Rate, transition_steps: Count) -> RateSchedule:
    """nn.LinearSchedule"""
    return LinearSchedule(init_value, transition_steps, end_value)


@checked
def polynomial_schedule(init_value: Rate, end_value: Rate, power: Positive, transition_steps: Count) -> RateSchedule:
    """nn.Polynomial"""
    return Polynomial(init_value, transition_steps, end_value, power)


@checked
def cosine_decay_schedule(init_value: Rate, decay_steps: Count, alpha: Rate = 0.0) -> RateSchedule:
    """nn.Cosine that ends at alpha · init_value"""
    return Cosine(init_value, decay_steps, alpha * init_value)


@checked
def cosine_decay(init: Rate, decay_steps: Count, end: Rate = 0.0) -> RateSchedule:
    """nn.Cosine, as MLX calls it"""
    return Cosine(init, decay_steps, end)


@checked
def exponential_decay(
    init_value: Positive, transition_steps: Count | Rate, decay_rate: Positive | None = None, staircase: bool = False
) -> RateSchedule:
    """init_value · decay_rate^(step / transition_steps); in stairs where asked for.

    MLX's has two arguments, init · decay_rate^step.
    """
    steps, factor = (1, transition_steps) if decay_rate is None else (int(transition_steps), decay_rate)
    if staircase:
        return StepDecay(init_value, steps, factor)
    return StepDecay(init_value, 1, factor ** (1.0 / steps))


@checked
def step_decay(init: Rate, decay_rate: Rate, step_size: Count) -> RateSchedule:
    """nn.StepDecay, as MLX calls it"""
    return StepDecay(init, step_size, decay_rate)


@checked
def warmup_cosine_decay_schedule(
    init_value: Rate, peak_value: Positive, warmup_steps: Count, decay_steps: Count, end_value: Rate = 0.0
) -> RateSchedule:
    """From init_value to peak_value in the first steps, then a cosine to end_value at `decay_steps`."""
    return Warmup(warmup_steps, Cosine(peak_value, decay_steps - warmup_steps, end_value), init_value / peak_value)


@checked
def join_schedules(schedules: Sequence[RateSchedule], boundaries: Sequence[Count]) -> RateSchedule:
    """nn.Joined: each schedule until its boundary, from its own first step on."""
    if len(schedules) != len(boundaries) + 1:
        got, need = f"{len(schedules)} schedules, {len(boundaries)} boundaries", "one boundary less"
        raise ArityError("join_schedules", got=got, need=need, origin=caller_origin())
    lengths = np.diff([0, *boundaries]).tolist()
    return Joined(tuple(zip(lengths, schedules[:-1], strict=True)), schedules[-1])


@checked
def piecewise_constant_schedule(
    init_value: Rate, boundaries_and_scales: Mapping[int, Rate] | None = None
) -> RateSchedule:
    """nn.Milestones where all scales are one, else constants one behind the other"""
    scales = dict(sorted((boundaries_and_scales or {}).items()))
    if not scales:
        return Constant(init_value)
    if len(set(scales.values())) == 1:
        return Milestones(init_value, tuple(scales), next(iter(scales.values())))
    values = [init_value * float(factor) for factor in np.cumprod([1.0, *scales.values()])]
    return join_schedules([*map(Constant, values)], [*scales])
