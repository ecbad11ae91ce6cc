"""What a model is made of, a row per layer."""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.core.values.spec import Shape
from nnc.nn.layers.combine import Sequential
from nnc.nn.layers.layer import Layer, ParameterSpec, Scope
from nnc.symbolic import Symbol, SymbolicGraph


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One line of a model's summary."""

    name: str
    layer: str
    output: Shape
    parameters: int


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
    counts: dict[str, int] = {}

    def resolve(parameter: ParameterSpec) -> Symbol:
        counts[parameter.path] = parameter.spec.elements if parameter.trainable else 0
        return graph.input(parameter.spec, parameter.path)

    outputs = layer.build_many(Scope(resolve, name), inputs)
    return [LayerSummary(name, repr(layer), outputs[0].shape[1:], sum(counts.values()))], outputs
