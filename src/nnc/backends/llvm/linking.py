"""Tensors of this process in the making into places of a library: base + offset.

    whole = linked(program, target)

Launches are made as for a run here, on the addresses that tensors have here; then each address is looked up in the
spans that the program names: the arena, constants, lasting state, stand-ins, and memory of the launches
themselves, which is put behind the arena.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import assert_never

from nnc.backends.llvm.assembly import Assembly
from nnc.backends.llvm.target_kernel import TargetKernel
from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.row import view_of
from nnc.codegen.ir.builder import SCALARS, Scalar
from nnc.codegen.ir.native_kernel import AddressRange, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.program.assembling import Draft, extent_of
from nnc.codegen.program.statements import (
    Base,
    KernelRun,
    LinkedProgram,
    MemoryPlace,
    Pointer,
    PointerMove,
    PortPlace,
    Repetition,
    Selection,
    Statement,
    Turn,
)
from nnc.core.running.dispatch import Call
from nnc.core.running.library_program import (
    CyclicView,
    LibraryBranch,
    LibraryLoop,
    LibraryProgram,
    LibraryStatement,
    Reassignment,
)
from nnc.core.values.dtype import U8
from nnc.core.values.exact import Exact
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor


def linked(program: LibraryProgram, target: TargetDescription) -> LinkedProgram:
    """The program in numbers. Its calls are of kernels for this target."""
    assembly, launches = Assembly(target), dict[int, _Launches]()
    for call in _calls(program.statements):
        before, kernel = len(assembly.drafts), call.kernel
        assert isinstance(kernel, TargetKernel)
        own, runner = _parted(call.workspace, kernel.runner_bytes)
        assembly.add(replace(call, kernel=kernel.native, workspace=own))
        launches[id(call)] = _Launches(assembly.drafts[before:], runner)
    places = _Places.of(program, assembly)
    linking = _Linking(places, launches, target)
    statements = linking.all(program.statements)
    return LinkedProgram(
        program.name,
        tuple(linking.generators),
        statements,
        tuple(map(places.port, program.inputs)),
        tuple(map(places.port, program.outputs)),
        tuple(places.at(check.word.address) for check in assembly.checks),
        aligned(program.arena.nbytes),
        places.end + linking.unplanned,
        program.initial,
        program.content,
        program.constant_bytes,
        len(program.standins),
        max((aligned(generator.scratch(target)) for generator in linking.generators), default=0),
        program.pooled,
    )


def _parted(workspace: Tensor | None, runner_bytes: int) -> tuple[Tensor | None, AddressRange | None]:
    """The workspace of a kernel itself, and the end of it, which whoever runs the kernel has for itself."""
    if workspace is None or not runner_bytes:
        return workspace, None
    whole = extent_of(workspace)
    own = TensorSpec((workspace.spec.nbytes - runner_bytes,), U8)
    return workspace.view(own, 0, (1,)) if own.nbytes else None, AddressRange(whole.end - runner_bytes, whole.end)


@dataclass(frozen=True, slots=True, eq=False)
class _Launches:
    """What a call is made of, and the memory that was planned for whoever runs it."""

    drafts: Sequence[Draft]
    runner: AddressRange | None


def _calls(statements: Sequence[LibraryStatement]) -> Iterator[Call]:
    """All calls, those of loops and branches in their places."""
    for statement in statements:
        match statement:
            case Call():
                yield statement
            case LibraryLoop():
                yield from _calls((*statement.before, *statement.rest))
            case LibraryBranch():
                for branch in (*statement.branches.values(), statement.otherwise):
                    yield from _calls(branch or ())
            case Reassignment() | CyclicView():
                pass
            case _:
                assert_never(statement)


@dataclass(slots=True, eq=False)
class _Places:
    """Spans of addresses in order, each with the place that its first byte is."""

    rows: list[tuple[int, int, MemoryPlace]]
    end: int
    starts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, program: LibraryProgram, assembly: Assembly) -> _Places:
        """Those of a program, with what its launches need beside, behind the arena."""
        arena = program.arena
        rows = [(arena.begin, arena.nbytes, MemoryPlace(Base.ARENA, 0))]
        spans = [(Base.CONSTANTS, span) for span in program.constants] + [(Base.STATE, span) for span in program.state]
        rows += [(span.begin, span.nbytes, MemoryPlace(base, span.offset)) for base, span in spans]
        for number, tensor in enumerate(program.standins):
            rows.append((tensor.address, tensor.spec.nbytes, MemoryPlace(Pointer(number), 0)))
        end = aligned(arena.nbytes)
        beside = [(tensor.address, tensor.spec.nbytes) for tensor in program.beside]
        beside += [(memory.address, memory.nbytes) for memory in assembly.memory]
        for begin, nbytes in beside:
            rows.append((begin, nbytes, MemoryPlace(Base.ARENA, end)))
            end += aligned(nbytes)
        rows = sorted((row for row in rows if row[1]), key=lambda row: row[0])
        return cls(rows, end, [begin for begin, _, _ in rows])

    def at(self, address: int) -> MemoryPlace:
        """The place of an address of this process."""
        number = bisect_right(self.starts, address) - 1
        assert number >= 0, "an operand in front of all memory that the program names"
        begin, nbytes, place = self.rows[number]
        assert address < begin + nbytes, "an operand outside of all memory that the program names"
        return replace(place, offset=place.offset + address - begin)

    def of_tensor(self, tensor: Tensor) -> MemoryPlace:
        """The place of a tensor's first element."""
        return self.at(tensor.address) if tensor.spec.nbytes else MemoryPlace(Base.ARENA, 0)

    def element(self, tensor: Tensor) -> tuple[MemoryPlace, Scalar]:
        """The place of a single element, and its type."""
        return self.of_tensor(tensor), SCALARS[tensor.dtype.name]

    def port(self, tensor: Tensor) -> PortPlace:
        """Where an input or output is."""
        return PortPlace(tensor.spec.nbytes, view_of(tensor.spec).scalar.size, self.of_tensor(tensor))


