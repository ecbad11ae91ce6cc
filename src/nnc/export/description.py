"""A compiled program as a description of a library: ports by name, memory, statements.

    described = describe("digits", ports, most_inside=1 << 26)

What the caller of the library gives and gets lies in the arena and is copied; what the program was given and only
reads is a constant; what it also writes is lasting state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.running.library_program import LibraryProgram, LibraryStatement, MemorySpan
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import SymbolError
from nnc.export.library_statements import Statements, check_native
from nnc.export.program_ports import ProgramPorts
from nnc.ops import affine
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph
from nnc.symbolic.compiler.compiled import ProgramMemory

ALIGNMENT = 64
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a library by its name in C, or a tensor of its state."""

    name: str
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Bytes [offset, offset + nbytes) of the arena, the constants or the state, and whose they are."""

    name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """A program for a backend, its ports, and what each byte is for. `lasting` are the tensors of the state."""

    program: LibraryProgram
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: tuple[MemoryRow, ...]
    state: tuple[MemoryRow, ...]
    constant_content: bytes
    arena: tuple[MemoryRow, ...]
    lasting: Mapping[str, Tensor]


@dataclass(slots=True, eq=False)
class _Block:
    """Bytes of several tensors one behind the other, aligned; views of one memory are there once."""

    spans: list[MemorySpan] = field(default_factory=list)
    rows: list[MemoryRow] = field(default_factory=list)
    parts: list[Bytes] = field(default_factory=list)
    nbytes: int = 0

    def add(self, tensors: Sequence[tuple[str, Tensor]]) -> None:
        """Append tensors in their order, those that overlap as one span."""
        for cluster in _clusters(tensors):
            self._pad()
            begin = end = cluster[0].tensor.extent[0]
            first = self.nbytes
            for held in cluster:
                low, high = held.tensor.extent
                self.rows.append(MemoryRow(held.name, first + low - begin, high - low))
                if high > end:
                    at = end - held.tensor.storage.address
                    self._append(held.tensor.storage.bytes[at : at + high - end])
                    end = high
            self.spans.append(MemorySpan(begin, end - begin, first))

    def _pad(self) -> None:
        self._append(np.zeros(-self.nbytes % ALIGNMENT, np.uint8))

    def _append(self, part: Bytes) -> None:
        self.parts.append(part)
        self.nbytes += len(part)

    def content(self) -> bytes:
        """All bytes."""
        return b"".join(part.tobytes() for part in self.parts)


def describe(name: str, asked: ProgramPorts, *, most_inside: int, pooled: bool = False) -> Described:
    """The description of a program that was compiled for a target; constants of at most so many bytes are in it."""
    compiled = asked.compiled
    graph, memory = compiled.allocate(), compiled.laid_out()
    check_native(graph.body, compiled.planned.backend, compiled.is_note)
    made, ports, constants, state = Statements(), _Ports(compiled.planned.backend), _Block(), _Block()
    statements = made.of(graph.body)
    lasting = dict(asked.state) or _written(compiled, memory, asked.made.values())
    state.add(list(lasting.items()))
    constants.add(_constants(compiled, memory, (*lasting.values(), *asked.given.values(), *asked.made.values())))
    content, (given, wanted) = constants.content(), ports.placed(asked)
    program = LibraryProgram(
        name,
        (*ports.before, *statements, *ports.behind),
        tuple(given.values()),
        tuple(wanted.values()),
        MemorySpan(memory.arena.address + memory.base, memory.nbytes),
        tuple(constants.spans),
        constants.nbytes,
        content if constants.nbytes <= most_inside else None,
        tuple(state.spans),
        state.content(),
        (*made.counts, *ports.copies),
        tuple(made.standins.values()),
        pooled,
    )
    return Described(
        program,
        tuple(Port(label, tensor.spec) for label, tensor in given.items()),
        tuple(Port(label, tensor.spec) for label, tensor in wanted.items()),
        tuple(constants.rows),
        tuple(state.rows),
        content,
        tuple(_arena_rows(compiled)),
        lasting,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A tensor with its name, and where it stands among the others."""

    place: int
    name: str
    tensor: Tensor


