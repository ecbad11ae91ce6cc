"""How operators act on a batch of operands: one command for all examples, in the place of one for each.

    f(x[0]), f(x[1]), …  as one application: y[b…] = f(x[b…], w)        x is batched, w is the same for all examples

A rule arranges operands, applies operators and gives outputs with the batch as their first axis. What it arranges with
is a `BatchedCall`, which whoever runs the rules makes: this module stands below all operators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.graph import OpAttr
from nnc.ops.operand import Operand

A = TypeVar("A")


class BatchedCall(ABC, Generic[A]):
    """An application of an operator of which some inputs are batched, as its batching rule sees it.

    `specs` are those of one example, `batched` tells which inputs have a batch, and at least one does.
    """

    attrs: A
    specs: OptionalSpecs
    batched: tuple[bool, ...]
    size: int
    names: tuple[str, ...]

    @abstractmethod
    def plain(self, index: int) -> Operand | None:
        """Input `index` as it is, None where it is absent; UsageError if it is batched."""

    @abstractmethod
    def spread(self, index: int) -> Operand:
        """Input `index` with the batch as first axis: repeated where it is the same for all examples."""

    @abstractmethod
    def aligned(self, index: int, rank: int) -> Operand:
        """Input `index` to be broadcast with others of `rank` axes per example: sizes of 1 behind the batch."""

    @abstractmethod
    def merged(self, index: int, axis: int) -> Operand:
        """Input `index` with the batch as the slower part of `axis`: [b][…, n, …] → […, b · n, …]."""

    @abstractmethod
    def composed(self, function: Callable[[Sequence[Operand]], Sequence[Operand]]) -> tuple[Operand, ...]:
        """What the function makes of the inputs that are there, as it is written for one example."""

    @abstractmethod
    def again(self, inputs: Sequence[Operand]) -> tuple[Operand, ...]:
        """The operator on other inputs of one example, inside `composed`."""

    @abstractmethod
    def parted(self, y: Operand, axis: int) -> Operand:
        """What `merged` made, taken apart: […, b · n, …] → [b, …, n, …]."""

    @abstractmethod
    def fronted(self, y: Operand, axis: int) -> Operand:
        """`y` with its `axis`, the batch, as first axis."""

    @abstractmethod
    def apply(self, inputs: Sequence[Operand | None], attrs: object = None) -> tuple[Operand, ...]:
        """The operator on these inputs, with its own attributes unless others are given."""

    def spec(self, index: int) -> TensorSpec:
        """The spec of an input that is there, of one example."""
        spec = self.specs[index]
        assert spec is not None
        return spec

    @property
    def present(self) -> list[int]:
        """The inputs that are there."""
        return [index for index, spec in enumerate(self.specs) if spec is not None]


# `Any`: a column holds rules of all operators; `operator` checks each against its own attributes.
BatchRule = Callable[[Any], "tuple[Operand, ...]"]
BATCHED = OpAttr[BatchRule]("batched")


def batched_alike(call: BatchedCall[Any]) -> tuple[Operand, ...]:
    """The rule of pointwise operators: operands broadcast behind the batch."""
    rank = max(call.spec(index).rank for index in call.present)
    return call.apply([call.aligned(index, rank) for index in call.present])


def batched_rows(call: BatchedCall[Any]) -> tuple[Operand, ...]:
    """The rule of operators along the last axes, whatever stands in front."""
    return batched_behind(lambda attrs: attrs)(call)


def batched_behind(change: Callable[[A], object]) -> Callable[[BatchedCall[A]], tuple[Operand, ...]]:
    """The rule of operators that name axes: the same one behind the batch, with attributes that name the next ones."""

    def rule(call: BatchedCall[A]) -> tuple[Operand, ...]:
        inputs = [None if spec is None else call.spread(index) for index, spec in enumerate(call.specs)]
        return call.apply(inputs, change(call.attrs))

    return rule


def batched_within(*same: int, axis: int = 0) -> Callable[[BatchedCall[Any]], tuple[Operand, ...]]:
    """The rule of operators whose `axis` is a batch already: one that is longer; inputs `same` are for all of it."""

    def rule(call: BatchedCall[Any]) -> tuple[Operand, ...]:
        inputs = [
            call.plain(index) if spec is None or index in same else call.merged(index, axis)
            for index, spec in enumerate(call.specs)
        ]
        return tuple(call.parted(y, axis) for y in call.apply(inputs))

    return rule


def batched_before(*same: int) -> Callable[[BatchedCall[Any]], tuple[Operand, ...]]:
    """The rule of operators that go element by element, under steering inputs `same`, counted from the last."""

    def rule(call: BatchedCall[Any]) -> tuple[Operand, ...]:
        last = {len(call.specs) + index for index in same}
        return call.apply([call.plain(index) if index in last else call.spread(index) for index in call.present])

    return rule
