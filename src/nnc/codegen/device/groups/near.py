"""Groups of threads: the number of a thread, memory that the group shares, and waiting until all have written.

A function of a group is run by each of its threads for each item. Its branches are alike for all where they wait.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.ir.builder import I32, I64, INDEX, Builder, Scalar, Type, Value

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

    def store(self, value: Value, index: Value) -> None:
        """element[index] = value"""
        kind = self.scalar.register
        self.b.line(f"call void @nnc.near.store.{self.name}(i64 {index.text}, {kind} {value.text})")


def thread_of(b: Builder) -> Value:
    """The number of this thread in its group."""
    b.module.declare("nnc.thread", "i32", [])
    narrow = b.emit(Type(I32), "call i32 @nnc.thread()")
    return b.emit(INDEX, f"zext i32 {narrow.text} to {I64.register}")


def wait(b: Builder) -> None:
    """All threads of the group have come here, and see what each has written to the memory that they share."""
    b.module.declare("nnc.wait", "void", [])
    b.line("call void @nnc.wait()")
