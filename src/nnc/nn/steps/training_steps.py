"""Steps that change parameters: an update at once, gradients that are summed first, and the update by their mean."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.nn.layers.layer import ParameterSpec
from nnc.nn.optimization.guard import gradient_norm, guarded
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.steps.model_step import PlannedStep
from nnc.nn.steps.step_graph import StepGraph
from nnc.ops import add, affine, cast, multiply
from nnc.parallel.buckets import sums_over
from nnc.symbolic import Symbol, backward, minimize
from nnc.symbolic.minimization import Minimized, Norm, steering_dtype, unscaled, update_by

# What gradients that were summed over examples are multiplied with to be their mean.
SHARE = "share"
GRADIENT = "gradient."
# What is computed, by what it renews; and results.
Renewal = tuple[Mapping[Symbol, Symbol], tuple[Symbol, ...]]


@dataclass(frozen=True, slots=True)
class Steering:
    """Command and rate of each parameter that is trained, and the numbers that steer the commands, by name."""

    commands: Mapping[Symbol, AnyCommand]
    parameters: tuple[Symbol, ...]
    changed: tuple[Symbol, ...]
    scalars: Mapping[str, Symbol]
    rates: Mapping[Symbol, Symbol]
    norm: Norm

    @classmethod
    def of(cls, step: StepGraph) -> Steering:
        """That of the model's optimizer; what is changed of a parameter is our shard of it, where it has shards."""
        optimizer, given, sharding = step.options.optimizer, step.given, step.options.sharding
        scalars = {name: step.steering_input(name) for name in optimizer.scalars(1)}
        parts = optimizers_of(optimizer, step.specs)
        sharding.check([*parts.values()])
        changed = {path: sharding.updated(given[path], path) for path in parts}
        commands = {changed[path]: part.command() for path, part in parts.items()}
        rates = {changed[path]: scalars[optimizer.rate_name(path)] for path in parts}
        norm = partial(sharding.norm, [step.specs[path] for path in parts])
        return cls(commands, tuple([given[path] for path in parts]), tuple(changed.values()), scalars, rates, norm)


def updated(step: StepGraph, renewed: Mapping[str, Symbol], results: tuple[Symbol, ...]) -> Renewal:
    """Gradients of the first result, which is the loss, and updates by them."""
    steering, options = Steering.of(step), step.options
    results = _of_all(step, results)
    minimized = minimize(
        step.graph,
        steering.commands,
        results[:1],
        steering.parameters,
        scalars=steering.scalars,
        rates=steering.rates,
        clip_norm=options.clip_norm,
        clip_value=options.clip_value,
        loss_scale=step.loss_scale(),
        reduction=options.sharding.reduced,
        changed=steering.changed,
        norm_of=steering.norm,
    )
    results = (*sums_over(results, options.ranks),)
    carry = _carried(step, minimized, steering) | {value: step.given[path] for path, value in renewed.items()}
    if not (options.guards_updates and minimized.updates):
        return carry, results
    carry, total = guarded(carry, results[0], _norm_of(minimized, steering), renewed.values())
    return carry, (*results, total)


def summed(step: StepGraph, renewed: Mapping[str, Symbol], results: tuple[Symbol, ...], batch: int) -> Renewal:
    """sum' = sum + batch · gradient of the mean loss, for each parameter that an optimizer changes."""
    paths = list(optimizers_of(step.options.optimizer, step.specs))
    scale = step.loss_scale()
    if isinstance(scale, Symbol):
        scaled = multiply(results[0], cast(scale, results[0].spec.dtype))
    else:
        scaled = results[0] if scale == 1.0 else affine(results[0], scale)
    count = batch
    if step.options.ranks is not None:
        # What another rank's loss owes to our part of a batch norm counts by that rank's examples, not by ours.
        scaled, count = affine(scaled, batch), 1
    followed = backward(step.graph, [scaled], [step.given[path] for path in paths])
    results = (*sums_over(_of_all(step, results), step.options.ranks),)
    gradients = step.options.sharding.summands(followed)
    pairs = zip(gradients, [_sum_of(step, path) for path in paths], strict=True)
    carry = {add(total, affine(unscaled(gradient, scale), count)): total for gradient, total in pairs}
    carry |= {value: step.given[path] for path, value in renewed.items()}
    if not (step.options.guards_updates and paths):
        return carry, results
    norms = [gradient_norm(gradients)]
    for ranks in (step.options.ranks, step.options.tensor_ranks):
        norms = [*sums_over(norms, ranks)]
    (norm,) = norms
    carry, total = guarded(carry, results[0], norm, renewed.values())
    return carry, (*results, total)


