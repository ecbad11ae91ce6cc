"""Commands that are gathered, and run when somebody looks at a value.

    with nnc.lazy():
        y = f(x)            commands wait; y has a spec and no memory
        print(y)            all that wait run, as one program where the same ones have run before

A queue of commands has a signature: the commands on numbered values, the specs of what is given, and which results
somebody still holds. The first commands of a signature run one by one; when it comes again, it is compiled, with passes
that keep every bit, and from then on a loop runs one program per turn. What nobody holds is not computed, unless its
command may raise. An error has the line of the command; whatever depends on it raises it again when it is looked at.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeAlias

from nnc.classes import dataclass
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.origin import caller_origin, inherited_origin
from nnc.core.precautions.recent import RecentlyUsed, TwoGenerations
from nnc.core.values.pool import Pool
from nnc.core.values.spec import Shape, TensorSpec, contiguous_strides
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.dynamic.execution.prepared import PreparedCommand
from nnc.symbolic.compiler import Arena, MovingProgram, compile
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes import Pass, simplify

# What waits at most: beyond this a look costs more than what passes gain, and a loop without a look would not end.
COMMANDS = 256
NBYTES = 1 << 28
# Signatures that are remembered without a program, because they came once.
SEEN = 4096
# Passes that keep every bit: they take work away and put kernels together, and change no formula.
PASSES = (Pass.COMMON_SUBEXPRESSIONS, Pass.PRUNING, Pass.EXACT_GROUPS, Pass.PLACEMENT)

# A value by number, or a part of it: its spec, offset and strides in elements.
Part: TypeAlias = tuple[int, TensorSpec, int, Shape]
Reference: TypeAlias = int | Part | None
Signature: TypeAlias = tuple[object, ...]


class HeldTensor(Protocol):
    """What a queue needs of a variable: its tensor, the root that this lies in, and where."""

    @property
    def tensor(self) -> Tensor:
        """Elements, or what will have some."""

    @property
    def root(self) -> Tensor:
        """The tensor whose memory it is."""

    @property
    def offset(self) -> int:
        """Elements between the root's first element and its own."""


