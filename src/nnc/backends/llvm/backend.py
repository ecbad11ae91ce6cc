"""The backend that dispatch sees: claims by the table in catalog.py, kernels, and native programs of many calls."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from nnc.backends.llvm import library
from nnc.backends.llvm.assembly import LlvmKernel, assemble, assemble_loop
from nnc.backends.llvm.measure import measure
from nnc.backends.llvm.run.engine import engine, measure_by, traced_pool
from nnc.backends.llvm.run.peak import peak
from nnc.backends.llvm.run.records import remember_imported
from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, words_of
from nnc.codegen.frame.row import View, Wishes, view_of
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import SCALARS
from nnc.codegen.ir.expression import computed
from nnc.codegen.kernels.table import ROWS
from nnc.core.running.dispatch import (
    Call,
    Kernel,
    LayoutWish,
    LoopCalls,
    LoopProgram,
    Program,
    Specs,
    outside_host,
)
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import F16
from nnc.core.values.recorder import Traced, WorkerTime
from nnc.core.values.spec import Blocked, TensorSpec
from nnc.ops.rules import infer
from nnc.ops.work import work

measure_by(measure)
remember_imported()


def _views(command: AnyCommand, inputs: Specs) -> tuple[list[View], tuple[View, ...]]:
    """The operands that are there, and the results, without gaps."""
    results = tuple(view_of(spec) for spec in infer(command.op, command.attrs, inputs))
    return [view_of(spec) for spec in inputs if spec is not None], results


def _kernel(
    command: AnyCommand, inputs: Specs, results: tuple[View, ...], generator: Generator, variant: str = ""
) -> LlvmKernel:
    row = ROWS[command.op]
    planned = 0 if row.checked else generator.workspace(engine().target)
    return LlvmKernel(command, row, inputs, results, generator, planned, variant, words_of(generator))


@dataclass(slots=True)
class LlvmBackend:
    """Native kernels generated for this processor."""

    name: str = "llvm"
    _reason: str | None = None

    def absence(self) -> str:
        """Why LLVM cannot be used here: it is not installed, or its code does not run; warns at the first failure."""
        if self._reason is None:
            self._reason = library.ABSENCE or self._trial()
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
        row = ROWS.get(command.op)
        if row is None:
            return "no generator"
        present = [spec for spec in inputs if spec is not None]
        results = [spec for spec in outputs if spec is not None]
        if reason := outside_host(*present, *results):
            return reason
        if unknown := next((spec.dtype for spec in (*present, *results) if spec.dtype.name not in SCALARS), None):
            return f"element type {unknown}"
        if not engine().target.half and any(spec.dtype is F16 for spec in (*present, *results)):
            return "f16 on a processor that cannot convert it"
        return row.refuse(command.attrs, present, results) or self._refused_blocks(command, present, results)

    def _refused_blocks(self, command: AnyCommand, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
        """What results in blocks is computed as they lie; other kernels read the blocks alone that they wish for."""
        blocked = {place: spec.layout for place, spec in enumerate(inputs) if isinstance(spec.layout, Blocked)}
        if not blocked or any(isinstance(spec.layout, Blocked) for spec in outputs):
            return ""
        row, views = ROWS[command.op], tuple([view_of(spec.plain) for spec in inputs])
        results, target = tuple([view_of(spec) for spec in outputs]), engine().target
        wishes = row.wishes(command.attrs, views, results, target)
        fits = all(
            (place in wishes and wishes[place][0] == layout)
            or row.reads(command.attrs, views, results, place, layout, target)
            for place, layout in blocked.items()
        )
        return "" if fits else "an operand in blocks"

    def _wishes(self, command: AnyCommand, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Wishes:
        views = [view_of(spec) for spec in inputs], [view_of(spec) for spec in outputs]
        return ROWS[command.op].wishes(command.attrs, *views, engine().target)

    def wishes(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutWish, ...]:
        """Operands that the kernel packs, as it packs them."""
        present, results = [spec for spec in inputs if spec is not None], [spec for spec in outputs if spec is not None]
        target, products = engine().target, work(command, inputs, results) / 2
        computing = nanoseconds(target, computed(SCALARS[results[0].dtype.name]), products)
        wishes = self._wishes(command, present, results)
        return tuple(
            LayoutWish(place, layout, saved / (saved + computing)) for place, (layout, saved) in wishes.items()
        )

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        """The kernel of a command that `refusal` did not refuse."""
        operands, results = _views(command, inputs)
        generator = ROWS[command.op].generate(command.attrs, operands, results)
        return _kernel(command, inputs, results, generator)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        """The kernels of the row's other generators."""
        operands, results = _views(command, inputs)
        others = ROWS[command.op].others(command.attrs, operands, results, engine().target)
        return {name: _kernel(command, inputs, results, generator, name) for name, generator in others.items()}

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
