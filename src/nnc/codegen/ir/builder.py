"""The typed IR builder: Python expressions over `Value` write LLVM IR in text form.

    with b.loop(0, rows) as row:
        x = b.load(source, row * columns, b.vector(F32))
        b.store(b.fma(x, scale, shift), target, row * columns)

A `Value` is an IR register or constant with its type. Index arithmetic on constants is folded here, so that the
text LLVM has to read stays small: compile time is part of the product. Variables are stack slots that LLVM turns
into registers. Floating-point instructions carry no fast-math flags: what is written is what is computed.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import reduce

from nnc.classes import dataclass
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import RECIPROCAL_BITS, Derived, derived, known


# Each is made once, and compared some ten times for each load.
@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """An element type: its IR spelling in registers, in memory, its bytes there, and how to compute with it."""

    name: str
    register: str
    memory: str
    size: int
    floating: bool = False
    signed: bool = True


F64 = Scalar("f64", "double", "double", 8, floating=True)
F32 = Scalar("f32", "float", "float", 4, floating=True)
F16 = Scalar("f16", "half", "half", 2, floating=True)
BF16 = Scalar("bf16", "i16", "i16", 2, floating=True)  # moved as bits; computed with after a cast to f32
I64 = Scalar("i64", "i64", "i64", 8)
I32 = Scalar("i32", "i32", "i32", 4)
I16 = Scalar("i16", "i16", "i16", 2)
U16 = Scalar("u16", "i16", "i16", 2, signed=False)
I8 = Scalar("i8", "i8", "i8", 1)
U8 = Scalar("u8", "i8", "i8", 1, signed=False)
BOOL = Scalar("bool", "i1", "i8", 1, signed=False)
POINTER = Scalar("ptr", "ptr", "ptr", 8, signed=False)
NARROW = (I16, U16, I8, U8)
SCALARS = {scalar.name: scalar for scalar in (F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL)}


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar (lanes = 0) or a vector of `lanes` scalars."""

    scalar: Scalar
    lanes: int = 0
    # Written some twenty times for each type that is made.
    _text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        register = self.scalar.register
        object.__setattr__(self, "_text", f"<{self.lanes} x {register}>" if self.lanes else register)

    def __str__(self) -> str:
        return self._text

    def __format__(self, form: str) -> str:
        return self._text

    @property
    def memory(self) -> str:
        """The spelling of this type in loads and stores."""
        return f"<{self.lanes} x {self.scalar.memory}>" if self.lanes else self.scalar.memory

    @property
    def suffix(self) -> str:
        """The spelling of this type in names of intrinsics: v16f32."""
        kind = {"double": "f64", "float": "f32", "half": "f16", "ptr": "p0"}
        text = kind.get(self.scalar.register, self.scalar.register)
        return f"v{self.lanes}{text}" if self.lanes else text

    def of(self, scalar: Scalar) -> Type:
        """The type with as many lanes of another scalar."""
        return Type(scalar, self.lanes)


# The name of a function or a global in LLVM's text.
GLOBAL_NAME = re.compile(r"@([\w.$-]+)")
INDEX = Type(I64)
# Registers of AVX-512, and what wider integers are cut to.
WIDE_BITS = 512
TRUNCATED = (U8, I8, I16, U16, BF16, I32)
ADDRESS = Type(POINTER)
DOUBLE_INDEX = Type(Scalar("i128", "i128", "i128", 16))
# So that a product of two such numbers is below 2^63.
MOST_DIVIDED = 1 << 31
Number = int | float


# Not frozen: a kernel makes some 10^3 to 10^5 of them, each of which would take twice as long.
@dataclass(slots=True, eq=False)
class Value:
    """An IR register or constant. Operators write instructions; `constant` is set for known indices."""

    text: str
    type: Type
    builder: Builder = field(repr=False)
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
    builder: Builder = field(repr=False)

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


