"""Functions of C that a program has: their parameters, and returns with a code where something is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

from nnc.codegen.ir.builder import ADDRESS, BOOL, I32, I64, INDEX, Builder, Module, Type, Value
from nnc.codegen.program.statements import LinkedProgram

INT = Type(I32)


def size_type(module: Module) -> Type:
    """size_t"""
    return Type(I64 if module.target.pointer_bytes == I64.size else I32)


class ErrorCode(IntEnum):
    """What a run gives back."""

    NONE = 0
    NULL = 1
    MISALIGNED = 2
    ARENA_TOO_SMALL = 3
    OVERLAP = 4
    INDEX = 5
    ENDLESS = 6
    SIZE = 7


class ProgramFunction:
    """A function of C: its parameters, and returns with a code where something is wrong."""

    def __init__(
        self,
        module: Module,
        program: LinkedProgram,
        name: str,
        first: Sequence[tuple[str, Type]] = (),
        last: Sequence[str] = (),
        sizes: Sequence[tuple[str, Type]] = (),
    ) -> None:
        self.program = program
        names = ["arena", *(["state"] if program.state_bytes else []), "inputs", "outputs"]
        ports, behind = [(text, ADDRESS) for text in names], [(text, ADDRESS) for text in last]
        parameters = [*first, *ports, *sizes, *behind]
        self.b = Builder(module, name, parameters, INT.scalar.register)
        every = {text: value for (text, _), value in zip(parameters, self.b.arguments, strict=True)}
        self.given = {text: every[text] for text in (*names, *last)}
        self.sizes = [every[text] for text, _ in sizes]

    @property
    def of_file(self) -> bool:
        """Whether the first member of the inputs is where constants are."""
        return self.program.constants is None and self.program.constant_bytes > 0

    def null(self) -> Value:
        """No address."""
        return Value("null", ADDRESS, self.b)

    def number(self, pointer: Value) -> Value:
        """An address as a number."""
        return self.b.emit(INDEX, f"ptrtoint ptr {pointer.text} to i64")

    def refuse_null(self, pointer: Value) -> None:
        """NULL for no address."""
        self.refuse(self.b.emit(Type(BOOL), f"icmp eq ptr {pointer.text}, null"), ErrorCode.NULL)

    def refuse(self, condition: Value, code: ErrorCode) -> None:
        """Return with a code where the condition holds."""
        with leaving(self.b, condition):
            self.b.line(f"ret i32 {int(code)}")


@contextmanager
def leaving(b: Builder, condition: Value) -> Iterator[None]:
    """if condition: a block that ends with a jump or a return."""
    body, end = b.label(), b.label()
    b.branch(condition, body, end)
    b.open(body)
    yield
    b.open(end)
