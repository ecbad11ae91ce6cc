"""Steps of a model: the graph of each kind, what passes make of it, and how a compiled one is run."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import shown
from nnc.classes import dataclass
from nnc.concrete import TuneOptions, checked_tuning
from nnc.core.precautions.collection import RareCollections
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import BOOL, F16, I32, I64, DType
from nnc.core.values.spec import Blocked, Shape, TensorSpec
from nnc.errors import ArityError, UsageError
from nnc.nn.layers.layer import Layer, ParameterSpec, Randomness, Scope, StepCache
from nnc.nn.optimization.guard import gradient_norm, guarded
from nnc.nn.optimization.losses import Loss, PointwiseLoss
from nnc.nn.optimization.optimizers import Optimizer
from nnc.nn.steps.padding import Built
from nnc.ops import (
    add,
    affine,
    broadcast_to,
    cast,
    divide,
    gather,
    multiply,
    reduce_sum,
    reshape,
    scatter,
    slice_axis,
    sum_of,
)
from nnc.ops.movement.fill import scalar_like
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile, minimize
from nnc.symbolic.minimization import Minimized, steering_dtype, unscaled, update_by
from nnc.symbolic.passes import (
    Beforehand,
    Pass,
    QuantizationMode,
    Report,
    assign_blocks,
    part_batch,
    precompute,
    put_in_blocks,
    quantize_products,
    simplify,
)
from nnc.symbolic.passes.precision import lower_precision
from nnc.symbolic.value_names import value_names

# One array for a model of one input (or one target), else a tuple of them.
Values: TypeAlias = ArrayLike | Sequence[ArrayLike]

# Gradients down to 2^-34 are then above f16's smallest number, and those up to 63 below its largest.
F16_LOSS_SCALE = 1024.0
# Behind the name of a kind: the step gives the model's outputs too, after the loss and the score.
WITH_OUTPUTS = "+outputs"
# Behind that: rows and steps fill up the size, and are left out of loss and score.
PADDED = "+padded"
# The number of training passes so far, which random layers draw by.
DRAWS = "draws"
# What the loss is multiplied with, where that changes from step to step.
SCALE = "loss scale"
# The kind of steps of generation, before "+" and how many tokens a row can have.
GENERATE = "generate"
CACHE = "cache."
# Of caches in a trace; no other size there is the same.
TRACED_CAPACITY = 11
# Inputs, targets and results of a step.
Ends: TypeAlias = tuple[tuple[Symbol, ...], tuple[Symbol, ...], tuple[Symbol, ...]]
# What gradients that were summed over examples are multiplied with to be their mean.
SHARE = "share"
TRAINING = ("train", "backward")
GRADIENT = "gradient."


@dataclass(frozen=True, slots=True, eq=False)
class ModelStep:
    """A compiled graph with the symbols that a step writes and reads, and what each pass did to the graph before.

    Any thread may run it: steps that share an arena take turns.
    """

    compiled: Compiled
    inputs: tuple[Symbol, ...]
    targets: tuple[Symbol, ...]
    results: tuple[Symbol, ...]
    passes: tuple[Report, ...] = ()

    def run(self, inputs: Values = (), target: Values | None = None) -> tuple[NDArray[np.generic], ...]:
        """Write the batch, run, and give the results: arrays of the caller's own."""
        return self.compiled.exclusively(lambda: tuple(np.array(view) for view in self.views(inputs, target)))

    def views(self, inputs: Values = (), target: Values | None = None) -> tuple[NDArray[np.generic], ...]:
        """The same without a copy: arrays over the arena, whose next run writes over them.

        Nobody else runs in the arena until they are read if that is within `compiled.exclusively`.
        """
        given = each_of("step", len(self.inputs), inputs)
        if self.targets:
            if target is None:
                raise ArityError("step", got="inputs alone", need="a target too")
            given = (*given, *each_of("step", len(self.targets), target))
        elif target is not None:
            raise ArityError("step", got="a target", need="inputs alone, as it has no loss")
        return self.compiled.views(zip((*self.inputs, *self.targets), given, strict=True), self.results)


