"""Kernels of commands, and launches of many of them as one native program.

Operands that a kernel wants contiguous are copied around it, into memory that was planned for that or is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from typing import ClassVar

from nnc.backends.llvm.run.branches import AddressRange
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.native_loop import NativeLoop
from nnc.backends.llvm.run.owners import check_owned
from nnc.backends.llvm.run.runtime import NativeProgram, SingleLaunch, WorkerPool, ZeroedMemory
from nnc.backends.llvm.run.steps import Launch
from nnc.classes import dataclass
from nnc.codegen.frame.access import contiguous
from nnc.codegen.frame.kernel import Generator, NativeKernel, aligned, words_of
from nnc.codegen.frame.row import KernelRow, View, view_of
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.movement.movement import move
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import (
    Call,
    LoopCalls,
    LoopProgram,
    Relocation,
    Specs,
    Tensors,
)
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError


@dataclass(frozen=True, slots=True)
class LaunchOperand:
    """An operand of a launch: how it is laid out, where it begins, and the memory it may touch."""

    view: View
    address: int
    extent: AddressRange


def operand_of(tensor: Tensor) -> LaunchOperand:
    """A tensor as an operand."""
    base = view_of(tensor.spec)
    strides = base.strides if tensor.is_contiguous else tensor.strides
    size = base.scalar.size
    reach = sum((length - 1) * stride for length, stride in zip(base.shape, strides, strict=True) if length)
    extent = AddressRange(tensor.address, tensor.address + (reach + 1) * size if base.elements else tensor.address)
    return LaunchOperand(replace(base, strides=strides), tensor.address, extent)


def memory_operand(view: View, memory: ZeroedMemory) -> LaunchOperand:
    """Fresh contiguous memory as an operand of the shape of `view`."""
    return LaunchOperand(view.dense, memory.address, memory.extent)


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The word that a checked kernel sets when it meets an index outside its axis."""

    subject: str
    word: ZeroedMemory

    def __call__(self) -> None:
        """IndexRangeError if the word is set; it is cleared for the next run."""
        if self.word.words[0]:
            self.word.words[0] = 0
            raise IndexRangeError(self.subject, got="an index outside its axis", need="0 ≤ index < the axis's size")


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch whose code may not be loaded yet; `kernel` remembers it where there is one."""

    generator: Generator
    kernel: LlvmKernel | None
    addresses: tuple[int, ...]
    reads: tuple[AddressRange, ...]
    writes: tuple[AddressRange, ...]
    operands: int

    @property
    def is_fresh(self) -> bool:
        """True when nobody remembers the code."""
        return self.kernel is None or self.kernel.is_fresh

    def launch(self, jit: Jit) -> Launch:
        """The launch of the loaded kernel."""
        native = jit.kernel(self.generator) if self.kernel is None else self.kernel.native()
        return Launch(native, self.addresses, self.reads, self.writes, self.operands)


@dataclass(slots=True)
class Assembly:
    """Launches in the making, with the memory that they need beyond the tensors of their calls.

    `planned` is what the caller has planned for contiguous copies of the call at hand, `spare` memory that copies of
    earlier calls were in.
    """

    target: TargetDescription
    drafts: list[Draft] = field(default_factory=list)
    memory: list[ZeroedMemory] = field(default_factory=list)
    planned: AddressRange | None = None
    spare: list[ZeroedMemory] = field(default_factory=list)
    used: list[ZeroedMemory] = field(default_factory=list)
    checks: list[IndexCheck] = field(default_factory=list)

    def add(self, call: Call) -> None:
        """The launches of one call: copies around the kernel where it wants contiguous operands."""
        kernel = call.kernel
        assert isinstance(kernel, LlvmKernel)
        if kernel.takes(call.inputs, call.outputs):
            self._add_plain(kernel, call)
        else:
            self._add_any(kernel, call)

    def launches(self, jit: Jit) -> list[Launch]:
        """All launches; the kernels that are new are loaded together."""
        # Held until the launches hold them.
        made = jit.make(draft.generator for draft in self.drafts if draft.is_fresh)
        launches = [draft.launch(jit) for draft in self.drafts]
        del made
        return launches

    def _add_plain(self, kernel: LlvmKernel, call: Call) -> None:
        """The kernel itself, on tensors as they are."""
        reads = tuple(_extent(tensor) for tensor in call.inputs if tensor is not None)
        writes = [_extent(tensor) for tensor in call.outputs if tensor is not None]
        addresses = [extent.begin for extent in (*reads, *writes)]
        planned = None if call.workspace is None else _extent(call.workspace)
        self._append(kernel.generator, kernel, addresses, reads, writes, planned)

    def _add_any(self, kernel: LlvmKernel, call: Call) -> None:
        row = kernel.row
        own, self.planned = _split(call.workspace, aligned(kernel.workspace_bytes))
        present = [(index, tensor) for index, tensor in enumerate(call.inputs) if tensor is not None]
        inputs = [self._read(row, index, operand_of(tensor)) for index, tensor in present]
        outputs = [
            self._unwanted(view) if tensor is None else operand_of(tensor)
            for tensor, view in zip(call.outputs, kernel.results, strict=True)
        ]
        results = [out if is_dense(out.view) or _goes(row, out.view) else self._dense(out) for out in outputs]
        views = [operand.view for operand in inputs], [operand.view for operand in results]
        generator = row.generator(kernel.variant, kernel.command.attrs, *views, self.target)
        self._launch(generator, inputs, results, None if row.checked else own)
        if row.checked:
            self.checks.append(IndexCheck(kernel.command.op.name, self.memory[-1]))
        for result, output in zip(results, outputs, strict=True):
            if result is not output:
                self._copy(result, output)
        self.spare.extend(self.used)
        self.used.clear()

    def _read(self, row: KernelRow, index: int, operand: LaunchOperand) -> LaunchOperand:
        strided = row.strided and index not in row.dense and operand.view.blocked is None
        if strided or is_dense(operand.view):
            return operand
        dense = self._dense(operand)
        self._copy(operand, dense)
        return dense

    def _unwanted(self, view: View) -> LaunchOperand:
        """Memory for an output that the caller does not want."""
        return memory_operand(view, self._allocate(view.elements * view.scalar.size))

    def _dense(self, operand: LaunchOperand) -> LaunchOperand:
        """Memory for a copy without gaps: what the caller has planned for it, or that of earlier copies, or fresh."""
        view = operand.view
        size = view.elements * view.scalar.size
        if self.planned is not None and self.planned.end - self.planned.begin >= aligned(size):
            begin, self.planned = self.planned.begin, AddressRange(self.planned.begin + aligned(size), self.planned.end)
            return LaunchOperand(view.dense, begin, AddressRange(begin, begin + size))
        fitting = [memory for memory in self.spare if memory.nbytes >= size]
        spare = min(fitting, key=lambda memory: memory.nbytes, default=None)
        if spare is None:
            spare = self._allocate(size)
        else:
            self.spare = [memory for memory in self.spare if memory is not spare]
        self.used.append(spare)
        return memory_operand(view, spare)

    def _allocate(self, size: int) -> ZeroedMemory:
        self.memory.append(ZeroedMemory.allocate(size))
        return self.memory[-1]

    def _copy(self, source: LaunchOperand, target: LaunchOperand) -> None:
        generator = move(source.view.shape, source.view.whole, target.view.whole)
        self._launch(generator, [source], [target], None)

    def _launch(
        self,
        generator: Generator,
        inputs: Sequence[LaunchOperand],
        outputs: Sequence[LaunchOperand],
        planned: AddressRange | None,
    ) -> None:
        addresses = [operand.address for operand in (*inputs, *outputs)]
        reads = tuple(operand.extent for operand in inputs)
        writes = [operand.extent for operand in outputs]
        self._append(generator, None, addresses, reads, writes, planned)

    def _append(
        self,
        generator: Generator,
        kernel: LlvmKernel | None,
        addresses: list[int],
        reads: tuple[AddressRange, ...],
        writes: list[AddressRange],
        planned: AddressRange | None,
    ) -> None:
        size = generator.workspace(self.target) if kernel is None else kernel.workspace_bytes
        if size:
            taken = self._workspace(size, planned)
            addresses.append(taken.begin)
            writes.append(taken)
        words = (*addresses, *words_of(generator))
        self.drafts.append(Draft(generator, kernel, words, reads, tuple(writes), len(addresses)))

    def _workspace(self, size: int, planned: AddressRange | None) -> AddressRange:
        """The memory that the caller planned; other memory where strides make the kernel want more."""
        if planned is not None and planned.end - planned.begin >= size:
            return AddressRange(planned.begin, planned.begin + size)
        return self._allocate(size).extent


def _split(workspace: Tensor | None, size: int) -> tuple[AddressRange | None, AddressRange | None]:
    """The first `size` bytes, and those behind."""
    if workspace is None:
        return None, None
    whole = _extent(workspace)
    middle = min(whole.begin + size, whole.end)
    return AddressRange(whole.begin, middle), AddressRange(middle, whole.end)


def _extent(tensor: Tensor) -> AddressRange:
    """The memory of a contiguous tensor."""
    address = tensor.address
    return AddressRange(address, address + tensor.spec.nbytes)


def _goes(row: KernelRow, result: View) -> bool:
    """True when a kernel of the row writes this with gaps; blocks have none."""
    return row.scattered and result.blocked is None


def is_dense(view: View) -> bool:
    """True when the elements lie in row-major order without holes."""
    return view.strides == contiguous(view.shape)


@dataclass(slots=True, eq=False)
class LlvmKernel(Uncopied):
    """A command on fixed specs; code is generated when the strides of its operands are known."""

    instead: ClassVar[str] = "ask the dispatcher for a claim"

    command: AnyCommand
    row: KernelRow
    inputs: Specs
    results: tuple[View, ...]
    generator: Generator
    target: TargetDescription
    workspace_bytes: int
    variant: str = ""
    words: tuple[int, ...] = ()
    _native: NativeKernel | None = None
    _ready: dict[int, SingleLaunch] = field(default_factory=dict)
    _alone: SingleLaunch | None = None

    @property
    def worker_bytes(self) -> int:
        """Bytes of scratch memory for each worker."""
        return self.generator.scratch(self.target)

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute `outputs` from `inputs` on all workers."""
        alone = self._alone
        if alone is None or SETTINGS.debug or not self._run_alone(alone, inputs, outputs):
            self._run(inputs, outputs, workspace)

    def _run_alone(self, alone: SingleLaunch, inputs: Tensors, outputs: Tensors) -> bool:
        """The short way of a small kernel without workspace; False where it does not fit the tensors."""
        addresses = []
        for tensor in (*inputs, *outputs):
            if tensor is not None:
                if not tensor.is_contiguous:
                    return False
                addresses.append(tensor.address)
        if None in outputs:
            return False
        alone.run((*addresses, *self.words))
        return True

    def _run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        enough = workspace is not None and workspace.spec.nbytes >= self.workspace_bytes
        if (self.workspace_bytes and not enough) or not self.takes(inputs, outputs):
            assemble([Call(self, inputs, outputs, workspace)])()
            return
        operands = [*inputs, *outputs, workspace if self.workspace_bytes else None]
        addresses = [tensor.address for tensor in operands if tensor is not None]
        if SETTINGS.debug:
            held = [_extent(tensor) for tensor in operands if tensor is not None]
            check_owned(held, [Call(self, inputs, outputs, workspace)])
        launch = self._launch(SETTINGS.worker_count())
        launch.run((*addresses, *self.words))
        if launch.is_alone and not self.workspace_bytes:
            self._alone = launch

    def takes(self, inputs: Tensors, outputs: Tensors) -> bool:
        """True when the kernel runs on these tensors as they are, and nothing beside it has to be done."""
        if self.row.checked or None in outputs:
            return False
        return all(tensor is None or tensor.is_contiguous for tensor in (*inputs, *outputs))

    @property
    def breaks_off(self) -> bool:
        """Where it meets an index outside its axis."""
        return self.row.checked

    def copied_bytes(self, inputs: Collection[int], outputs: Collection[int]) -> int:
        """Bytes of the copies that the launches of a call make of operands with gaps, where they cannot be used."""
        row = self.row
        given = [(place, spec) for place in inputs if (spec := self.inputs[place]) is not None]
        sizes = [
            spec.nbytes for place, spec in given if not row.strided or place in row.dense or spec.plain is not spec
        ]
        written = [self.results[place] for place in outputs if not _goes(row, self.results[place])]
        sizes += [view.elements * view.scalar.size for view in written]
        return sum(map(aligned, sizes))

    @property
    def is_fresh(self) -> bool:
        """True when its code has not been asked for."""
        return self._native is None

    def native(self) -> NativeKernel:
        """The code for contiguous operands, compiled at the first call."""
        if self._native is None:
            self._native = engine().jit.kernel(self.generator)
        return self._native

    def _launch(self, workers: int) -> SingleLaunch:
        launch = self._ready.get(workers)
        if launch is None:
            launch = self._ready.setdefault(workers, SingleLaunch(engine().pool, self.native(), workers))
        return launch


