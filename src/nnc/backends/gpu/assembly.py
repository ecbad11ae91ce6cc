"""Calls on a device: their launches, one table of all operands in its memory, and programs that are recorded once.

    table = for each kernel: [0] [addresses of operands, numbers]

The table is written once. A run is one submission, and returns when it is queued; where a kernel checks indices, the
run waits, and looks at the words that such kernels set. Under NNC_DEBUG=1 all runs do, for kernels say then where they
leave an operand, in a record whose address is the word that is 0 otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from nnc.backends.gpu.bounds import OperandBounds
from nnc.backends.gpu.device import SCRATCH_BYTES, LoadedKernel, OpenDevice
from nnc.backends.gpu.engine import DeviceEngine, PhaseLaunch, RecordedLaunches
from nnc.classes import dataclass
from nnc.codegen.device.launch import DevicePhase
from nnc.codegen.ir.native_kernel import AddressRange, aligned
from nnc.codegen.program.assembling import CallAssembly, CommandKernel, Draft
from nnc.core.running.dispatch import Call, Relocation, Tensors
from nnc.core.settings import SETTINGS
from nnc.core.values.storage import DeviceStorage
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError

WORD_BYTES = 8
# Memory for checks and the like, so much each at most, is cut from pieces: all words of one are looked at in one copy.
CUT_BYTES, PIECE_BYTES = 64, 4096
# More threads than any device runs at once.
MOST_THREADS = 1 << 20
Words = NDArray[np.int64]


@dataclass(slots=True)
class DeviceAssembly(CallAssembly):
    """Launches in the making, in memory of a device."""

    device: OpenDevice | None = None
    memory: list[DeviceStorage] = field(default_factory=list)
    checks: list[tuple[str, int]] = field(default_factory=list)
    # Of the last piece: what is left.
    piece: tuple[int, int] = (0, 0)

    @classmethod
    def on(cls, device: OpenDevice) -> DeviceAssembly:
        """An empty one."""
        return cls(device.target, device=device)

    def _allocate(self, size: int) -> AddressRange:
        if size > CUT_BYTES:
            return self._whole(size)
        begin, end = self.piece
        if begin == end:
            whole = self._whole(PIECE_BYTES)
            begin, end = whole.begin, whole.end
        self.piece = begin + CUT_BYTES, end
        return AddressRange(begin, begin + size)

    def _whole(self, size: int) -> AddressRange:
        """Memory of its own, all zero."""
        assert self.device is not None
        storage = self.device.allocate(size, "beside")
        with self.device.entered() as engine:
            engine.fill(storage.address, max(size, 1), 0)
        self.memory.append(storage)
        return AddressRange(storage.address, storage.address + size)

    def _check(self, subject: str, word: AddressRange) -> None:
        self.checks.append((subject, word.begin))


@dataclass(slots=True, eq=False)
class ReadyLaunches:
    """The launches of a command, and its table with the addresses of its operands at the last run."""

    table: DeviceStorage
    words: Words
    source: int
    launches: RecordedLaunches
    scratch: DeviceStorage | None
    addresses: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class GpuKernel(CommandKernel):
    """A command on fixed specs; code is generated at the first run."""

    device: OpenDevice | None = None
    _loaded: LoadedKernel | None = None
    _ready: ReadyLaunches | None = None

    @property
    def worker_bytes(self) -> int:
        """None that the caller plans: threads have theirs of the device's own."""
        return 0

    def loaded(self, device: OpenDevice) -> LoadedKernel:
        """The code for operands without gaps."""
        if self._loaded is None:
            (self._loaded,) = device.kernels((self.generator,))
        return self._loaded

    def remember(self, kernel: LoadedKernel) -> None:
        """Keep the code that was loaded for it with others."""
        self._loaded = kernel

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Queue the computation of `outputs` from `inputs`."""
        device = self.device
        assert device is not None
        enough = workspace is not None and workspace.spec.nbytes >= self.workspace_bytes
        if (enough or not self.workspace_bytes) and self.takes(inputs, outputs) and not SETTINGS.debug:
            operands = (*inputs, *outputs, workspace if self.workspace_bytes else None)
            self._queue(device, [tensor.address for tensor in operands if tensor is not None])
            return
        assembled = DeviceAssembly.on(device)
        assembled.assemble(self, inputs, outputs, workspace)
        table = LaunchTable.of(device, assembled.drafts)
        with device.entered() as engine:
            engine.launch(table.launches(device, device.table(table.words)))
            table.look(engine)
            _look(device, CheckedWords.of(assembled.checks))

    def _queue(self, device: OpenDevice, addresses: list[int]) -> None:
        """The short way, of operands as they are. Where they lie as the last time, their table is there already."""
        with device.entered() as engine:
            ready = self._ready
            if ready is None:
                ready = self._ready = self._prepared(device, engine, len(addresses))
            if addresses != ready.addresses:
                ready.words[1 : 1 + len(addresses)] = addresses
                engine.upload(ready.table.address, ready.source, ready.words.nbytes)
                ready.addresses = addresses
            ready.launches.submit()

    def _prepared(self, device: OpenDevice, engine: DeviceEngine, operands: int) -> ReadyLaunches:
        kernel = self.loaded(device)
        most = max([_scratch(phase) for phase in kernel.phases], default=0)
        scratch = device.scratch(most) if most else None
        words = np.array((0, *[0] * operands, *self.words), np.int64)
        table = device.allocate(words.nbytes, "table")
        launches = engine.prepare(_phases(kernel, table.address + WORD_BYTES, scratch, (), ()))
        return ReadyLaunches(table, words, int(words.ctypes.data), launches, scratch)


@dataclass(frozen=True, slots=True, eq=False)
class LaunchTable:
    """The words of all launches."""

    drafts: Sequence[Draft]
    kernels: Sequence[LoadedKernel]
    words: Words
    places: tuple[int, ...]
    bounds: OperandBounds | None

    @classmethod
    def of(cls, device: OpenDevice, drafts: Sequence[Draft]) -> LaunchTable:
        """The table of drafts, whose kernels are loaded."""
        bounds = OperandBounds.of(device, drafts) if SETTINGS.debug else None
        kernels = _kernels(device, drafts, bounded=bounds is not None)
        words: list[int] = []
        places = []
        for draft, record in zip(drafts, bounds.addresses if bounds else [0] * len(drafts), strict=True):
            places.append(len(words) + 1)
            words += [record, *draft.words]
        return cls(drafts, kernels, np.array(words, np.int64), tuple(places), bounds)

    def look(self, engine: DeviceEngine) -> None:
        """Behind a run: DeviceError where a kernel left an operand, in debugging."""
        if self.bounds is not None:
            self.bounds.look(engine)

    def store(self, device: OpenDevice) -> DeviceStorage:
        """Write it into memory of the device."""
        storage = device.allocate(self.words.nbytes, "table")
        with device.entered() as engine:
            engine.upload(storage.address, int(self.words.ctypes.data), self.words.nbytes)
        return storage

    def launches(self, device: OpenDevice, address: int) -> list[PhaseLaunch]:
        """The launches of all phases, for a table at this address."""
        most = max((_scratch(phase) for kernel in self.kernels for phase in kernel.phases), default=0)
        scratch = device.scratch(most) if most else None
        memory = () if scratch is None else (AddressRange(scratch.address, scratch.address + scratch.nbytes),)
        launches: list[PhaseLaunch] = []
        for draft, kernel, place in zip(self.drafts, self.kernels, self.places, strict=True):
            writes = (*draft.writes, *memory)
            launches += _phases(kernel, address + WORD_BYTES * place, scratch, draft.reads, writes)
        return launches


def _phases(
    kernel: LoadedKernel,
    table: int,
    scratch: DeviceStorage | None,
    reads: tuple[AddressRange, ...],
    writes: tuple[AddressRange, ...],
) -> list[PhaseLaunch]:
    """A launch for each phase; the last of `writes` is scratch memory, where there is some."""
    held = kernel.code.constants
    constants = 0 if held is None else held.address
    begin = 0 if scratch is None else scratch.address
    plain = writes if scratch is None else writes[:-1]
    return [
        PhaseLaunch(
            function, table, phase.first, phase.items, _groups(phase), phase.threads, phase.near, begin,
            aligned(phase.scratch), constants, reads, writes if phase.scratch else plain,
        )
        for phase, function in zip(kernel.phases, kernel.code.functions, strict=True)
        if phase.items
    ]  # fmt: skip


def _kernels(device: OpenDevice, drafts: Sequence[Draft], *, bounded: bool) -> list[LoadedKernel]:
    """Those of drafts; the ones that are new are loaded together."""
    kernels = device.kernels((draft.generator for draft in drafts), bounded=bounded)
    for draft, kernel in zip(drafts, kernels, strict=True):
        if isinstance(draft.kernel, GpuKernel) and not bounded:
            draft.kernel.remember(kernel)
    return kernels


def _groups(phase: DevicePhase) -> int:
    """Groups that do the items, so that what all workers have for themselves stays within its bound."""
    most = MOST_THREADS // phase.threads
    if phase.scratch:
        most = max(SCRATCH_BYTES // (aligned(phase.scratch) * phase.workers), 1)
    return min(phase.groups, most)


def _scratch(phase: DevicePhase) -> int:
    """Bytes that all workers have for themselves."""
    return _groups(phase) * phase.workers * aligned(phase.scratch)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedWords:
    """Words that kernels set, of which each begins at a multiple of CUT_BYTES from `begin`: their subjects by place."""

    begin: int
    subjects: Mapping[int, str]
    words: Words

    @classmethod
    def of(cls, checks: Sequence[tuple[str, int]]) -> tuple[CheckedWords, ...]:
        """Those of each piece of memory."""
        made, rest = list[CheckedWords](), sorted(checks, key=lambda check: check[1])
        while rest:
            begin = rest[0][1]
            near = [check for check in rest if check[1] < begin + PIECE_BYTES]
            subjects = {(address - begin) // WORD_BYTES: subject for subject, address in near}
            made.append(cls(begin, subjects, np.zeros(max(subjects) + 1, np.int64)))
            rest = rest[len(near) :]
        return tuple(made)

    def failed(self, engine: DeviceEngine) -> str:
        """The subject of the first word that is set, if one is; all that are set are cleared then, and nothing else."""
        words = self.words
        engine.download(int(words.ctypes.data), self.begin, words.nbytes)
        if not words.any():
            return ""
        places = [place for place in self.subjects if words[place]]
        for place in places:
            engine.fill(self.begin + place * WORD_BYTES, WORD_BYTES, 0)
        return self.subjects[places[0]] if places else ""


def _look(device: OpenDevice, checks: Sequence[CheckedWords]) -> None:
    """IndexRangeError for the first word that is set; all are cleared for the next run."""
    with device.entered() as engine:
        subjects = [subject for each in checks if (subject := each.failed(engine))]
    if subjects:
        raise IndexRangeError(subjects[0], got="an index outside its axis", need="0 ≤ index < the axis's size")


@dataclass(frozen=True, slots=True, eq=False)
class DeviceProgram:
    """Calls that were recorded; a run is one submission."""

    device: OpenDevice
    recorded: RecordedLaunches
    table: LaunchTable
    storage: DeviceStorage
    checks: tuple[CheckedWords, ...]
    kept: object

    def __call__(self) -> None:
        with self.device.entered() as engine:
            self.recorded.submit()
            self.table.look(engine)
            if self.checks:
                _look(self.device, self.checks)

    def relocation(self, spans: Sequence[tuple[int, int]]) -> Relocation:
        """Operands inside the spans move."""
        words, begins = self.table.words, [begin for begin, _ in spans]
        moved: list[tuple[int, int, int]] = []
        for draft, place in zip(self.table.drafts, self.table.places, strict=True):
            for position in range(place, place + draft.operands):
                address = int(words[position])
                for number, (begin, end) in enumerate(spans):
                    if begin <= address < end:
                        moved.append((position, number, address - begins[number]))

        def move(places: Sequence[int]) -> None:
            for position, number, offset in moved:
                words[position] = places[number] + offset
            with self.device.entered() as engine:
                engine.upload(self.storage.address, int(words.ctypes.data), words.nbytes)

        return move


def assemble(device: OpenDevice, calls: Sequence[Call]) -> DeviceProgram:
    """One program of many calls; it keeps what it needs beyond their tensors."""
    assembled = DeviceAssembly.on(device)
    for call in calls:
        kernel = call.kernel
        assert isinstance(kernel, GpuKernel)
        assembled.assemble(kernel, call.inputs, call.outputs, call.workspace)
    table = LaunchTable.of(device, assembled.drafts)
    with device.entered() as engine:
        storage = table.store(device)
        recorded = engine.record(table.launches(device, storage.address))
    kept = (tuple(calls), assembled.memory, device.held_scratch)
    return DeviceProgram(device, recorded, table, storage, CheckedWords.of(assembled.checks), kept)
