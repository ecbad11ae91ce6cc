"""Groups of threads: the number of a thread, memory that the group shares, and waiting until all have written.

A function of a group is run by each of its threads for each item. Its branches are alike for all where they wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.ir.builder import I32, I64, INDEX, Builder, LocalVariable, Scalar, Type, Value

# The largest addresses of near memory that vectors of four f32 need are multiples of so many bytes.
NEAR_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class NearArray:
    """`count` elements in the memory of a group."""

    b: Builder
    name: str
    scalar: Scalar
    count: int

    @classmethod
    def reserve(cls, b: Builder, name: str, scalar: Scalar, count: int) -> NearArray:
        """A new array of the function that `b` writes."""
        full, kind = f"{b.name}_{name}", scalar.register
        b.module.define(f"@{full} = internal addrspace(3) global [{count} x {kind}] undef, align {NEAR_ALIGNMENT}")
        b.module.declare(f"nnc.near.load.{full}", kind, ["i64"])
        b.module.declare(f"nnc.near.store.{full}", "void", ["i64", kind])
        return cls(b, full, scalar, count)

    def load(self, index: Value) -> Value:
        """element[index]"""
        text = f"call {self.scalar.register} @nnc.near.load.{self.name}(i64 {index.text})"
        return self.b.emit(Type(self.scalar), text)

    def matrices(self, index: Value, into: Sequence[LocalVariable], *, turned: bool) -> None:
        """Four matrices of 8 x 8 elements of 16 bits, for all threads of a warp; `turned`: rows are columns.

        Thread i names where row i mod 8 of matrix i // 8 begins, in words of 32 bits, a multiple of four. Of each
        matrix thread i is given the elements 2 (i mod 4) and the next of row i // 4, as one word.
        """
        name = f"nnc.near.{'turned' if turned else 'matrices'}.{self.name}"
        self.b.module.declare(name, "void", ["i64", *["ptr"] * 4])
        slots = ", ".join(f"ptr {variable.slot}" for variable in into)
        self.b.line(f"call void @{name}(i64 {index.text}, {slots})")

    def store(self, value: Value, index: Value) -> None:
        """element[index] = value"""
        kind = self.scalar.register
        self.b.line(f"call void @nnc.near.store.{self.name}(i64 {index.text}, {kind} {value.text})")


def thread_of(b: Builder) -> Value:
    """The number of this thread in its group."""
    b.module.declare("nnc.thread", "i32", [])
    narrow = b.emit(Type(I32), "call i32 @nnc.thread()")
    return b.emit(INDEX, f"zext i32 {narrow.text} to {I64.register}")


def subgroup_of(b: Builder) -> Value:
    """The number of this thread's subgroup, threads in step, in its group."""
    b.module.declare("nnc.subgroup", "i32", [])
    narrow = b.emit(Type(I32), "call i32 @nnc.subgroup()")
    return b.emit(INDEX, f"zext i32 {narrow.text} to i64")


def exchanged(b: Builder, value: Value, distance: int) -> Value:
    """The value of the thread of the same subgroup whose number differs by this power of two."""
    kind = value.type.scalar
    b.module.declare("nnc.lane", "i32", [])
    b.module.declare(f"nnc.shuffle.{kind.name}", kind.register, [kind.register, "i32"])
    lane = b.emit(Type(I32), "call i32 @nnc.lane()")
    other = b.emit(Type(I32), f"xor i32 {lane.text}, {distance}")
    return b.emit(
        value.type, f"call {kind.register} @nnc.shuffle.{kind.name}({kind.register} {value.text}, i32 {other.text})"
    )


def multiply_matrices(
    b: Builder, scalar: Scalar, left: Sequence[Value], right: Sequence[Value], totals: Sequence[LocalVariable]
) -> None:
    """totals += left right, of 16 x 16 and 16 x 8 elements of 16 bits, summed in f32 by all threads of a warp.

    Thread i has of the left the words of matrices (rows 0-7, steps 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15), of the
    right those of (steps 0-7), (8-15) turned, and of the totals columns 2 (i mod 4) and the next of rows i // 4 and
    i // 4 + 8.
    """
    name = f"nnc.multiply.{scalar.name}"
    b.module.declare(name, "void", [*["i32"] * 6, *["ptr"] * 4])
    words = ", ".join(f"i32 {word.text}" for word in (*left, *right))
    slots = ", ".join(f"ptr {variable.slot}" for variable in totals)
    b.line(f"call void @{name}({words}, {slots})")


def load_words(b: Builder, place: Value) -> list[Value]:
    """Four words of 32 bits at an address that is a multiple of 16."""
    b.module.declare("nnc.load.aligned", "i32", ["ptr"])
    first = b.emit(Type(I32), f"call i32 @nnc.load.aligned(ptr {place.text})")
    return [first, *(b.load(place, number, Type(I32)) for number in range(1, 4))]


def wait(b: Builder) -> None:
    """All threads of the group have come here, and see what each has written to the memory that they share."""
    b.module.declare("nnc.wait", "void", [])
    b.line("call void @nnc.wait()")
