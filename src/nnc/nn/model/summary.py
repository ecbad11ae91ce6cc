"""What a model is made of, layer by layer: printed as a table, read as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnc.classes import dataclass
from nnc.concrete.profiling import RunProfile, profile
from nnc.core.values.spec import Shape, TensorSpec
from nnc.nn.layers.combine import Sequential
from nnc.nn.layers.layer import Layer, ParameterSpec, Scope
from nnc.ops.work import work
from nnc.symbolic import Symbol, SymbolicGraph

MEASURED_RUNS = 5
# Columns that are no numbers, and those that count.
WORDS = 3
COUNTS = ("parameters", "parameter_bytes", "output_bytes", "work")


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One line of a model's summary, for one example: what a layer gives, has, and does in a prediction.

    `parameters` counts trained elements, `parameter_bytes` what all tensors of the layer take, statistics too;
    `output_bytes` what its outputs take; `work` the floating-point operations of its commands as they are written,
    those in a loop's body once. `seconds` is the measured time of its kernels in a prediction, None where nobody asked.
    """

    name: str
    layer: str
    output: Shape
    parameters: int
    parameter_bytes: int = 0
    output_bytes: int = 0
    work: int = 0
    seconds: float | None = None


class ModelSummary(tuple[LayerSummary, ...]):
    """Rows of layers, nested ones in order; prints as a table with a line of sums."""

    __slots__ = ()

    @property
    def is_timed(self) -> bool:
        """Whether its layers were measured."""
        return any(row.seconds is not None for row in self)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows as texts, the sums last; a column of milliseconds where they were measured."""
        rows = [(row.name, row.layer, str([*row.output]), *self._sums([row])) for row in self]
        return [*rows, ("total", "", "", *self._sums(self))]

    def _sums(self, rows: Sequence[LayerSummary]) -> tuple[str, ...]:
        """The columns of numbers of some rows together."""
        texts = [f"{sum(getattr(row, name) for row in rows):,}" for name in COUNTS]
        if self.is_timed:
            texts.append(f"{sum(row.seconds or 0.0 for row in rows) * 1e3:.3f}")
        return tuple(texts)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        named = ("name", "layer", "output", *(name.replace("_", " ") for name in COUNTS))
        return (*named, "ms") if self.is_timed else named

    def __str__(self) -> str:
        lines = [self.columns, *self.cells]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]

        def text(line: tuple[str, ...]) -> str:
            parts = enumerate(zip(line, widths, strict=True))
            shown = (part.ljust(width) if place < WORDS else part.rjust(width) for place, (part, width) in parts)
            return "  ".join(shown).rstrip()

        rule = "  ".join("─" * width for width in widths)
        return "\n".join([text(lines[0]), rule, *map(text, lines[1:-1]), rule, text(lines[-1])])

    __repr__ = __str__


def summarize(
    layer: Layer, name: str, inputs: tuple[Symbol, ...], graph: SymbolicGraph
) -> tuple[list[LayerSummary], tuple[Symbol, ...]]:
    """The rows of a layer and of those in it, and what it gives for these inputs."""
    if isinstance(layer, Sequential):
        rows: list[LayerSummary] = []
        for part, inner in layer.parts:
            inner_rows, inputs = summarize(inner, f"{name}.{part}" if name else part, inputs, graph)
            rows.extend(inner_rows)
        return rows, inputs
    trained: dict[str, int] = {}
    held: dict[str, int] = {}

    def resolve(parameter: ParameterSpec) -> Symbol:
        trained[parameter.path] = parameter.spec.elements if parameter.trainable else 0
        held[parameter.path] = parameter.spec.nbytes
        return graph.input(parameter.spec, parameter.path)

    before = len(graph.execs)
    outputs = layer.build_many(Scope(resolve, name), inputs)
    row = LayerSummary(
        name,
        repr(layer),
        outputs[0].shape[1:],
        sum(trained.values()),
        sum(held.values()),
        sum(output.spec.nbytes for output in outputs),
        _work(graph, before),
    )
    return [row], outputs


def _work(graph: SymbolicGraph, before: int) -> int:
    """Operations of all commands but those that were there before."""
    total = 0
    for _, record in [*graph.execs.items()][before:]:
        total += work(record.command, graph.specs(record.inputs), [graph.tensors[key].spec for key in record.outputs])
    return total


def timed(
    rows: Sequence[LayerSummary], predict: Callable[[Any], object], specs: Sequence[TensorSpec]
) -> list[LayerSummary]:
    """The rows with the times of their kernels in predictions of one example of zeros."""
    inputs = [np.zeros((1, *spec.shape), spec.dtype.numpy) for spec in specs]
    given = inputs if len(inputs) > 1 else inputs[0]
    predict(given)
    with profile() as measured:
        for _ in range(MEASURED_RUNS):
            predict(given)
    spent = _seconds(measured, [row.name for row in rows])
    return [replace(row, seconds=seconds) for row, seconds in zip(rows, spent, strict=True)]


def _seconds(measured: RunProfile, names: Sequence[str]) -> list[float]:
    """What the kernels of each layer took in a run, on the median, by the layer's path.

    A kernel that joins commands of several layers counts for the one that it is named after.
    """
    runs = max(len(measured.runs), 1)
    spent = [[0.0] * runs for _ in names]
    places = {name: place for place, name in enumerate(names)}
    for kernel in measured.kernels:
        path = kernel.name
        while path and path not in places:
            path = path.rpartition(".")[0]
        run = next((at for at, each in enumerate(measured.runs) if each.begin <= kernel.begin <= each.end), 0)
        if path:
            spent[places[path]][run] += (kernel.end - kernel.begin) * 1e-9
    return [float(np.median(times)) for times in spent]
