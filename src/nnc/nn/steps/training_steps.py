"""Steps that change parameters: an update at once, gradients that are summed first, and the update by their mean.

A network that is cut into stages has parts of a batch forward and backward, and then one update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from types import MappingProxyType

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.errors import UsageError
from nnc.nn.layers.layer import ParameterSpec
from nnc.nn.optimization.guard import gradient_norm, guarded
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.model_step import Ends, PlannedStep
from nnc.nn.steps.sharding import ERROR, OWN_ERROR
from nnc.nn.steps.step_graph import StepGraph, TracedStep
from nnc.ops import add, affine, cast, concatenate, multiply, slice_axis
from nnc.parallel.buckets import sums_over
from nnc.parallel.compression import compressed_sums
from nnc.parallel.pipelining import Schedule, Unit, shared, spans_of, units_of
from nnc.symbolic import Symbol, backward, minimize
from nnc.symbolic.minimization import Minimized, Norm, steering_dtype, unscaled, update_by

# What gradients that were summed over examples are multiplied with to be their mean.
SHARE = "share"
GRADIENT = "gradient."
NOTHING: Mapping[Symbol, Symbol] = MappingProxyType({})
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
        parts = optimizers_of(optimizer, step.own_specs)
        sharding.check([*parts.values()])
        if sharding.pipe is not None and (step.options.clip_norm is not None or step.options.guards_updates):
            sharding.check_norm(sharding.pipe, [step.specs[path] for path in optimizers_of(optimizer, step.specs)])
        changed = {path: sharding.updated(given[path], path) for path in parts}
        commands = {changed[path]: part.command() for path, part in parts.items()}
        rates = {changed[path]: scalars[optimizer.rate_name(path)] for path in parts}
        norm = partial(sharding.norm, [step.specs[path] for path in parts])
        return cls(commands, tuple([given[path] for path in parts]), tuple(changed.values()), scalars, rates, norm)

    def follow(self, step: StepGraph, gradients: Sequence[Symbol]) -> Minimized:
        """Updates by gradients that are there."""
        return update_by(
            step.graph,
            self.commands,
            gradients,
            self.changed,
            scalars=self.scalars,
            rates=self.rates,
            clip_norm=step.options.clip_norm,
            clip_value=step.options.clip_value,
            norm_of=self.norm,
        )

    def norm_of(self, minimized: Minimized) -> Symbol:
        """The 2-norm of all gradients that updates follow, which clipping knows already."""
        if minimized.norm is not None:
            return minimized.norm
        gradients = [update.gradient for update in minimized.updates]
        return self.norm(gradients, steering_dtype(*(gradient.spec.dtype for gradient in gradients)))


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """The sums of gradients over ranks, which an optimizer follows; `carry` renews what sums in few bits lose."""

    step: StepGraph
    carry: dict[Symbol, Symbol] = field(default_factory=dict)

    def __call__(self, gradients: Sequence[Symbol]) -> Sequence[Symbol]:
        """The sums, in the order of the parameters that are trained."""
        step, sharding = self.step, self.step.options.sharding
        if sharding.compress is None or sharding.group is None:
            return sharding.reduced(gradients)
        paths = list(optimizers_of(step.options.optimizer, step.own_specs))
        by_path, sums = dict(zip(paths, gradients, strict=True)), dict[str, Symbol]()
        rows = [step.specs[path] for path in paths]
        given = {name: step.given_input(name, spec) for name, spec in sharding.error_specs(rows).items()}
        for number, bucket in enumerate(sharding.error_buckets(rows)):
            own, errors = given[f"{OWN_ERROR}{number}"], [given[f"{ERROR}{row.path}"] for row in bucket]
            operands = [by_path[row.path] for row in bucket]
            made, renewed, own_renewed = compressed_sums(operands, errors, own, sharding.group, sharding.compress)
            sums.update(zip([row.path for row in bucket], made, strict=True))
            self.carry.update(zip((*renewed, own_renewed), (*errors, own), strict=True))
        return [sums[path] for path in paths]


def updated(step: StepGraph, renewed: Mapping[str, Symbol], results: tuple[Symbol, ...]) -> Renewal:
    """Gradients of the first result, which is the loss, and updates by them."""
    steering, options, reduction = Steering.of(step), step.options, Reduction(step)
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
        reduction=reduction,
        changed=steering.changed,
        norm_of=steering.norm,
    )
    results = (*sums_over(results, options.ranks),)
    carry = _carried(step, minimized, steering) | reduction.carry
    carry |= {value: step.given[path] for path, value in renewed.items()}
    if not (options.guards_updates and minimized.updates):
        return carry, results
    carry, total = guarded(carry, results[0], steering.norm_of(minimized), renewed.values())
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
    given = {value: step.given[path] for path, value in renewed.items()}
    return _added(step, dict(zip(paths, followed, strict=True)), scale, count, results, given)


def _added(
    step: StepGraph,
    followed: Mapping[str, Symbol],
    scale: float | Symbol,
    count: int,
    results: tuple[Symbol, ...],
    renewed: Mapping[Symbol, Symbol],
) -> Renewal:
    """sum' = sum + count · gradient / scale of these parameters; and what is renewed with them."""
    gradients = step.options.sharding.summands([*followed.values()])
    pairs = zip(gradients, [_sum_of(step, path) for path in followed], strict=True)
    carry = {add(total, affine(unscaled(gradient, scale), count)): total for gradient, total in pairs}
    carry |= renewed
    if not (step.options.guards_updates and followed):
        return carry, results
    norms = [gradient_norm(gradients)]
    for ranks in (step.options.ranks, step.options.tensor_ranks, step.options.pipe_ranks):
        norms = [*sums_over(norms, ranks)]
    (norm,) = norms
    carry, total = guarded(carry, results[0], norm, [*renewed])
    return carry, (*results, total)


