"""The text of a module and of one function in it: lines, names, jumps, stack slots, and constants.

A number that follows from sizes which a kernel reads is a word of memory, loaded at the function's beginning
(`nnc.core.values.derived`); all others are constants of the text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.codegen.ir.scalars import ADDRESS, I64, INDEX, Number, Scalar, Type, literal
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Derived, derived

# The name of a function or a global in LLVM's text.
GLOBAL_NAME = re.compile(r"@([\w.$-]+)")


# Not frozen: a kernel makes some 10^3 to 10^5 of them, each of which would take twice as long.
@dataclass(slots=True, eq=False)
class Value:
    """An IR register or constant. Operators write instructions; `constant` is set for known indices."""

    text: str
    type: Type
    builder: FunctionText = field(repr=False)
    constant: int | None = None

    def __add__(self, other: Value | Number) -> Value:
        return self.builder.add(self, other)

    def __radd__(self, other: Number) -> Value:
        return self.builder.add(self, other)

    def __sub__(self, other: Value | Number) -> Value:
        return self.builder.subtract(self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.builder.subtract(self.builder.constant(other, self.type), self)

    def __mul__(self, other: Value | Number) -> Value:
        return self.builder.multiply(self, other)

    def __rmul__(self, other: Number) -> Value:
        return self.builder.multiply(self, other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self.builder.divide(self, other)

    def __floordiv__(self, other: Value | Number) -> Value:
        return self.builder.quotient(self, other)

    def __mod__(self, other: Value | Number) -> Value:
        return self.builder.remainder(self, other)


@dataclass(slots=True, eq=False)
class LocalVariable:
    """A mutable register: a stack slot that LLVM promotes."""

    slot: str
    type: Type
    builder: FunctionText = field(repr=False)

    def get(self) -> Value:
        """The value now."""
        return self.builder.emit(self.type, f"load {self.type}, ptr {self.slot}")

    def set(self, value: Value) -> None:
        """Replace the value."""
        assert value.type is self.type or value.type == self.type, (value.type, self.type)
        self.builder.line(f"store {value.type} {value.text}, ptr {self.slot}")


class Module:
    """Functions, declarations and tables that are compiled together."""

    def __init__(self, target: TargetDescription) -> None:
        self.target = target
        self._declarations: dict[str, str] = {}
        self._globals: list[str] = []
        self._functions: list[str] = []

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Make `name` callable."""
        if name not in self._declarations:
            self._declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"

    @property
    def declared(self) -> frozenset[str]:
        """What it calls and does not define."""
        return frozenset(self._declarations)

    def supply(self, name: str, other: Module) -> None:
        """Define what was declared by the function of that name in another module, which nobody else sees."""
        del self._declarations[name]
        self.absorb(other, name)

    def table(self, name: str, values: Sequence[int]) -> str:
        """A constant array of i64; the result is its IR name."""
        body = ", ".join(f"i64 {value}" for value in values)
        self._globals.append(f"@{name} = internal constant [{len(values)} x i64] [{body}], align 64")
        return f"@{name}"

    def append(self, text: str) -> None:
        """Add a finished function."""
        self._functions.append(text)

    def define(self, text: str) -> None:
        """Add a finished global."""
        self._globals.append(text)

    def absorb(self, other: Module, prefix: str) -> None:
        """Add all of another module, whose functions nobody else calls, with names of globals that begin so."""
        self._declarations.update(other._declarations)
        names = {text.partition(" ")[0][1:] for text in other._globals}

        def renamed(match: re.Match[str]) -> str:
            return f"@{prefix}_{match[1]}" if match[1] in names else match[0]

        self._globals += [GLOBAL_NAME.sub(renamed, text, count=1) for text in other._globals]
        functions = [GLOBAL_NAME.sub(renamed, text) for text in other._functions] if names else other._functions
        self._functions += [text.replace("define ", "define internal ", 1) for text in functions]

    def __str__(self) -> str:
        parts = [f'target triple = "{self.target.triple}"', *self._globals, *self._declarations.values()]
        return "\n".join([*parts, *self._functions, "attributes #0 = { nounwind }", ""])


