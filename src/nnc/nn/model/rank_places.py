"""Which weights of a model are split among ranks (`tensor`), and which stage of a pipeline has each (`pipe`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnc.nn.layers.layer import ParameterSpec
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.padding import SMALL
from nnc.nn.steps.step_graph import StepGraph
from nnc.parallel.pipelining import choose_stages
from nnc.parallel.splitting import Weight, choose_places
from nnc.parallel.splitting_rules import rule_of
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.records import TensorKey

# Examples of the graph that is looked at.
BATCH = 2


def placed(options: ModelOptions, specs: Mapping[str, ParameterSpec]) -> dict[str, ParameterSpec]:
    """The parameters with their places among ranks; without a mesh that has several none has one."""
    rows = {path: replace(row, place=None, stage=0) for path, row in specs.items()}
    if options.pipe_ranks is not None:
        graph, weights, _ = _looked_at(options, rows)
        paths = {key: weight.path for key, weight in weights.items()}
        stages = choose_stages(graph, paths, options.pipe_ranks.size, options.pipeline.starts)
        rows = {path: replace(row, stage=stages.get(path, 0)) for path, row in rows.items()}
    if options.tensor_ranks is None:
        return rows
    places = choose_places(lambda: _looked_at(options, rows), options.tensor_ranks, rule_of)
    return {path: replace(row, place=places.get(path)) for path, row in rows.items()}


def _looked_at(
    options: ModelOptions, specs: Mapping[str, ParameterSpec]
) -> tuple[SymbolicGraph, dict[TensorKey, Weight], Sequence[Symbol]]:
    """The graph of one process, its weights, and its results."""
    step = StepGraph.begin("trace", options.alone, specs)
    renewed: dict[str, Symbol] = {}
    inputs = step.input_symbols(BATCH, min(options.longest, SMALL))
    outputs = step.outputs(inputs, renewed)
    weights = {
        step.given[path].key: Weight(path, "whole" if row.statistic else row.request) for path, row in specs.items()
    }
    return step.graph, weights, (*outputs, *renewed.values())