def applied(step: StepGraph) -> PlannedStep:
    """Updates by the mean of gradients that were summed before."""
    steering, options, reduction = Steering.of(step), step.options, Reduction(step)
    share, gradients = step.steering_input(SHARE), list[Symbol]()
    for path in optimizers_of(options.optimizer, step.own_specs):
        total = _sum_of(step, path)
        gradients.append(multiply(total, cast(share, total.spec.dtype)))
    minimized = steering.follow(step, gradients if options.sharding.stage >= 2 else reduction(gradients))
    carry, results = _carried(step, minimized, steering) | reduction.carry, tuple[Symbol, ...]()
    if options.nan_guard and minimized.updates:
        norm = steering.norm_of(minimized)
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


# ---- networks that are cut into stages


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """What parts of a batch made: loss and score, outputs, and gradients by path."""

    results: tuple[Symbol, Symbol]
    outputs: tuple[tuple[Symbol, ...], ...]
    gradients: Mapping[str, Symbol]


def pipelined(step: StepGraph, key: StepKey, schedule: Schedule) -> TracedStep:
    """A step of one update, or of gradients that are added to sums, by this schedule."""
    options = step.options
    pipe = options.pipe_ranks
    assert pipe is not None
    inputs = step.input_symbols(key.batch, key.length)
    spans = spans_of(key.batch, options.pipeline.parts)
    targets, parts = _parts(step, inputs, spans, key)
    joined_outputs = [concatenate(list(each), 0) for each in zip(*parts.outputs, strict=True)]
    results = shared([*parts.results, *joined_outputs], pipe, pipe.size - 1)
    results, outputs = results[:2], results[2:]
    own = {path: parts.gradients[path] for path in optimizers_of(options.optimizer, step.own_specs)}
    wanted = (*results, *outputs, *parts.gradients.values())
    if key.kind is StepKind.BACKWARD:
        carry, results = _added(step, own, 1.0, key.batch, tuple(sums_over(results, options.ranks)), {})
    else:
        carry, results = _followed(step, own, results)
    results = step.of_stage((*results, *outputs), wanted)
    step.order.extend(units_of(schedule, options.pipe_stage, pipe.size, len(spans)))
    return step.traced((inputs, targets, results), carry)


