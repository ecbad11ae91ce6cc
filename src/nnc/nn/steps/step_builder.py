"""The builder of a model's steps: the graph of each kind, and what passes make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from nnc.classes import dataclass
from nnc.core.precautions.collection import RareCollections
from nnc.core.values.dtype import BOOL, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import UsageError
from nnc.nn.layers.layer import ParameterSpec
from nnc.nn.optimization.losses import Loss, PointwiseLoss
from nnc.nn.steps.frozen_steps import Freezing, frozen_step
from nnc.nn.steps.generation_steps import generating
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.logits import warn_of_probabilities
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.model_step import PlannedStep
from nnc.nn.steps.step_graph import StepDraft, StepGraph, StepTemplate, TracedStep, trace
from nnc.nn.steps.training_steps import SHARE, applied, forward_only, pipelined, summed, updated
from nnc.ops import cast, divide, reduce_sum, reshape, slice_axis, sum_of
from nnc.ops.movement.fill import scalar_like
from nnc.parallel.pipelining import SCHEDULES, Schedule
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.minimization import steering_dtype
from nnc.symbolic.sharing.openings import Opening, Templates

# What the sizes of a step are of.
EXAMPLES = "examples"


@dataclass(frozen=True, slots=True, eq=False)
class StepBuilder:
    """What steps of a model are made of; `freezing` is how all steps of a generation read the same weights."""

    options: ModelOptions
    specs: Mapping[str, ParameterSpec]
    freezing: Freezing | None = None

    @RareCollections()
    def build(self, key: StepKey, precision: DType | None, templates: Templates[StepDraft]) -> PlannedStep:
        """The planned step of this key, by one of the `templates` where there is one for its sizes.

        A `padded` one has two inputs more: which places are real, and 1 / how many.
        """
        if self.options.pipe_ranks is not None and key.kind is StepKind.FREEZE:
            got, need = "a frozen step of several stages (pipe)", "to train, evaluate, predict or generate"
            raise UsageError("Model", got=got, need=need, fix="Mesh(data=…, tensor=…), or more parts of a batch")
        if key.kind is StepKind.APPLY:
            return applied(self.begin(key.kind))
        if key.kind is StepKind.GENERATE:
            return generating(self.begin(key.kind, precision), key, self.freezing)
        if key.kind is StepKind.FREEZE:
            step = self.begin(key.kind, precision)
            inputs = step.input_symbols(key.batch, key.length)
            outputs = step.outputs(inputs, None, differentiated=True)
            step.split_products(outputs)
            return frozen_step(step, inputs, outputs, key.quantization)
        if self.options.pipe_ranks is not None:
            return self.stages(key, precision)(self.options.pipe_stage)
        kind = (replace(key, batch=0, length=0), precision)
        draft = templates.draft(kind, {EXAMPLES: (key.batch, key.length)}, partial(self._template, key, precision))
        return self._traced(key, precision).planned() if draft is None else draft.planned()

    def stages(self, key: StepKey, precision: DType | None) -> Callable[[int], PlannedStep]:
        """The planned step of each stage.

        All differentiate by one schedule: the one that is asked for, or by which the first stage takes less memory.
        """

        if key.kind is StepKind.GENERATE:
            return lambda stage: generating(self._at(stage).begin(key.kind, precision), key, None)
        if not key.kind.differentiates:
            return lambda stage: self._at(stage)._traced(key, precision).planned()
        firsts = dict[Schedule, PlannedStep]()

        def arena(schedule: Schedule) -> int:
            firsts[schedule] = self._at(0)._pipelined(key, precision, schedule).planned()
            return firsts[schedule].step.program.memory().arena

        def choose() -> Schedule:
            return min(SCHEDULES, key=arena)

        schedule = self.options.pipeline.schedule
        if schedule is None:
            place = self._at(0)._pipelined(key, precision, SCHEDULES[0]).place()
            schedule = choose() if place is None else place.choice(SCHEDULES, choose)

        def planned(stage: int) -> PlannedStep:
            known = None if stage else firsts.get(schedule)
            return known or self._at(stage)._pipelined(key, precision, schedule).planned()

        return planned

    def _at(self, stage: int) -> StepBuilder:
        """That of a stage."""
        return replace(self, options=replace(self.options, stage=stage))

    def _pipelined(self, key: StepKey, precision: DType | None, schedule: Schedule) -> TracedStep:
        return pipelined(self.begin(key.kind, precision), key, schedule)

    def _template(self, key: StepKey, precision: DType | None, opening: Opening) -> StepTemplate | None:
        """The step for open sizes; None where layers refuse them, whose code may be anybody's."""
        batch, length = opening.shapes[EXAMPLES]
        try:
            return StepTemplate.of(opening, self._traced(replace(key, batch=batch, length=length), precision).drafted())
        except Exception:  # what is wrong is told where sizes are plain
            return None

    def _traced(self, key: StepKey, precision: DType | None) -> TracedStep:
        """Layer, loss and updates in front of their passes."""
        step = self.begin(key.kind, precision)
        inputs, renewed = step.input_symbols(key.batch, key.length), dict[str, Symbol]()
        outputs = step.outputs(inputs, renewed if key.kind.differentiates else None, differentiated=True)
        if key.kind is StepKind.PREDICT:
            step.split_products(outputs)
            return forward_only(step, (inputs, (), outputs))
        targets = step.targets(outputs)
        if key.kind.differentiates:
            warn_of_probabilities(step.options.losses, outputs)
        masks, results = _loss_and_score(step, key, outputs, targets)
        outputs = outputs if key.outputs else ()
        # Behind the loss, which may take outputs in blocks.
        step.split_products((*results, *outputs, *renewed.values()))
        carry: Mapping[Symbol, Symbol] = {}
        if key.kind is StepKind.TRAIN:
            carry, results = updated(step, renewed, results)
        elif key.kind is StepKind.BACKWARD:
            carry, results = summed(step, renewed, results, key.batch)
        ends = ((*inputs, *masks), targets, (*results, *outputs))
        return step.traced(ends, carry) if key.kind.differentiates else forward_only(step, ends)

    def drafted(self, key: StepKey, precision: DType | None) -> SymbolicGraph:
        """The graph of this key behind its passes, which nobody plans."""
        return self._traced(key, precision).drafted().step.graph

    def begin(self, kind: StepKind, precision: DType | None = None) -> StepGraph:
        """The graph of such a step with the model's tensors alone."""
        return StepGraph.begin(kind.value, self.options, self.specs, precision)


