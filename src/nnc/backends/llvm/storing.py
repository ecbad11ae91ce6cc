"""Programs to the disk and back: no text is written, and no generator is asked, for a program that was kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from nnc.backends.llvm.assembled_program import AssembledProgram, IndexCheck
from nnc.backends.llvm.run.engine import Engine, engine, measure_by
from nnc.backends.llvm.run.profile import MachineProfile
from nnc.backends.llvm.run.records import sources_at_hand
from nnc.backends.llvm.run.runtime import NativeProgram, ZeroedMemory
from nnc.backends.llvm.run.steps import Launch
from nnc.classes import dataclass
from nnc.codegen.ir.native_kernel import AddressRange, NativeKernel, aligned
from nnc.core.running import llvm_library
from nnc.core.running.dispatch import Call
from nnc.core.running.late_names import LateModule
from nnc.core.running.stored_steps import Span, StoredKernel, StoredLaunch, StoredSteps
from nnc.core.settings import SETTINGS
from nnc.core.values.exact import exact_text

if TYPE_CHECKING:
    from nnc.backends.llvm import assembly as recording
    from nnc.backends.llvm import measure as measuring
else:
    # A program from the disk is neither assembled, nor is the machine measured for it.
    recording, measuring = LateModule("nnc.backends.llvm.assembly"), LateModule("nnc.backends.llvm.measure")

WORD_BYTES = 8


def _measured(machine: Engine) -> MachineProfile:
    return measuring.measure(machine)


measure_by(_measured)


@dataclass(frozen=True, slots=True)
class NativeStepStore:
    """Keeps programs of this processor."""

    def storing_key(self) -> str:
        """The processor, the profile that is followed, and all sources; empty where nothing may be kept."""
        try:
            machine = None if llvm_library.absence() else engine()
        except (RuntimeError, OSError, AttributeError, ValueError):  # who asks the backend is told
            return ""
        text = "" if machine is None else exact_text(machine.target)
        sources = sources_at_hand(machine.jit.cache) if machine is not None and text else ""
        return f"{text} {sources}" if sources else ""

    def recorded(self, calls: Sequence[Call], spans: Sequence[Span]) -> StoredSteps | None:
        """The steps of these calls, assembled once more; None where they touch memory that is in no span."""
        return _recorded(calls, spans)

    def restored(self, steps: StoredSteps, sizes: Sequence[int]) -> LoadedSteps | None:
        """The steps with their kernels loaded; None where the code of one is not on the disk, or cannot be loaded.

        ValueError where an operand is not inside of its span of so many bytes.
        """
        return _restored(steps, sizes)


STORE = NativeStepStore()


def _recorded(calls: Sequence[Call], spans: Sequence[Span]) -> StoredSteps | None:
    machine = engine()
    assembly = recording.Assembly(machine.target)
    for call in calls:
        assembly.add(call)
    launches = assembly.launches(machine.jit)
    kernels = [*{id(launch.kernel): launch.kernel for launch in launches}.values()]
    numbers = {id(kernel): number for number, kernel in enumerate(kernels)}
    places = _Places.of(spans, assembly.memory)
    try:
        rows = tuple(_launch(launch, numbers[id(launch.kernel)], places) for launch in launches)
        checks = tuple(
            (check.subject, places.at(check.word.address, check.word.nbytes)[1]) for check in assembly.checks
        )
    except ValueError:
        return None
    return StoredSteps(tuple(map(_kernel, kernels)), rows, places.own, checks)


def _restored(steps: StoredSteps, sizes: Sequence[int]) -> LoadedSteps | None:
    whole = (*sizes, steps.own)
    parts = [(*place, 0) for launch in steps.launches for place in launch.operands]
    parts += [part for launch in steps.launches for part in (*launch.reads, *launch.writes)]
    parts += [(len(sizes), offset, WORD_BYTES) for _, offset in steps.checks]
    for number, offset, nbytes in parts:
        if not 0 <= number < len(whole) or not 0 <= offset <= offset + nbytes <= whole[number]:
            raise ValueError(f"bytes {offset}..{offset + nbytes} of memory {number}")
    if any(not 0 <= launch.kernel < len(steps.kernels) for launch in steps.launches):
        raise ValueError("a launch of a kernel that is not there")
    kernels = engine().jit.restored(steps.kernels)
    return None if kernels is None else LoadedSteps(steps, kernels)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSteps:
    """Steps with the kernels that they run."""

    steps: StoredSteps
    kernels: tuple[NativeKernel, ...]

    def on(self, spans: Sequence[Span]) -> AssembledProgram:
        """One native program on this memory and on some of its own."""
        own = ZeroedMemory.allocate(self.steps.own)
        begins = [*(address for address, _ in spans), own.address]
        launches = [self._launch(row, begins) for row in self.steps.launches]
        program = NativeProgram(engine().pool, launches, SETTINGS.worker_count())
        checks = []
        for subject, offset in self.steps.checks:
            word = ZeroedMemory(own.data[offset : offset + WORD_BYTES], own.address + offset)
            checks.append(IndexCheck(subject, word))
        return AssembledProgram(program, tuple(checks), own)

    def _launch(self, row: StoredLaunch, begins: Sequence[int]) -> Launch:
        def extents(parts: Sequence[tuple[int, int, int]]) -> tuple[AddressRange, ...]:
            return tuple([AddressRange(b := begins[number] + offset, b + nbytes) for number, offset, nbytes in parts])

        addresses = [begins[number] + offset for number, offset in row.operands]
        words = (*addresses, *row.words)
        return Launch(self.kernels[row.kernel], words, extents(row.reads), extents(row.writes), len(addresses))


def _kernel(kernel: NativeKernel) -> StoredKernel:
    phases = tuple((phase.symbol, phase.items, phase.cost, phase.first) for phase in kernel.phases)
    sizes = tuple(map(int, kernel.sizes.tolist()))
    return StoredKernel(kernel.hash, kernel.stored, phases, sizes, kernel.workspace, kernel.scratch)


def _launch(launch: Launch, kernel: int, places: _Places) -> StoredLaunch:
    def extents(ranges: Sequence[AddressRange]) -> Iterator[tuple[int, int, int]]:
        for extent in ranges:
            nbytes = extent.end - extent.begin
            yield (*places.at(extent.begin, nbytes), nbytes)

    touched = [*chain(launch.reads, launch.writes)]
    operands = tuple(
        places.at(address, 0) if extent.end > extent.begin else (0, 0)
        for address, extent in zip(launch.addresses[: launch.operands], touched, strict=True)
    )
    words = tuple(map(int, launch.addresses[launch.operands :]))
    return StoredLaunch(kernel, operands, words, tuple(extents(launch.reads)), tuple(extents(launch.writes)))


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Memory by where it begins: (address, bytes, number of the span, offset there)."""

    rows: list[tuple[int, int, int, int]]
    starts: list[int]
    own: int

    @classmethod
    def of(cls, spans: Sequence[Span], beside: Sequence[ZeroedMemory]) -> _Places:
        """Those of the spans, and behind them the memory of launches as one span more."""
        rows = [(address, nbytes, number, 0) for number, (address, nbytes) in enumerate(spans) if nbytes]
        own = 0
        for memory in beside:
            rows.append((memory.address, memory.nbytes, len(spans), own))
            own += aligned(memory.nbytes)
        rows.sort()
        return cls(rows, [row[0] for row in rows], own)

    def at(self, address: int, nbytes: int) -> tuple[int, int]:
        """The place of bytes; ValueError where they lie in no span."""
        index = bisect_right(self.starts, address) - 1
        begin, size, number, offset = self.rows[index] if index >= 0 else (0, 0, 0, 0)
        if address + nbytes > begin + size:
            if not nbytes:
                return 0, 0
            raise ValueError(f"{nbytes} bytes in no span")
        return number, offset + address - begin
