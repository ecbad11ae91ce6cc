"""What kernels of one processor claim, and which layouts they wish for."""

from __future__ import annotations

from nnc.backends.llvm.assembly import LlvmKernel
from nnc.classes import dataclass
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import SCALARS
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.program.claims import TableClaims, present_specs, row_preferences
from nnc.core.running.dispatch import LayoutPreference, Specs
from nnc.core.values.command import AnyCommand
from nnc.ops.work import work


@dataclass(frozen=True, slots=True)
class ProcessorClaims(TableClaims[LlvmKernel]):
    """The table of kernels as a processor sees it."""

    def preferences(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutPreference, ...]:
        """Operands that the kernel packs, as it packs them; where code is small, memory for that counts for all."""
        present, results = present_specs(inputs), present_specs(outputs)
        products = work(command, inputs, results) / 2
        computing = nanoseconds(self.target, computed(SCALARS[results[0].dtype.name]), products)
        preferences = row_preferences(command, present, results, self.target)
        return tuple(
            LayoutPreference(place, layout, 1.0 if self.target.small else _share(saved, computing))
            for place, (layout, saved) in preferences.items()
        )


def _share(saved: float, computing: float) -> float:
    """What packing is of a kernel's time; nothing of products without elements."""
    return saved / (saved + computing) if saved else 0.0


def processor_claims(target: TargetDescription) -> ProcessorClaims:
    """Those of a processor."""
    return ProcessorClaims(target, LlvmKernel)
