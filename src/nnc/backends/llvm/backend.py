"""The backend that dispatch sees: claims by the table in catalog.py, kernels, and native programs of many calls."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from nnc.backends.llvm.assembly import assemble, assemble_loop
from nnc.backends.llvm.claims import ProcessorClaims, processor_claims
from nnc.backends.llvm.measure import measure
from nnc.backends.llvm.run.engine import engine, measure_by, traced_pool
from nnc.backends.llvm.run.peak import peak
from nnc.backends.llvm.run.records import GENERATORS
from nnc.classes import dataclass
from nnc.core.running import llvm_library
from nnc.core.running.dispatch import (
    Call,
    Kernel,
    LayoutPreference,
    LoopCalls,
    LoopProgram,
    Program,
    Specs,
)
from nnc.core.values.command import AnyCommand
from nnc.core.values.recorder import Traced, WorkerTime

measure_by(measure)
GENERATORS.remember()


def _claims() -> ProcessorClaims:
    """Those of the processor at hand."""
    return processor_claims(engine().target)


@dataclass(slots=True)
class LlvmBackend:
    """Native kernels generated for this processor."""

    name: str = "llvm"
    _reason: str | None = None

    def absence(self) -> str:
        """Why LLVM cannot be used here: it is not installed, or its code does not run; warns at the first failure."""
        if self._reason is None:
            self._reason = llvm_library.absence() or self._trial()
            if self._reason:
                warnings.warn(f"nnc: the llvm backend is absent: {self._reason}", RuntimeWarning, stacklevel=2)
        return self._reason

    def _trial(self) -> str:
        try:
            engine()
        except (RuntimeError, OSError, AttributeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is not claimed on these specs; empty when it is."""
        return _claims().refusal(command, inputs, outputs)

    def preferences(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutPreference, ...]:
        """Operands that the kernel packs, as it packs them."""
        return _claims().preferences(command, inputs, outputs)

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        """The kernel of a command that `refusal` did not refuse."""
        return _claims().kernel(command, inputs, outputs)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        """The kernels of the row's other generators."""
        return _claims().variants(command, inputs, outputs)

    def program(self, calls: Sequence[Call]) -> Program:
        """One native program that runs `calls` in order."""
        return assemble(calls)

    def traced(self, calls: Sequence[Call]) -> Traced:
        """One native program on workers that note their times."""
        pool = traced_pool()
        assembled = assemble(calls, pool)

        def run() -> tuple[WorkerTime, ...]:
            times = pool.traced(assembled.program)
            for check in assembled.checks:
                check()
            return times

        return run

    def peak(self, workers: int = 1) -> float:
        """What fused multiply-adds on registers alone come to."""
        return peak(engine(), workers=workers)

    def loop(self, calls: LoopCalls) -> LoopProgram | None:
        """One native program that runs a loop."""
        return assemble_loop(calls)