def _loss_and_score(
    step: StepGraph, key: StepKey, outputs: tuple[Symbol, ...], targets: tuple[Symbol, ...]
) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
    """The sum of all losses and the score of the first output, behind the inputs that say what of a batch is real."""
    if not key.padded:
        return (), step.options.objective.build(outputs, targets)
    triples = tuple(zip(step.options.losses, outputs, targets, strict=True))
    shape = (key.batch, key.length) if key.length else (key.batch,)
    real = step.input(TensorSpec(shape, BOOL), "real")
    share = step.input(TensorSpec((), steering_dtype(step.options.dtype)), SHARE)
    pairs = [
        _pointwise(loss).build_padded(output, target, *place)
        for (loss, output, target), place in zip(triples, _places(step, real, share, key), strict=True)
    ]
    return (real, share), (sum_of(*(loss for loss, _ in pairs)), pairs[0][1])


def _places(step: StepGraph, real: Symbol, share: Symbol, key: StepKey) -> list[tuple[Symbol, Symbol]]:
    """What is real of each output, and 1 / its number: of one that has no open axis, rows alone."""
    options, length = step.options, key.length
    whole = [(real, share)] * len(options.losses)
    if not length or options.longest < 2:
        return whole
    sizes = (length, length - 1 or 2)
    graphs = (trace(options, step.specs, key.batch, size, training=False) for size in sizes)
    shapes = [[result.shape for result in graph.results] for graph in graphs]
    rows = reshape(slice_axis(real, 1, 0, 1), (key.batch,))
    count = reduce_sum(cast(rows, share.spec.dtype))
    alone = (rows, divide(scalar_like(count, 1.0), count))
    return [alone if first == second else both for first, second, both in zip(*shapes, whole, strict=True)]


def _pointwise(loss: Loss) -> PointwiseLoss:
    assert isinstance(loss, PointwiseLoss)
    return loss
