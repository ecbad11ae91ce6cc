"""Kernels for another processor than this one: claims, layouts and object files for it; nothing of it runs here.

    target_backend("aarch64").library(program)

Commands that are needed while a program is made, such as what depends on weights alone, run by the backends of this
processor: operands lie as the other processor wants them, and have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnc.backends.llvm.claims import ProcessorClaims, processor_claims
from nnc.backends.llvm.linking import linked
from nnc.backends.llvm.object_files import object_file
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.target_features import check_features
from nnc.backends.llvm.target_kernel import TargetKernel
from nnc.classes import dataclass
from nnc.codegen.ir.targets import NATIVE, LibraryTarget, library_target
from nnc.codegen.program.statements import LinkedProgram
from nnc.codegen.program.support import write_support
from nnc.codegen.program.whole import contents_of, distinct_kernels, write_program
from nnc.core.running import llvm_library
from nnc.core.running.dispatch import Call, Kernel, LayoutPreference, Program, Specs, one_by_one
from nnc.core.running.library_program import LibraryCode, LibraryProgram, ObjectFile
from nnc.core.values.command import AnyCommand
from nnc.core.values.platform import ObjectFormat, OpenDimensions, TargetFacts


@dataclass(frozen=True, slots=True, eq=False)
class TargetBackend:
    """The backend `target:NAME` of dispatch."""

    name: str
    target: LibraryTarget
    claims: ProcessorClaims

    @property
    def is_module(self) -> bool:
        """Whether libraries are modules of WebAssembly."""
        return self.target.format is ObjectFormat.WASM

    @property
    def facts(self) -> TargetFacts:
        """The processor that libraries are for."""
        return self.target.facts

    def absence(self) -> str:
        """Why no library can be made: LLVM cannot be loaded."""
        return llvm_library.absence()

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is not claimed on these specs; empty when it is."""
        return self.claims.refusal(command, inputs, outputs)

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        """The kernel of a command that `refusal` did not refuse."""
        return TargetKernel(self.claims.kernel(command, inputs, outputs), outputs)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        """None: nothing of another processor can be measured here."""
        return {}

    def preferences(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutPreference, ...]:
        """Operands that the kernel packs, as it packs them."""
        return self.claims.preferences(command, inputs, outputs)

    def program(self, calls: Sequence[Call]) -> Program:
        """The commands one after another, by the backends of this processor."""
        return one_by_one(calls)

    def library(self, programs: Sequence[LibraryProgram], opened: OpenDimensions | None = None) -> LibraryCode:
        """Object code for programs all of whose calls are this backend's: one, or one for each row of open sizes."""
        whole = [linked(program, self.claims.target) for program in programs]
        target, largest = self.target.description, max(whole, key=lambda entry: entry.arena_bytes)
        given = contents_of(whole[0])
        return LibraryCode(
            self.facts,
            object_file(write_program(whole, target, opened), self.target, given),
            object_file(write_support(target), self.target, {}),
            tuple(entry.arena_bytes for entry in whole),
            {"kernels": largest.arena_bytes - largest.behind},
            max(entry.worker_bytes for entry in whole),
            len(distinct_kernels(whole)),
            self._alone(whole, opened, given) if self.is_module else None,
        )

    def _alone(
        self, whole: Sequence[LinkedProgram], opened: OpenDimensions | None, given: Mapping[str, bytes]
    ) -> ObjectFile:
        return object_file(write_program(whole, self.target.description, opened, alone=True), self.target, given)


def target_backend(name: str) -> TargetBackend:
    """The backend of a row of the table, with features behind its name; UsageError for other names."""
    target = library_target(name, engine().target if name.partition(",")[0] == NATIVE else None)
    check_features(name, target.description.triple)
    return TargetBackend(f"target:{name}", target, processor_claims(target.description))
