"""What kernels of one processor claim, which layouts they wish for, and the generator of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnc.backends.llvm.assembly import LlvmKernel
from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, words_of
from nnc.codegen.frame.row import View, Wishes, view_of
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import SCALARS
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.table import ROWS
from nnc.core.running.dispatch import LayoutWish, Specs, outside_host
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import F16
from nnc.core.values.spec import Blocked, TensorSpec
from nnc.ops.rules import infer
from nnc.ops.work import work


def _views(command: AnyCommand, inputs: Specs) -> tuple[list[View], tuple[View, ...]]:
    """The operands that are there, and the results, without gaps."""
    results = tuple(view_of(spec) for spec in infer(command.op, command.attrs, inputs))
    return [view_of(spec) for spec in inputs if spec is not None], results


@dataclass(frozen=True, slots=True)
class TargetClaims:
    """The table `ROWS` as a processor sees it."""

    target: TargetDescription

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is not claimed on these specs; empty when it is."""
        row = ROWS.get(command.op)
        if row is None:
            return "no generator"
        present = [spec for spec in inputs if spec is not None]
        results = [spec for spec in outputs if spec is not None]
        if reason := outside_host(*present, *results):
            return reason
        if unknown := next((spec.dtype for spec in (*present, *results) if spec.dtype.name not in SCALARS), None):
            return f"element type {unknown}"
        if not self.target.half and any(spec.dtype is F16 for spec in (*present, *results)):
            return "f16 on a processor that cannot convert it"
        return row.refuse(command.attrs, present, results) or self._refused_blocks(command, present, results)

    def _refused_blocks(self, command: AnyCommand, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
        """What results in blocks is computed as they lie; other kernels read the blocks alone that they wish for."""
        blocked = {place: spec.layout for place, spec in enumerate(inputs) if isinstance(spec.layout, Blocked)}
        if not blocked or any(isinstance(spec.layout, Blocked) for spec in outputs):
            return ""
        row, views = ROWS[command.op], tuple([view_of(spec.plain) for spec in inputs])
        results, target = tuple([view_of(spec) for spec in outputs]), self.target
        wishes = row.wishes(command.attrs, views, results, target)
        fits = all(
            (place in wishes and wishes[place][0] == layout)
            or row.reads(command.attrs, views, results, place, layout, target)
            for place, layout in blocked.items()
        )
        return "" if fits else "an operand in blocks"

    def _wishes(self, command: AnyCommand, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Wishes:
        views = [view_of(spec) for spec in inputs], [view_of(spec) for spec in outputs]
        return ROWS[command.op].wishes(command.attrs, *views, self.target)

    def wishes(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutWish, ...]:
        """Operands that the kernel packs, as it packs them."""
        present, results = [spec for spec in inputs if spec is not None], [spec for spec in outputs if spec is not None]
        target, products = self.target, work(command, inputs, results) / 2
        computing = nanoseconds(target, computed(SCALARS[results[0].dtype.name]), products)
        wishes = self._wishes(command, present, results)
        return tuple(
            LayoutWish(place, layout, saved / (saved + computing)) for place, (layout, saved) in wishes.items()
        )

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> LlvmKernel:
        """The kernel of a command that `refusal` did not refuse."""
        operands, results = _views(command, inputs)
        return self._kernel(command, inputs, results, ROWS[command.op].generate(command.attrs, operands, results))

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, LlvmKernel]:
        """The kernels of the row's other generators."""
        operands, results = _views(command, inputs)
        others = ROWS[command.op].others(command.attrs, operands, results, self.target)
        return {name: self._kernel(command, inputs, results, generator, name) for name, generator in others.items()}

    def _kernel(
        self, command: AnyCommand, inputs: Specs, results: tuple[View, ...], generator: Generator, variant: str = ""
    ) -> LlvmKernel:
        row = ROWS[command.op]
        planned = 0 if row.checked else generator.workspace(self.target)
        return LlvmKernel(command, row, inputs, results, generator, self.target, planned, variant, words_of(generator))