@dataclass(slots=True, eq=False)
class PlannedStep:
    """A planned step and its precision, and the symbols that the model's tensors will be bound to, by their names.

    `beforehand` is the work on weights that a frozen step does no longer, and `frozen` what it reads instead of them.
    `bound` is the step over the model's tensors, once it was asked for.
    """

    step: ModelStep
    given: Mapping[str, Symbol]
    precision: DType | None
    beforehand: Beforehand | None = None
    frozen: tuple[Symbol, ...] = ()
    bound: ModelStep | None = None

    @property
    def caches(self) -> dict[str, Symbol]:
        """What a generation keeps, by path."""
        return {name: symbol for name, symbol in self.given.items() if name.startswith(CACHE)}


@dataclass(frozen=True, slots=True, eq=False)
class Freezing:
    """How steps of a generation read weights that all of them share; `blocks`: layouts of values that are in order."""

    quantization: QuantizationMode | None = None
    blocks: Mapping[str, Blocked] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FrozenGraph:
    """A graph without the work on weights, which `before` does; `given` are the model's tensors by path."""

    graph: SymbolicGraph
    given: Mapping[str, Symbol]
    wanted: tuple[Symbol, ...]
    before: Beforehand
    reports: tuple[Report, ...]

    @property
    def fixed(self) -> tuple[Symbol, ...]:
        """What stays from run to run."""
        return (*self.given.values(), *self.before.results)

    @property
    def read(self) -> tuple[Symbol, ...]:
        """What of it is read."""
        return tuple(symbol for symbol in self.fixed if self.graph.readers(symbol.key))

    def convert(self, work: Callable[[], Counter[str]]) -> None:
        """Have `work` put what is fixed into blocks, and take that out of the graph too."""
        execs, fixed = len(self.graph.execs), self.fixed
        fired = work()
        self.before = self.before.followed_by(precompute(self.graph, fixed, self.wanted))
        self.reports += (Report("blocks", execs, len(self.graph.execs), fired),)

    def part(self, outputs: Sequence[Symbol], inputs: Sequence[Symbol]) -> None:
        """Run what is wide for a part of the examples after the other."""
        execs = len(self.graph.execs)
        fired = part_batch(self.graph, outputs, inputs)
        self.reports += (Report("parts", execs, len(self.graph.execs), fired),)

    def put_in_blocks(self, layouts: Mapping[str, Blocked]) -> None:
        """Have those of these values that are read here in their layouts."""
        names = self.names()
        found = {names[name]: layout for name, layout in layouts.items() if name in names}
        self.convert(lambda: put_in_blocks(self.graph, found))

    def names(self) -> dict[str, Symbol]:
        """What is fixed, by the names of its values: those of parameters are their paths."""
        known = {self.before.parameters[symbol].key: path for path, symbol in self.given.items()}
        names = value_names(self.before.graph, known)
        return {**self.given, **{names[inner.key]: symbol for symbol, inner in self.before.results.items()}}