def _followed(step: StepGraph, gradients: Mapping[str, Symbol], results: Sequence[Symbol]) -> Renewal:
    """Updates of our stage by gradients of parts."""
    steering, options = Steering.of(step), step.options
    minimized = steering.follow(step, options.sharding.reduced([*gradients.values()]))
    results = tuple(sums_over(results, options.ranks))
    carry = _carried(step, minimized, steering)
    if options.guards_updates:
        carry, total = guarded(carry, results[0], steering.norm_of(minimized))
        results = (*results, total)
    return carry, results


def _parts(
    step: StepGraph, inputs: Sequence[Symbol], spans: Sequence[tuple[int, int]], key: StepKey
) -> tuple[tuple[Symbol, ...], _Parts]:
    """Each part forward and backward; sums of their losses, scores and gradients, by how much of the batch they are."""
    batch, scale = spans[-1][1], step.loss_scale()
    trained = [*optimizers_of(step.options.optimizer, step.specs)]
    weights = [step.weight_of_any(path) for path in trained]
    targets, outputs, totals = tuple[Symbol, ...](), list[tuple[Symbol, ...]](), list[Symbol]()
    for number, (begin, end) in enumerate(spans):
        with _unit(step, (number, False)):
            part = tuple(slice_axis(each, 0, begin, end) for each in inputs)
            renewed: dict[str, Symbol] = {}
            made = step.outputs(part, renewed, differentiated=True, part=number)
            if renewed:
                got = f"{next(iter(renewed))}, which is renewed by statistics of a whole batch, on several stages"
                raise UsageError(
                    "Pipeline", got=got, need="layers without statistics", fix="GroupNorm, or Mesh(data=…)"
                )
            if not targets:
                whole = tuple(replace(each.spec, shape=(batch, *each.shape[1:])) for each in made)
                targets = step.targets_of(whole)
            loss, score = step.options.objective.build(made, tuple(slice_axis(t, 0, begin, end) for t in targets))
            made = made if key.outputs else ()
            step.split_products((loss, score, *made))
            loss = led = affine(loss, (end - begin) / batch)
            if step.options.ranks is not None:
                loss = multiply(loss, cast(step.part(), loss.spec.dtype))
        # Sums count by examples themselves.
        led = led if key.kind is StepKind.BACKWARD else loss
        with _unit(step, (number, True)):
            scaled = multiply(led, cast(scale, led.spec.dtype)) if isinstance(scale, Symbol) else affine(led, scale)
            gradients = backward(step.graph, [scaled], weights)
            summands = [loss, score, *(unscaled(gradient, scale) for gradient in gradients)]
            totals = [add(*pair) for pair in zip(totals, summands, strict=True)] if totals else summands
            # One sum of all parts would keep the gradients of all.
            for writer in [writer for total in totals if number for writer in step.graph.writers(total.key)]:
                step.graph.keep(writer)
        outputs.append(made)
    return targets, _Parts((totals[0], totals[1]), tuple(outputs), dict(zip(trained, totals[2:], strict=True)))


@contextmanager
def _unit(step: StepGraph, unit: Unit) -> Iterator[None]:
    """What is built inside belongs to this unit."""
    with step.graph.observed(lambda key: step.units.__setitem__(key, unit)):
        yield


def forward_only(step: StepGraph, ends: Ends, carry: Mapping[Symbol, Symbol] = NOTHING) -> TracedStep:
    """A step without gradients, whose results all stages get; each renews what it keeps itself."""
    pipe = step.options.pipe_ranks
    if pipe is None:
        return step.traced(ends, carry)
    inputs, targets, results = ends
    step.units.update((key, (0, False)) for key, _ in step.graph.execs.items())
    step.order.append((0, False))
    results = shared(results, pipe, pipe.size - 1)
    results = step.of_stage(results, (*results, *carry))
    return step.traced((inputs, targets, results), step.own_carry(carry))