class FunctionText(ABC):
    """The text of the body of one function `void name(arguments)`, which `finish` hands to `module`."""

    def __init__(self, module: Module, name: str, arguments: Sequence[tuple[str, Type]], result: str = "void") -> None:
        self.module = module
        self.target = module.target
        self.name = name
        self._signature = ", ".join(f"{kind} %{text}" for text, kind in arguments)
        self._result = result
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._block = "start"
        # Where the words are that the function reads, if it reads any: what is in front of this address says it.
        self.table: Value | None = None
        self._words: dict[tuple[int, int], Value] = {}
        self._read: list[str] = []
        self.arguments = tuple(Value(f"%{text}", kind, self) for text, kind in arguments)

    def places(self, name: str, values: Sequence[int]) -> Value:
        """The address of a table of indices: constants, or words one behind another where some follow from sizes."""
        followed = [derivation for value in values if (derivation := derived(value)) is not None]
        if not followed or self.table is None:
            return Value(self.module.table(name, values), ADDRESS, self)
        first = followed[0].derivation.reserve(values)
        self._read += self._head()
        self._read.append(f"%wt{first} = getelementptr i64, ptr %ws, i64 {first}")
        return Value(f"%wt{first}", ADDRESS, self)

    # -- text

    def line(self, text: str) -> None:
        """Write one instruction that has no result."""
        self._lines.append(text)

    def emit(self, kind: Type, text: str) -> Value:
        """Write one instruction and name its result."""
        self._count += 1
        name = f"%r{self._count}"
        self._lines.append(f"{name} = {text}")
        return Value(name, kind, self)

    def finish(self, result: Value | None = None) -> None:
        """Return from the function and hand it to the module."""
        self.line(f"ret {result.type} {result.text}" if result else "ret void")
        body = "\n".join(["entry:", *self._slots, *self._read, "br label %start", "start:", *self._lines])
        self.module.append(f"define {self._result} @{self.name}({self._signature}) #0 {{\n{body}\n}}")

    def label(self) -> str:
        """A new name of a place to jump to."""
        self._count += 1
        return f"b{self._count}"

    def jump(self, label: str) -> None:
        """Go on at `label`."""
        self.line(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        """Go on at `yes` if condition, else at `no`."""
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}")

    def open(self, label: str) -> None:
        """What is written from here on is found at `label`."""
        self._lines.append(f"{label}:")
        self._block = label

    # -- constants and types

    def vector(self, scalar: Scalar) -> Type:
        """One full register of `scalar`."""
        return Type(scalar, self.target.lanes(8 * scalar.size))

    def constant(self, number: Number, kind: Type = INDEX) -> Value:
        """A constant; in a vector, the same in every lane."""
        if kind is INDEX and type(number) is int and -(1 << 63) <= number < 1 << 63:
            return Value(str(number), INDEX, self, number)
        if (read := derived(number)) is not None:
            return self._word(read, kind)
        text = literal(number, kind.scalar)
        if kind.lanes:
            return Value(f"splat ({kind.scalar.register} {text})", kind, self)
        return Value(text, kind, self, int(number) if kind == INDEX else None)

    def _word(self, number: Derived, kind: Type) -> Value:
        """A number that is read, at the beginning of the function; a constant where it reads none."""
        if self.table is None or number.derivation.closed:
            return self.constant(number.pinned, kind)
        place = number.derivation.word(number, kind.scalar.name)
        key = (place, kind.lanes)
        if key not in self._words:
            self._words[key] = Value(f"%w{place}" + (f"x{kind.lanes}" if kind.lanes else ""), kind, self)
            self._read += self._reading(place, kind)
        return self._words[key]

    def _reading(self, place: int, kind: Type) -> list[str]:
        """Instructions that load a word and spread it over all lanes."""
        element, lines = kind.scalar.register, self._head()
        name = f"%w{place}"
        if not kind.lanes or (place, 0) not in self._words:
            name = name if not kind.lanes else f"{name}s{kind.lanes}"
            lines += [
                f"{name}a = getelementptr i64, ptr %ws, i64 {place}",
                f"{name} = load {element}, ptr {name}a, align 8",
            ]
        if kind.lanes:
            spread = f"%w{place}x{kind.lanes}"
            lines.append(f"{spread}f = insertelement {kind} poison, {element} {name}, i64 0")
            zeros = f"<{kind.lanes} x i32> zeroinitializer"
            lines.append(f"{spread} = shufflevector {kind} {spread}f, {kind} poison, {zeros}")
        return lines

    def _head(self) -> list[str]:
        """Instructions that find the words, once."""
        assert self.table is not None
        if self._read:
            return []
        size = self.target.pointer_bytes
        return [f"%wt = getelementptr ptr, ptr {self.table.text}, i64 -1", f"%ws = load ptr, ptr %wt, align {size}"]

    def zero(self, kind: Type) -> Value:
        """0 in every lane."""
        return self.constant(0, kind)

    def wrap(self, number: Value | Number, kind: Type = INDEX) -> Value:
        """A value as it is, or a number as a constant of type `kind`."""
        return number if isinstance(number, Value) else self.constant(number, kind)

    def variable(self, initial: Value) -> LocalVariable:
        """A mutable register that starts as `initial`."""
        self._count += 1
        slot = f"%v{self._count}"
        self._slots.append(f"{slot} = alloca {initial.type}")
        variable = LocalVariable(slot, initial.type, self)
        variable.set(initial)
        return variable

    def reserve(self, nbytes: int) -> Value:
        """Memory of so many bytes on the stack, from the function's beginning to its end."""
        self._count += 1
        slot = f"%m{self._count}"
        self._slots.append(f"{slot} = alloca [{nbytes} x i8], align {I64.size}")
        return Value(slot, ADDRESS, self)

    # -- what the operators of values write

    @abstractmethod
    def add(self, left: Value, right: Value | Number) -> Value:
        """left + right"""

    @abstractmethod
    def subtract(self, left: Value, right: Value | Number) -> Value:
        """left - right"""

    @abstractmethod
    def multiply(self, left: Value, right: Value | Number) -> Value:
        """left * right"""

    @abstractmethod
    def divide(self, left: Value, right: Value | Number) -> Value:
        """left / right"""

    @abstractmethod
    def quotient(self, left: Value, right: Value | Number) -> Value:
        """floor(left / right)"""

    @abstractmethod
    def remainder(self, left: Value, right: Value | Number) -> Value:
        """left mod right"""
