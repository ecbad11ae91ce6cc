"""Kernels of commands, and launches of many of them as one native program.

Operands that a kernel wants contiguous are copied around it, into memory that was planned for that or is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from nnc.backends.llvm.assembled_program import AssembledProgram, IndexCheck
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.native_loop import NativeLoop
from nnc.backends.llvm.run.owners import check_owned
from nnc.backends.llvm.run.records import Record
from nnc.backends.llvm.run.runtime import NativeProgram, SingleLaunch, WorkerPool, ZeroedMemory
from nnc.backends.llvm.run.steps import Launch
from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.row import KernelRow, View
from nnc.codegen.frame.written import outline
from nnc.codegen.ir.native_kernel import AddressRange, NativeKernel
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.program.assembling import CallAssembly, CommandKernel, Draft, extent_of
from nnc.core.running.dispatch import Call, LoopCalls, LoopProgram, Specs, Tensors
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand
from nnc.core.values.exact import Exact
from nnc.core.values.sizes import Numbers, Renewal, renewing, sizes_in
from nnc.core.values.tensor import Tensor


@dataclass(slots=True)
class Assembly(CallAssembly):
    """Launches in the making, in memory of this process."""

    memory: list[ZeroedMemory] = field(default_factory=list)
    checks: list[IndexCheck] = field(default_factory=list)

    def add(self, call: Call) -> None:
        """The launches of one call."""
        kernel = call.kernel
        assert isinstance(kernel, LlvmKernel)
        self.assemble(kernel, call.inputs, call.outputs, call.workspace)

    def launches(self, jit: Jit) -> list[Launch]:
        """All launches; the kernels that are new are loaded together."""
        # Held until the launches hold them.
        made = jit.make(draft.generator for draft in self.drafts if _is_fresh(draft))
        launches = [_launched(draft, jit) for draft in self.drafts]
        del made
        return launches

    def _allocate(self, size: int) -> AddressRange:
        self.memory.append(ZeroedMemory.allocate(size))
        return self.memory[-1].extent

    def _check(self, subject: str, word: AddressRange) -> None:
        self.checks.append(IndexCheck(subject, self.memory[-1]))


def _is_fresh(draft: Draft) -> bool:
    """True when nobody remembers the code."""
    return not isinstance(draft.kernel, LlvmKernel) or draft.kernel.is_fresh


def _launched(draft: Draft, jit: Jit) -> Launch:
    """The launch of the loaded kernel."""
    native = draft.kernel.native() if isinstance(draft.kernel, LlvmKernel) else jit.kernel(draft.generator)
    return Launch(native, draft.words, draft.reads, draft.writes, draft.operands)


@dataclass(slots=True, eq=False)
class LlvmKernel(CommandKernel):
    """A command on fixed specs; code is generated when the strides of its operands are known."""

    _native: NativeKernel | None = None
    _ready: dict[int, SingleLaunch] = field(default_factory=dict)
    _alone: SingleLaunch | None = None
    # The code of the last run that was assembled, for operands with gaps or a check: the next one finds it loaded.
    _assembled: tuple[NativeKernel, ...] = ()

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute `outputs` from `inputs` on all workers."""
        alone = self._alone
        if alone is None or SETTINGS.debug:
            self._run(inputs, outputs, workspace)
            return
        # The short way of a small kernel without workspace, on elements in order.
        addresses = []
        for tensor in inputs:
            if tensor is not None:
                if not tensor.is_contiguous:
                    break
                addresses.append(tensor.address)
        else:
            for tensor in outputs:
                if tensor is None or not tensor.is_contiguous:
                    break
                addresses.append(tensor.address)
            else:
                alone.run(addresses)
                return
        self._run(inputs, outputs, workspace)

    def _run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        enough = workspace is not None and workspace.spec.nbytes >= self.workspace_bytes
        if (self.workspace_bytes and not enough) or not self.takes(inputs, outputs):
            assembled = assemble([Call(self, inputs, outputs, workspace)])
            self._assembled = assembled.program.kernels
            assembled()
            return
        operands = [*inputs, *outputs, workspace if self.workspace_bytes else None]
        addresses = [tensor.address for tensor in operands if tensor is not None]
        if SETTINGS.debug:
            held = [extent_of(tensor) for tensor in operands if tensor is not None]
            check_owned(held, [Call(self, inputs, outputs, workspace)])
        launch = self._launch(SETTINGS.worker_count())
        launch.run(addresses)
        if launch.is_single_threaded and not self.workspace_bytes:
            self._alone = launch

    @property
    def is_fresh(self) -> bool:
        """True when its code has not been asked for."""
        return self._native is None

    @property
    def worker_bytes(self) -> int:
        """Bytes of scratch memory for each worker."""
        return self.generator.scratch(self.target) if self._native is None else self._native.scratch

    def formula(self) -> LlvmFormula:
        """The kernel as a function of the open sizes that its generator has."""
        shape, sizes = outline(self.generator, self.target)
        shaping = {size.place: size.pinned for size in sizes_in(shape)}
        memory = self.generator.workspace(self.target), self.generator.scratch(self.target)
        made = self.results, self.generator, self.workspace_bytes, self.words
        exact = Exact(Renewal(shaping).of(shape))
        return LlvmFormula(self.row, self.target, self.variant, exact, renewing((sizes, *memory)), renewing(made))

    def native(self) -> NativeKernel:
        """The code for contiguous operands, compiled at the first call."""
        if self._native is None:
            self._native = engine().jit.kernel(self.generator)
        return self._native

    def _launch(self, workers: int) -> SingleLaunch:
        launch = self._ready.get(workers)
        if launch is None:
            launch = self._ready.setdefault(workers, SingleLaunch(engine().pool, self.native(), workers, self.words))
        return launch


@dataclass(slots=True, eq=False)
class LlvmFormula:
    """A kernel as a function of sizes, which are in what it was made of, with the outline that its code depends on.

    Of numbers `memory` makes what the code reads and takes, and `made` what the kernel consists of.
    """

    row: KernelRow
    target: TargetDescription
    variant: str
    shape: Exact
    memory: Callable[[Numbers], tuple[tuple[int, ...], int, int]]
    made: Callable[[Numbers], tuple[tuple[View, ...], Generator, int, tuple[int, ...]]]
    _records: tuple[Record, ...] = ()

    def at(self, renewal: Renewal, command: AnyCommand, inputs: Specs) -> LlvmKernel:
        """The kernel at other sizes; of code that is loaded, where it is."""
        numbers = renewal.numbers
        results, generator, workspace, words = self.made(numbers)
        made = (command, self.row, inputs, results, generator, self.target, workspace, self.variant, words)
        return LlvmKernel(*made, self._native(*self.memory(numbers)))

    def _native(self, sizes: tuple[int, ...], workspace: int, scratch: int) -> NativeKernel | None:
        """The loaded code, by what is known of its records, or by those that there are now."""
        jit = engine().jit
        native = jit.resized(self._records, sizes, workspace, scratch)
        if native is None and (records := jit.records(self.shape)) != self._records:
            self._records = records
            native = jit.resized(records, sizes, workspace, scratch)
        return native


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