def _clusters(tensors: Sequence[tuple[str, Tensor]]) -> list[list[_Held]]:
    """Tensors by address, those that overlap together; in the order of the first of each."""
    held = [_Held(place, name, tensor) for place, (name, tensor) in enumerate(tensors) if tensor.spec.nbytes]
    clusters: list[list[_Held]] = []
    end = 0
    for entry in sorted(held, key=lambda entry: (entry.tensor.extent, entry.place)):
        low, high = entry.tensor.extent
        if clusters and low < end:
            clusters[-1].append(entry)
        else:
            clusters.append([entry])
        end = max(end, high)
    return sorted(clusters, key=lambda cluster: min(entry.place for entry in cluster))


@dataclass(slots=True, eq=False)
class _Ports:
    """Ports without gaps: what lies in the arena with gaps is copied by a command of its own."""

    backend: str
    before: list[LibraryStatement] = field(default_factory=list)
    behind: list[LibraryStatement] = field(default_factory=list)
    copies: list[Tensor] = field(default_factory=list)

    def placed(self, asked: ProgramPorts) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Where inputs are given and outputs read, by name, with what counts behind each run."""
        compiled = asked.compiled
        given = {name: self.into(tensor) for name, tensor in _tensors(compiled, asked.inputs, absent=True).items()}
        given |= {name: self.held(tensor) for name, tensor in asked.given.items()}
        wanted = {name: self.out_of(tensor) for name, tensor in _tensors(compiled, asked.outputs).items()}
        wanted |= {name: self.held(tensor) for name, tensor in asked.made.items()}
        for tensor in asked.counted:
            self.count(tensor)
        return given, wanted

    def into(self, tensor: Tensor) -> Tensor:
        """Where an input is given."""
        if tensor.is_contiguous:
            return tensor
        dense = self._dense(tensor)
        self.before.append(self._copy(dense, tensor))
        return dense

    def out_of(self, tensor: Tensor) -> Tensor:
        """Where an output is read."""
        if tensor.is_contiguous:
            return tensor
        dense = self._dense(tensor)
        self.behind.append(self._copy(tensor, dense))
        return dense

    def held(self, tensor: Tensor) -> Tensor:
        """What a caller gives or gets, and no plan has."""
        self.copies.append(tensor)
        return tensor

    def count(self, tensor: Tensor) -> None:
        """tensor + 1, behind all else"""
        graph = SymbolicGraph("count")
        affine(graph.input(tensor.spec), 1.0, 1.0)
        (command,) = (record.command for _, record in graph.execs.items())
        self.behind.append(self._call(command, tensor, tensor))

    def _dense(self, tensor: Tensor) -> Tensor:
        dense = Tensor.empty(tensor.spec, "port")
        self.copies.append(dense)
        return dense

    def _copy(self, source: Tensor, target: Tensor) -> Call:
        return self._call(Command(contiguous, NoAttrs()), source, target)

    def _call(self, command: AnyCommand, source: Tensor, target: Tensor) -> Call:
        kernel = DISPATCHER.claim(command, (source.spec,), (target.spec,), self.backend).kernel
        return Call(kernel, (source,), (target,))


def _constants(compiled: Compiled, memory: ProgramMemory, others: Sequence[Tensor]) -> list[tuple[str, Tensor]]:
    """The bound tensors that are none of these, by name."""
    label, elsewhere = compiled.planned.graph.label, set(map(id, others))
    return [(label(root), tensor) for root, tensor in memory.tensors.items() if id(tensor) not in elsewhere]


def _written(compiled: Compiled, memory: ProgramMemory, results: Iterable[Tensor]) -> dict[str, Tensor]:
    """The bound tensors that runs write but for results, by their first names: a new value may be in an old one's."""
    named: dict[int, tuple[str, Tensor]] = {}
    written = {id(memory.tensors[root]) for root in memory.written} - set(map(id, results))
    for root, tensor in memory.tensors.items():
        if id(tensor) in written:
            named.setdefault(id(tensor), (compiled.planned.graph.label(root), tensor))
    return dict(named.values())


def _tensors(compiled: Compiled, symbols: Mapping[str, Symbol], *, absent: bool = False) -> dict[str, Tensor]:
    """The tensors of symbols; with `absent` without those that no output depends on."""
    tensors = {}
    for label, symbol in symbols.items():
        try:
            tensors[label] = compiled.tensor(symbol)
        except SymbolError:
            if not absent:
                raise
    return tensors


def _arena_rows(compiled: Compiled) -> list[MemoryRow]:
    layout = compiled.planned.layout
    names = {id(span.life): span.name for span in layout.spans}
    rows = [MemoryRow(names[id(life)], offset, life.nbytes) for life, offset in layout.placed()]
    return sorted(rows, key=lambda row: (row.offset, row.name))
