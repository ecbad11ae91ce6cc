"""The functions that a header declares, where callers say the size: they choose the program of that size.

int NAME_run(void *arena, const NAME_inputs *inputs, NAME_outputs *outputs, size_t n)
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.codegen.ir.builder import Module, Type
from nnc.codegen.program.function import INT, ErrorCode, ProgramFunction, size_type
from nnc.codegen.program.statements import LinkedProgram
from nnc.core.values.platform import OpenSize


def write_choices(module: Module, program: LinkedProgram, open_size: OpenSize) -> None:
    """All of them; functions of the size 3 have names that begin with NAME_3."""
    size = size_type(module)
    _choice(module, program, "run", (), (), size, open_size)
    _choice(module, program, "run_checked", (("arena_bytes", size),), (), size, open_size)
    if program.pooled:
        _choice(module, program, "run_parallel", (), ("pool",), size, open_size)


def _choice(
    module: Module,
    program: LinkedProgram,
    word: str,
    first: Sequence[tuple[str, Type]],
    last: Sequence[str],
    size: Type,
    open_size: OpenSize,
) -> None:
    function = ProgramFunction(module, program, f"{program.name}_{word}", first, last, (("size", size),))
    b, kind = function.b, size.scalar.register
    (chosen,) = function.sizes
    operands = ", ".join(f"{value.type} {value.text}" for value in b.arguments if value is not chosen)
    labels, other = [b.label() for _ in open_size.sizes], b.label()
    rows = " ".join(f"{kind} {number}, label %{label}" for number, label in zip(open_size.sizes, labels, strict=True))
    b.line(f"switch {kind} {chosen.text}, label %{other} [ {rows} ]")
    for number, label in zip(open_size.sizes, labels, strict=True):
        b.open(label)
        result = b.emit(INT, f"call i32 @{program.name}_{number}_{word}({operands})")
        b.line(f"ret i32 {result.text}")
    b.open(other)
    b.finish(b.constant(ErrorCode.SIZE, INT))
