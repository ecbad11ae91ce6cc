"""What ranks must have in common before they train a model: its graph, its options and its weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nnc.nn.layers.layer import ParameterSpec
from nnc.nn.steps.keys import StepKind
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.step_graph import StepGraph
from nnc.parallel import RankGroup, joined
from nnc.symbolic import Symbol
from nnc.symbolic.sharing.rank_programs import text_without_lines

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def agree_on_step(
    options: ModelOptions, specs: Mapping[str, ParameterSpec], kind: StepKind, size: tuple[int, int]
) -> None:
    """DisagreementError where ranks train another network, or otherwise; `size` are examples and steps of our part.

    Parts of a batch may be of several sizes, so the graphs that are compared are those for the largest.
    """
    assert options.all_ranks is not None
    ranks = joined(options.all_ranks)
    names = ("layer", "losses", "optimizer", "seed", "precision", "clip_norm", "clip_value", "mesh", "zero_stage")
    text = "\n".join(f"{name}={getattr(options, name)}" for name in names)
    # Where an object lies in memory says nothing of what it is.
    ranks.agree(f"Model, {kind.value}", ADDRESS.sub("", text))
    largest = max(map(tuple, ranks.all_gather(np.array([size], np.int64)).tolist()))
    ranks.agree(
        f"Model, graph of {kind.value}", graph_text(options, specs, *largest), fix="run the same code on every rank"
    )


def graph_text(options: ModelOptions, specs: Mapping[str, ParameterSpec], batch: int, length: int) -> str:
    """The network and its loss as one process builds them for so many examples and steps."""
    rows = {path: replace(row, place=None, stage=0) for path, row in specs.items()}
    step, renewed = StepGraph.begin("trace", options.alone, rows), dict[str, Symbol]()
    outputs = step.outputs(step.input_symbols(batch, length), renewed)
    step.options.objective.build(outputs, step.targets(outputs))
    return ADDRESS.sub("", text_without_lines(step.graph))


def agree_on_weights(ranks: RankGroup, weights: Iterable[tuple[str, NDArray[np.generic]]]) -> None:
    """DisagreementError, which names the first weight, where ranks begin with others."""
    pairs = ((path, hashlib.sha256(np.ascontiguousarray(values).tobytes())) for path, values in weights)
    lines = [f"{path} of sha256 {digest.hexdigest()[:16]}" for path, digest in pairs]
    joined(ranks).agree("weights of Model", "\n".join(lines))
