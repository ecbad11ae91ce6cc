"""The functions that a header declares, where callers say sizes: they choose the program of those sizes.

int NAME_run(void *arena, const NAME_inputs *inputs, NAME_outputs *outputs, size_t batch, size_t length)
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Module, Type, Value
from nnc.codegen.program.function import INT, ErrorCode, ProgramFunction, size_type
from nnc.codegen.program.statements import LinkedProgram
from nnc.core.values.platform import OpenDimensions


def write_choices(module: Module, program: LinkedProgram, opened: OpenDimensions) -> None:
    """All of them; functions of 3 examples of length 16 have names that begin with NAME_3_16."""
    size = size_type(module)
    _choice(module, program, opened, "run", (), ())
    _choice(module, program, opened, "run_checked", (("arena_bytes", size),), ())
    if program.pooled:
        _choice(module, program, opened, "run_parallel", (), ("pool",))


def size_parameters(module: Module, opened: OpenDimensions | None) -> list[tuple[str, Type]]:
    """Those of a function whose callers say sizes."""
    return [(f"size_{place}", size_type(module)) for place in range(len(opened.names) if opened else 0)]


def of_sizes(name: str, sizes: Sequence[int]) -> str:
    """What names of functions of these sizes begin with."""
    return "_".join((name, *map(str, sizes)))


def _choice(
    module: Module,
    program: LinkedProgram,
    opened: OpenDimensions,
    word: str,
    first: Sequence[tuple[str, Type]],
    last: Sequence[str],
) -> None:
    sizes = size_parameters(module, opened)
    function = ProgramFunction(module, program, f"{program.name}_{word}", first, last, sizes)
    chosen = set(map(id, function.sizes))
    operands = ", ".join(f"{value.type} {value.text}" for value in function.b.arguments if id(value) not in chosen)
    _Choice(function, opened, word, operands).emit()


@dataclass(slots=True, eq=False)
class _Choice:
    """A switch over the first size, in each of its blocks one over the second, and so on."""

    function: ProgramFunction
    opened: OpenDimensions
    word: str
    operands: str

    def emit(self) -> None:
        """All of it; SIZE for what there is no program for."""
        b, other = self.function.b, self.function.b.label()
        self._level((), other)
        b.open(other)
        b.finish(b.constant(ErrorCode.SIZE, INT))

    def _level(self, sizes: tuple[int, ...], other: str) -> None:
        b, depth = self.function.b, len(sizes)
        if depth == len(self.opened.names):
            name = of_sizes(self.function.program.name, sizes)
            result = b.emit(INT, f"call i32 @{name}_{self.word}({self.operands})")
            b.line(f"ret i32 {result.text}")
            return
        chosen: Value = self.function.sizes[depth]
        numbers, kind = self.opened.choices[depth][1], chosen.type.scalar.register
        labels = [b.label() for _ in numbers]
        rows = " ".join(f"{kind} {number}, label %{label}" for number, label in zip(numbers, labels, strict=True))
        b.line(f"switch {kind} {chosen.text}, label %{other} [ {rows} ]")
        for number, label in zip(numbers, labels, strict=True):
            b.open(label)
            self._level((*sizes, number), other)