@dataclass(frozen=True, slots=True, eq=False)
class StepBuilder:
    """What steps of a model are made of; `inputs` have shapes without the batch, the first axis `open` for some."""

    layer: Layer
    specs: Mapping[str, ParameterSpec]
    inputs: tuple[TensorSpec, ...]
    open: tuple[bool, ...]
    losses: tuple[Loss, ...]
    optimizer: Optimizer
    seed: int
    dtype: DType
    backend: str
    clip_norm: float | None
    clip_value: float | None
    nan_guard: bool
    scales_loss: bool
    memory_limit: int | None
    passes: tuple[Pass, ...]
    autotune: TuneOptions | bool
    deterministic: bool
    freezing: Freezing | None = None

    @RareCollections()
    def build(self, kind: str, batch: int, precision: DType | None, length: int = 0) -> PlannedStep:
        """The planned step of this kind for `batch` examples, whose open axes are of size `length`.

        A kind that ends with `PADDED` has two inputs more: which places are real, and 1 / their number.
        """
        graph = SymbolicGraph(kind)
        given: dict[str, Symbol] = {path: graph.input(row.spec, path) for path, row in self.specs.items()}
        if kind == "apply":
            return self._applied(graph, given, precision)
        if kind.startswith(GENERATE):
            return self._generating(graph, given, batch, length, int(kind.partition("+")[2]), precision)
        inputs = self.input_symbols(graph, batch, length)
        renewed: dict[str, Symbol] = {}
        family, padded = kind.partition("+")[0], PADDED in kind
        outputs = self._outputs(graph, given, inputs, renewed if family in TRAINING else None, differentiated=True)
        if family == "predict":
            return self._program(graph, given, (inputs, (), outputs), {}, precision)
        if family == "freeze":
            quantization = typing.cast("QuantizationMode | None", kind.partition("+")[2] or None)
            return self._frozen(graph, given, inputs, outputs, precision, quantization)
        targets = tuple(self._target(graph, *pair) for pair in zip(self.losses, outputs, strict=True))
        triples = tuple(zip(self.losses, outputs, targets, strict=True))
        if padded:
            real = graph.input(TensorSpec((batch, length) if length else (batch,), BOOL), "real")
            share = graph.input(TensorSpec((), steering_dtype(self.dtype)), SHARE)
            inputs = (*inputs, real, share)
            places = self._places(real, share, batch, length)
            pairs = [
                _pointwise(one).build_padded(output, target, *place)
                for (one, output, target), place in zip(triples, places, strict=True)
            ]
            results: tuple[Symbol, ...] = (sum_of(*(loss for loss, _ in pairs)), pairs[0][1])
        else:
            loss = sum_of(*(one.build(output, target) for one, output, target in triples))
            results = (loss, triples[0][0].score(*triples[0][1:]))
        carry: Mapping[Symbol, Symbol] = {}
        if family == "train":
            carry, results = self._trained(graph, given, renewed, results, precision)
        elif family == "backward":
            carry, results = self._summed(graph, given, renewed, results, batch, precision)
        results = (*results, *outputs) if WITH_OUTPUTS in kind else results
        return self._program(graph, given, (inputs, targets, results), carry, precision)

    def _generating(
        self,
        graph: SymbolicGraph,
        given: dict[str, Symbol],
        batch: int,
        steps: int,
        capacity: int,
        precision: DType | None,
    ) -> PlannedStep:
        """The step of `_generation`, over the weights of the model or frozen ones."""
        parameters = dict(given)
        ends, carry = self._generation(graph, given, batch, steps, capacity)
        if self.freezing is None:
            return self._program(graph, given, ends, carry, precision)
        made = self._without_weights(graph, parameters, (*ends[2], *carry), precision, self.freezing.quantization)
        made.put_in_blocks(self.freezing.blocks)
        read = frozenset(made.read)
        own = {name: symbol for name, symbol in made.names().items() if symbol in read}
        own |= {name: symbol for name, symbol in given.items() if name.startswith(CACHE)}
        compiled = self._lower(graph, ends[2], dict.fromkeys(own.values()), carry)
        return PlannedStep(ModelStep(compiled, *ends, made.reports), own, precision, made.before, made.read)

    def frozen_generation(self, batch: int, steps: int, capacity: int, precision: DType | None) -> FrozenGraph:
        """The graph of such a step without the work on weights, which all lie in order."""
        assert self.freezing is not None
        graph = SymbolicGraph(GENERATE)
        given: dict[str, Symbol] = {path: graph.input(row.spec, path) for path, row in self.specs.items()}
        parameters = dict(given)
        ends, carry = self._generation(graph, given, batch, steps, capacity)
        return self._without_weights(graph, parameters, (*ends[2], *carry), precision, self.freezing.quantization)

    def _generation(
        self, graph: SymbolicGraph, given: dict[str, Symbol], batch: int, steps: int, capacity: int
    ) -> tuple[Ends, dict[Symbol, Symbol]]:
        """Scores of what follows the last of `steps` new tokens in each row, whose caches hold `capacity` tokens.

        Inputs are tokens[batch, steps], their positions, and ends[batch], which of them is the last one.
        """
        carry: dict[Symbol, Symbol] = {}
        spec = replace(self.inputs[0], shape=(batch, steps))
        tokens, positions = graph.input(spec, "tokens"), graph.input(replace(spec, dtype=I32), "positions")
        ends = graph.input(TensorSpec((batch,), I32), "ends")

        def extend(path: str, value: Symbol) -> Symbol:
            name = f"{CACHE}{path}"
            rows = reshape(value, (batch, steps, -1))
            old = graph.input(replace(rows.spec, shape=(batch, capacity, rows.shape[2])), name)
            if name in given:
                raise UsageError("generate", got=f"{path} kept twice", need="a causal layer applied once")
            given[name] = old
            places = broadcast_to(reshape(positions, (batch, steps, 1)), rows.shape)
            new = scatter(old, places, rows, 1)
            carry[new] = old
            return reshape(new, (batch, capacity, *value.shape[2:]))

        def wanted(value: Symbol) -> Symbol:
            if value.shape[1] == 1:
                return value
            return gather(value, broadcast_to(reshape(ends, (batch, 1, 1)), (batch, 1, value.shape[2])), 1)

        (scores,) = self._scores(given, tokens, StepCache(positions, extend, wanted))
        scores = reshape(wanted(scores), (batch, scores.shape[2]))
        return ((tokens, positions, ends), (), (scores,)), carry

    def trace_generation(self, steps: int) -> Built:
        """The graph of new tokens alone: caches are inputs, and where tokens stand in their rows is one."""
        graph = SymbolicGraph("trace")
        given: dict[str, Symbol] = {path: graph.input(row.spec, path) for path, row in self.specs.items()}
        spec = replace(self.inputs[0], shape=(2, steps))
        tokens, positions = graph.input(spec, "tokens"), graph.input(replace(spec, dtype=I32), "positions")

        def extend(path: str, value: Symbol) -> Symbol:
            return graph.input(replace(value.spec, shape=(2, TRACED_CAPACITY, *value.shape[2:])), path)

        return Built(graph, self._scores(given, tokens, StepCache(positions, extend, lambda value: value)))

    def _scores(self, given: Mapping[str, Symbol], tokens: Symbol, cache: StepCache[Symbol]) -> tuple[Symbol, ...]:
        weights = dict(given)
        return self.layer.build_many(Scope(lambda parameter: weights[parameter.path], cache=cache), (tokens,))

    def _places(self, real: Symbol, share: Symbol, batch: int, length: int) -> list[tuple[Symbol, Symbol]]:
        """What is real of each output, and 1 / its number: of one that has no open axis, rows alone."""
        most = min((spec.shape[0] for spec, is_open in zip(self.inputs, self.open, strict=True) if is_open), default=0)
        whole = [(real, share)] * len(self.losses)
        if not length or most < 2:
            return whole
        shapes = ([one.shape for one in self.trace(False, batch, size).results] for size in (length, length - 1 or 2))
        rows = reshape(slice_axis(real, 1, 0, 1), (batch,))
        count = reduce_sum(cast(rows, share.spec.dtype))
        alone = (rows, divide(scalar_like(count, 1.0), count))
        return [alone if one == other else both for one, other, both in zip(*shapes, whole, strict=True)]

    def trace(self, training: bool, batch: int, length: int) -> Built:
        """The layer's graph alone."""
        graph = SymbolicGraph("trace")
        given: dict[str, Symbol] = {path: graph.input(row.spec, path) for path, row in self.specs.items()}
        renewed: dict[str, Symbol] = {}
        inputs = self.input_symbols(graph, batch, length)
        outputs = self._outputs(graph, given, inputs, renewed if training else None)
        return Built(graph, outputs, tuple(renewed.values()))

    def input_symbols(self, graph: SymbolicGraph, batch: int, length: int = 0) -> tuple[Symbol, ...]:
        """The inputs of a batch."""
        names = ["input"] if len(self.inputs) == 1 else [f"input{number}" for number in range(len(self.inputs))]
        shapes = ((batch, *shape) for shape in shapes_at(self.inputs, self.open, length))
        specs = (replace(spec, shape=shape) for spec, shape in zip(self.inputs, shapes, strict=True))
        return tuple(graph.input(spec, name) for spec, name in zip(specs, names, strict=True))

    def _outputs(
        self,
        graph: SymbolicGraph,
        given: dict[str, Symbol],
        inputs: tuple[Symbol, ...],
        renewed: dict[str, Symbol] | None,
        *,
        differentiated: bool = False,
    ) -> tuple[Symbol, ...]:
        """The layer applied; as in training, with random numbers and renewed statistics, where there is room for them.

        The counter of draws is an input only of graphs that draw.
        """
        weights = dict(given)

        def counter() -> Symbol:
            if DRAWS not in given:
                given[DRAWS] = graph.input(TensorSpec((), I64), DRAWS)
            return given[DRAWS]

        scope: Scope[Symbol] = Scope(lambda parameter: weights[parameter.path])
        if renewed is not None:
            randomness = Randomness(counter, self.seed)
            scope = replace(scope, training=True, renew=renewed.__setitem__, randomness=randomness)
            scope = replace(scope, differentiated=differentiated)
        return self.layer.build_many(scope, inputs)

    def _target(self, graph: SymbolicGraph, loss: Loss, output: Symbol) -> Symbol:
        return graph.input(TensorSpec(loss.target_shape(output.shape), loss.target_dtype or self.dtype), "target")

    def _trained(
        self,
        graph: SymbolicGraph,
        given: dict[str, Symbol],
        renewed: Mapping[str, Symbol],
        results: tuple[Symbol, ...],
        precision: DType | None,
    ) -> tuple[Mapping[Symbol, Symbol], tuple[Symbol, ...]]:
        """Gradients and updates at once: what is carried over to the next step, and results."""
        commands, parameters, scalars, rates = self._steering(graph, given)
        minimized = minimize(
            graph,
            commands,
            results[:1],
            parameters,
            scalars=scalars,
            rates=rates,
            clip_norm=self.clip_norm,
            clip_value=self.clip_value,
            loss_scale=self._loss_scale(graph, given, precision),
        )
        statistics = {value: given[path] for path, value in renewed.items()}
        carry = self._carried(given, minimized) | statistics
        if not ((self.nan_guard or self.scales_loss) and minimized.updates):
            return carry, results
        norm = _norm_of(minimized)
        carry, total = guarded(carry, results[0], norm, renewed.values())
        return carry, (*results, total)

    def _steering(
        self, graph: SymbolicGraph, given: dict[str, Symbol]
    ) -> tuple[dict[Symbol, AnyCommand], list[Symbol], dict[str, Symbol], dict[Symbol, Symbol]]:
        """Command of each parameter, parameters, the scalars of commands by name, and the rate of each parameter."""
        spec = TensorSpec((), steering_dtype(self.dtype))
        scalars = {name: graph.input(spec, name) for name in self.optimizer.scalars(1)}
        optimizers = optimizers_of(self.optimizer, self.specs)
        commands = {given[path]: optimizer.command() for path, optimizer in optimizers.items()}
        rates = {given[path]: scalars[self.optimizer.rate_name(path)] for path in optimizers}
        given.update(scalars)
        return commands, [given[path] for path in optimizers], scalars, rates

    def _loss_scale(self, graph: SymbolicGraph, given: dict[str, Symbol], precision: DType | None) -> float | Symbol:
        """An input where it changes from step to step."""
        if self.scales_loss:
            given[SCALE] = graph.input(TensorSpec((), steering_dtype(self.dtype)), SCALE)
            return given[SCALE]
        return F16_LOSS_SCALE if precision is F16 else 1.0

    @staticmethod
    def _carried(given: dict[str, Symbol], minimized: Minimized) -> dict[Symbol, Symbol]:
        given.update({state.name: state for update in minimized.updates for state in update.states})
        return minimized.carries()

    def _summed(
        self,
        graph: SymbolicGraph,
        given: dict[str, Symbol],
        renewed: Mapping[str, Symbol],
        results: tuple[Symbol, ...],
        batch: int,
        precision: DType | None,
    ) -> tuple[Mapping[Symbol, Symbol], tuple[Symbol, ...]]:
        """sum' = sum + batch · gradient of the mean loss, for each parameter that an optimizer changes."""
        paths = list(optimizers_of(self.optimizer, self.specs))
        scale = self._loss_scale(graph, given, precision)
        if isinstance(scale, Symbol):
            scaled = multiply(results[0], cast(scale, results[0].spec.dtype))
        else:
            scaled = results[0] if scale == 1.0 else affine(results[0], scale)
        found = backward(graph, [scaled], [given[path] for path in paths])
        sums = {f"{GRADIENT}{path}": graph.input(self.specs[path].spec, f"{GRADIENT}{path}") for path in paths}
        given.update(sums)
        pairs = zip(found, sums.values(), strict=True)
        carry = {add(total, affine(unscaled(gradient, scale), batch)): total for gradient, total in pairs}
        carry |= {value: given[path] for path, value in renewed.items()}
        if not ((self.nan_guard or self.scales_loss) and paths):
            return carry, results
        carry, total = guarded(carry, results[0], gradient_norm(found), renewed.values())
        return carry, (*results, total)

    def _applied(self, graph: SymbolicGraph, given: dict[str, Symbol], precision: DType | None) -> PlannedStep:
        """Updates by the mean of gradients that were summed before."""
        commands, parameters, scalars, rates = self._steering(graph, given)
        share = graph.input(TensorSpec((), steering_dtype(self.dtype)), SHARE)
        given[SHARE] = share
        gradients = []
        for path in optimizers_of(self.optimizer, self.specs):
            total = given[f"{GRADIENT}{path}"] = graph.input(self.specs[path].spec, f"{GRADIENT}{path}")
            gradients.append(multiply(total, cast(share, total.spec.dtype)))
        minimized = update_by(
            graph,
            commands,
            gradients,
            parameters,
            scalars=scalars,
            rates=rates,
            clip_norm=self.clip_norm,
            clip_value=self.clip_value,
        )
        carry, results = self._carried(given, minimized), tuple[Symbol, ...]()
        if self.nan_guard and minimized.updates:
            norm = _norm_of(minimized)
            carry, total = guarded(carry, norm, norm)
            results = (total,)
        return self._program(graph, given, ((), (), results), carry, None)

    def _program(
        self,
        graph: SymbolicGraph,
        given: Mapping[str, Symbol],
        ends: Ends,
        carry: Mapping[Symbol, Symbol],
        precision: DType | None,
    ) -> PlannedStep:
        inputs, targets, results = ends
        later = dict.fromkeys(given.values())
        if precision is not None:
            lower_precision(graph, (*results, *carry), precision, later, self.backend)
        reports = simplify(graph, (*results, *carry), self.passes, backend=self.backend)
        compiled = self._lower(graph, results, later, carry)
        return PlannedStep(ModelStep(compiled, inputs, targets, results, reports), given, precision)

    def _frozen(
        self,
        graph: SymbolicGraph,
        given: Mapping[str, Symbol],
        inputs: tuple[Symbol, ...],
        outputs: tuple[Symbol, ...],
        precision: DType | None,
        quantization: QuantizationMode | None,
    ) -> PlannedStep:
        made = self._without_weights(graph, given, outputs, precision, quantization)
        tuning = checked_tuning("freeze", self.autotune, self.deterministic)
        made.part(outputs, inputs)
        made.convert(lambda: assign_blocks(graph, outputs, made.fixed, self.backend, tuning))
        before, frozen = made.before, made.read
        ready = [before.results[symbol] for symbol in frozen if symbol in before.results]
        simplify(before.graph, ready, self.passes, backend=self.backend)
        compiled = self._lower(graph, outputs, dict.fromkeys(frozen), {})
        step = ModelStep(compiled, inputs, (), outputs, made.reports)
        return PlannedStep(step, given, precision, before, frozen)

    def _without_weights(
        self,
        graph: SymbolicGraph,
        given: Mapping[str, Symbol],
        wanted: tuple[Symbol, ...],
        precision: DType | None,
        quantization: QuantizationMode | None,
    ) -> FrozenGraph:
        # Before the precision is lowered, so that weights are rounded once. In a generation what is folded would depend
        # on how many tokens a program reads, and weights are those of all programs.
        folding = (Pass.FROZEN_BATCH_NORM,) if self.freezing is None else ()
        reports = simplify(graph, wanted, folding, backend=self.backend)
        if quantization:
            quantize_products(graph, given.values(), quantization, self.backend)
        if precision is not None:
            lower_precision(graph, wanted, precision)
        before = precompute(graph, given.values(), wanted)
        reports += simplify(graph, wanted, self.passes, backend=self.backend)
        return FrozenGraph(graph, given, wanted, before, reports)

    def products(self, batch: int, length: int) -> tuple[SymbolicGraph, dict[str, Symbol], tuple[Symbol, ...]]:
        """The graph that a frozen step of `batch` examples is made of, as quantization finds it: weights and inputs."""
        graph = SymbolicGraph("freeze")
        given = {path: graph.input(row.spec, path) for path, row in self.specs.items()}
        inputs = self.input_symbols(graph, batch, length)
        outputs = self._outputs(graph, given, inputs, None, differentiated=True)
        simplify(graph, outputs, (Pass.FROZEN_BATCH_NORM,), backend=self.backend)
        return graph, given, inputs

    def _lower(
        self,
        graph: SymbolicGraph,
        results: tuple[Symbol, ...],
        given: Mapping[Symbol, None],
        carry: Mapping[Symbol, Symbol],
    ) -> Compiled:
        """The graph compiled as this model asks."""
        return compile(
            graph,
            results,
            given=given,
            carry=carry,
            backend=self.backend,
            memory_limit=self.memory_limit,
            autotune=self.autotune,
            deterministic=self.deterministic,
        )


