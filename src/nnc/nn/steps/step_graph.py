"""The graph of a step while it is made: the layer on symbols, and what the model's tensors will be bound to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from nnc.classes import dataclass
from nnc.core.running.dispatch import Claim
from nnc.core.values.dtype import F16, I64, DType
from nnc.core.values.spec import TensorSpec
from nnc.nn.layers.layer import ParameterSpec, Randomness, Ranks, Scope
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.model_step import Ends, ModelStep, PlannedStep
from nnc.nn.steps.padding import Built
from nnc.parallel.ordering import gather_again, order_collectives
from nnc.parallel.pipelining import Unit, cross, leave_out_unneeded, of_stage, order_units
from nnc.parallel.splitting import GraphSplitter, SplitValue, Weight, leave_out_entries
from nnc.parallel.splitting_rules import rule_of
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile
from nnc.symbolic.compiler import KnownOrders
from nnc.symbolic.kept.kept_graphs import GraphPlace, RequestedGraph
from nnc.symbolic.minimization import steering_dtype
from nnc.symbolic.passes import Pass, Report, assign_layouts, has_channels_first, lower_precision, simplify
from nnc.symbolic.records import ExecKey, TensorKey
from nnc.symbolic.sharing.openings import Opening, OpenShapes, Shapes
from nnc.symbolic.sharing.sized_answers import KnownClaims
from nnc.symbolic.sharing.templates import GraphTemplate

# Gradients down to 2^-34 are then above f16's smallest number, and those up to 63 below its largest.
F16_LOSS_SCALE = 1024.0
# The number of training passes so far, which random layers draw by.
DRAWS = "draws"
# Our examples over those of all ranks.
PART = "part"
# What the loss is multiplied with, where that changes from step to step.
SCALE = "loss scale"


@dataclass(frozen=True, slots=True, eq=False)
class StepGraph:
    """A step of a model of these `options` and tensors; `given` are the symbols of tensors so far, by name."""

    options: ModelOptions
    specs: Mapping[str, ParameterSpec]
    graph: SymbolicGraph
    given: dict[str, Symbol]
    precision: DType | None
    # Weights that are split among ranks, whole, as layers read them in front of the pass that splits products.
    wholes: dict[str, Symbol] = field(default_factory=dict)
    blocks: dict[str, Symbol] = field(default_factory=dict)
    # Weights of other stages of a pipeline: nobody here reads them in the end.
    elsewhere: dict[str, Symbol] = field(default_factory=dict)
    # How often each random layer drew, over all parts of a batch.
    asked: Counter[str] = field(default_factory=Counter)
    # Of execs of a pipeline: for which part of a batch they are, in which pass; and in what order our stage does it.
    units: dict[ExecKey, Unit] = field(default_factory=dict)
    order: list[Unit] = field(default_factory=list)
    # The stage that has what a generation keeps, by name.
    keepers: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def begin(
        cls, name: str, options: ModelOptions, specs: Mapping[str, ParameterSpec], precision: DType | None = None
    ) -> StepGraph:
        """A graph of this name with parameters and statistics alone."""
        graph = SymbolicGraph(name)
        sharding = options.sharding
        kept = {path: sharding.weight_spec(row) for path, row in specs.items() if sharding.keeps(row)}
        given = {path: graph.input(spec.on(options.device), path) for path, spec in kept.items()}
        return cls(options, specs, graph, given, precision)

    def input(self, spec: TensorSpec, name: str) -> Symbol:
        """An input on the model's device."""
        return self.graph.input(spec.on(self.options.device), name)

    def given_input(self, name: str, spec: TensorSpec) -> Symbol:
        """An input that a tensor of the model will be bound to."""
        symbol = self.given[name] = self.input(spec, name)
        return symbol

    def steering_input(self, name: str) -> Symbol:
        """The same for a number that changes from step to step."""
        return self.given_input(name, TensorSpec((), steering_dtype(self.options.dtype)))

    def weight(self, parameter: ParameterSpec) -> Symbol:
        """What a layer reads of a parameter: the whole, which ranks gather where they keep shards."""
        path, sharding = parameter.path, self.options.sharding
        row = self.specs.get(path, parameter)
        if sharding.pipe is None and not sharding.is_block(row):
            return sharding.whole(self.given[path], row)
        if path not in self.wholes:
            if sharding.keeps(row):
                own = sharding.whole(self.given[path], row)
            else:
                own = self.elsewhere[path] = self.input(sharding.own(row), path)
            self.wholes[path] = own
            if sharding.is_block(row):
                self.blocks[path], self.wholes[path] = own, self.input(row.spec, path)
        return self.wholes[path]

    @property
    def own_specs(self) -> dict[str, ParameterSpec]:
        """The parameters of our stage."""
        return {path: row for path, row in self.specs.items() if self.options.sharding.keeps(row)}

    def weight_of_any(self, path: str) -> Symbol:
        """What gradients of a parameter are taken by, be it one of another stage."""
        if path not in self.given:
            self.weight(self.specs[path])
        return self.given[path] if path in self.given else self.elsewhere[path]

    def in_stages(
        self, built: Sequence[ExecKey], results: tuple[Symbol, ...], carry: Mapping[Symbol, Symbol], part: int = 0
    ) -> tuple[Symbol, ...]:
        """Transfers between the stages that compute what was built; `carry` maps what is written to what it renews."""
        pipe = self.options.pipe_ranks
        if pipe is None:
            return results
        stages = {self.graph.root(whole.key): self.specs[path].stage for path, whole in self.wholes.items()}
        results, stages = cross(self.graph, pipe, stages, built, results, part)
        names = {symbol.key: name for name, symbol in self.given.items()}
        self.keepers.update((names[old.key], stages.get(self.graph.root(new.key))) for new, old in carry.items())
        return results

    def own_carry(self, carry: Mapping[Symbol, Symbol]) -> dict[Symbol, Symbol]:
        """What our stage renews; what others keep is given to them."""
        for name in [name for name, stage in self.keepers.items() if stage not in (None, self.options.pipe_stage)]:
            del self.given[name]
        given = {*self.given.values()}
        return {new: old for new, old in carry.items() if old in given}

    def of_stage(self, results: tuple[Symbol, ...], wanted: Iterable[Symbol]) -> tuple[Symbol, ...]:
        """Leave what our stage computes; `wanted` is what all stages together give."""
        if self.options.pipe_ranks is None:
            return results
        leave_out_unneeded(self.graph, wanted)
        return of_stage(self.graph, self.options.pipe_stage, results)

    def split_products(self, results: Iterable[Symbol], carry: dict[Symbol, Symbol] | None = None) -> None:
        """Make the graph so far that of one of the ranks that share products; results are whole.

        `carry` maps what is written to the caches that it renews, which are split where that can be.
        """
        if self.options.tensor_ranks is None:
            return
        kept = carry or {}
        weights = dict[TensorKey, Weight]()
        for path, own in self.blocks.items():
            place = self.specs[path].place
            assert place is not None
            weights[self.wholes[path].key] = Weight(path, block=SplitValue(own, place.axis, parts=place.parts))
        caches = frozenset({old.key for old in kept.values()})
        splitter = GraphSplitter(self.graph, self.options.tensor_ranks, rule_of, weights, caches=caches)
        splitter.run(tuple(results), kept)
        names = {symbol.key: name for name, symbol in self.given.items()}
        for new, old in [*kept.items()]:
            block = splitter.local.get(old.key)
            if block is None:
                splitter.join(new.key)
                continue
            del kept[new]
            kept[splitter.local[new.key].symbol] = self.given[names[old.key]] = block.symbol

    def part(self) -> Symbol:
        """Which part of the whole batch this rank has: an input, for batches need not divide."""
        return self.given[PART] if PART in self.given else self.steering_input(PART)

    def input_symbols(self, batch: int, length: int = 0) -> tuple[Symbol, ...]:
        """The inputs of a batch."""
        inputs = self.options.inputs
        names = ["input"] if len(inputs) == 1 else [f"input{number}" for number in range(len(inputs))]
        shapes = ((batch, *shape) for shape in self.options.shapes_at(length))
        specs = (replace(spec, shape=shape) for spec, shape in zip(inputs, shapes, strict=True))
        return tuple(self.input(spec, name) for spec, name in zip(specs, names, strict=True))

    def outputs(
        self,
        inputs: tuple[Symbol, ...],
        renewed: dict[str, Symbol] | None,
        *,
        differentiated: bool = False,
        part: int = 0,
    ) -> tuple[Symbol, ...]:
        """The layer applied; as in training, with random numbers and `renewed` statistics, where these are asked for.

        The counter of draws is an input only of graphs that draw. `part` is that of a batch which goes
        through stages. Products are those of one process: who has built what follows from outputs calls
        `split_products`.
        """

        def counter() -> Symbol:
            return self.given[DRAWS] if DRAWS in self.given else self.given_input(DRAWS, TensorSpec((), I64))

        scope: Scope[Symbol] = Scope(self.weight)
        if renewed is not None:
            randomness = Randomness(counter, self.options.seed, self.asked)
            scope = replace(scope, training=True, renew=renewed.__setitem__, randomness=randomness)
            scope = replace(scope, differentiated=differentiated)
            if self.options.ranks is not None:
                scope = replace(scope, ranks=Ranks(self.options.ranks, self.part))
        built = list[ExecKey]()
        with self.graph.observed(built.append):
            outputs = self.options.layer.build_many(scope, inputs)
        outputs = self.in_stages(built, outputs, {}, part)
        # Where channels are is decided before there are gradients, which would need conversions of their own.
        if has_channels_first(self.graph):
            assign_layouts(self.graph, (*outputs, *(renewed or {}).values()))
        return outputs

    def targets(self, outputs: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
        """What losses compare outputs with."""
        return self.targets_of([output.spec for output in outputs])

    def targets_of(self, outputs: Sequence[TensorSpec]) -> tuple[Symbol, ...]:
        """The same for outputs of these specs."""
        specs = self.options.objective.target_specs(outputs, self.options.dtype)
        return tuple(self.input(spec, "target") for spec in specs)

    def loss_scale(self) -> float | Symbol:
        """What the loss is multiplied with: an input where it changes from step to step."""
        if self.options.loss_scale is not None:
            return self.steering_input(SCALE)
        return F16_LOSS_SCALE if self.precision is F16 else 1.0

    def traced(self, ends: Ends, carry: Mapping[Symbol, Symbol]) -> TracedStep:
        """The step in front of its passes; `carry` maps what is computed to what it renews."""
        return TracedStep(self, ends, carry)

    def lower(
        self,
        results: tuple[Symbol, ...],
        given: Mapping[Symbol, None],
        carry: Mapping[Symbol, Symbol],
        orders: KnownOrders | None = None,
        claims: Mapping[ExecKey, Claim] | None = None,
    ) -> Compiled:
        """The graph compiled as the options say."""
        options = self.options
        return compile(
            self.graph,
            results,
            given=given,
            carry=carry,
            backend=options.backend,
            memory_limit=options.memory_limit,
            autotune=options.autotune,
            deterministic=options.deterministic,
            orders=orders,
            claims=claims or {},
            offload_folder=options.offload_folder,
        )


@dataclass(frozen=True, slots=True, eq=False)
class TracedStep:
    """A step as layers, losses and updates built it."""

    step: StepGraph
    ends: Ends
    carry: Mapping[Symbol, Symbol]

    def drafted(self) -> StepDraft:
        """The step behind its passes."""
        step, options, results, carry = self.step, self.step.options, self.ends[2], self.carry
        if options.tensor_ranks is not None:
            leave_out_entries(step.graph)
        if step.precision is not None:
            given = dict.fromkeys(step.given.values())
            lower_precision(step.graph, (*results, *carry), step.precision, given, options.backend)
        passes = (*options.passes, *(() if options.device.is_host else (Pass.PLACEMENT,)))
        kept = (*results, *carry, *(() if options.device.is_host else step.given.values()))
        reports = simplify(step.graph, kept, passes, backend=options.backend)
        if options.pipe_ranks is not None:
            order_units(step.graph, step.units, step.order)
        elif options.ranks is not None:
            gather_again(step.graph)
            order_collectives(step.graph)
        return StepDraft(step, self.ends, carry, reports)

    def planned(self) -> PlannedStep:
        """The step from the disk, or behind its passes and planned, which is kept when it is laid out."""
        place = self.place()
        if place is None:
            return self.drafted().planned()
        reports: list[Report] = []

        def anew() -> Compiled:
            draft = self.drafted()
            reports.extend(draft.reports)
            return draft.compiled()

        step = ModelStep(place.program(anew), *self.ends, reports)
        return PlannedStep(step, self.step.given, self.step.precision)

    def place(self) -> GraphPlace | None:
        """Where the disk may have the program; None for what is measured, or on a device."""
        options, (inputs, targets, results) = self.step.options, self.ends
        if options.autotune or not options.device.is_host:
            return None
        precision, limit = self.step.precision, None if options.arena is None else options.arena.limit
        decisions = (
            [entry.name for entry in options.passes],
            None if precision is None else precision.name,
            options.memory_limit,
            limit,
            options.deterministic,
            options.mesh,
            tuple(self.step.units.items()),
            tuple(self.step.order),
        )
        bound = tuple(self.step.given.values())
        asked = RequestedGraph(self.step.graph, (*inputs, *targets), results, bound, self.carry)
        return GraphPlace.of(asked, options.backend, decisions)


@dataclass(frozen=True, slots=True, eq=False)
class StepDraft:
    """A step behind its passes, in front of what is decided for each size anew."""

    step: StepGraph
    ends: Ends
    carry: Mapping[Symbol, Symbol]
    reports: tuple[Report, ...]
    orders: KnownOrders = field(default_factory=KnownOrders)
    claims: Mapping[ExecKey, Claim] = field(default_factory=dict)

    def planned(self) -> PlannedStep:
        """The step planned."""
        return PlannedStep(ModelStep(self.compiled(), *self.ends, self.reports), self.step.given, self.step.precision)

    def compiled(self) -> Compiled:
        """The graph planned."""
        given = dict.fromkeys(self.step.given.values())
        return self.step.lower(self.ends[2], given, self.carry, self.orders, self.claims)

    def on(self, graph: SymbolicGraph) -> StepDraft:
        """The same on a copy of its graph."""

        def here(symbols: Iterable[Symbol]) -> tuple[Symbol, ...]:
            return tuple([graph.symbol(symbol.key) for symbol in symbols])

        given = dict(zip(self.step.given, here(self.step.given.values()), strict=True))
        carry = dict(zip(here(self.carry), here(self.carry.values()), strict=True))
        inputs, targets, results = map(here, self.ends)
        step = replace(self.step, graph=graph, given=given)
        return replace(self, step=step, ends=(inputs, targets, results), carry=carry)


@dataclass(frozen=True, slots=True, eq=False)
class StepTemplate:
    """A draft for all sizes that meet the guards of its `shapes`."""

    shapes: OpenShapes
    draft: StepDraft
    graph: GraphTemplate
    claims: KnownClaims

    @classmethod
    def of(cls, opening: Opening, draft: StepDraft) -> StepTemplate:
        """Of what was drafted at the shapes of an opening, which is closed."""
        claims = KnownClaims(draft.step.options.backend)
        return cls(opening.close(), draft, GraphTemplate.of(draft.step.graph), claims)

    def at(self, shapes: Shapes) -> StepDraft | None:
        """The draft for these sizes; None where layers, losses or passes take another way for them."""
        numbers = self.shapes.numbers(shapes)
        if numbers is None:
            return None
        instance = self.graph.instance(numbers)
        return replace(self.draft.on(instance.graph), claims=self.claims.of(instance))


def trace(
    options: ModelOptions, specs: Mapping[str, ParameterSpec], batch: int, length: int, *, training: bool
) -> Built:
    """The layer's graph alone, of one process."""
    step = StepGraph.begin("trace", options.alone, specs)
    renewed: dict[str, Symbol] = {}
    outputs = step.outputs(step.input_symbols(batch, length), renewed if training else None)
    return Built(step.graph, outputs, tuple(renewed.values()))
