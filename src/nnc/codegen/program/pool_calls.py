"""Phases on a pool of the caller's workers: chunks of items by a callback.

    pool->parallel_for(pool->context, chunks, task, argument)      which calls task(argument, chunk) for each chunk

Chunks never change results, whoever runs which of them, and each has scratch memory of its own: the first what the
program has planned, the others theirs behind the arena.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.ir.builder import ADDRESS, BOOL, I64, INDEX, U8, Builder, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.program.function import size_type

# Slots of the structure that a caller hands over, in addresses: context, workers (size_t), function.
CONTEXT, WORKERS, PARALLEL_FOR = range(3)
POOL_WORDS = 3
# Slots of a task's argument, in words: function, table, first item, items, chunks, scratch memory of the first chunk,
# that of the others, and its stride.
FUNCTION, TABLE, FIRST, ITEMS, CHUNKS, SCRATCH, OTHERS, STRIDE = range(8)
WORDS = 8


def write_tasks(module: Module, name: str) -> None:
    """task(argument, chunk): the chunk's items, by the function of the phase."""
    size = size_type(module)
    b = Builder(module, f"{name}_task", (("argument", ADDRESS), ("number", size)))
    argument, number = b.arguments
    chunk = number if size == INDEX else b.emit(INDEX, f"zext i32 {number.text} to i64")

    def word(slot: int) -> Value:
        return b.load(argument, slot, INDEX)

    def address(slot: int) -> Value:
        return b.load(b.offset(argument, slot, I64), 0, ADDRESS)

    items, chunks, first = word(ITEMS), word(CHUNKS), word(FIRST)
    begin, end = first + (items * chunk) // chunks, first + (items * (chunk + 1)) // chunks
    others = b.offset(address(OTHERS), (chunk - 1) * word(STRIDE), U8)
    scratch = b.choose(b.compare("==", chunk, 0), address(SCRATCH), others)
    text = f"ptr {address(TABLE).text}, i64 {begin.text}, i64 {end.text}, ptr {scratch.text}"
    b.line(f"call void {address(FUNCTION).text}({text})")
    b.finish()


@dataclass(slots=True, eq=False)
class PoolCalls:
    """Calls of phases in a function that has a pool, which may be null: then the caller does all of it."""

    b: Builder
    name: str
    pool: Value
    argument: Value | None = None

    def share(self, phase: Phase, table: Value, first: Value, scratch: tuple[Value, Value, int]) -> None:
        """All items of a phase, from `first` on; scratch memory of the first chunk, of the others, and its stride."""
        b, chunks = self.b, _chunks(self.b, self.pool, phase.items)
        if self.argument is None:
            self.argument = b.reserve(I64.size * WORDS)
        words = {FIRST: first, ITEMS: b.constant(phase.items), CHUNKS: chunks, STRIDE: b.constant(scratch[2])}
        places = {FUNCTION: Value(f"@{phase.symbol}", ADDRESS, b), TABLE: table}
        places |= {SCRATCH: scratch[0], OTHERS: scratch[1]}
        for slot, value in (words | places).items():
            b.store(value, b.offset(self.argument, slot, I64), 0)
        self._call(chunks)

    def function(self) -> Value:
        """The callback of a pool that is there."""
        return self.b.load(self.pool, PARALLEL_FOR, ADDRESS)

    def _call(self, chunks: Value) -> None:
        """By the callback, or the only chunk at once."""
        b, size, argument = self.b, size_type(self.b.module), self.argument
        assert argument is not None
        serial, shared, end = b.label(), b.label(), b.label()
        count = chunks if size == INDEX else b.emit(size, f"trunc i64 {chunks.text} to i32")
        b.branch(b.compare("==", chunks, 1), serial, shared)
        b.open(serial)
        b.line(f"call void @{self.name}_task(ptr {argument.text}, {size} 0)")
        b.jump(end)
        b.open(shared)
        context, function = b.load(self.pool, CONTEXT, ADDRESS), self.function()
        operands = f"ptr {context.text}, {size} {count.text}, ptr @{self.name}_task, ptr {argument.text}"
        b.line(f"call void {function.text}({operands})")
        b.jump(end)
        b.open(end)


def _chunks(b: Builder, pool: Value, items: int) -> Value:
    """As many as there are workers, and items; one without a pool."""
    size = size_type(b.module)
    workers = b.variable(b.constant(1))
    has = b.emit(Type(BOOL), f"icmp ne ptr {pool.text}, null")
    with b.when(has):
        number = b.load(b.offset(pool, WORKERS, size.scalar), 0, size)
        wide = number if size == INDEX else b.emit(INDEX, f"zext i32 {number.text} to i64")
        workers.set(b.least(b.greatest(wide, 1), items))
    return workers.get()
