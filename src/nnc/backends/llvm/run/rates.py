"""Kernels that do one thing, to measure how fast a worker does it."""

from __future__ import annotations

import mmap as mmap_module
from collections.abc import Sequence
from contextlib import suppress
from mmap import mmap
from time import perf_counter_ns, sleep

import numpy as np

from nnc.backends.llvm.run.engine import Engine
from nnc.backends.llvm.run.runtime import NativeProgram, ZeroedMemory
from nnc.backends.llvm.run.steps import Launch
from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, WithoutMemory, phase
from nnc.codegen.ir.builder import F32, INDEX, Module
from nnc.codegen.ir.native_kernel import AddressRange, Phase

# Registers that loads are added to, two a cycle of four cycles each.
CHAINS = 8
# Nanoseconds that one run of a measurement takes at least.
LEAST_NANOSECONDS = 200_000
PAGE_BYTES, LINE_BYTES = 4096, 64
# What is said of a phase so that it is cut into two.
LARGE_COST = 1e6


@dataclass(frozen=True, slots=True)
class Loads(WithoutMemory):
    """Reads `nbytes` `repeats` times, each byte once a time."""

    nbytes: int
    repeats: int

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """for each time, for each vector: one of the sums += vector"""
        with phase(module, name) as w:
            b, kind = w.b, w.b.vector(F32)
            sums = [b.variable(b.zero(kind)) for _ in range(CHAINS)]
            with b.loop(0, self.repeats), b.loop(0, self.nbytes // F32.size, CHAINS * kind.lanes) as place:
                for number, total in enumerate(sums):
                    total.set(total.get() + b.load(w.argument(0), place + number * kind.lanes, kind))
            for number, total in enumerate(sums):
                b.store(total.get(), w.argument(1), number * kind.lanes)
        return (Phase(name, 1, 0.0),)


@dataclass(frozen=True, slots=True)
class Stores(WithoutMemory):
    """Writes `nbytes` `repeats` times."""

    nbytes: int
    repeats: int

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """for each time, for each vector: vector = what is given"""
        with phase(module, name) as w:
            b, kind = w.b, w.b.vector(F32)
            value = b.load(w.argument(1), 0, kind)
            with b.loop(0, self.repeats), b.loop(0, self.nbytes // F32.size, kind.lanes) as place:
                b.store(value, w.argument(0), place)
        return (Phase(name, 1, 0.0),)


@dataclass(frozen=True, slots=True)
class Touches(WithoutMemory):
    """Reads one line of each of `pages` pages, `repeats` times; lines of neighbours fall on other sets."""

    pages: int
    repeats: int

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """for each time, for each page: sum += a number of its line"""
        with phase(module, name) as w:
            b, step = w.b, (PAGE_BYTES + LINE_BYTES) // F32.size
            total = b.variable(b.zero(w.b.vector(F32).of(F32)))
            with b.loop(0, self.repeats), b.loop(0, self.pages) as page:
                total.set(total.get() + b.load(w.argument(0), page * step, total.get().type))
            b.store(total.get(), w.argument(1), 0)
        return (Phase(name, 1, 0.0),)


@dataclass(frozen=True, slots=True)
class Products(WithoutMemory):
    """A chain of integer products, each of three cycles."""

    steps: int

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """x = x · x, again and again"""
        with phase(module, name) as w:
            b = w.b
            value = b.variable(b.load(w.argument(0), 0, INDEX) + 3)
            with b.loop(0, self.steps):
                value.set(value.get() * value.get())
            b.store(value.get(), w.argument(1), 0)
        return (Phase(name, 1, 0.0),)


@dataclass(frozen=True, slots=True)
class Meetings(WithoutMemory):
    """Two items of next to nothing, so that two workers meet behind each launch."""

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """y[item] = x[0]"""
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            w.b.store(w.b.load(w.argument(0), 0, INDEX), w.argument(1), item * LINE_BYTES)
        return (Phase(name, 2, LARGE_COST),)


@dataclass(frozen=True, slots=True)
class Exchange(WithoutMemory):
    """Two items, of which each reads what the other one wrote."""

    nbytes: int = 4096

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """y[item] = x[1 - item]"""
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            b, kind, half = w.b, w.b.vector(F32), self.nbytes // F32.size
            with b.loop(0, half, kind.lanes) as place:
                value = b.load(w.argument(0), (b.constant(1) - item) * half + place, kind)
                b.store(value, w.argument(1), item * half + place)
        return (Phase(name, 2, LARGE_COST),)


class Stopwatch:
    """Runs kernels on memory of its own and tells the best of some runs, in nanoseconds."""

    def __init__(self, engine: Engine, nbytes: int) -> None:
        self._engine = engine
        self._memory = ZeroedMemory.allocate(nbytes)
        # Pages that nobody wrote are one and the same.
        self._memory.data.fill(0)
        self._results = ZeroedMemory.allocate(1 << 14)

    def program(self, generators: Sequence[Generator], workers: int = 1, source: int = 0) -> NativeProgram:
        """One launch of each, behind each other, on memory at `source`, if that is not our own."""
        kernels = [self._engine.jit.kernel(generator) for generator in generators]
        addresses, extent = (source or self._memory.address, self._results.address), self._results.extent
        launches = [Launch(kernel, addresses, (extent,), (extent,)) for kernel in kernels]
        return NativeProgram(self._engine.pool, launches, workers)

    def best(self, generator: Generator, runs: int = 5, source: int = 0) -> float:
        """Of one worker."""
        return best(self.program([generator], source=source), runs)

    def bytes_per_nanosecond(self, kind: type[Loads] | type[Stores], nbytes: int, runs: int = 5) -> float:
        """How fast an array of this size is read or written again and again."""
        repeats = max(1, LEAST_NANOSECONDS * 16 // nbytes)
        return nbytes * repeats / self.best(kind(nbytes, repeats), runs)

    def touches(self, counts: Sequence[int], *, huge: bool) -> tuple[tuple[int, float], ...]:
        """For so many pages nanoseconds of each; `huge`: the system may put 2 MB into one page of its own."""
        with mmap(-1, (max(counts) + 1) * (PAGE_BYTES + LINE_BYTES)) as memory:
            advice = getattr(mmap_module, "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE", None)
            if advice is not None:
                with suppress(OSError):
                    memory.madvise(advice)
            data = np.frombuffer(memory, np.uint8)
            data.fill(0)
            source = int(data.ctypes.data)
            del data
            return tuple((pages, self._touch(pages, source)) for pages in counts)

    def _touch(self, pages: int, source: int) -> float:
        repeats = max(1, LEAST_NANOSECONDS // pages)
        return self.best(Touches(pages, repeats), source=source) / (pages * repeats)

    def clock(self, steps: int = 200_000) -> float:
        """Cycles per nanosecond, if a product of integers takes three."""
        return 3 * steps / self.best(Products(steps))

    def meeting(self, count: int = 200) -> float:
        """What each of so many meetings of two workers takes."""
        return best(self.program([Meetings()] * count, workers=2), 7) / count

    def handing(self, count: int = 200) -> float:
        """What a launch takes two workers longer than its half, if each reads what the other one wrote."""
        kernel, half = self._engine.jit.kernel(Exchange()), Exchange().nbytes
        places = [AddressRange(start, start + 2 * half) for start in (self._memory.address, self._results.address)]
        turns = [places if turn % 2 else places[::-1] for turn in range(count)]
        launches = [Launch(kernel, (x.begin, y.begin), (x,), (y,)) for x, y in turns]
        alone, together = (best(NativeProgram(self._engine.pool, launches, workers), 7) / count for workers in (1, 2))
        return max(together - alone / 2, 0.0)

    def waking(self, pause: float = 0.02) -> float:
        """What a run of two workers takes longer where one of them has been asleep: the median of seven runs."""
        program, taken = self.program([Meetings()], workers=2), []
        for _ in range(7):
            sleep(pause)
            taken.append(timed(program))
        return max(0.0, sorted(taken)[3] - best(program, 7))


def timed(program: NativeProgram) -> float:
    """Nanoseconds of a run: one at least, whatever a clock that steps says."""
    begun = perf_counter_ns()
    program.run()
    return max(float(perf_counter_ns() - begun), 1.0)


def best(program: NativeProgram, runs: int) -> float:
    """Nanoseconds of the fastest run."""
    program.run()
    return min(timed(program) for _ in range(runs))
