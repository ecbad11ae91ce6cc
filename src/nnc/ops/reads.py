"""What a gradient must keep of the forward pass: the inputs and outputs whose elements the rule reads.

    read(rule) = { inputs and outputs of the operator from which some result of the rule is computed }

No table says so: the rule runs on operands that hold nothing but marks of where they come from. What reads only a
shape (`fill_like`, `broadcast_to`) leaves no mark, and what does not reach a result does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Shape, TensorSpec
from nnc.graph import Op
from nnc.ops.operand import PlacedOperand
from nnc.ops.rules import GRADIENT, Applied, NotDifferentiable, differentiate, infer

__all__ = ["GradientReads", "gradient_reads"]

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class GradientReads:
    """Positions of the inputs and of the outputs that a gradient is computed from, ascending."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Marked(PlacedOperand):
    """An operand without elements: its spec, where it lies in its root, and which operands it is computed from."""

    __slots__ = ("marks",)

    def __init__(self, spec: TensorSpec, marks: frozenset[Mark], offset: int = 0, strides: Shape | None = None) -> None:
        super().__init__(spec, offset, strides)
        self.marks = marks

    def apply(self, command: AnyCommand, inputs: Sequence[Marked | None]) -> tuple[Marked, ...]:
        """Outputs with the marks of all inputs."""
        specs = tuple(None if operand is None else operand.spec for operand in inputs)
        marks = frozenset[Mark]().union(*(operand.marks for operand in inputs if operand is not None))
        return tuple(Marked(spec, marks) for spec in infer(command.op, command.attrs, specs))

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Marked:
        """A view: the same marks."""
        return Marked(spec, self.marks, offset, strides)


@dataclass(frozen=True, slots=True)
class Mark:
    """One operand of the forward pass: an input or an output, and its position."""

    is_output: bool
    position: int


def gradient_reads(
    op: Op[A], attrs: A, specs: Sequence[TensorSpec | None], of: Sequence[int] | None = None
) -> GradientReads:
    """What the gradients of the inputs at positions `of` (all floats when None) are computed from.

    NotDifferentiableError with the operator's reason when there is no rule.
    """
    given = tuple(specs)
    inputs = tuple(
        Marked(spec, frozenset((Mark(False, position),))) for position, spec in enumerate(given) if spec is not None
    )
    results = infer(op, attrs, given)
    outputs = tuple(Marked(spec, frozenset((Mark(True, position),))) for position, spec in enumerate(results))
    asked = range(len(given)) if of is None else of
    needed = tuple(
        spec is not None and spec.dtype.is_continuous and position in asked for position, spec in enumerate(given)
    )
    incoming = tuple(Marked(spec, frozenset()) if spec.dtype.is_continuous else None for spec in results)
    if not any(incoming) and not isinstance(GRADIENT[op], NotDifferentiable):
        return GradientReads((), ())
    slopes = differentiate(op, Applied(attrs, inputs, outputs, needed), incoming)
    marks = {
        mark
        for gradient, wanted in zip(slopes, needed, strict=False)
        if wanted and isinstance(gradient, Marked)
        for mark in gradient.marks
    }
    read = [sorted(mark.position for mark in marks if mark.is_output is side) for side in (False, True)]
    return GradientReads(tuple(read[0]), tuple(read[1]))
