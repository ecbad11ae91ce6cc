"""A model that is cut at a node whose results depend on elements: parts that run one behind the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import numpy as np

from nnc.classes import dataclass
from nnc.onnx.kept.asked_elements import TWINS, Unknown
from nnc.onnx.made.kept_programs import CachedProgram
from nnc.onnx.made.onnx_program import Array, OnnxProgram, Result

# Inputs of at most this many elements are options, where a value of theirs is asked for; larger ones are data.
OPTION_ELEMENTS = 256


class PartialModel(Protocol):
    """A part of a model, whose inputs are some of the values that parts before it made."""

    def run_subset(self, values: Mapping[str, Result]) -> dict[str, Result]:
        """The outputs for those of the values that are inputs."""

    def by_elements(self, values: Mapping[str, Result]) -> dict[str, Result]:
        """The outputs, computed from elements without a program."""

    def greatest(self, values: Mapping[str, Result]) -> dict[str, Array]:
        """Zeros as large as the outputs can be."""

    def planned(self, arrays: Mapping[str, Result]) -> tuple[list[OnnxProgram | CachedProgram], dict[str, Array]]:
        """The programs of a run, and what its outputs look like."""


@dataclass(frozen=True, slots=True, eq=False)
class OnnxStages:
    """A model in two, with a node between that is computed from elements: its results may have any size.

    Without such a node the second part only has inputs that act as shapes, whose values the first gives.
    """

    before: PartialModel
    node: PartialModel | None
    behind: PartialModel
    outputs: tuple[str, ...]
    nbytes: int = 0

    def run(self, feeds: Mapping[str, Array]) -> list[Result]:
        """The outputs, as arrays of their own."""
        values: dict[str, Result] = dict(feeds)
        values |= self.before.run_subset(values)
        if self.node is not None:
            values |= self.node.by_elements(values)
        values |= self.behind.run_subset(values)
        return [values[name] for name in self.outputs]

    def programs(self, arrays: Mapping[str, Result]) -> list[OnnxProgram | CachedProgram]:
        """What runs for arrays of these shapes, where the node's results are as large as they can be."""
        values = dict(arrays)
        first, made = self.before.planned(values)
        values |= made
        if self.node is not None:
            values |= self.node.greatest(values)
        return [*first, *self.behind.planned(values)[0]]


AnyProgram: TypeAlias = OnnxProgram | CachedProgram | OnnxStages


def is_cut(unknown: Unknown, arrays: Mapping[str, object]) -> bool:
    """Whether the model runs in stages: the elements that are wanted are made of data, and not of options."""
    sources = [arrays[name] for name in unknown.names]
    data = [entry for entry in sources if isinstance(entry, np.ndarray) and entry.dtype in TWINS]
    if not data:
        return False
    if unknown.whole:
        return any(entry.dtype.kind not in "biu" or entry.size > OPTION_ELEMENTS for entry in data)
    return unknown.place > 0 and any(entry.size > OPTION_ELEMENTS for entry in data)
