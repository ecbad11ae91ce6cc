"""What a kind of device does for the rest of this package: memory, code, and a queue on which all is in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from nnc.classes import dataclass
from nnc.codegen.device.launch import DeviceKernel
from nnc.codegen.ir.native_kernel import AddressRange
from nnc.codegen.ir.target import TargetDescription
from nnc.core.running.devices import DeviceFacts
from nnc.errors import DeviceError


@dataclass(frozen=True, slots=True, eq=False)
class PhaseLaunch:
    """One phase on the device: its loaded function, the address of its table of operands, and its items.

    Workers in `groups` of `threads` do the items, each with `scratch_bytes` of the memory at `scratch`, each group with
    `near` bytes of memory beside what its code says.
    """

    function: object
    table: int
    first: int
    items: int
    groups: int
    threads: int
    near: int
    scratch: int
    scratch_bytes: int
    constants: int
    reads: tuple[AddressRange, ...]
    writes: tuple[AddressRange, ...]

    @property
    def words(self) -> tuple[int, int, int, int, int, int]:
        """What its entry function is given; the last where constants are not in its code."""
        return self.table, self.first, self.items, self.scratch, self.scratch_bytes, self.constants


class LoadedFunctions(Protocol):
    """Code on the device; it goes with its last holder."""

    @property
    def functions(self) -> tuple[object, ...]:
        """One for each phase."""

    @property
    def constants(self) -> bytes:
        """What they read in memory of the device; empty where it is in their code."""


class RecordedLaunches(Protocol):
    """Launches that were recorded once; they go with the last holder."""

    def submit(self) -> None:
        """Queue them all."""


class DeviceEngine(Protocol):
    """One device. Whoever calls has its lock, and has called `enter` on this thread."""

    @property
    def facts(self) -> DeviceFacts:
        """What it is and can do."""

    @property
    def target(self) -> TargetDescription:
        """What generators see."""

    def enter(self) -> None:
        """Make it this thread's, and free what was dropped."""

    def reserve(self, nbytes: int) -> int:
        """The address of fresh memory; 0 where it has not that much."""

    def release(self, address: int) -> None:
        """Give it back, when all that is queued is done."""

    def load(self, kernels: Sequence[DeviceKernel]) -> Sequence[LoadedFunctions]:
        """The entry functions of the phases of each."""

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Copy from the host, which may change its bytes when this returns."""

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Copy to the host; done when this returns."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy inside."""

    def fill(self, target: int, nbytes: int, byte: int) -> None:
        """Make bytes the same."""

    def launch(self, launches: Sequence[PhaseLaunch]) -> None:
        """Queue them."""

    def prepare(self, launches: Sequence[PhaseLaunch]) -> RecordedLaunches:
        """Make them ready to be queued one by one, in less time than it takes to record them."""

    def record(self, launches: Sequence[PhaseLaunch]) -> RecordedLaunches:
        """Make them ready to be queued by one call."""

    def synchronize(self) -> None:
        """Wait for all that was queued."""

    def close(self) -> None:
        """Give back all that it has, behind what was queued: nobody asks anything of it after."""


class EngineLease:
    """What a device and all memory of it hold on to: with the last of them the engine is closed."""

    __slots__ = ("_process", "engine")

    def __init__(self, engine: DeviceEngine) -> None:
        self.engine, self._process = engine, os.getpid()

    def __del__(
        self, is_finalizing: Callable[[], bool] = sys.is_finalizing, process: Callable[[], int] = os.getpid
    ) -> None:
        # At the end of a process its modules and libraries may be gone; a forked child has no threads of the device.
        if not is_finalizing() and process() == self._process:
            with suppress(DeviceError):
                self.engine.close()


def conflicts(launch: PhaseLaunch, reads: Sequence[AddressRange], writes: Sequence[AddressRange]) -> bool:
    """Whether a launch touches what earlier ones write, or writes what they read."""
    touched = (*launch.reads, *launch.writes)
    if any(mine.overlaps(other) for mine in touched for other in writes):
        return True
    return any(mine.overlaps(other) for mine in launch.writes for other in reads)
