"""Values of a file while it is imported, and the inputs of one node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import TensorSpec
from nnc.onnx.kept.asked_elements import TWINS, Unknown
from nnc.onnx.node import Array, OnnxNode
from nnc.onnx.size_elements import has_sizes, kind_of, settled
from nnc.symbolic import Symbol

# What elements stand for that are no tensor of ours: text, or maps.
Meaning: TypeAlias = Callable[[Array], "Array | list[dict[object, float]]"]


@dataclass(slots=True, eq=False)
class OnnxValue:
    """A value of the file. `sources` are the inputs whose elements it depends on; `items` makes it a sequence.

    `meaning` makes of the elements what the caller gets.
    """

    array: Array | None = None
    symbol: Symbol | None = None
    sources: frozenset[str] = frozenset()
    items: tuple[OnnxValue, ...] | None = None
    weight: str = ""
    meaning: Meaning | None = None

    @property
    def spec(self) -> TensorSpec | None:
        """Shape and element type; None for what is no tensor of ours."""
        if self.symbol is not None:
            return self.symbol.spec
        if self.array is not None and has_sizes(self.array):
            return TensorSpec(self.array.shape, dtype_of(kind_of(self.array)))
        if self.array is None or self.array.dtype not in TWINS:
            return None
        return TensorSpec(self.array.shape, dtype_of(self.array.dtype))


@dataclass(frozen=True, slots=True, eq=False)
class NodeInputs:
    """The inputs of a node: of each its elements where they are known, and the file's inputs that it depends on."""

    inputs: tuple[OnnxValue | None, ...]
    known: tuple[Array | None, ...]
    sources_of_each: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, node: OnnxNode, inputs: Sequence[OnnxValue | None]) -> NodeInputs:
        """What stands for text or maps is taken for what it means."""
        meant = tuple(entry if entry is None or entry.meaning is None else _meant(node, entry) for entry in inputs)
        known = tuple(None if entry is None else entry.array for entry in meant)
        return cls(meant, known, tuple(frozenset() if entry is None else entry.sources for entry in meant))

    def settled(self, sizes: Collection[int]) -> NodeInputs:
        """With numbers in the place of sizes, but for these operands."""
        inputs = tuple(
            entry
            if entry is None or entry.array is None or place in sizes or not has_sizes(entry.array)
            else OnnxValue(settled(entry.array), sources=entry.sources)
            for place, entry in enumerate(self.inputs)
        )
        known = tuple(None if entry is None else entry.array for entry in inputs)
        return NodeInputs(inputs, known, self.sources_of_each)

    @property
    def has_sizes(self) -> bool:
        """Whether some elements are sizes that remember where they come from."""
        return any(has_sizes(array) for array in self.known)

    @property
    def sources(self) -> frozenset[str]:
        """The inputs of the file that any of them depends on."""
        return frozenset[str]().union(*self.sources_of_each)

    @property
    def is_known(self) -> bool:
        """Whether the elements of all are known, and none is a sequence."""
        return all(entry is None or (entry.array is not None and entry.items is None) for entry in self.inputs)


def _meant(node: OnnxNode, value: OnnxValue) -> OnnxValue:
    """What a value stands for, as one that a node can read."""
    assert value.meaning is not None
    if value.array is None:
        raise Unknown(value.sources, f"{node.label}, which reads text or maps", whole=True)
    return OnnxValue(np.asarray(value.meaning(value.array)), sources=value.sources)