def optimizers_of(optimizer: Optimizer, specs: Mapping[str, ParameterSpec]) -> dict[str, Optimizer]:
    """The optimizer of each parameter that one changes."""
    found = {path: optimizer.at(path) for path, row in specs.items() if row.trainable}
    return {path: one for path, one in found.items() if one is not None}


def each_of(subject: str, count: int, values: Values) -> tuple[ArrayLike, ...]:
    """`values` as a tuple of `count`: a single one stands for itself."""
    if count == 1:
        return (typing.cast("ArrayLike", values),)
    if not isinstance(values, tuple | list) or len(values) != count:
        got = f"{len(values)} values" if isinstance(values, tuple | list) else shown(values)
        raise ArityError(subject, got=got, need=f"a tuple of {count}, one for each of the model's")
    return tuple(values)


def shapes_at(inputs: tuple[TensorSpec, ...], open: tuple[bool, ...], length: int) -> tuple[Shape, ...]:
    """Shapes of examples whose open axes are of this size; 0 stands for the largest."""
    pairs = zip(inputs, open, strict=True)
    return tuple((length, *spec.shape[1:]) if is_open and length else spec.shape for spec, is_open in pairs)


def _norm_of(minimized: Minimized) -> Symbol:
    """The 2-norm of all gradients that updates follow, which clipping knows already."""
    found = minimized.norm
    return gradient_norm([update.gradient for update in minimized.updates]) if found is None else found


def _pointwise(loss: Loss) -> PointwiseLoss:
    assert isinstance(loss, PointwiseLoss)
    return loss
