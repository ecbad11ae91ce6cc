"""A device that is open: its engine under one lock, its pool, its kernels, and the scratch memory of its threads.

It is closed when nobody holds it, a program for it, or memory of it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar
from weakref import WeakSet, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from nnc.backends.gpu.engine import DeviceEngine, EngineLease, LoadedFunctions
from nnc.backends.gpu.memory import DevicePool
from nnc.classes import dataclass
from nnc.codegen.device.launch import DeviceKernel, DevicePhase, device_kernel
from nnc.codegen.frame.kernel import Generator
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.settings import SETTINGS
from nnc.core.values.device import Device
from nnc.core.values.exact import Exact
from nnc.core.values.recorder import PROFILER, Allocated, now
from nnc.core.values.storage import MAX_BYTES, DeviceStorage
from nnc.errors import DeviceError, MemoryLimitError, OutOfMemoryError

ENTRY_POINT = "kernel"
# Of all threads that run at once.
SCRATCH_BYTES = 1 << 26
POISON = 0xFF
LEAST_SCRATCH, LEAST_TABLE = 1 << 16, 1 << 10


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DeviceCode:
    """Entry functions on the device, and the memory of the constants that they read, if they read any there."""

    functions: tuple[object, ...]
    owner: LoadedFunctions
    constants: DeviceStorage | None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LoadedKernel:
    """A generator's kernel on the device: its phases, and their entry functions."""

    phases: tuple[DevicePhase, ...]
    code: DeviceCode
    workspace: int


class OpenDevice(Uncopied):
    """All that is asked of one device goes through here, one thread at a time, and never in a forked child."""

    instead: ClassVar[str] = "copy values"

    def __init__(self, device: Device, engine: DeviceEngine) -> None:
        self.device, self.engine = device, engine
        self.facts, self.target = engine.facts, engine.target
        self._lease = EngineLease(engine)
        self._pool = DevicePool(engine, self._lease)
        self._lock = fork_safe_rlock()
        self._process = os.getpid()
        self._kernels: WeakValueDictionary[Exact, LoadedKernel] = WeakValueDictionary()
        self._codes: WeakValueDictionary[str, DeviceCode] = WeakValueDictionary()
        self._scratch: DeviceStorage | None = None
        self._table: DeviceStorage | None = None
        _OPENED.add(self)

    def entered(self) -> OpenDevice:
        """`with device.entered() as engine`: the engine, for this thread alone. DeviceError in a forked child."""
        return self

    def __enter__(self) -> DeviceEngine:
        if os.getpid() != self._process:
            raise DeviceError(
                "device",
                got=f"{self.device} in a forked process",
                need="the process that opened it",
                fix="start processes by spawn: multiprocessing.set_start_method('spawn')",
            )
        self._lock.acquire()
        try:
            self.engine.enter()
        except BaseException:
            self._lock.release()
            raise
        return self.engine

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    # -- memory

    def allocate(self, nbytes: int, label: str = "") -> DeviceStorage:
        """Memory, not initialized; every byte 0xff in debugging, which is NaN."""
        if not 0 <= nbytes <= MAX_BYTES:
            raise MemoryLimitError("storage", got=f"{nbytes} bytes", need="0..2^62 bytes")
        with self.entered() as engine:
            lent = self._pool.allocate(nbytes)
            if lent is None:
                got = f"{nbytes} bytes beside {self._pool.lent} in use"
                raise OutOfMemoryError("storage", got=got, need=f"memory that {self.device} has")
            storage = DeviceStorage(self.device, lent, lent.piece.address, nbytes, label)
            if SETTINGS.debug and nbytes:
                engine.fill(storage.address, nbytes, POISON)
        if PROFILER.recorders:
            PROFILER.note(Allocated(label, nbytes, now()))
        return storage

    @property
    def bytes_in_use(self) -> int:
        """Bytes that somebody holds."""
        with self.entered():
            self._pool.take_back()
            return self._pool.lent

    @property
    def reserved_bytes(self) -> int:
        """Bytes that the device has given to this process for tensors and programs."""
        return self._pool.reserved

    @property
    def held_scratch(self) -> DeviceStorage | None:
        """What programs hold on to that use it."""
        return self._scratch

    def scratch(self, nbytes: int) -> DeviceStorage:
        """Memory of all threads together, which the launches on the queue have one after another."""
        kept = self._scratch
        if kept is None or kept.nbytes < nbytes:
            kept = self._scratch = self.allocate(max(nbytes, LEAST_SCRATCH), "scratch")
        return kept

    def table(self, words: NDArray[np.int64]) -> int:
        """Where these words are for what is queued next, whose turn ends before others are written there."""
        kept = self._table
        if kept is None or kept.nbytes < words.nbytes:
            kept = self._table = self.allocate(max(words.nbytes, LEAST_TABLE), "table")
        self.engine.upload(kept.address, int(words.ctypes.data), words.nbytes)
        return kept.address

    # -- code

    def kernels(self, generators: Iterable[Generator], *, bounded: bool = False) -> list[LoadedKernel]:
        """The loaded kernels of generators, as in `device_kernel`; while anybody holds one, it is made once."""
        asked = [(Exact((generator, bounded)), generator) for generator in generators]
        with self.entered() as engine:
            held = {exact: kernel for exact, _ in asked if (kernel := self._kernels.get(exact)) is not None}
            fresh = {exact: generator for exact, generator in asked if exact not in held}
            for exact, kernel in zip(fresh, self._made(list(fresh.values()), engine, bounded), strict=True):
                held[exact] = self._kernels[exact] = kernel
            return [held[exact] for exact, _ in asked]

    def _made(self, generators: Sequence[Generator], engine: DeviceEngine, bounded: bool) -> list[LoadedKernel]:
        written = [self._written(generator, bounded) for generator in generators]
        keys = [hashlib.sha256(kernel.text.encode()).hexdigest() for kernel in written]
        codes = {key: code for key in keys if (code := self._codes.get(key)) is not None}
        fresh = {key: kernel for key, kernel in zip(keys, written, strict=True) if key not in codes}
        loaded = engine.load(list(fresh.values())) if fresh else ()
        for key, functions in zip(fresh, loaded, strict=True):
            codes[key] = self._codes[key] = self._with_constants(functions, engine)
        return [
            LoadedKernel(kernel.phases, codes[key], generator.workspace(self.target))
            for kernel, key, generator in zip(written, keys, generators, strict=True)
        ]

    def _written(self, generator: Generator, bounded: bool) -> DeviceKernel:
        kernel = device_kernel(generator, self.target, ENTRY_POINT, bounded=bounded)
        if kernel.missing:
            got = "functions that nobody has written for it: " + " ".join(kernel.missing)
            raise DeviceError(str(self.device), got=got, need="a kernel of what it has")
        return kernel

    def _with_constants(self, functions: LoadedFunctions, engine: DeviceEngine) -> DeviceCode:
        constants = None
        if content := functions.constants:
            constants = self.allocate(len(content), "constants")
            held = np.frombuffer(content, np.uint8)
            engine.upload(constants.address, int(held.ctypes.data), held.nbytes)
        return DeviceCode(functions.functions, functions, constants)


_OPENED: WeakSet[OpenDevice] = WeakSet()


@atexit.register
def _finish() -> None:
    """At the end of the process what runs comes to its end."""
    for opened in list(_OPENED):
        with suppress(DeviceError), opened.entered() as engine:
            engine.synchronize()