class Builder:
    """Writes the body of one function `void name(arguments)` into `module`."""

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

    # -- arithmetic

    def binary(self, floating: str, integer: str, left: Value, right: Value | Number) -> Value:
        """One instruction of two operands, chosen by the kind of the left one."""
        other = self.wrap(right, left.type)
        kind = left.type
        assert other.type is kind or other.type == kind, (kind, other.type)
        name = floating if kind.scalar.floating else integer
        return self.emit(kind, f"{name} {kind._text} {left.text}, {other.text}")

    def add(self, left: Value, right: Value | Number) -> Value:
        """left + right"""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant + other.constant)
        if other.constant == 0:
            return left
        if left.constant == 0:
            return other
        return self.binary("fadd", "add", left, other)

    def subtract(self, left: Value, right: Value | Number) -> Value:
        """left - right"""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant - other.constant)
        if other.constant == 0:
            return left
        return self.binary("fsub", "sub", left, other)

    def multiply(self, left: Value, right: Value | Number) -> Value:
        """left * right"""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant * other.constant)
        if left.constant == 0 or other.constant == 0:
            return self.constant(0)
        if other.constant == 1:
            return left
        if left.constant == 1:
            return other
        return self.binary("fmul", "mul", left, other)

    def divide(self, left: Value, right: Value | Number) -> Value:
        """left / right; integers round towards zero."""
        return self.binary("fdiv", "sdiv" if left.type.scalar.signed else "udiv", left, right)

    def quotient(self, left: Value, right: Value | Number) -> Value:
        """floor(left / right) of indices that are not negative."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant // other.constant)
        if other.constant == 1:
            return left
        return self.binary("fdiv", "udiv", left, other)

    def divided(self, index: Value, size: int, most: int) -> tuple[Value, Value]:
        """index // size and index mod size, where 0 ≤ index ≤ most; by a multiplication where the size is read."""
        divisor = derived(size)
        if divisor is None or most > MOST_DIVIDED:
            position = index % size
            return index // size, position
        factors = index, self.constant(divisor.reciprocal)
        wide = [self.emit(DOUBLE_INDEX, f"zext i64 {factor.text} to i128") for factor in factors]
        product = self.emit(DOUBLE_INDEX, f"mul i128 {wide[0].text}, {wide[1].text}")
        high = self.emit(DOUBLE_INDEX, f"lshr i128 {product.text}, {RECIPROCAL_BITS}")
        quotient = self.emit(INDEX, f"trunc i128 {high.text} to i64")
        return quotient, index - quotient * size

    def remainder(self, left: Value, right: Value | Number) -> Value:
        """left mod right of indices that are not negative."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant % other.constant)
        if other.constant == 1:
            return self.constant(0)
        return self.binary("frem", "urem", left, other)

    def fma(self, left: Value, right: Value | Number, addend: Value | Number) -> Value:
        """left * right + addend, rounded once where the target can; rounded twice elsewhere."""
        factor, term = self.wrap(right, left.type), self.wrap(addend, left.type)
        if not self.target.fused:
            return left * factor + term
        return self.intrinsic("llvm.fma", left, factor, term)

    def accumulate(self, left: Value, right: Value, total: Value) -> Value:
        """left * right + total of a long sum, in one instruction where there is one, however often it rounds."""
        return self.intrinsic("llvm.fma", left, right, total) if self.target.threads else self.fma(left, right, total)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """One of LLVM's intrinsics whose result and operands share one type."""
        kind = operands[0].type
        full = f"{name}.{kind.suffix}"
        self.module.declare(full, str(kind), [str(operand.type) for operand in operands])
        body = ", ".join(f"{operand.type} {operand.text}" for operand in operands)
        return self.emit(kind, f"call {kind} @{full}({body})")

    def negative(self, value: Value) -> Value:
        """-value"""
        if value.type.scalar.floating:
            return self.emit(value.type, f"fneg {value.type} {value.text}")
        return self.zero(value.type) - value

    def maximum(self, left: Value, right: Value | Number) -> Value:
        """max(left, right); a NaN on either side wins."""
        return self._extreme(left, right, ">")

    def minimum(self, left: Value, right: Value | Number) -> Value:
        """min(left, right); a NaN on either side wins."""
        return self._extreme(left, right, "<")

    def _extreme(self, left: Value, right: Value | Number, relation: str) -> Value:
        """left where left relation right, else right; a NaN on either side wins, and a number is none."""
        other = self.wrap(right, left.type)
        if left.type.scalar.floating and not isinstance(right, Value):
            return self.choose(self.compare(f"{relation}=", other, left), other, left)
        chosen = self.choose(self.compare(relation, left, other), left, other)
        return self.choose(self.unordered(left), left, chosen) if left.type.scalar.floating else chosen

    def larger(self, left: Value, right: Value) -> Value:
        """max(left, right) of numbers; of a number and a NaN it is either."""
        return self.choose(self.compare(">", left, right), left, right)

    def least(self, left: Value, right: Value | Number) -> Value:
        """min(left, right) of indices."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(min(left.constant, other.constant))
        return self.intrinsic("llvm.smin", left, other)

    def greatest(self, left: Value, right: Value | Number) -> Value:
        """max(left, right) of indices."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(max(left.constant, other.constant))
        return self.intrinsic("llvm.smax", left, other)

    def shift_left(self, value: Value, bits: int) -> Value:
        """value * 2^bits, of integers"""
        return self.emit(value.type, f"shl {value.type} {value.text}, {self.constant(bits, value.type).text}")

    def shift_right(self, value: Value, bits: int) -> Value:
        """floor(value / 2^bits), of integers"""
        word = "ashr" if value.type.scalar.signed else "lshr"
        return self.emit(value.type, f"{word} {value.type} {value.text}, {self.constant(bits, value.type).text}")

    def scales(self, kind: Type) -> bool:
        """Whether `kind` is multiplied by powers of two in one instruction: it fills registers of AVX-512."""
        return self.target.vector_bits == 512 and kind.lanes > 0 and kind.lanes * kind.scalar.size % 64 == 0

    def scale(self, value: Value, exponent: Value) -> Value:
        """value * 2^exponent for whole exponents of the type of value, rounded once; where `scales` holds."""
        scalar = value.type.scalar
        part = Type(scalar, 64 // scalar.size)
        suffix, word = ("ps", "i16") if scalar == F32 else ("pd", "i8")
        name = f"llvm.x86.avx512.mask.scalef.{suffix}.512"
        self.module.declare(name, str(part), [*[str(part)] * 3, word, "i32 immarg"])
        parts = []
        for first in range(0, value.type.lanes, part.lanes):
            lanes = range(first, first + part.lanes)
            left, right = self.shuffle(value, value, lanes), self.shuffle(exponent, exponent, lanes)
            operands = f"{part} {left.text}, {part} {right.text}, {part} {left.text}, {word} -1, i32 4"
            parts.append(self.emit(part, f"call {part} @{name}({operands})"))
        return self.join(parts)

    # -- logic

    def compare(self, relation: str, left: Value, right: Value | Number) -> Value:
        """left relation right, for < <= > >= == !=; false when a NaN is compared, except that != is true."""
        other = self.wrap(right, left.type)
        scalar = left.type.scalar
        if scalar.floating:
            word = "fcmp " + ("une" if relation == "!=" else "o" + COMPARISONS[relation])
        else:
            word = "icmp " + integer_comparison(relation, scalar.signed)
        return self.emit(left.type.of(BOOL), f"{word} {left.type} {left.text}, {other.text}")

    def unordered(self, value: Value) -> Value:
        """value is NaN"""
        return self.emit(value.type.of(BOOL), f"fcmp uno {value.type} {value.text}, {value.text}")

    def both(self, left: Value, right: Value) -> Value:
        """left and right, bit by bit"""
        return self.emit(left.type, f"and {left.type} {left.text}, {right.text}")

    def all_of(self, conditions: Iterable[Value | None]) -> Value | None:
        """All of these, of which None always holds; None where there are no others."""
        checked = [condition for condition in conditions if condition is not None]
        return reduce(self.both, checked) if checked else None

    def either(self, left: Value, right: Value) -> Value:
        """left or right, bit by bit"""
        return self.emit(left.type, f"or {left.type} {left.text}, {right.text}")

    def exclusive(self, left: Value, right: Value) -> Value:
        """left xor right, bit by bit"""
        return self.emit(left.type, f"xor {left.type} {left.text}, {right.text}")

    def opposite(self, value: Value) -> Value:
        """not value"""
        return self.exclusive(value, self.constant(1, value.type))

    def any_lane(self, condition: Value) -> Value:
        """True in one lane at least"""
        kind = Type(Scalar("lanes", f"i{condition.type.lanes}", "", 0, signed=False))
        return self.compare("!=", self.emit(kind, f"bitcast {condition.type} {condition.text} to {kind}"), 0)

    def choose(self, condition: Value, left: Value, right: Value | Number) -> Value:
        """left where condition else right"""
        other = self.wrap(right, left.type)
        return self.emit(
            left.type, f"select {condition.type} {condition.text}, {left.type} {left.text}, {other.type} {other.text}"
        )

    # -- conversions and lanes

    def cast(self, value: Value, scalar: Scalar) -> Value:
        """value as another scalar type, by value; to bool it is value != 0; to integers it saturates, NaN is 0."""
        source = value.type.scalar
        both_integers = not (source.floating or scalar.floating)
        if source == scalar or (source.register == scalar.register and both_integers):
            return Value(value.text, value.type.of(scalar), self, value.constant)
        if source == BF16:
            return self.cast(self._wide(value), scalar)
        if scalar == BF16:
            return self._narrow(self.cast(value, F32))
        if scalar == BOOL:
            return self.compare("!=", value, self.zero(value.type))
        if source == F64 and scalar == F16:  # no processor has it in one step
            return self.cast(self.cast(value, F32), F16)
        kind = value.type.of(scalar)
        if source.floating and scalar in NARROW:
            return self._saturated(self.cast(value, F32) if source == F16 else value, scalar)
        if source.floating and not scalar.floating:
            name = f"llvm.fpto{'s' if scalar.signed else 'u'}i.sat.{kind.suffix}.{value.type.suffix}"
            self.module.declare(name, str(kind), [str(value.type)])
            return self.emit(kind, f"call {kind} @{name}({value.type} {value.text})")
        return self.emit(kind, f"{conversion(source, scalar)} {value.type} {value.text} to {kind}")

    def _saturated(self, value: Value, scalar: Scalar) -> Value:
        """The bounds taken in floats, then the low bits of an i32: LLVM's saturating conversion goes lane by lane."""
        bits = 8 * scalar.size
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if scalar.signed else (0, (1 << bits) - 1)
        above = self.choose(self.compare(">", value, low), value, self.constant(low, value.type))
        inside = self.choose(self.compare("<", above, high), above, self.constant(high, value.type))
        saturated = self.cast(
            self.emit(value.type.of(I32), f"fptosi {value.type} {inside.text} to {value.type.of(I32)}"), scalar
        )
        return self.choose(self.unordered(value), self.zero(saturated.type), saturated) if scalar.signed else saturated

    def _wide(self, value: Value) -> Value:
        """bf16 as f32: its bits are the upper half."""
        bits = self.emit(value.type.of(I32), f"zext {value.type} {value.text} to {value.type.of(I32)}")
        return self.reinterpret(self.shift_left(bits, 16), F32)

    def _narrow(self, value: Value) -> Value:
        """f32 as bf16, rounded to nearest, ties to even; in bits, because hardware and LLVM differ on denormals."""
        if self.target.short_forms:
            return self._short("bf16", value.type.of(BF16), value)
        bits = self.reinterpret(value, I32)
        odd = self.both(self.shift_right(bits, 16), self.constant(1, bits.type))
        rounded = self.shift_right(bits + odd + 0x7FFF, 16)
        kept = self.choose(self.unordered(value), self.constant(0x7FC0, bits.type), rounded)
        narrow = self.cast(kept, I16)
        return Value(narrow.text, narrow.type.of(BF16), self)

    def _short(self, name: str, kind: Type, *operands: Value) -> Value:
        """What the target has an instruction for."""
        full, (first, *_) = f"nnc.{name}.{operands[0].type.suffix}", operands
        self.module.declare(full, str(kind), [str(first.type)] * len(operands))
        given = ", ".join(f"{each.type} {each.text}" for each in operands)
        return self.emit(kind, f"call {kind} @{full}({given})")

    def ratio(self, left: Value, right: Value | Number) -> Value:
        """left / right, within 2 ulp where that takes less."""
        if not self.target.short_forms or left.type.scalar != F32:
            return left / right
        return self._short("ratio", left.type, left, self.wrap(right, left.type))

    def reinterpret(self, value: Value, scalar: Scalar) -> Value:
        """The same bits as another scalar type of the same size."""
        kind = value.type.of(scalar)
        return self.emit(kind, f"bitcast {value.type} {value.text} to {kind}")

    def words(self, value: Value) -> Value:
        """Neighbouring lanes of 8 or 16 bits as words of 32; what fills one word, as a number."""
        lanes = value.type.lanes * value.type.scalar.size // I32.size
        kind = Type(I32, lanes if lanes > 1 else 0)
        return self.emit(kind, f"bitcast {value.type} {value.text} to {kind}")

    def sum_pairs(self, left: Value, right: Value, addend: Value) -> Value:
        """addend + left[0] * right[0] + left[1] * right[1], of words of two bf16 and f32; denormals count as 0."""
        lanes = addend.type.lanes
        pairs = f"<{2 * lanes} x bfloat>"
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        self.module.declare(name, str(addend.type), [str(addend.type), pairs, pairs])
        halves = [self.emit(side.type, f"bitcast {side.type} {side.text} to {pairs}") for side in (left, right)]
        operands = ", ".join(f"{pairs} {half.text}" for half in halves)
        return self.emit(addend.type, f"call {addend.type} @{name}({addend.type} {addend.text}, {operands})")

    def splat(self, value: Value, lanes: int) -> Value:
        """value in every one of `lanes` lanes."""
        kind = Type(value.type.scalar, lanes)
        first = self.emit(kind, f"insertelement {kind} poison, {value.type} {value.text}, i64 0")
        return self.emit(kind, f"shufflevector {kind} {first.text}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, left: Value, right: Value, lanes: Sequence[int]) -> Value:
        """out[i] = (left ++ right)[lanes[i]]"""
        kind = Type(left.type.scalar, len(lanes))
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(
            kind, f"shufflevector {left.type} {left.text}, {right.type} {right.text}, <{len(lanes)} x i32> <{mask}>"
        )

    def join(self, values: Sequence[Value]) -> Value:
        """A power of two of vectors, one behind the other."""
        while len(values) > 1:
            lanes = range(2 * values[0].type.lanes)
            values = [self.shuffle(left, right, lanes) for left, right in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    def extract(self, value: Value, lane: Value | int) -> Value:
        """value[lane]"""
        position = self.wrap(lane)
        return self.emit(Type(value.type.scalar), f"extractelement {value.type} {value.text}, i64 {position.text}")

    def insert(self, value: Value, element: Value, lane: int) -> Value:
        """value with value[lane] = element"""
        return self.emit(
            value.type, f"insertelement {value.type} {value.text}, {element.type} {element.text}, i64 {lane}"
        )

    def enumerate_lanes(self, kind: Type) -> Value:
        """[0, 1, ..., lanes - 1]"""
        return Value(f"<{', '.join(f'{kind.scalar.register} {i}' for i in range(kind.lanes))}>", kind, self)

    def fold(self, value: Value, combine: str) -> Value:
        """All lanes combined in halves: lane i with lane i + lanes / 2, again and again; a fixed order."""
        lanes = value.type.lanes
        while lanes > 1:
            lanes //= 2
            low = self.shuffle(value, value, list(range(lanes)))
            high = self.shuffle(value, value, list(range(lanes, 2 * lanes)))
            value = self.combine(combine, low, high)
        return self.extract(value, 0)

    def combine(self, name: str, left: Value, right: Value) -> Value:
        """The named combination of two values: a row of `COMBINATIONS`."""
        operation: Value = getattr(self, COMBINATIONS[name])(left, right)
        return operation

    # -- memory

    def offset(self, pointer: Value, index: Value | int, scalar: Scalar) -> Value:
        """pointer + index elements"""
        position = self.wrap(index)
        if position.constant == 0:
            return pointer
        return self.emit(ADDRESS, f"getelementptr {scalar.memory}, ptr {pointer.text}, i64 {position.text}")

    def opaque(self, pointer: Value) -> Value:
        """The pointer, of which LLVM knows no more then: what follows from it is found anew in each iteration."""
        return self.emit(ADDRESS, f'call ptr asm "", "=r,0"(ptr {pointer.text})')

    def in_steps(self, first: Value, stride: int, scalar: Scalar, count: int) -> list[Value]:
        """Places a stride apart; where it is read, each is found from the one before.

        All at once, and kept for each iteration, they do not fit the registers (1.15 of a transposition's time).
        """
        if known(stride):
            return [self.offset(first, number * stride, scalar) for number in range(count)]
        places = [self.opaque(first)]
        while len(places) < count:
            places.append(self.offset(places[-1], stride, scalar))
        return places

    def load(self, pointer: Value, index: Value | int, kind: Type, mask: Value | None = None) -> Value:
        """kind at pointer[index]; lanes outside `mask` are not read and are 0."""
        scalar = kind.scalar
        place = self.offset(pointer, index, scalar)
        stored = Type(U8, kind.lanes) if scalar == BOOL else kind
        if mask is None:
            size = self.target.pointer_bytes if scalar is POINTER else scalar.size
            value = self.emit(stored, f"load {stored.memory}, ptr {place.text}, align {size}")
        else:
            value = self._masked_load(place, stored, mask)
        return self.cast(value, BOOL) if scalar == BOOL else value

    def _masked_load(self, place: Value, kind: Type, mask: Value) -> Value:
        name = f"llvm.masked.load.{kind.suffix}.p0"
        self.module.declare(name, str(kind), ["ptr", "i32 immarg", str(mask.type), str(kind)])
        rest = f"{mask.type} {mask.text}, {kind} zeroinitializer"
        return self.emit(kind, f"call {kind} @{name}(ptr {place.text}, i32 {kind.scalar.size}, {rest})")

    def store(self, value: Value, pointer: Value, index: Value | int, mask: Value | None = None) -> None:
        """pointer[index] = value; lanes outside `mask` are not written."""
        scalar = value.type.scalar
        place = self.offset(pointer, index, scalar)
        value = self._widened(value)
        if mask is None:
            size = self.target.pointer_bytes if scalar is POINTER else scalar.size
            self.line(f"store {value.type.memory} {value.text}, ptr {place.text}, align {size}")
            return
        name = f"llvm.masked.store.{value.type.suffix}.p0"
        self.module.declare(name, "void", [str(value.type), "ptr", "i32 immarg", str(mask.type)])
        what = f"{value.type} {value.text}, ptr {place.text}"
        self.line(f"call void @{name}({what}, i32 {scalar.size}, {mask.type} {mask.text})")
        if scalar in TRUNCATED and self.target.vector_bits == WIDE_BITS:
            # LLVM 22 writes a lane that is known to be the only one as wide as it was before it was truncated, unless
            # what was truncated is used once more.
            self.module.declare("llvm.fake.use", "void", ["..."])
            self.line(f"call void (...) @llvm.fake.use({value.type} {value.text})")

    def prefetch(self, pointer: Value, index: Value | int, scalar: Scalar, *, write: bool = False) -> None:
        """Ask for the line of pointer[index], which need not exist, in the second-level cache; `write`: to own it."""
        self.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32 immarg", "i32 immarg", "i32 immarg"])
        place = self.offset(pointer, index, scalar)
        self.line(f"call void @llvm.prefetch.p0(ptr {place.text}, i32 {int(write)}, i32 2, i32 1)")

    def gather(self, pointer: Value, index: Value, stride: int, kind: Type, mask: Value | None = None) -> Value:
        """out[i] = pointer[index + i * stride]; lanes outside `mask` are not read and are 0."""
        scalar = kind.scalar
        places = self._places(pointer, index, stride, kind)
        stored = kind.of(U8) if scalar == BOOL else kind
        active = mask or self.constant(1, kind.of(BOOL))
        name = f"llvm.masked.gather.{stored.suffix}.{places.type.suffix}"
        self.module.declare(name, str(stored), [str(places.type), "i32 immarg", str(active.type), str(stored)])
        rest = f"{active.type} {active.text}, {stored} zeroinitializer"
        value = self.emit(stored, f"call {stored} @{name}({places.type} {places.text}, i32 {scalar.size}, {rest})")
        return self.cast(value, BOOL) if scalar == BOOL else value

    def scatter(self, value: Value, pointer: Value, index: Value, stride: int, mask: Value | None = None) -> None:
        """pointer[index + i * stride] = value[i]; lanes outside `mask` are not written."""
        scalar = value.type.scalar
        places = self._places(pointer, index, stride, value.type)
        stored = self._widened(value)
        active = mask or self.constant(1, value.type.of(BOOL))
        name = f"llvm.masked.scatter.{stored.type.suffix}.{places.type.suffix}"
        self.module.declare(name, "void", [str(stored.type), str(places.type), "i32 immarg", str(active.type)])
        what = f"{stored.type} {stored.text}, {places.type} {places.text}"
        self.line(f"call void @{name}({what}, i32 {scalar.size}, {active.type} {active.text})")

    def _places(self, pointer: Value, index: Value, stride: int, kind: Type) -> Value:
        steps = self._steps(stride, kind.of(I64))
        start = self.offset(pointer, index, kind.scalar)
        text = f"getelementptr {kind.scalar.memory}, ptr {start.text}, {steps.type} {steps.text}"
        return self.emit(kind.of(POINTER), text)

    def _steps(self, stride: int, kind: Type) -> Value:
        """[0, stride, 2 * stride, ...]"""
        if not known(stride):
            return self.enumerate_lanes(kind) * self.constant(stride, kind)
        return Value(f"<{', '.join(f'i64 {i * stride}' for i in range(kind.lanes))}>", kind, self)

    def _widened(self, value: Value) -> Value:
        """A truth value as the byte that memory holds."""
        if value.type.scalar != BOOL:
            return value
        kind = value.type.of(U8)
        return self.emit(kind, f"zext {value.type} {value.text} to {kind}")

    def mask(self, count: Value, lanes: int) -> Value:
        """mask[i] = i < count"""
        kind = Type(I32, lanes)
        wanted = self.splat(self.cast(self.least(count, lanes), I32), lanes)
        return self.compare("<", self.enumerate_lanes(kind), wanted)

    # -- control

    @contextmanager
    def loop(self, low: Value | int, high: Value | int, step: int = 1) -> Iterator[Value]:
        """for index in range(low, high, step); nothing is kept of a loop known to run once."""
        first, last, by = self.wrap(low), self.wrap(high), self.wrap(step).text
        if (
            first.constant is not None
            and last.constant is not None
            and known(step)
            and 0 < last.constant - first.constant <= step
        ):
            yield first
            return
        body, end = self.label(), self.label()
        entered = first.constant is not None and last.constant is not None and first.constant < last.constant
        if entered:
            self.jump(body)
        else:
            enter = self.compare("<", first, last)
            self.branch(enter, body, end)
        before = self._block
        self.open(body)
        place = len(self._lines)
        self._count += 1
        index = Value(f"%i{self._count}", INDEX, self)
        self.line("")
        yield index
        following = self.emit(INDEX, f"add nuw nsw i64 {index.text}, {by}")
        again = self.compare("<", following, last)
        phi = f"{index.text} = phi i64 [ {first.text}, %{before} ], [ {following.text}, %{self._block} ]"
        self._lines[place] = phi
        self.branch(again, body, end)
        self.open(end)

    @contextmanager
    def when(self, condition: Value | None) -> Iterator[None]:
        """if condition: ...; None always holds."""
        if condition is None:
            yield
            return
        body, end = self.label(), self.label()
        self.branch(condition, body, end)
        self.open(body)
        yield
        self.jump(end)
        self.open(end)

    @contextmanager
    def always(self) -> Iterator[None]:
        """The block as it stands: what `when` becomes for a condition known to hold."""
        yield

    @contextmanager
    def repeat(self) -> Iterator[Repeat]:
        """while True: ...; the body asks `until(condition)` to leave."""
        body, end = self.label(), self.label()
        self.jump(body)
        self.open(body)
        yield Repeat(self, end)
        self.jump(body)
        self.open(end)

    def call(self, name: str, *arguments: Value) -> None:
        """name(arguments), a function without result of this module."""
        body = ", ".join(f"{argument.type} {argument.text}" for argument in arguments)
        self.line(f"call void @{name}({body})")


@dataclass(frozen=True, slots=True)
class Repeat:
    """The handle of an endless loop."""

    builder: Builder
    end: str

    def until(self, condition: Value) -> None:
        """Leave the loop if condition."""
        following = self.builder.label()
        self.builder.branch(condition, self.end, following)
        self.builder.open(following)


PACKED = {"f64": "<d", "f32": "<f", "f16": "<e"}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
COMBINATIONS = {"add": "add", "multiply": "multiply", "maximum": "maximum", "minimum": "minimum", "larger": "larger"}


def integer_comparison(relation: str, signed: bool) -> str:
    """LLVM's word for a comparison of integers: slt, ult, eq ..."""
    word = COMPARISONS[relation]
    return word if relation in ("==", "!=") else ("s" if signed else "u") + word


def conversion(source: Scalar, target: Scalar) -> str:
    """LLVM's word for a conversion by value between two different scalars, but for floats to integers."""
    if source.floating and target.floating:
        return "fpext" if target.size > source.size else "fptrunc"
    if target.floating:
        return "sitofp" if source.signed else "uitofp"
    if source == BOOL or (target.size > source.size and not source.signed):
        return "zext"
    return "sext" if target.size > source.size else "trunc"


def literal(number: Number, scalar: Scalar) -> str:
    """A number as IR writes it: floating-point constants are the bits of a double, exact in the scalar's type."""
    if not scalar.floating:
        return str(int.from_bytes(number_bytes(number, scalar), "little", signed=scalar.signed))
    assert scalar != BF16, "constants are made in the type of computation"
    stored = number_bytes(number, scalar)
    if scalar == F16:
        return f"0xH{int.from_bytes(stored, 'little'):04X}"
    (held,) = struct.unpack(PACKED[scalar.name], stored)
    (pattern,) = struct.unpack("<Q", struct.pack("<d", held))
    return f"0x{pattern:016X}"


def number_bytes(number: Number, scalar: Scalar) -> bytes:
    """A number as memory holds it, little end first: integers modulo 2^bits, too large floats as infinity."""
    if not scalar.floating:
        return (int(number) % (1 << 8 * scalar.size)).to_bytes(scalar.size, "little")
    try:
        return struct.pack(PACKED[scalar.name], float(number))
    except OverflowError:
        return struct.pack(PACKED[scalar.name], math.copysign(math.inf, number > 0 or -1))
