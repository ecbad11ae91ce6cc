"""The function of C that runs a program: checks, copies in, statements, copies out.

    int NAME_run(void *arena, [void *state,] const NAME_inputs *inputs, NAME_outputs *outputs)

`inputs` and `outputs` are structures of pointers, one for each port; where constants are a file's, the first member of
`inputs` is where they are. The result is 0, or says what was wrong with the call before anything was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from nnc.codegen.ir.builder import (
    ADDRESS,
    BOOL,
    I64,
    INDEX,
    POINTER,
    U8,
    LocalVariable,
    Module,
    Scalar,
    Type,
    Value,
)
from nnc.codegen.ir.native_kernel import ALIGNMENT, Phase
from nnc.codegen.program.function import INT, ErrorCode, ProgramFunction, leaving
from nnc.codegen.program.pool_calls import PoolCalls
from nnc.codegen.program.shared_kernels import ProgramKernel
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

# In front of the addresses of a kernel is that of the words that it reads, if it reads any.
HEAD_BYTES = 8
WORD_BYTES = 8
# A phase that one worker finishes in fewer nanoseconds is not worth handing to a pool.
WORTH_SHARING = 4000.0


class RunFunction(ProgramFunction):
    """Writes the function that runs the statements in order."""

    def __init__(self, module: Module, program: LinkedProgram, shared: str, kernels: Sequence[ProgramKernel]) -> None:
        pooled = program.pooled
        last = ("pool",) if pooled else ()
        super().__init__(module, program, f"{program.name}_run{'_parallel' if pooled else ''}", last=last)
        self.pool = PoolCalls(self.b, shared, self.given.pop("pool")) if pooled else None
        self.shared, self.kernels, self.words = shared, kernels, dict[tuple[int, ...], Value]()
        most = max((len(run.places) + len(run.numbers) for run in runs_in(program.statements)), default=0)
        # Numbers are words behind as many words as there are addresses, which on 32 bits are half as long.
        self.table = self.b.offset(self.b.reserve(HEAD_BYTES + WORD_BYTES * most), HEAD_BYTES, U8)
        self.pointers: list[LocalVariable] = []
        self.constants = self.null()

    def emit(self) -> None:
        """Check, copy inputs in, run, copy outputs out."""
        b, program = self.b, self.program
        inputs, outputs = self.given["inputs"], self.given["outputs"]
        for value in self.given.values():
            self.refuse_null(value)
        if self.pool is not None:
            with b.when(b.emit(Type(BOOL), f"icmp ne ptr {self.pool.pool.text}, null")):
                self.refuse_null(self.pool.function())
        for name in ("arena", "state"):
            if name in self.given:
                self._refuse_misaligned(self.given[name], ALIGNMENT)
        of_file = self.of_file
        if of_file:
            self.constants = self._checked(b.load(inputs, 0, ADDRESS), ALIGNMENT)
        elif program.constant_bytes:
            self.constants = Value(f"@{self.shared}_constants", ADDRESS, b)
        given = [self._port(inputs, place + of_file, port) for place, port in enumerate(program.inputs)]
        wanted = [self._port(outputs, place, port) for place, port in enumerate(program.outputs)]
        self.pointers = [b.variable(self.given["arena"]) for _ in range(program.pointers)]
        for port, source in zip(program.inputs, given, strict=True):
            self._copy(self._address(port.place), source, port.nbytes)
        for place in program.checks:
            b.store(b.constant(0), self._address(place), 0)
        self._all(program.statements)
        for port, target in zip(program.outputs, wanted, strict=True):
            self._copy(target, self._address(port.place), port.nbytes)
        wrong = b.constant(0)
        for place in program.checks:
            wrong = b.either(wrong, b.load(self._address(place), 0, INDEX))
        if program.checks:
            self.refuse(b.compare("!=", wrong, 0), ErrorCode.INDEX)
        b.finish(b.constant(ErrorCode.NONE, INT))

    # -- what the caller gave

    def _port(self, structure: Value, position: int, port: PortPlace) -> Value:
        return self._checked(self.b.load(structure, position, ADDRESS), port.alignment)

    def _checked(self, pointer: Value, alignment: int) -> Value:
        self.refuse_null(pointer)
        self._refuse_misaligned(pointer, alignment)
        return pointer

    def _refuse_misaligned(self, pointer: Value, alignment: int) -> None:
        if alignment > 1:
            low = self.b.both(self.number(pointer), self.b.constant(alignment - 1))
            self.refuse(self.b.compare("!=", low, 0), ErrorCode.MISALIGNED)

    # -- memory

    def _address(self, place: MemoryPlace) -> Value:
        match place.base:
            case Pointer():
                base = self.pointers[place.base.number].get()
            case Base.ARENA:
                base = self.given["arena"]
            case Base.CONSTANTS:
                base = self.constants
            case Base.STATE:
                base = self.given["state"]
            case _:
                assert_never(place.base)
        return self.b.offset(base, place.offset, U8)

    def _copy(self, target: Value, source: Value, nbytes: int) -> None:
        if nbytes:
            name, size = ("llvm.memcpy.p0.p0.i64", f"i64 {nbytes}")
            self.b.module.declare(name, "void", ["ptr", "ptr", "i64", "i1 immarg"])
            self.b.line(f"call void @{name}(ptr {target.text}, ptr {source.text}, {size}, i1 false)")

    # -- statements

    def _all(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            match statement:
                case KernelRun():
                    self._run(statement)
                case PointerMove():
                    addresses = [self._address(place) for _, place in statement.moves]
                    for (pointer, _), address in zip(statement.moves, addresses, strict=True):
                        self.pointers[pointer.number].set(address)
                case Turn():
                    self._turn(statement)
                case Repetition():
                    self._repeat(statement)
                case Selection():
                    self._select(statement)
                case _:
                    assert_never(statement)

    def _run(self, run: KernelRun) -> None:
        b = self.b
        for position, place in enumerate(run.places):
            b.store(self._address(place), self.table, position)
        for position, number in enumerate(run.numbers, len(run.places)):
            b.store(b.constant(number), b.offset(self.table, position, I64), 0)
        kernel, scratch = self.kernels[run.kernel], self._address(run.scratch)
        if kernel.words:
            b.store(self._words(kernel.words), b.offset(self.table, -1, POINTER), 0)
        for phase, count, step in merged(kernel.phases):
            with b.loop(0, count) as turn:
                first = turn * step + phase.first
                if self.pool is not None and phase.items > 1 and phase.cost >= WORTH_SHARING:
                    behind = self._address(MemoryPlace(Base.ARENA, self.program.arena_bytes))
                    self.pool.share(phase, self.table, first, (scratch, behind, self.program.worker_bytes))
                    continue
                end = first + phase.items
                text = f"ptr {self.table.text}, i64 {first.text}, i64 {end.text}, ptr {scratch.text}"
                b.line(f"call void @{phase.symbol}({text})")

    def _words(self, words: tuple[int, ...]) -> Value:
        """Where the words that a kernel reads are, among the constants."""
        if words not in self.words:
            name = f"{self.program.name}_words_{len(self.words)}"
            body = ", ".join(f"i64 {word}" for word in words)
            self.b.module.define(f"@{name} = internal constant [{len(words)} x i64] [{body}], align {WORD_BYTES}")
            self.words[words] = Value(f"@{name}", ADDRESS, self.b)
        return self.words[words]

    def _turn(self, turn: Turn) -> None:
        b, repeated = self.b, len(turn.views) - turn.once
        count = b.load(self._address(turn.count), 0, INDEX)
        place = count
        if turn.once:
            behind = b.remainder(count - turn.once, repeated) + turn.once
            place = b.choose(b.compare("<", count, turn.once), count, behind)
        else:
            place = b.remainder(count, repeated)
        chosen = self._address(turn.views[0])
        for number, view in enumerate(turn.views[1:], 1):
            chosen = b.choose(b.compare("==", place, number), self._address(view), chosen)
        self.pointers[turn.pointer.number].set(chosen)

    def _repeat(self, loop: Repetition) -> None:
        b = self.b
        b.store(b.constant(0), self._address(loop.count), 0)
        with b.repeat() as forever:
            self._all(loop.before)
            count = b.load(self._address(loop.count), 0, INDEX)
            if loop.tested is None:
                assert loop.limit is not None
                forever.until(b.compare(">=", count, loop.limit))
            else:
                place, kind = loop.tested
                forever.until(b.opposite(self._holds(place, kind)))
                if loop.most is not None:
                    self.refuse(b.compare(">=", count, loop.most), ErrorCode.ENDLESS)
            self._all(loop.rest)
            # Read again: what ran may have counted in loops of its own, never in this one.
            b.store(b.load(self._address(loop.count), 0, INDEX) + 1, self._address(loop.count), 0)

    def _holds(self, place: MemoryPlace, kind: Scalar) -> Value:
        element = self.b.load(self._address(place), 0, Type(kind))
        return element if kind is BOOL else self.b.compare("!=", element, self.b.zero(element.type))

    def _select(self, selection: Selection) -> None:
        b = self.b
        place, kind = selection.chosen
        index = b.cast(b.load(self._address(place), 0, Type(kind)), I64) + selection.offset
        end = b.label()
        for number, branch in sorted(selection.branches.items()):
            with leaving(b, b.compare("==", index, number)):
                self._all(branch)
                b.jump(end)
        if selection.otherwise is None:
            b.line(f"ret i32 {int(ErrorCode.INDEX)}")
        else:
            self._all(selection.otherwise)
            b.jump(end)
        b.open(end)


def runs_in(statements: Sequence[Statement]) -> Iterator[KernelRun]:
    """All launches, those of loops and branches too."""
    waiting = list(statements)
    for statement in waiting:
        match statement:
            case KernelRun():
                yield statement
            case Repetition():
                waiting += (*statement.before, *statement.rest)
            case Selection():
                waiting += (
                    *(statement.otherwise or ()),
                    *(inner for branch in statement.branches.values() for inner in branch),
                )
            case PointerMove() | Turn():
                pass
            case _:
                assert_never(statement)


def merged(phases: Sequence[Phase]) -> list[tuple[Phase, int, int]]:
    """Phases with how often they follow each other a fixed number of items apart, as steps of a recurrence do."""
    rows: list[tuple[Phase, int, int]] = []
    for phase in phases:
        if not phase.items:
            continue
        if rows:
            first, count, step = rows[-1]
            apart = phase.first - first.first - (count - 1) * step
            if (phase.symbol, phase.items) == (first.symbol, first.items) and (count == 1 or apart == step):
                rows[-1] = (first, count + 1, apart)
                continue
        rows.append((phase, 1, 0))
    return rows
