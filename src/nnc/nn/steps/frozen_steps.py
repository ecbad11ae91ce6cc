"""Steps over weights that stay as they are: what depends on weights alone is computed once, before all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.concrete import checked_tuning
from nnc.core.values.spec import Blocked
from nnc.nn.steps.model_step import ModelStep, PlannedStep
from nnc.nn.steps.step_graph import StepGraph
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.passes import (
    Beforehand,
    Pass,
    QuantizationMode,
    Report,
    assign_blocks,
    lower_precision,
    part_batch,
    precompute,
    put_in_blocks,
    quantize_products,
    simplify,
)
from nnc.symbolic.sharing.value_names import value_names

# In a generation what is folded would depend on how many tokens a program reads, and weights are those of all programs.
FOLDING = (Pass.FROZEN_BATCH_NORM,)


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
        placed = {names[name]: layout for name, layout in layouts.items() if name in names}
        self.convert(lambda: put_in_blocks(self.graph, placed))

    def names(self) -> dict[str, Symbol]:
        """What is fixed, by the names of its values: those of parameters are their paths."""
        known = {self.before.parameters[symbol].key: path for path, symbol in self.given.items()}
        names = value_names(self.before.graph, known)
        return {**self.given, **{names[inner.key]: symbol for symbol, inner in self.before.results.items()}}


def without_weights(
    step: StepGraph,
    wanted: tuple[Symbol, ...],
    quantization: QuantizationMode | None,
    folding: tuple[Pass, ...] = FOLDING,
) -> FrozenGraph:
    """The graph without the work on weights, which are those that are `given` at this moment."""
    graph, given, backend = step.graph, dict(step.given), step.options.backend
    # Before the precision is lowered, so that weights are rounded once.
    reports = simplify(graph, wanted, folding, backend=backend)
    if quantization:
        quantize_products(graph, given.values(), quantization, backend)
    if step.precision is not None:
        lower_precision(graph, wanted, step.precision)
    before = precompute(graph, given.values(), wanted)
    reports += simplify(graph, wanted, step.options.passes, backend=backend)
    return FrozenGraph(graph, given, wanted, before, reports)


def frozen_step(
    step: StepGraph, inputs: tuple[Symbol, ...], outputs: tuple[Symbol, ...], quantization: QuantizationMode | None
) -> PlannedStep:
    """The outputs of a batch, by weights in the layouts that kernels want."""
    options, graph = step.options, step.graph
    frozen = without_weights(step, outputs, quantization)
    tuning = checked_tuning("freeze", options.autotune, options.deterministic)
    frozen.part(outputs, inputs)
    frozen.convert(lambda: assign_blocks(graph, outputs, frozen.fixed, options.backend, tuning))
    before, read = frozen.before, frozen.read
    ready = [before.results[symbol] for symbol in read if symbol in before.results]
    simplify(before.graph, ready, options.passes, backend=options.backend)
    compiled = step.lower(outputs, dict.fromkeys(read), {})
    own = ModelStep(compiled, inputs, (), outputs, frozen.reports)
    return PlannedStep(own, step.given, step.precision, before, read)


def products(step: StepGraph, batch: int, length: int) -> tuple[Symbol, ...]:
    """The inputs of the graph that a frozen step is made of, which is built as quantization finds it."""
    inputs = step.input_symbols(batch, length)
    outputs = step.outputs(inputs, None, differentiated=True)
    step.split_products(outputs)
    simplify(step.graph, outputs, FOLDING, backend=step.options.backend)
    return inputs
