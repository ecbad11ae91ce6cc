"""What running a command costs: floating-point operations, from attributes and specs alone.

    work(command) = its operator's rule, or one operation per element of the largest tensor that it touches

|x| in the rules is the number of elements of x. Moving an element counts as one. The numbers rank commands
against each other and say which share of a step is run a second time; they are no measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.graph import OpAttr

# `Any`: a column holds rules of all operators; `operator` checks each against the operator's own attributes.
WorkRule = Callable[[Any, OptionalSpecs, Sequence[TensorSpec]], int]

WORK = OpAttr[WorkRule]("work")


def work(command: AnyCommand, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> int:
    """Floating-point operations of one run; an operator without a rule does one per element of its largest tensor."""
    rule = WORK[command.op] if command.op in WORK else per_element(1)
    return rule(command.attrs, tuple(inputs), outputs)


def per_element(count: int) -> WorkRule:
    """`count` operations per element of the largest input or output."""

    def rule(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
        return count * most_elements(inputs, outputs)

    return rule


def most_elements(inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Elements of the largest input or output."""
    return max((spec.elements for spec in (*inputs, *outputs) if spec is not None), default=0)


def present(spec: TensorSpec | None) -> TensorSpec:
    """The spec of an input that is not optional."""
    assert spec is not None
    return spec
