"""Gradients by decomposition: a fused operator's gradient, from a function that computes the same in simpler operators.

    y = f(x), f written in operators;   x' = the rules of f's operators, the last one first

An operator whose gradient is long to write down names such a function instead. Its gradient is then right by
construction, to any order. The function is applied to the inputs again, so what it computes on the way is not kept
from the forward pass; it costs time where it is used, and memory only then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeVar

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Shape, TensorSpec, contiguous_strides
from nnc.ops.elementwise.pointwise import add
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.movement import EmbedAttrs, embed
from nnc.ops.operand import Operand
from nnc.ops.rules import Applied, Gradients, differentiate

A = TypeVar("A")

Function = Callable[[Sequence["Traced"]], Sequence["Traced"]]


class Traced(Operand):
    """An operand inside a decomposition: `live` when a wanted input leads to it, a view when it is not its `root`."""

    __slots__ = ("live", "root", "trace", "value")

    def __init__(self, value: Operand, trace: Trace, live: bool, root: Traced | None = None) -> None:
        self.value = value
        self.trace = trace
        self.live = live
        self.root = self if root is None else root

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""
        return self.value.spec

    @property
    def strides(self) -> Shape:
        """Strides in elements over the memory of the value's root."""
        return self.value.strides

    @property
    def offset(self) -> int:
        """Elements between the first element of the value's root and this operand's."""
        return self.value.offset

    def apply(self, command: AnyCommand, inputs: Sequence[Traced | None]) -> tuple[Traced, ...]:
        """Apply the command to the values, and remember it."""
        values = self.value.apply(command, [None if operand is None else operand.value for operand in inputs])
        live = any(operand is not None and operand.live for operand in inputs)
        outputs = tuple(Traced(value, self.trace, live and value.spec.dtype.is_continuous) for value in values)
        self.trace.steps.append(DecompositionStep(command, tuple(inputs), outputs))
        return outputs

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Traced:
        """A view of the value."""
        return Traced(self.value.alias(spec, offset, strides), self.trace, self.live, self.root)


@dataclass(frozen=True, slots=True, eq=False)
class DecompositionStep:
    """One command of a decomposition."""

    command: AnyCommand
    inputs: tuple[Traced | None, ...]
    outputs: tuple[Traced, ...]


@dataclass(slots=True, eq=False)
class Trace:
    """The commands of a decomposition in order, and the gradients of their operands as far as they are summed."""

    steps: list[DecompositionStep] = field(default_factory=list)
    sums: dict[Traced, Operand] = field(default_factory=dict)

    def contribute(self, operand: Traced, gradient: Operand) -> None:
        """Add to the gradient of the operand's root."""
        root = operand.root
        part = gradient if operand is root else _spread(operand, gradient)
        self.sums[root] = add(self.sums[root], part) if root in self.sums else part

    def visit(self, step: DecompositionStep) -> None:
        """Pass the gradients of a step's outputs on to its inputs."""
        gradients = tuple(self.sums.get(output) for output in step.outputs)
        needed = tuple(operand is not None and operand.live for operand in step.inputs)
        if not any(needed) or all(gradient is None for gradient in gradients):
            return
        values = tuple(operand.value for operand in step.inputs if operand is not None)
        applied = Applied(step.command.attrs, values, tuple(output.value for output in step.outputs), needed)
        results = differentiate(step.command.op, applied, gradients)
        for operand, wanted, result in zip(step.inputs, needed, results, strict=False):
            if operand is not None and wanted and result is not None:
                self.contribute(operand, result)


def _spread(view: Traced, gradient: Operand) -> Operand:
    """The gradient of a view as one of its root."""
    root = view.root
    if view.strides == contiguous_strides(view.shape) and view.spec.elements == root.spec.elements:
        return reshape(gradient, root.shape)
    return embed(gradient, EmbedAttrs(root.shape, view.offset - root.offset, view.strides))


def pull_back(function: Function, inputs: Sequence[Operand], gradients: Gradients, needed: Sequence[bool]) -> Gradients:
    """For each input the sum over `function`'s results of their gradient · ∂result / ∂input; None where unwanted."""
    trace = Trace()
    # An absent input is None for some callers and left out by others; the function never sees it.
    present = [operand for operand in inputs if operand is not None]
    leaves = [
        Traced(_dense(operand), trace, wanted and operand.spec.dtype.is_continuous)
        for operand, wanted in zip(present, needed, strict=False)
    ]
    results = function(leaves)
    for result, gradient in zip(results, gradients, strict=True):
        if gradient is not None and result.live:
            trace.contribute(result, gradient)
    for step in reversed(trace.steps):
        trace.visit(step)
    slopes = [trace.sums.get(leaf) if leaf.live else None for leaf in leaves]
    return (*slopes, *(None for _ in range(len(inputs) - len(slopes))))


def _dense(operand: Operand) -> Operand:
    """The operand in row-major order, so that views of it can be told by offset and strides."""
    return operand if operand.strides == contiguous_strides(operand.shape) else contiguous(operand)


def by_decomposition(
    function: Callable[[A, Sequence[Traced]], Sequence[Traced]],
) -> Callable[[Applied[A], Gradients], Gradients]:
    """The gradient rule of an operator whose outputs `function(attrs, inputs)` computes too."""

    def rule(call: Applied[A], gradients: Gradients) -> Gradients:
        return pull_back(lambda inputs: function(call.attrs, inputs), call.inputs, gradients, call.needed)

    return rule
