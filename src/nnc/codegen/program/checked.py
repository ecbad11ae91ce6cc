"""What stands around the function that runs a program: without a pool, by workers, for callers that are not trusted."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.codegen.ir.builder import ADDRESS, BOOL, I64, INDEX, Module, Type, Value
from nnc.codegen.program.function import INT, ErrorCode, ProgramFunction, size_type
from nnc.codegen.program.pool_calls import CONTEXT, PARALLEL_FOR, POOL_WORDS, WORKERS
from nnc.codegen.program.statements import LinkedProgram

# What a module of WebAssembly imports to hand chunks to workers.
CALLBACK = "parallel_for"


class SingleThreadFunction(ProgramFunction):
    """Writes the function that runs a pooled program on its caller alone."""

    def __init__(self, module: Module, program: LinkedProgram) -> None:
        super().__init__(module, program, f"{program.name}_run")

    def emit(self) -> None:
        """The same without a pool."""
        names = ", ".join(f"ptr {value.text}" for value in self.given.values())
        self.b.finish(self.b.emit(INT, f"call i32 @{self.program.name}_run_parallel({names}, ptr null)"))


class WorkersFunction(ProgramFunction):
    """Writes the function that runs a pooled program by so many workers, to whom `parallel_for` hands chunks.

    That function is whoever's the module is started by; one worker, the caller, needs none.
    """

    def __init__(self, module: Module, program: LinkedProgram, sizes: Sequence[tuple[str, Type]]) -> None:
        self.size = size_type(module)
        super().__init__(module, program, f"{program.name}_run_workers", sizes=[*sizes, ("workers", self.size)])

    def emit(self) -> None:
        """Lay out the pool, then run."""
        b = self.b
        b.module.declare(CALLBACK, "void", ["ptr", str(self.size), "ptr", "ptr"])
        *sizes, workers = self.sizes
        pool = b.reserve(POOL_WORDS * I64.size)
        b.store(self.null(), pool, CONTEXT)
        b.store(workers, b.offset(pool, WORKERS, self.size.scalar), 0)
        b.store(Value(f"@{CALLBACK}", ADDRESS, b), pool, PARALLEL_FOR)
        operands = ", ".join(f"{value.type} {value.text}" for value in (*self.given.values(), *sizes, pool))
        b.finish(b.emit(INT, f"call i32 @{self.program.name}_run_parallel({operands})"))


class CheckedFunction(ProgramFunction):
    """Writes the function for callers that are not trusted, who say how large the arena is.

    Outputs that lie over the arena, the state, constants or each other are refused: inputs are read before all.
    """

    def __init__(self, module: Module, program: LinkedProgram) -> None:
        self.size = size_type(module)
        super().__init__(module, program, f"{program.name}_run_checked", [("arena_bytes", self.size)])

    def emit(self) -> None:
        """Check, then run."""
        b, program = self.b, self.program
        nbytes = b.arguments[0]
        wide = nbytes if self.size == INDEX else b.emit(INDEX, f"zext i32 {nbytes.text} to i64")
        self.refuse(b.emit(Type(BOOL), f"icmp ult i64 {wide.text}, {program.arena_bytes}"), ErrorCode.ARENA_TOO_SMALL)
        for value in self.given.values():
            self.refuse_null(value)
        memory = [(self.number(self.given["arena"]), program.arena_bytes)]
        if program.state_bytes:
            memory.append((self.number(self.given["state"]), program.state_bytes))
            self._refuse_overlap(*memory)
        inputs = [self._span(self.given["inputs"], n + self.of_file, p.nbytes) for n, p in enumerate(program.inputs)]
        outputs = [self._span(self.given["outputs"], n, port.nbytes) for n, port in enumerate(program.outputs)]
        weights = [self._span(self.given["inputs"], 0, program.constant_bytes)] if self.of_file else []
        for given in (*weights, *inputs):
            for span in memory:
                self._refuse_overlap(given, span)
        for place, wanted in enumerate(outputs):
            for span in (*memory, *weights, *outputs[:place]):
                self._refuse_overlap(wanted, span)
        names = ", ".join(f"ptr {value.text}" for value in self.given.values())
        b.finish(b.emit(INT, f"call i32 @{program.name}_run({names})"))

    def _span(self, structure: Value, position: int, nbytes: int) -> tuple[Value, int]:
        return self.number(self.b.load(structure, position, ADDRESS)), nbytes

    def _refuse_overlap(self, first: tuple[Value, int], other: tuple[Value, int]) -> None:
        b, (begin, nbytes), (start, size) = self.b, first, other
        before = b.compare("<", begin, start + size)
        self.refuse(b.both(before, b.compare("<", start, begin + nbytes)), ErrorCode.OVERLAP)
