"""Calls into launches: kernels on operands as they lie, and copies around those that want none with gaps.

Memory beyond that of the tensors is what the caller has planned for it, or what an assembly keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from typing import ClassVar

from nnc.classes import dataclass
from nnc.codegen.frame.access import contiguous
from nnc.codegen.frame.kernel import Generator, suited, words_of
from nnc.codegen.frame.row import KernelRow, View, view_of
from nnc.codegen.ir.native_kernel import AddressRange, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.movement.movement import move
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import OptionalSpecs
from nnc.core.values.tensor import Tensor

OptionalTensors = Sequence[Tensor | None]


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


def extent_of(tensor: Tensor) -> AddressRange:
    """The memory of a contiguous tensor."""
    address = tensor.address
    return AddressRange(address, address + tensor.spec.nbytes)


def is_dense(view: View) -> bool:
    """True when the elements lie in row-major order without holes."""
    return view.strides == contiguous(view.shape)


def goes(row: KernelRow, result: View) -> bool:
    """True when a kernel of the row writes this with gaps; blocks have none."""
    return row.scattered and result.blocked is None


@dataclass(slots=True, eq=False)
class CommandKernel(Uncopied):
    """A command on fixed specs, with the generator for operands without gaps."""

    instead: ClassVar[str] = "ask the dispatcher for a claim"

    command: AnyCommand
    row: KernelRow
    inputs: OptionalSpecs
    results: tuple[View, ...]
    generator: Generator
    target: TargetDescription
    workspace_bytes: int
    variant: str = ""
    words: tuple[int, ...] = ()

    @property
    def worker_bytes(self) -> int:
        """Bytes of scratch memory for each worker."""
        return self.generator.scratch(self.target)

    def takes(self, inputs: OptionalTensors, outputs: OptionalTensors) -> bool:
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
        written = [self.results[place] for place in outputs if not goes(row, self.results[place])]
        sizes += [view.elements * view.scalar.size for view in written]
        return sum(map(aligned, sizes))


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch whose code may not be loaded yet; `kernel` is whose generator it is, where it is one's.

    `words` are the addresses of its operands, then its numbers; of the former there are `operands`.
    """

    generator: Generator
    kernel: CommandKernel | None
    words: tuple[int, ...]
    reads: tuple[AddressRange, ...]
    writes: tuple[AddressRange, ...]
    operands: int


@dataclass(slots=True)
class CallAssembly(ABC):
    """Launches in the making, with the memory that they need beyond the tensors of their calls.

    `planned` is what the caller has planned for contiguous copies of the call at hand, `spare` memory that copies of
    earlier calls were in.
    """

    target: TargetDescription
    drafts: list[Draft] = field(default_factory=list)
    planned: AddressRange | None = None
    spare: list[AddressRange] = field(default_factory=list)
    used: list[AddressRange] = field(default_factory=list)

    @abstractmethod
    def _allocate(self, size: int) -> AddressRange:
        """Fresh zeroed memory, kept as long as the launches are."""

    @abstractmethod
    def _check(self, subject: str, word: AddressRange) -> None:
        """Behind a run, look at the word that a checked kernel sets: its memory was the last that was allocated."""

    def assemble(
        self, kernel: CommandKernel, inputs: OptionalTensors, outputs: OptionalTensors, workspace: Tensor | None
    ) -> None:
        """The launches of one call: copies around the kernel where it wants contiguous operands."""
        if kernel.takes(inputs, outputs):
            self._add_plain(kernel, inputs, outputs, workspace)
        else:
            self._add_any(kernel, inputs, outputs, workspace)

    def _add_plain(
        self, kernel: CommandKernel, inputs: OptionalTensors, outputs: OptionalTensors, workspace: Tensor | None
    ) -> None:
        """The kernel itself, on tensors as they are."""
        reads = tuple(extent_of(tensor) for tensor in inputs if tensor is not None)
        writes = [extent_of(tensor) for tensor in outputs if tensor is not None]
        addresses = [extent.begin for extent in (*reads, *writes)]
        planned = None if workspace is None else extent_of(workspace)
        self._append(kernel.generator, kernel, addresses, reads, writes, planned)

    def _add_any(
        self, kernel: CommandKernel, inputs: OptionalTensors, outputs: OptionalTensors, workspace: Tensor | None
    ) -> None:
        row = kernel.row
        own, self.planned = _split(workspace, aligned(kernel.workspace_bytes))
        present = [(index, tensor) for index, tensor in enumerate(inputs) if tensor is not None]
        sources = [self._read(row, index, operand_of(tensor)) for index, tensor in present]
        targets = [
            self._unwanted(view) if tensor is None else operand_of(tensor)
            for tensor, view in zip(outputs, kernel.results, strict=True)
        ]
        results = [out if is_dense(out.view) or goes(row, out.view) else self._dense(out) for out in targets]
        views = [operand.view for operand in sources], [operand.view for operand in results]
        generator = row.generator(kernel.variant, kernel.command.attrs, *views, self.target)
        self._launch(suited(generator, self.target), sources, results, None if row.checked else own)
        if row.checked:
            self._check(kernel.command.op.name, self.drafts[-1].writes[-1])
        for result, output in zip(results, targets, strict=True):
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
        return _operand_at(view, self._allocate(view.elements * view.scalar.size))

    def _dense(self, operand: LaunchOperand) -> LaunchOperand:
        """Memory for a copy without gaps: what the caller has planned for it, or that of earlier copies, or fresh."""
        view = operand.view
        size = view.elements * view.scalar.size
        if self.planned is not None and self.planned.end - self.planned.begin >= aligned(size):
            begin, self.planned = self.planned.begin, AddressRange(self.planned.begin + aligned(size), self.planned.end)
            return _operand_at(view, AddressRange(begin, begin + size))
        fitting = [memory for memory in self.spare if memory.end - memory.begin >= size]
        spare = min(fitting, key=lambda memory: memory.end - memory.begin, default=None)
        if spare is None:
            spare = self._allocate(size)
        else:
            self.spare = [memory for memory in self.spare if memory is not spare]
        self.used.append(spare)
        return _operand_at(view, spare)

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
        kernel: CommandKernel | None,
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
        return self._allocate(size)


def _operand_at(view: View, memory: AddressRange) -> LaunchOperand:
    """Contiguous memory as an operand of the shape of `view`."""
    return LaunchOperand(view.dense, memory.begin, memory)


def _split(workspace: Tensor | None, size: int) -> tuple[AddressRange | None, AddressRange | None]:
    """The first `size` bytes, and those behind."""
    if workspace is None:
        return None, None
    whole = extent_of(workspace)
    middle = min(whole.begin + size, whole.end)
    return AddressRange(whole.begin, middle), AddressRange(middle, whole.end)
