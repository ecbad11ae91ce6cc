"""Kernels: kernel = phases in order, a barrier between them; phase(args, begin, end, scratch) does items [begin, end).

`args` points to an array of addresses: inputs, then outputs, then the workspace that all workers share, if there is
one, then numbers that are no part of the code, a word each. In front of them is the address of the words that follow
from sizes which are no part of the code. `scratch` is memory of the calling worker alone. Items are independent and
nothing is reduced across them, so any division of the items over workers gives the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Protocol, Self, TypeVar, runtime_checkable

from nnc.classes import dataclass
from nnc.codegen.ir.builder import ADDRESS, I64, INDEX, Builder, Module, Number, Scalar, Type, Value, number_bytes
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read
from nnc.core.values.sizes import decided

# This many items are shared out evenly enough; fewer are where, among 2 and 4 workers, nobody has over 1.06 of a share.
MANY_ITEMS, CREWS, EVEN = 64, (2, 4), 1.06


class Generator(Protocol):
    """A kernel still to be generated: a value whose equality means equal code for equal targets."""

    def workspace(self, target: TargetDescription) -> int:
        """Bytes shared by all workers from the first phase to the last."""

    def scratch(self, target: TargetDescription) -> int:
        """Bytes that each worker needs for itself."""

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Write the functions of all phases, whose names begin with `name`."""

    def __hash__(self) -> int:
        """Generators are keys of the kernel cache."""


G = TypeVar("G", bound=Generator)


@runtime_checkable
class Compactable(Protocol):
    """Generators that gain time by much code or memory, for what another one does with little."""

    def compact(self) -> Generator:
        """The other one, with the same operands."""


def suited(generator: Generator, target: TargetDescription) -> Generator:
    """The generator as the target takes it: a compact one where code is small, and on devices."""
    compact = bool(target.small or target.threads)
    return generator.compact() if compact and isinstance(generator, Compactable) else generator


class WithoutScratch:
    """What generators say whose workers need no memory for themselves."""

    __slots__ = ()

    def scratch(self, target: TargetDescription) -> int:
        """Always 0."""
        return 0


class WithoutMemory(WithoutScratch):
    """What generators say that need nothing beside their operands."""

    __slots__ = ()

    def workspace(self, target: TargetDescription) -> int:
        """Always 0."""
        return 0


class WithNumbers(ABC):
    """Generators of code that reads numbers when it runs: one kernel serves all their values."""

    __slots__ = ()
    numbers: tuple[Number, ...]

    @property
    @abstractmethod
    def kinds(self) -> tuple[Scalar, ...]:
        """The type of each number."""

    @property
    def words(self) -> tuple[int, ...]:
        """The numbers as signed words, each with the bits of its type in front."""
        return tuple(word_of(number, kind) for number, kind in zip(self.numbers, self.kinds, strict=True))

    def read(self, w: PhaseWriter, operands: int) -> tuple[Value, ...]:
        """The numbers, from behind the addresses of `operands` and a workspace."""
        return tuple(
            w.b.load(w.b.offset(w.table, operands + place, I64), 0, Type(kind)) for place, kind in enumerate(self.kinds)
        )


class WithSizes(ABC):
    """Generators of code that reads sizes when it runs: one kernel serves all sizes that meet its conditions.

    What is read is what a batch, a height, a width, a length, or a number of rows decides, and the strides and offsets
    that follow. What shapes the code is not: channels and windows, inner sizes of weights, strides of 0 and 1.
    """

    __slots__ = ()

    @abstractmethod
    def opened(self, read: Read, target: TargetDescription) -> Self:
        """The same with `read(size)` in the place of each size that is read: always of the same ones, in order."""


def opened(generator: G, read: Read, target: TargetDescription) -> G:
    """The generator with the sizes that it reads; as it is, if it reads none."""
    return generator.opened(read, target) if isinstance(generator, WithSizes) else generator


def word_of(number: Number, kind: Scalar) -> int:
    """A number as a signed word, with the bits of its type in front."""
    return int.from_bytes(number_bytes(number, kind).ljust(8, b"\0"), "little", signed=True)


def words_of(generator: Generator) -> tuple[int, ...]:
    """What stands behind the addresses of a kernel: the numbers that it reads when it runs."""
    return generator.words if isinstance(generator, WithNumbers) else ()


@dataclass(frozen=True, slots=True)
class PhaseWriter:
    """What the body of a phase works with."""

    b: Builder
    table: Value
    begin: Value
    end: Value
    scratch: Value

    def argument(self, position: int) -> Value:
        """The address of an input, an output or the workspace."""
        return self.b.load(self.table, position, ADDRESS)


@contextmanager
def phase(module: Module, name: str) -> Iterator[PhaseWriter]:
    """Write one phase function; it returns when the block ends."""
    arguments = (("args", ADDRESS), ("begin", INDEX), ("end", INDEX), ("scratch", ADDRESS))
    b = Builder(module, name, arguments)
    table, begin, end, scratch = b.arguments
    b.table = table
    yield PhaseWriter(b, table, begin, end, scratch)
    b.finish()


def ceiling(count: int, size: int) -> int:
    """How many runs of `size` cover `count`."""
    return -(-count // size)


def even_block(length: int, most: int, inner: int, outer: int) -> int:
    """The largest block of at most `most` that leaves workers about equal shares of outer x blocks x inner items."""
    return decided(_even_block, length, most, inner, outer)


@lru_cache(maxsize=1024)
def _even_block(length: int, most: int, inner: int, outer: int) -> int:
    if ceiling(length, most) * inner * outer >= MANY_ITEMS:
        return most
    sizes = range(most, 0, -1)
    shares = {size: _largest_share(length, size, inner, outer) for size in sizes}
    return next((size for size in sizes if shares[size] <= EVEN), min(sizes, key=lambda size: shares[size]))


def _largest_share(length: int, size: int, inner: int, outer: int) -> float:
    """What the busiest worker has, as a multiple of the mean; the mean of some numbers of workers."""
    blocks = [min(size, length - first) for first in range(0, length, size)]
    items = [block for block in blocks for _ in range(inner)] * outer
    total = 0.0
    for workers in CREWS:
        bounds = [len(items) * worker // workers for worker in range(workers + 1)]
        total += max(sum(items[low:high]) for low, high in pairwise(bounds)) * workers / sum(items)
    return total / len(CREWS)