def assemble(calls: Sequence[Call], pool: WorkerPool | None = None) -> AssembledProgram:
    """One native program of many calls; it keeps alive what it needs beyond their tensors."""
    machine = engine()
    assembly = Assembly(machine.target)
    for call in calls:
        assembly.add(call)
    launches = assembly.launches(machine.jit)
    if SETTINGS.debug:
        ranges = (span for launch in launches for span in (*launch.reads, *launch.writes))
        check_owned(ranges, calls, [memory.data for memory in assembly.memory])
    program = NativeProgram(pool or machine.pool, launches, SETTINGS.worker_count())
    return AssembledProgram(program, tuple(assembly.checks), (tuple(calls), assembly.memory))


@dataclass(frozen=True, slots=True, eq=False)
class AssembledProgram:
    """A native program with the checks behind it, and what it keeps alive."""

    program: NativeProgram
    checks: tuple[IndexCheck, ...]
    kept: object

    def __call__(self) -> None:
        self.program.run()
        for check in self.checks:
            check()

    def relocation(self, spans: Sequence[tuple[int, int]]) -> Relocation:
        """Operands inside the spans move."""
        return self.program.relocation(spans)


def assemble_loop(calls: LoopCalls) -> LoopProgram | None:
    """One native loop; None in debugging, where each program is checked by itself."""
    if SETTINGS.debug:
        return None
    machine = engine()
    assemblies = [Assembly(machine.target), Assembly(machine.target)]
    for assembly, part in zip(assemblies, (calls.before, calls.rest), strict=True):
        for call in part:
            assembly.add(call)
    parts = [(made.launches(machine.jit), [check.word.address for check in made.checks]) for made in assemblies]

    def refuse() -> None:
        for assembly in assemblies:
            for check in assembly.checks:
                check()

    return NativeLoop(machine.pool, calls, parts, refuse, SETTINGS.worker_count())
