"""The typed IR builder: Python expressions over `Value` write LLVM IR in text form.

    with b.loop(0, rows) as row:
        x = b.load(source, row * columns, b.vector(F32))
        b.store(b.fma(x, scale, shift), target, row * columns)

A `Value` is an IR register or constant with its type. Index arithmetic on constants is folded here, so that the
text LLVM has to read stays small: compile time is part of the product. Variables are stack slots that LLVM turns
into registers. Floating-point instructions carry no fast-math flags: what is written is what is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nnc.classes import dataclass
from nnc.codegen.ir.conversions import Conversions
from nnc.codegen.ir.function_text import LocalVariable, Module, Value
from nnc.codegen.ir.scalars import (
    ADDRESS,
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    POINTER,
    SCALARS,
    U8,
    U16,
    Number,
    Scalar,
    Type,
    number_bytes,
)
from nnc.core.values.derived import known

# Generators import all that they write with from here.
__all__ = [
    "ADDRESS",
    "BF16",
    "BOOL",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "INDEX",
    "POINTER",
    "SCALARS",
    "U8",
    "U16",
    "Builder",
    "LocalVariable",
    "Module",
    "Number",
    "Repeat",
    "Scalar",
    "Type",
    "Value",
    "number_bytes",
]

# Registers of AVX-512, and what wider integers are cut to.
WIDE_BITS = 512
TRUNCATED = (U8, I8, I16, U16, BF16, I32)


class Builder(Conversions):
    """Writes the body of one function `void name(arguments)` into `module`."""

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