def applied(step: StepGraph) -> PlannedStep:
    """Updates by the mean of gradients that were summed before."""
    steering, options = Steering.of(step), step.options
    share, gradients = step.steering_input(SHARE), list[Symbol]()
    for path in optimizers_of(options.optimizer, step.specs):
        total = _sum_of(step, path)
        gradients.append(multiply(total, cast(share, total.spec.dtype)))
    minimized = update_by(
        step.graph,
        steering.commands,
        options.sharding.followed(gradients),
        steering.changed,
        scalars=steering.scalars,
        rates=steering.rates,
        clip_norm=options.clip_norm,
        clip_value=options.clip_value,
        norm_of=steering.norm,
    )
    carry, results = _carried(step, minimized, steering), tuple[Symbol, ...]()
    if options.nan_guard and minimized.updates:
        norm = _norm_of(minimized, steering)
        carry, total = guarded(carry, norm, norm)
        results = (total,)
    return step.traced(((), (), results), carry).planned()


def _of_all(step: StepGraph, results: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Loss and score as summands of those of the whole batch: the mean loss by the part that the rank has of it."""
    if step.options.ranks is None:
        return results
    loss, *others = results
    return (multiply(loss, cast(step.part(), loss.spec.dtype)), *others)


def optimizers_of(optimizer: Optimizer, specs: Mapping[str, ParameterSpec]) -> dict[str, Optimizer]:
    """The optimizer of each parameter that one changes."""
    parts = {path: optimizer.at(path) for path, row in specs.items() if row.trainable}
    return {path: part for path, part in parts.items() if part is not None}


def commands_of(optimizer: Optimizer, specs: Mapping[str, ParameterSpec]) -> dict[str, tuple[AnyCommand, str]]:
    """The command of each parameter and the name of its rate: what programs are made of."""
    parts = optimizers_of(optimizer, specs)
    return {path: (part.command(), optimizer.rate_name(path)) for path, part in parts.items()}


def kinds_of(optimizer: Optimizer, specs: Mapping[str, ParameterSpec]) -> dict[str, object]:
    """What state each parameter has."""
    return {path: part.command().op for path, part in optimizers_of(optimizer, specs).items()}


def _sum_of(step: StepGraph, path: str) -> Symbol:
    """The sum of the gradients of a parameter."""
    return step.given_input(f"{GRADIENT}{path}", step.options.sharding.gradient_spec(step.specs[path]))


def _carried(step: StepGraph, minimized: Minimized, steering: Steering) -> dict[Symbol, Symbol]:
    """New values of parameters and states, by what they take the place of."""
    step.given.update({state.name: state for update in minimized.updates for state in update.states})
    shards = [update.updated for update in minimized.updates]
    whole = step.options.sharding.renewed(shards, steering.parameters)
    carries = dict(zip(whole, steering.parameters, strict=True))
    for update in minimized.updates:
        carries.update(zip(update.updated_states, update.states, strict=True))
    return carries


def _norm_of(minimized: Minimized, steering: Steering) -> Symbol:
    """The 2-norm of all gradients that updates follow, which clipping knows already."""
    if minimized.norm is not None:
        return minimized.norm
    gradients = [update.gradient for update in minimized.updates]
    return steering.norm(gradients, steering_dtype(*(gradient.spec.dtype for gradient in gradients)))