class PendingTensor(Tensor):
    """A tensor without memory until somebody asks for it: then what waits in its queue runs."""

    __slots__ = ("_of", "error", "number", "queue")
    _of: PendingTensor | None
    error: Exception | None
    number: int
    queue: CommandQueue | None

    @classmethod
    def waiting(cls, spec: TensorSpec, strides: Shape, queue: CommandQueue, number: int) -> Self:
        """What a command that waits will write: value `number` of its queue, whose strides are the row-major ones."""
        made = cls.__new__(cls)
        made.spec, made.offset, made.strides, made._made, made.error = spec, 0, strides, None, None
        made.is_contiguous, made._of, made.queue, made.number = True, None, queue, number
        return made

    @classmethod
    def _without_memory(cls, spec: TensorSpec, strides: Shape, offset: int) -> Self:
        made = cls.__new__(cls)
        made.spec, made.offset, made.strides, made._made, made.error = spec, offset, strides, None, None
        whole = contiguous_strides(spec.shape)
        made.is_contiguous = strides == whole or not spec.elements or made._has_no_gaps(whole)
        return made

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # storage and address, which have their types above
        if name not in ("storage", "address"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        source = self.source
        if source.queue is not None:
            source.queue.run()
        if source.error is not None:
            raise source.error
        self.fill_in(source.storage)
        return object.__getattribute__(self, name)

    def fill_in(self, storage: Storage) -> None:
        """Lay it over memory that holds its elements."""
        self.storage = storage
        self.address = storage.address + self.offset
        self.queue = None

    def fail(self, error: Exception) -> None:
        """It has no elements: whoever asks for them gets this error."""
        self.error, self.queue = error, None

    @property
    def source(self) -> PendingTensor:
        """The whole that this is a part of."""
        return self if self._of is None else self._of

    def view(self, spec: TensorSpec, offset: int, strides: Shape) -> Tensor:
        """A part that waits as long as the whole does."""
        if self.source.queue is None:
            return super().view(spec, offset, strides)
        made = self._without_memory(spec, strides, self.offset + offset * self.dtype.itemsize)
        made._check_bounds(self.source.spec.nbytes)
        made._of, made.queue, made.number = self.source, None, self.source.number
        return made


@dataclass(slots=True)
class _Item:
    """A command that waits: what it reads, the number of its first output, the line that made it."""

    prepared: PreparedCommand
    inputs: tuple[Reference, ...]
    first: int
    origin: str


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """The commands of a signature as one program: the given values that it reads, and those that it writes."""

    moving: MovingProgram
    given: tuple[int, ...]
    written: tuple[int, ...]


class LazyPrograms:
    """The programs of all queues of a graph, by signature."""

    def __init__(self, backend: str, pool: Pool) -> None:
        self.backend = backend
        self.pool = pool
        self.arena = Arena()
        self._seen: TwoGenerations[Signature, bool] = TwoGenerations(lambda: SEEN)
        self._programs: RecentlyUsed[Signature, _Program] = RecentlyUsed(
            lambda value: value.moving.compiled.memory().program
        )

    def find(self, signature: Signature, make: Callable[[], _Program]) -> _Program | None:
        """The program of a signature that came before; None at the first time."""
        program = self._programs.get(signature)
        if program is not None:
            return program
        if self._seen.get(signature) is None:
            self._seen.put(signature, True)
            return None
        program = self._programs.put(signature, make())
        self.arena.fit(self, (value.moving.compiled for value in self._programs.values()))
        return program

    def compile(
        self,
        graph: SymbolicGraph,
        inputs: Sequence[Symbol],
        results: Sequence[Symbol],
        given: tuple[int, ...],
        written: tuple[int, ...],
    ) -> _Program:
        """The graph as a program that writes `results` from `inputs`: values of these numbers."""
        simplify(graph, results, PASSES, backend=self.backend)
        compiled = compile(
            graph, results, given=dict.fromkeys(inputs), bind=dict.fromkeys(results), backend=self.backend
        )
        moving = MovingProgram(compiled.in_arena_of(self.arena), inputs, results)
        return _Program(moving, given, written)


@dataclass(slots=True)
class LazyReport:
    """What a `lazy()` block did: commands that waited, how often what waited ran, and how often as one program."""

    commands: int = 0
    runs: int = 0
    programs: int = 0

    def __str__(self) -> str:
        return f"{self.commands} commands in {self.runs} runs, {self.programs} of them as one program"


class CommandQueue:
    """What waits on one graph, in order, from any thread: so many commands and bytes of results at most."""

    def __init__(self, programs: LazyPrograms, most_commands: int = COMMANDS, most_bytes: int = NBYTES) -> None:
        self.report = LazyReport()
        self._programs = programs
        self._most_commands = most_commands
        self._most_bytes = most_bytes
        self._lock = fork_safe_rlock()
        self._clear()

    def _clear(self) -> None:
        self._items: list[_Item] = []
        # Tensors that are given, by number; their numbers; what waits for its memory as long as somebody holds it.
        self._given: dict[int, Tensor] = {}
        self._numbers: dict[int, int] = {}
        self._waiting: dict[int, weakref.ref[PendingTensor]] = {}
        self._count = 0
        self._nbytes = 0

    def append(self, prepared: PreparedCommand, inputs: Sequence[HeldTensor | None]) -> tuple[Tensor, ...]:
        """The outputs of a command, which runs later."""
        with self._lock:
            references = tuple([None if operand is None else self._reference(operand) for operand in inputs])
            first = self._count
            made = []
            for spec, nbytes, strides, _ in prepared.places:
                tensor = PendingTensor.waiting(spec, strides, self, self._count)
                self._waiting[self._count] = weakref.ref(tensor)
                self._count += 1
                self._nbytes += nbytes
                made.append(tensor)
            self._items.append(_Item(prepared, references, first, caller_origin()))
            self.report.commands += 1
            if len(self._items) >= self._most_commands or self._nbytes >= self._most_bytes:
                self.run()
            return tuple(made)

    def _reference(self, held: HeldTensor) -> Reference:
        """How a command of the queue names what it reads."""
        tensor = held.tensor
        if type(tensor) is PendingTensor and tensor.queue is self:
            return tensor.number
        whole = held.root
        if isinstance(tensor, PendingTensor) and tensor.source.queue is self:
            number, whole, offset = tensor.number, tensor.source, tensor.offset // tensor.dtype.itemsize
        elif tensor.is_contiguous or not held.root.is_contiguous:
            return self._number(tensor if tensor.is_contiguous else tensor.clone())
        else:
            number, offset = self._number(whole), held.offset
        return number if whole is tensor else (number, tensor.spec, offset, tensor.strides)

    def _number(self, tensor: Tensor) -> int:
        """The number of a tensor that has memory; what others may write meanwhile is copied."""
        kept = tensor.clone() if tensor.storage.label == "numpy" else tensor
        number = self._numbers.get(id(kept))
        if number is None:
            number = self._numbers[id(kept)] = self._count
            self._given[number] = kept
            self._count += 1
        return number

    def run(self) -> None:
        """Run all that waits; the first error that a command raises is raised here."""
        with self._lock:
            if not self._items:
                return
            token = QUEUES.set({})
            try:
                self._run()
            finally:
                QUEUES.reset(token)

    def _run(self) -> None:
        alive = {number: waiting for number, ref in self._waiting.items() if (waiting := ref()) is not None}
        # One command is a kernel already, and a program would put nothing together.
        wanted = self._wanted(alive) if len(self._items) > 1 else ()
        self.report.runs += 1
        program = self._programs.find(self._signature(wanted), lambda: self._compiled(wanted)) if wanted else None
        first = None
        if program is None or not self._run_whole(program, alive):
            first = self._run_each(alive)
        else:
            self.report.programs += 1
        self._clear()
        if first is not None:
            raise first

    def _wanted(self, alive: Collection[int]) -> tuple[int, ...]:
        """The values that somebody holds, and those of commands that may raise."""
        wanted = []
        for item in self._items:
            raises = item.prepared.kernel.breaks_off
            count = len(item.prepared.places)
            wanted += [number for number in range(item.first, item.first + count) if raises or number in alive]
        return tuple(wanted)

    def _signature(self, wanted: tuple[int, ...]) -> Signature:
        """Equal for queues that one program serves."""
        commands = tuple([(item.prepared.command, item.inputs) for item in self._items])
        return commands, tuple([(number, operand.spec) for number, operand in self._given.items()]), wanted

    def _compiled(self, wanted: tuple[int, ...]) -> _Program:
        graph = SymbolicGraph("lazy")
        symbols = {number: graph.input(tensor.spec) for number, tensor in self._given.items()}

        def named(reference: Reference) -> Symbol | None:
            if not isinstance(reference, tuple):
                return None if reference is None else symbols[reference]
            number, spec, offset, strides = reference
            return graph.alias(symbols[number].key, spec, offset, strides)

        for item in self._items:
            with inherited_origin(item.origin):
                outputs = graph.apply(item.prepared.command, [named(operand) for operand in item.inputs])
            symbols.update(enumerate(outputs, item.first))
        given, results = tuple(self._given), tuple(symbols[number] for number in wanted)
        return self._programs.compile(graph, [symbols[number] for number in given], results, given, wanted)

    def _run_whole(self, program: _Program, alive: Mapping[int, PendingTensor]) -> bool:
        """Run what waits as one program; False when a command raised."""
        made = program.moving.fresh(self._programs.pool)
        try:
            program.moving.run([*(self._given[number] for number in program.given), *made])
        except Exception:  # whatever it is, the command that raises it does so again, by itself
            return False
        for number, tensor in zip(program.written, made, strict=True):
            if number in alive:
                alive[number].fill_in(tensor.storage)
        return True

    def _run_each(self, alive: Mapping[int, PendingTensor]) -> Exception | None:
        """Run what waits one by one, as plain eager code does; the first error. What depends on one has none either."""
        values = dict(self._given)
        failed: dict[int, Exception] = {}
        for item in self._items:
            numbers = range(item.first, item.first + len(item.prepared.places))
            error = (
                next((failed[value] for value in map(_whole, item.inputs) if value in failed), None) if failed else None
            )
            if error is None:
                try:
                    with inherited_origin(item.origin):
                        outputs = item.prepared.run(
                            self._programs.pool, [_part(values, operand) for operand in item.inputs]
                        )
                    values.update(zip(numbers, outputs, strict=True))
                except Exception as raised:  # kept for whoever looks at what depends on it
                    error = raised
            for number in numbers:
                if error is not None:
                    failed[number] = error
                if number in alive:
                    alive[number].fill_in(values[number].storage) if error is None else alive[number].fail(error)
        return next(iter(failed.values()), None)


# Queues by the number of their graph, in this context.
QUEUES: ContextVar[Mapping[int, CommandQueue]] = ContextVar("queues", default=MappingProxyType({}))


class Gathering:
    """Commands of a graph wait inside, in the queue that is there already or in this one, which looks at the end.

    After an error what waits runs when somebody looks at it.
    """

    __slots__ = ("_graph", "_queue", "_token")

    def __init__(self, graph: int, queue: CommandQueue) -> None:
        self._graph = graph
        self._queue = queue
        self._token: Token[Mapping[int, CommandQueue]] | None = None

    def __enter__(self) -> LazyReport:
        around = QUEUES.get()
        if self._graph in around:
            return around[self._graph].report
        self._token = QUEUES.set({**around, self._graph: self._queue})
        return self._queue.report

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._token is not None:
            QUEUES.reset(self._token)
            self._token = None
            if kind is None:
                self._queue.run()


def _whole(reference: Reference) -> int | None:
    return reference[0] if isinstance(reference, tuple) else reference


def _part(values: Mapping[int, Tensor], reference: Reference) -> Tensor | None:
    if not isinstance(reference, tuple):
        return None if reference is None else values[reference]
    number, spec, offset, strides = reference
    return values[number].view(spec, offset, strides)