@dataclass(slots=True, eq=False)
class _Linking:
    """Statements in the making into numbers; equal generators are one kernel.

    `unplanned` are the bytes behind the arena that launches without planned memory have for whoever runs them.
    """

    places: _Places
    launches: dict[int, _Launches]
    target: TargetDescription
    unplanned: int = 0
    generators: list[Generator] = field(default_factory=list)
    numbers: dict[Exact, int] = field(default_factory=dict)

    def all(self, statements: Sequence[LibraryStatement]) -> tuple[Statement, ...]:
        """Statements in order."""
        return tuple(made for statement in statements for made in self._one(statement))

    def _one(self, statement: LibraryStatement) -> Iterator[Statement]:
        at, of = self.places.of_tensor, self.places.element
        match statement:
            case Call():
                launches = self.launches[id(statement)]
                yield from (self._run(draft, launches.runner) for draft in launches.drafts)
            case Reassignment():
                yield PointerMove(tuple((self._pointer(standin), at(tensor)) for standin, tensor in statement.moves))
            case CyclicView():
                views = tuple(map(at, statement.views))
                yield Turn(self._pointer(statement.standin), views, statement.once, at(statement.count))
            case LibraryLoop():
                tested = None if statement.tested is None else of(statement.tested)
                parts = self.all(statement.before), self.all(statement.rest)
                yield Repetition(at(statement.count), statement.limit, tested, statement.at_most, *parts)
            case LibraryBranch():
                branches = {number: self.all(branch) for number, branch in statement.branches.items()}
                otherwise = None if statement.otherwise is None else self.all(statement.otherwise)
                yield Selection(of(statement.chosen), statement.offset, branches, otherwise)
            case _:
                assert_never(statement)

    def _pointer(self, standin: Tensor) -> Pointer:
        base = self.places.at(standin.address).base
        assert isinstance(base, Pointer)
        return base

    def _run(self, draft: Draft, runner: AddressRange | None) -> KernelRun:
        number = self.numbers.setdefault(Exact(draft.generator), len(self.generators))
        if number == len(self.generators):
            self.generators.append(draft.generator)
        extents = (*draft.reads, *draft.writes)
        places = tuple(
            self.places.at(address) if extent.end > extent.begin else MemoryPlace(Base.ARENA, 0)
            for address, extent in zip(draft.words, extents, strict=False)
        )
        return KernelRun(number, places, self._scratch(draft.generator, runner), draft.words[draft.operands :])

    def _scratch(self, generator: Generator, planned: AddressRange | None) -> MemoryPlace:
        """What was planned; copies of operands with gaps, whose memory was not, have theirs behind the arena."""
        size = generator.scratch(self.target)
        if planned is not None and planned.end - planned.begin >= size:
            return self.places.at(planned.begin)
        self.unplanned = max(self.unplanned, aligned(size))
        return MemoryPlace(Base.ARENA, self.places.end)
