"""A compiled graph as it is kept on disk, and such a one at work: no graph, no passes, no plan and no generators.

    kept = StoredProgram.of(compiled, inputs, outputs)        behind its first run
    text = kept.content()
    program = restored(text, arena)                           in another process; None where something does not fit
    program.bind(tensors)                                     those that `kept.bound` counts, in the same order

A record has the steps, where inputs and outputs lie, the statement, and the plan with its certificate, which is checked
by the judge of all plans (docs/design/0041-programs-on-disk.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from nnc.classes import dataclass
from nnc.concrete import ConcreteGraph
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import Program
from nnc.core.running.stored_steps import STEP_STORES, RestoredSteps, StoredKernel, StoredLaunch, StoredSteps
from nnc.core.values.device import HOST, device_of
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import SymbolError
from nnc.planning import Block, Plan, Problem, Witness, faults
from nnc.symbolic.compiler.place.memory_statement import DeviceBytes, MemoryStatement
from nnc.symbolic.compiler.shared_arena import Arena
from nnc.symbolic.compiler.stored_calls import LoadedCalls, Memory, StoredCalls
from nnc.symbolic.compiler.stored_calls import StoredPort as StoredPort

if TYPE_CHECKING:
    # What is kept; a program from the disk needs none of it.
    from nnc.concrete.run import Fixed
    from nnc.symbolic.compiler.compiled import Compiled, ProgramMemory
    from nnc.symbolic.ir import Symbol

WORD = 1 << 63


# Steps of a backend, or calls of Python's kernels between them.
StoredPart: TypeAlias = StoredSteps | StoredCalls
RestoredPart: TypeAlias = RestoredSteps | LoadedCalls


@dataclass(frozen=True, slots=True, eq=False)
class StoredProgram:
    """Parts in order on an arena and on bound tensors of so many bytes each, with all that a caller asks of it.

    Steps are those of the `backend`. Part `begin` is the first that may write bound tensors; with None any may.
    An input that no step reads has no place.
    """

    backend: str
    parts: tuple[StoredPart, ...]
    begin: int | None
    bound: tuple[int, ...]
    inputs: tuple[StoredPort | None, ...]
    outputs: tuple[StoredPort, ...]
    statement: MemoryStatement
    problem: Problem
    plan: Plan

    @classmethod
    def of(
        cls,
        compiled: Compiled,
        inputs: Sequence[Symbol],
        outputs: Sequence[Symbol],
        bound: Sequence[Symbol] | None = None,
    ) -> tuple[Self, tuple[Tensor, ...]] | None:
        """The program, and the tensors that it is bound to; None for one that is more than steps and calls in order.

        Of the symbols `bound`, in this order, or of all that it has: those may not be written.
        """
        is_host = all(device_of(kind).is_host for kind in compiled.statement.arenas)
        return compiled.exclusively(lambda: cls._of(compiled, inputs, outputs, bound)) if is_host else None

    @classmethod
    def _of(
        cls,
        compiled: Compiled,
        inputs: Sequence[Symbol],
        outputs: Sequence[Symbol],
        symbols: Sequence[Symbol] | None,
    ) -> tuple[Self, tuple[Tensor, ...]] | None:
        memory, fixed, (problem, plan) = compiled.laid_out(), compiled.fixed_parts(), compiled.plan()
        if fixed is None or problem.interference is not None or problem.companions:
            return None
        bound = _bound_tensors(compiled, memory, symbols)
        if bound is None:
            return None
        places = _memory_of(memory, bound)
        recorded = _recorded(fixed, places) if all(tensor.is_contiguous for tensor in bound) else None
        if recorded is None:
            return None
        ports = [_port(compiled, symbol, places) for symbol in (*inputs, *outputs)]
        made = tuple(port for port in ports[len(inputs) :] if port is not None)
        if len(made) < len(outputs):
            return None
        nbytes = tuple(tensor.spec.nbytes for tensor in bound)
        # The names of blocks are those of a graph that nobody has any more.
        problem = replace(problem, blocks=tuple(replace(block, name="") for block in problem.blocks))
        given = tuple(ports[: len(inputs)])
        return cls(*recorded, nbytes, given, made, compiled.statement, problem, plan), bound

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def _bound_tensors(
    compiled: Compiled, memory: ProgramMemory, symbols: Sequence[Symbol] | None
) -> tuple[Tensor, ...] | None:
    """The tensors of these symbols, or of all that is bound; None where their memory does not tell them apart."""
    if symbols is None:
        return None if memory.written else tuple(memory.tensors.values())
    bound = tuple([compiled.tensor(symbol) for symbol in symbols])
    extents = sorted(tensor.extent for tensor in bound if tensor.spec.nbytes)
    alone = all(end <= begin for (_, end), (begin, _) in pairwise(extents))
    known = {tensor.extent for tensor in bound}
    return bound if alone and all(tensor.extent in known for tensor in memory.tensors.values()) else None


def _memory_of(memory: ProgramMemory, bound: Sequence[Tensor]) -> Memory:
    """The spans that operands of a program lie in."""
    rows = [(tensor.storage, tensor.offset, tensor.spec.nbytes) for tensor in bound]
    return [(memory.arena, memory.base, memory.nbytes), *rows]


def _recorded(
    fixed: Sequence[Sequence[Fixed]], places: Memory
) -> tuple[str, tuple[StoredPart, ...], int | None] | None:
    """The backend of native steps, all parts in order, and which is the first behind the cut of `fixed`."""
    steps = [step for part in fixed for step in part]
    names = dict.fromkeys(step.backend.name for step in steps if STEP_STORES.of(step.backend.name) is not None)
    backend, spans = " ".join(names), [(storage.address + begin, nbytes) for storage, begin, nbytes in places]
    store = STEP_STORES.of(backend)
    if store is None or len(fixed) > 2:
        return None
    parts: list[StoredPart] = []
    begin = None
    for number, cut in enumerate(fixed):
        begin = len(parts) if number else None
        for name, run in groupby(cut, lambda step: step.backend.name):
            calls = [call for step in run for call in step.calls]
            part = store.recorded(calls, spans) if name in names else StoredCalls.of(name, calls, places)
            if part is None:
                return None
            parts.append(part)
    return backend, tuple(parts), begin


def _port(compiled: Compiled, symbol: Symbol, places: Memory) -> StoredPort | None:
    """Where a symbol lies; None where it has no memory, or is in blocks."""
    try:
        return StoredPort.of(compiled.tensor(symbol), places)
    except SymbolError:
        return None


def stored_program(content: Mapping[str, Any]) -> StoredProgram:
    """Of what `content` gave; ValueError, TypeError or KeyError for anything else, and for a plan that has a fault."""
    blocks = tuple(Block(**block) for block in content["problem"]["blocks"])
    problem, plan = Problem(blocks), _plan(content["plan"])
    statement = _statement(content["statement"])
    if broken := faults(problem, plan):
        raise ValueError("; ".join(broken))
    if dict(plan.arenas) != dict(statement.arenas) or statement.arena != plan.arena_bytes:
        raise ValueError("a statement of another plan")
    bound = _numbers(content["bound"])
    sizes = (statement.arena, *bound)
    return StoredProgram(
        content["backend"],
        tuple([_part(row, sizes) for row in content["parts"]]),
        _begin(content["begin"], len(content["parts"])),
        bound,
        tuple(None if row is None else _port_of(row, sizes) for row in content["inputs"]),
        tuple(_port_of(row, sizes) for row in content["outputs"]),
        statement,
        problem,
        plan,
    )


def _plan(row: Mapping[str, Any]) -> Plan:
    witnesses = {memory: _witness(witness) for memory, witness in row["witnesses"].items()}
    known = {**row, "offsets": tuple(row["offsets"]), "witness": _witness(row["witness"]), "witnesses": witnesses}
    return Plan(**known)


def _witness(row: Mapping[str, Any]) -> Witness:
    return Witness(row["step"], tuple(row["blocks"]))


def _statement(row: Mapping[str, Any]) -> MemoryStatement:
    devices = {name: DeviceBytes(**part) for name, part in row["devices"].items()}
    return MemoryStatement(**{**row, "peak_tensors": tuple(row["peak_tensors"]), "devices": devices})


def _port_of(row: Mapping[str, Any], sizes: Sequence[int]) -> StoredPort:
    port = StoredPort(**{**row, "shape": _numbers(row["shape"]), "strides": _numbers(row["strides"])})
    _numbers((port.span, port.offset))
    if not 0 <= port.span < len(sizes):
        raise ValueError(f"memory {port.span} of {len(sizes)}")
    # A tensor is inside of its storage, and the arena's is as large as the largest program in it.
    whole = Storage.owned(None, 0, sizes[port.span], "")
    port.tensor([whole] * (port.span + 1), [0] * (port.span + 1))
    return port


def _part(row: Mapping[str, Any], sizes: Sequence[int]) -> StoredPart:
    if "calls" in row:
        return StoredCalls.read(row, lambda port: _port_of(port, sizes))
    return _steps(row)


def _begin(place: int | None, count: int) -> int | None:
    if place is not None and not 0 <= _number(place) <= count:
        raise ValueError(f"part {place} of {count}")
    return place


def _steps(row: Mapping[str, Any]) -> StoredSteps:
    launches = tuple(
        StoredLaunch(
            _number(launch["kernel"]),
            tuple(map(_pair, launch["operands"])),
            _numbers(launch["words"]),
            tuple(map(_triple, launch["reads"])),
            tuple(map(_triple, launch["writes"])),
        )
        for launch in row["launches"]
    )
    checks = tuple((str(subject), _number(offset)) for subject, offset in row["checks"])
    return StoredSteps(tuple(map(_kernel, row["kernels"])), launches, _number(row["own"]), checks)


def _kernel(row: Mapping[str, Any]) -> StoredKernel:
    phases = []
    for symbol, items, cost, first in row["phases"]:
        phases.append((str(symbol), _number(items), float(cost), _number(first)))
    key, stored, sizes = str(row["key"]), str(row["stored"]), _numbers(row["sizes"])
    return StoredKernel(key, stored, tuple(phases), sizes, _number(row["workspace"]), _number(row["scratch"]))


def _numbers(row: Sequence[Any]) -> tuple[int, ...]:
    """Integers that a word holds; ValueError for anything else."""
    numbers = tuple(row)
    if not all(type(number) is int and -WORD <= number < WORD for number in numbers):
        raise ValueError(f"{numbers} where integers are")
    return numbers


def _number(value: int) -> int:
    """The integer that it is."""
    return _numbers((value,))[0]


def _pair(row: Sequence[Any]) -> tuple[int, int]:
    span, offset = _numbers(row)
    return span, offset


def _triple(row: Sequence[Any]) -> tuple[int, int, int]:
    span, offset, nbytes = _numbers(row)
    return span, offset, nbytes


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class RestoredProgram(Uncopied):
    """A program from the disk that runs in an arena, on bound tensors. Memory is allocated at the first run.

    It has the bits of the program that was kept, and its statement.
    """

    instead: ClassVar[str] = "load() the file again"

    stored: StoredProgram
    statement: MemoryStatement
    parts: tuple[RestoredPart, ...]
    tensors: tuple[Tensor, ...]
    arena: Arena
    # Called in front of part `stored.begin`.
    begin: Callable[[], None] | None = None
    _concrete: ConcreteGraph | None = None
    _storages: Mapping[str, Storage] | None = None
    programs: tuple[Program, ...] = ()
    inputs: tuple[Tensor | None, ...] = ()
    outputs: tuple[Tensor, ...] = ()

    def memory(self) -> MemoryStatement:
        """The bytes of a run, as they were planned."""
        return self.statement.over(self.tensors)

    def over(self, tensors: Sequence[Tensor], arena: Arena, begin: Callable[[], None]) -> RestoredProgram:
        """The same on other tensors of these sizes, in an arena that has room for it."""
        return RestoredProgram(self.stored, self.statement, self.parts, tuple(tensors), arena, begin)

    def forget_layout(self) -> None:
        """Hold no memory of the arena's."""
        self._concrete, self._storages, self.programs, self.inputs, self.outputs = None, None, (), (), ()

    def read(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Write the inputs, run, and return copies of the outputs."""
        return self.arena.exclusively(lambda: self._read(arrays))

    def _read(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        concrete = self.laid_out()
        for tensor, array in zip(self.inputs, arrays, strict=True):
            if tensor is not None:
                tensor.copy_from(array)
        self.arena.turn += 1
        concrete.run()
        return tuple([np.array(tensor.numpy()) for tensor in self.outputs])

    def laid_out(self) -> ConcreteGraph:
        """The program over the arena as it is, as the one node of a graph: runs take turns, and can be cancelled."""
        storages = self.arena.allocate(self.statement.arenas)
        if self._concrete is None or self._storages is not storages:
            host, base = storages[HOST], self.arena.base
            spans = [(host.address + base, self.statement.arena)]
            spans += [(tensor.address, tensor.spec.nbytes) for tensor in self.tensors]
            places = [host, *(tensor.storage for tensor in self.tensors)]
            begins = [base, *(tensor.offset for tensor in self.tensors)]
            concrete = ConcreteGraph(runs=self.arena.runs)
            self.programs = tuple(
                [part.over(places, begins) if isinstance(part, LoadedCalls) else part.on(spans) for part in self.parts]
            )
            for number, program in enumerate(self.programs):
                if number == self.stored.begin and self.begin is not None:
                    concrete.add_noop(self.begin)
                concrete.add_noop(program)
            concrete.prepare()
            self.inputs = tuple(None if port is None else port.tensor(places, begins) for port in self.stored.inputs)
            self.outputs = tuple(port.tensor(places, begins) for port in self.stored.outputs)
            self._concrete, self._storages = concrete, storages
            self.arena.programs.add(self)
        return self._concrete


def restored(stored: StoredProgram, tensors: Sequence[Tensor], arena: Arena) -> RestoredProgram | None:
    """The program in this arena, with its kernels loaded; None where one is not on the disk.

    ValueError where an operand would lie outside of its memory, or tensors are not those that it was bound to.
    """
    nbytes = tuple(tensor.spec.nbytes for tensor in tensors)
    if nbytes != stored.bound or not all(tensor.is_contiguous for tensor in tensors):
        raise ValueError(f"tensors of {nbytes} bytes where {stored.bound} were bound")
    parts = restored_parts(stored)
    if parts is None:
        return None
    arena.reserve(stored.statement.arenas)
    return RestoredProgram(stored, stored.statement, parts, tuple(tensors), arena)


def restored_parts(stored: StoredProgram) -> tuple[RestoredPart, ...] | None:
    """The parts with their kernels loaded, as `StepStore.restored`."""
    store, sizes = STEP_STORES.of(stored.backend), (stored.statement.arena, *stored.bound)
    if store is None:
        return None
    loaded = [part.loaded() if isinstance(part, StoredCalls) else store.restored(part, sizes) for part in stored.parts]
    parts = tuple(part for part in loaded if part is not None)
    return parts if len(parts) == len(loaded) else None
