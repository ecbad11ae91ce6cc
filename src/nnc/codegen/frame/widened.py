"""Kernels of 16 bits that compute in f32: operands are widened into the workspace, results rounded once.

For kernels that keep sums where their results are: in 16 bits each addition would round. Phases: widen the inputs, the
phases of the kernel in f32 on the copies, narrow the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from nnc.classes import dataclass
from nnc.codegen.frame.access import contiguous
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithSizes, ceiling, opened, phase
from nnc.codegen.frame.row import Generate, KernelRow, Refuse, Specs, Variants, View, Views
from nnc.codegen.ir.builder import ADDRESS, BF16, F16, F32, POINTER, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values import dtype
from nnc.core.values.derived import Read, known_multiple

NARROW = (BF16, F16)
NARROW_TYPES = (dtype.BF16, dtype.F16)
CHUNK = 4096  # elements of an item that moves an operand
NANOSECONDS_PER_VECTOR = 1.0


@dataclass(frozen=True, slots=True)
class StoredOperand:
    """A contiguous operand: how its elements are stored, how many there are, and whether the kernel works on a copy."""

    stored: Scalar
    elements: int
    copied: bool

    @property
    def copy_bytes(self) -> int:
        """Bytes of the copy."""
        return aligned(self.elements * F32.size) if self.copied else 0

    def chunks(self, chunk: int) -> int:
        """Items of so many elements that move it."""
        return ceiling(self.elements, chunk) if self.copied else 0


@dataclass(frozen=True, slots=True)
class Widened(WithSizes):
    """`inner` on f32 copies of inputs and results that have 16 bits."""

    inner: Generator
    inputs: tuple[StoredOperand, ...]
    results: tuple[StoredOperand, ...]

    def opened(self, read: Read, target: TargetDescription) -> Widened:
        """What the kernel reads, and how many elements operands have."""
        inner = opened(self.inner, read, target)
        inputs, results = (
            tuple([replace(operand, elements=read(operand.elements)) for operand in part])
            for part in (self.inputs, self.results)
        )
        return Widened(inner, inputs, results)

    def workspace(self, target: TargetDescription) -> int:
        """The copies, and the workspace of the kernel."""
        return sum(operand.copy_bytes for operand in self.operands) + self.inner.workspace(target)

    def scratch(self, target: TargetDescription) -> int:
        """That of the kernel."""
        return self.inner.scratch(target)

    @property
    def operands(self) -> tuple[StoredOperand, ...]:
        """As in the array of addresses."""
        return (*self.inputs, *self.results)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where each copy begins in the workspace; at last where that of the kernel does."""
        return tuple(accumulate((operand.copy_bytes for operand in self.operands), initial=0))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Widen, compute, narrow."""
        phases = [self._moving(module, f"{name}_widen", self.inputs, 0)]
        for number, part in enumerate(self.inner.emit(module, f"{name}_inner")):
            symbol = f"{name}_{number}"
            self._calling(module, symbol, part.symbol)
            phases.append(replace(part, symbol=symbol))
        return (*phases, self._moving(module, f"{name}_narrow", self.results, len(self.inputs)))

    def _calling(self, module: Module, symbol: str, function: str) -> None:
        """The function of the kernel with the addresses of the copies in the place of the operands'."""
        count = len(self.operands) + 1
        with phase(module, symbol) as w:
            b = w.b
            whole = b.emit(ADDRESS, f"alloca [{count + 1} x ptr], align 8")
            b.store(w.argument(-1), whole, 0)
            table = b.offset(whole, 1, POINTER)
            memory = w.argument(len(self.operands))
            for position, operand in enumerate(self.operands):
                own = b.offset(memory, self.starts[position] // F32.size, F32)
                b.store(own if operand.copied else w.argument(position), table, position)
            b.store(b.offset(memory, self.starts[-1] // F32.size, F32), table, count - 1)
            b.call(function, table, w.begin, w.end, w.scratch)

    def _moving(self, module: Module, symbol: str, operands: Sequence[StoredOperand], first: int) -> Phase:
        """Items are chunks of the operands, one operand behind the other."""
        widens, chunk = first == 0, module.target.run(CHUNK)
        chunks = [operand.chunks(chunk) for operand in operands]
        with phase(module, symbol) as w:
            for index, (operand, begin) in enumerate(zip(operands, accumulate(chunks, initial=0), strict=False)):
                if operand.chunks(chunk):
                    copy = w.b.offset(w.argument(len(self.operands)), self.starts[first + index] // F32.size, F32)
                    _move(w, operand, begin, w.argument(first + index), copy, widens)
        vectors = sum(chunks) * chunk / module.target.lanes(8 * F32.size)
        return Phase(symbol, sum(chunks), NANOSECONDS_PER_VECTOR * vectors)


def _move(w: PhaseWriter, operand: StoredOperand, begin: int, own: Value, copy: Value, widens: bool) -> None:
    """The chunks of one operand that are in [w.begin, w.end); its first one has number `begin`."""
    b: Builder = w.b
    lanes = b.vector(F32).lanes
    wide, narrow = Type(F32, lanes), Type(operand.stored, lanes)
    chunk = b.target.run(CHUNK)
    low = b.greatest(w.begin - begin, 0) * chunk
    high = b.least(b.least(w.end - begin, operand.chunks(chunk)) * chunk, operand.elements)
    with b.loop(low, high, lanes) as index:
        mask = b.mask(high - index, lanes) if not known_multiple(operand.elements, lanes) else None
        if widens:
            b.store(b.cast(b.load(own, index, narrow, mask), F32), copy, index, mask)
        else:
            b.store(b.cast(b.load(copy, index, wide, mask), operand.stored), own, index, mask)


def in_f32(row: KernelRow) -> KernelRow:
    """The row of an operator whose kernels work on f32 and f64, with operands of 16 bits widened."""
    return replace(
        row, generate=_generating(row.generate), refuse=_refusing(row.refuse), variants=_without_narrow(row.variants)
    )


def _is_narrow(views: Views) -> bool:
    return any(view.scalar in NARROW for view in views)


def _generating(generate: Generate) -> Generate:
    def widened(attrs: object, inputs: Views, outputs: Views) -> Generator:
        if not _is_narrow((*inputs, *outputs)):
            return generate(attrs, inputs, outputs)
        inner = generate(attrs, [_wide(view) for view in inputs], [_wide(view) for view in outputs])
        return Widened(inner, _copied(inputs), _copied(outputs))

    return widened


def with_wide_results(inner: Generator, inputs: Views, outputs: Views) -> Generator:
    """A generator that reads inputs of 16 bits as they are, and writes f32."""
    given = tuple(StoredOperand(view.scalar, view.elements, copied=False) for view in inputs)
    return Widened(inner, given, _copied(outputs)) if _is_narrow(outputs) else inner


def _copied(views: Views) -> tuple[StoredOperand, ...]:
    return tuple(StoredOperand(view.scalar, view.elements, view.scalar in NARROW) for view in views)


def _wide(view: View) -> View:
    return View(F32, view.shape, contiguous(view.shape)) if view.scalar in NARROW else view


def _refusing(refuse: Refuse) -> Refuse:
    def widened(attrs: object, inputs: Specs, outputs: Specs) -> str:
        read, written = (
            [replace(spec, dtype=dtype.F32) if spec.dtype in NARROW_TYPES else spec for spec in specs]
            for specs in (inputs, outputs)
        )
        return refuse(attrs, read, written)

    return widened


def _without_narrow(variants: Variants) -> Variants:
    def widened(attrs: object, inputs: Views, outputs: Views, target: TargetDescription) -> Mapping[str, Generator]:
        return {} if _is_narrow((*inputs, *outputs)) else variants(attrs, inputs, outputs, target)

    return widened
