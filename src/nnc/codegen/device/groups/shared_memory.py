"""Groups of threads: the number of a thread, memory that the group shares, and waiting until all have written.

A function of a group is run by each of its threads for each item. Its branches are alike for all where they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from nnc.classes import dataclass
from nnc.codegen.device.warpgroups import WarpgroupProduct
from nnc.codegen.ir.builder import I32, I64, INDEX, Builder, LocalVariable, Scalar, Type, Value

# The largest addresses of near memory that vectors of four f32 need are multiples of so many bytes.
NEAR_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class SharedArray:
    """`count` elements in the memory of a group."""

    b: Builder
    name: str
    scalar: Scalar
    count: int

    @classmethod
    def reserve(cls, b: Builder, name: str, scalar: Scalar, count: int) -> SharedArray:
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

    def fetch(self, index: Value, source: Value, nbytes: Value) -> None:
        """Four words from `index` on become the bytes at `source`, 16 at most, and zeros; `wait_for_copies` tells when.

        Both places are multiples of 16 bytes. `nbytes` is an i32.
        """
        name = f"nnc.near.fetch.{self.name}"
        self.b.module.declare(name, "void", ["i64", "ptr", "i32"])
        self.b.line(f"call void @{name}(i64 {index.text}, ptr {source.text}, i32 {nbytes.text})")

    def fetch_element(self, index: Value, source: Value, nbytes: Value | int) -> None:
        """element[index], of 32 bits, becomes the one at `source`, or 0 where `nbytes` is 0 and not 4, as `fetch`."""
        name, size = f"nnc.near.fetch_element.{self.name}", self.b.wrap(nbytes, Type(I32))
        self.b.module.declare(name, "void", ["i64", "ptr", "i32"])
        self.b.line(f"call void @{name}(i64 {index.text}, ptr {source.text}, i32 {size.text})")

    def multiply(self, product: WarpgroupProduct, left: Value, right: Value, totals: Sequence[LocalVariable]) -> None:
        """totals += left right, by four warps: matrices in this memory, from these bytes on, as `product` says.

        Sums are complete when `multiplied` tells. Warp w has rows 16 w to 16 w + 15; thread i of it has columns
        8 j + 2 (i mod 4) and the next of rows i // 4 and i // 4 + 8 as totals 4 j to 4 j + 3.
        """
        name = f"nnc.near.{product.action}.{self.name}"
        self.b.module.declare(name, "void", ["i64", "i64", *["ptr"] * len(totals)])
        slots = ", ".join(f"ptr {variable.slot}" for variable in totals)
        self.b.line(f"call void @{name}(i64 {left.text}, i64 {right.text}, {slots})")


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


def shuffled(b: Builder, value: Value, distance: int) -> Value:
    """The value of the thread of the same subgroup whose number differs by this power of two."""
    kind = value.type.scalar
    b.module.declare("nnc.lane", "i32", [])
    b.module.declare(f"nnc.shuffle.{kind.name}", kind.register, [kind.register, "i32"])
    lane = b.emit(Type(I32), "call i32 @nnc.lane()")
    other = b.emit(Type(I32), f"xor i32 {lane.text}, {distance}")
    return b.emit(
        value.type, f"call {kind.register} @nnc.shuffle.{kind.name}({kind.register} {value.text}, i32 {other.text})"
    )


def fold_distances(threads: int) -> list[int]:
    """The distances at which so many threads in step fold what they have, the largest first: threads / 2 to 1."""
    return [threads >> number for number in range(1, threads.bit_length())]


def folded_in_step(
    b: Builder, value: Value, distances: Iterable[int], combine: Callable[[Value, Value], Value]
) -> Value:
    """What threads in step have, combined with that of the threads at each distance in turn: the same for all."""
    for distance in distances:
        value = combine(value, shuffled(b, value, distance))
    return value


def power_of_two(b: Builder, value: Value) -> Value:
    """2^value of f32, by the device's own instruction: within 2 units of the last place."""
    b.module.declare("nnc.power", "float", ["float"])
    return b.emit(value.type, f"call float @nnc.power(float {value.text})")


def pair_of(b: Builder, low: Value, high: Value, scalar: Scalar) -> Value:
    """Two numbers of f32 rounded to 16 bits, as a word of 32, by the device's own instruction."""
    name = f"nnc.pair.{scalar.name}"
    b.module.declare(name, "i32", ["float", "float"])
    return b.emit(Type(I32), f"call i32 @{name}(float {low.text}, float {high.text})")


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


def is_aligned(b: Builder, *pointers: Value, nbytes: int = 16) -> Value:
    """Whether all addresses are multiples of so many bytes, a power of two."""
    addresses = [b.emit(Type(I64), f"ptrtoint ptr {pointer.text} to i64") for pointer in pointers]
    return b.compare("==", reduce(b.either, [b.both(address, b.constant(nbytes - 1)) for address in addresses]), 0)


def store_words(b: Builder, words: Sequence[Value], place: Value) -> None:
    """Four words of 32 bits go to an address that is a multiple of 16."""
    b.module.declare("nnc.store.aligned", "void", ["ptr", *["i32"] * 4])
    b.line(f"call void @nnc.store.aligned(ptr {place.text}, {', '.join(f'i32 {word.text}' for word in words)})")


def commit_copies(b: Builder) -> None:
    """Close a group of asynchronous copies: those of this thread up to here."""
    b.module.declare("nnc.copies.seal", "void", [])
    b.line("call void @nnc.copies.seal()")


def wait_for_copies(b: Builder, pending: int) -> None:
    """Wait for this thread's groups of asynchronous copies, but for the last `pending` ones."""
    b.module.declare(f"nnc.copies.wait.{pending}", "void", [])
    b.line(f"call void @nnc.copies.wait.{pending}()")


def share_copies(b: Builder) -> None:
    """A fence: products of warpgroups see what this thread wrote to shared memory, behind the next `barrier`."""
    b.module.declare("nnc.copies.share", "void", [])
    b.line("call void @nnc.copies.share()")


def fence_products(b: Builder) -> None:
    """A fence: products of warpgroups see the sums that are in registers."""
    b.module.declare("nnc.products.begin", "void", [])
    b.line("call void @nnc.products.begin()")


def commit_products(b: Builder) -> None:
    """Close a group of asynchronous products: those of this warpgroup up to here."""
    b.module.declare("nnc.products.seal", "void", [])
    b.line("call void @nnc.products.seal()")


def wait_for_products(b: Builder, pending: int) -> None:
    """Wait for this warpgroup's groups of products, but for the last `pending` ones."""
    b.module.declare(f"nnc.products.wait.{pending}", "void", [])
    b.line(f"call void @nnc.products.wait.{pending}()")


def barrier(b: Builder) -> None:
    """A barrier of the group: all threads have come here, and see what each has written to shared memory."""
    b.module.declare("nnc.wait", "void", [])
    b.line("call void @nnc.wait()")
