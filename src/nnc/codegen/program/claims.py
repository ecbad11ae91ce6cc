"""What kernels for a target claim: commands of the table `ROWS` on tensors of one kind of device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, suited, words_of
from nnc.codegen.frame.row import View, Wishes, view_of
from nnc.codegen.ir.builder import SCALARS
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.table import ROWS
from nnc.codegen.program.assembling import CommandKernel
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU
from nnc.core.values.dtype import F16
from nnc.core.values.spec import Blocked, OptionalSpecs, TensorSpec
from nnc.ops.rules import infer

K = TypeVar("K", bound=CommandKernel)


def present_specs(specs: OptionalSpecs) -> list[TensorSpec]:
    """Those of operands that are there."""
    return [spec for spec in specs if spec is not None]


def row_preferences(
    command: AnyCommand, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], target: TargetDescription
) -> Wishes:
    """The operands that the kernel of a command would rather read in blocks."""
    views = [view_of(spec) for spec in inputs], [view_of(spec) for spec in outputs]
    return ROWS[command.op].preferences(command.attrs, *views, target)


@dataclass(frozen=True, slots=True)
class TableClaims(Generic[K]):
    """The table `ROWS` as one target sees it; `make` gives the kernel of a command, `kind` is that of its devices."""

    target: TargetDescription
    make: Callable[..., K]
    kind: str = CPU.kind

    def refusal(self, command: AnyCommand, inputs: OptionalSpecs, outputs: OptionalSpecs) -> str:
        """Why the command is not claimed on these specs; empty when it is."""
        row = ROWS.get(command.op)
        if row is None:
            return "no generator"
        present, results = present_specs(inputs), present_specs(outputs)
        if reason := self._elsewhere((*present, *results)):
            return reason
        if unknown := next((spec.dtype for spec in (*present, *results) if spec.dtype.name not in SCALARS), None):
            return f"element type {unknown}"
        if not self.target.half and any(spec.dtype is F16 for spec in (*present, *results)):
            return "f16 on a processor that cannot convert it"
        return row.refuse(command.attrs, present, results) or self._refused_blocks(command, present, results)

    def _elsewhere(self, specs: Sequence[TensorSpec]) -> str:
        if all(spec.device.kind == self.kind for spec in specs):
            return ""
        return f"tensors outside {'host memory' if self.kind == CPU.kind else f'memory of {self.kind}'}"

    def _refused_blocks(self, command: AnyCommand, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
        """What results in blocks is computed as they lie; other kernels read the blocks alone that they wish for."""
        blocked = {place: spec.layout for place, spec in enumerate(inputs) if isinstance(spec.layout, Blocked)}
        if not blocked or any(isinstance(spec.layout, Blocked) for spec in outputs):
            return ""
        row, views = ROWS[command.op], tuple([view_of(spec.plain) for spec in inputs])
        results, target = tuple([view_of(spec) for spec in outputs]), self.target
        preferences = row.preferences(command.attrs, views, results, target)
        fits = all(
            (place in preferences and preferences[place][0] == layout)
            or row.reads(command.attrs, views, results, place, layout, target)
            for place, layout in blocked.items()
        )
        return "" if fits else "an operand in blocks"

    def kernel(self, command: AnyCommand, inputs: OptionalSpecs, outputs: OptionalSpecs) -> K:
        """The kernel of a command that `refusal` did not refuse."""
        operands, results = _views(command, inputs)
        return self._kernel(command, inputs, results, ROWS[command.op].generate(command.attrs, operands, results))

    def variants(self, command: AnyCommand, inputs: OptionalSpecs, outputs: OptionalSpecs) -> Mapping[str, K]:
        """The kernels of the row's other generators."""
        operands, results = _views(command, inputs)
        others = ROWS[command.op].others(command.attrs, operands, results, self.target)
        return {name: self._kernel(command, inputs, results, generator, name) for name, generator in others.items()}

    def _kernel(
        self,
        command: AnyCommand,
        inputs: OptionalSpecs,
        results: tuple[View, ...],
        generator: Generator,
        variant: str = "",
    ) -> K:
        row, generator = ROWS[command.op], suited(generator, self.target)
        planned = 0 if row.checked else generator.workspace(self.target)
        words = words_of(generator)
        return self.make(command, row, inputs, results, generator, self.target, planned, variant, words)


def _views(command: AnyCommand, inputs: OptionalSpecs) -> tuple[list[View], tuple[View, ...]]:
    """The operands that are there, and the results, without gaps."""
    results = tuple(view_of(spec) for spec in infer(command.op, command.attrs, inputs))
    return [view_of(spec) for spec in inputs if spec is not None], results
