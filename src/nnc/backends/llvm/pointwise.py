"""Pointwise chains: y_j[i...] = f_j(x_0[i...], x_1[i...], ...), any broadcasting, one pass over memory.

A chain is a list of instructions over values; values are the inputs in order, then one per instruction. Everything is
computed in registers; a 16-bit float is computed in f32. Items are runs of the innermost axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnc.backends.llvm import activation, mathematics
from nnc.backends.llvm.access import Access, Shape, collapse, locate
from nnc.backends.llvm.builder import BOOL, F32, SCALARS, Builder, Module, Scalar, Type, Value
from nnc.backends.llvm.kernel import Phase, PhaseWriter, ceiling, phase
from nnc.backends.llvm.target import TargetDescription

CHUNK = 4096
SIDE_BY_SIDE = 4
NANOSECONDS_PER_UNIT = 0.3

Numbers = tuple[float, ...]
Emit = Callable[[Builder, Sequence[Value], Numbers], Value]


@dataclass(frozen=True, slots=True)
class Instruction:
    """value = operation(values[operands], numbers); `result` names the element type of casts and constants."""

    operation: str
    operands: tuple[int, ...] = ()
    numbers: Numbers = ()
    result: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """How an operation is written, and its cost in vector instructions."""

    emit: Emit
    cost: float = 1.0
    floating_only: bool = False


def _one(b: Builder, x: Value) -> Value:
    return b.constant(1, x.type)


def _sign(b: Builder, x: Value) -> Value:
    below = b.choose(b.compare("<", x, 0), b.constant(-1, x.type), 0)
    return b.choose(b.compare(">", x, 0), _one(b, x), below)


def _preference(b: Builder, left: Value, right: Value) -> Value:
    tie = b.choose(b.compare("==", left, right), b.constant(0.5, left.type), 0)
    return b.choose(b.compare(">", left, right), _one(b, left), tie)


def _row(function: Callable[..., Value], cost: float = 1.0, floating_only: bool = False) -> Operation:
    return Operation(lambda b, values, numbers: function(b, *values), cost, floating_only)


def _comparison(relation: str) -> Operation:
    return Operation(lambda b, values, numbers: b.compare(relation, values[0], values[1]))


def _library(name: str) -> Operation:
    return Operation(lambda b, values, numbers: mathematics.library(b, name, *values), 300.0, floating_only=True)


OPERATIONS: dict[str, Operation] = {
    "identity": Operation(lambda b, values, numbers: values[0], 0.0),
    "add": _row(Builder.add),
    "subtract": _row(Builder.subtract),
    "multiply": _row(Builder.multiply),
    "divide": _row(Builder.divide, 8.0, floating_only=True),
    "maximum": _row(Builder.maximum, 3.0),
    "minimum": _row(Builder.minimum, 3.0),
    "power": _library("pow"),
    "affine": Operation(lambda b, values, numbers: values[0] * numbers[0] + numbers[1], 2.0, floating_only=True),
    "square": _row(lambda b, x: x * x),
    "sqrt": _row(mathematics.square_root, 10.0, floating_only=True),
    "rsqrt": _row(mathematics.reciprocal_square_root, 18.0, floating_only=True),
    "reciprocal": _row(lambda b, x: _one(b, x) / x, 8.0, floating_only=True),
    "exp": _row(mathematics.exponential, 22.0, floating_only=True),
    "log": _row(mathematics.logarithm, 30.0, floating_only=True),
    "tanh": _row(mathematics.tanh, 45.0, floating_only=True),
    "sigmoid": _row(mathematics.sigmoid, 35.0, floating_only=True),
    "erf": _row(mathematics.erf, 45.0, floating_only=True),
    "sin": _row(mathematics.sine, 30.0, floating_only=True),
    "cos": _row(mathematics.cosine, 30.0, floating_only=True),
    "floor": _row(lambda b, x: b.intrinsic("llvm.floor", x), floating_only=True),
    "ceil": _row(lambda b, x: b.intrinsic("llvm.ceil", x), floating_only=True),
    "round": _row(lambda b, x: b.intrinsic("llvm.roundeven", x), floating_only=True),
    "expm1": _row(mathematics.exponential_minus_one, 30.0, floating_only=True),
    "log1p": _row(mathematics.logarithm_plus_one, 45.0, floating_only=True),
    "softplus": _row(mathematics.softplus, 75.0, floating_only=True),
    "swish": _row(activation.swish, 36.0, floating_only=True),
    "gelu": _row(activation.gelu, 80.0, floating_only=True),
    "gelu_tanh": _row(activation.gelu_tanh, 39.0, floating_only=True),
    "is_nan": _row(Builder.unordered, floating_only=True),
    "logical_and": _row(Builder.both),
    "logical_or": _row(Builder.either),
    "logical_xor": _row(Builder.exclusive),
    "logical_not": _row(Builder.opposite),
    "relu": _row(lambda b, x: b.maximum(x, 0), 3.0),
    "absolute": _row(mathematics.absolute),
    "sign": _row(_sign, 4.0),
    "step": _row(lambda b, x: b.choose(b.compare(">", x, 0), _one(b, x), 0), 2.0),
    "preference": _row(_preference, 4.0, floating_only=True),
    "equal": _comparison("=="),
    "not_equal": _comparison("!="),
    "less": _comparison("<"),
    "less_equal": _comparison("<="),
    "greater": _comparison(">"),
    "greater_equal": _comparison(">="),
    "where": _row(Builder.choose),
}
CONVERT, CONSTANT = "cast", "constant"


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A chain over `shape`; `results[j]` is the value that `outputs[j]` receives.

    `arguments` tells where the operands are in the array of addresses: in order, when it is empty.
    """

    shape: Shape
    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]
    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]
    arguments: tuple[int, ...] = ()

    def workspace(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a run of at most CHUNK elements of the innermost axis."""
        loops = _Loops(self, module.target)
        with phase(module, name) as writer:
            if loops.items:
                loops.write(writer)
        return (Phase(name, loops.items, loops.cost),)


def computed(scalar: Scalar) -> Scalar:
    """The type in which elements of `scalar` are computed."""
    return F32 if scalar.floating and scalar.size == 2 else scalar


def evaluate(b: Builder, instruction: Instruction, values: Sequence[Value], lanes: int) -> Value:
    """The next value of a chain, a vector."""
    if instruction.operation == CONVERT:
        return b.cast(values[instruction.operands[0]], computed(SCALARS[instruction.result]))
    if instruction.operation == CONSTANT:
        return b.constant(instruction.numbers[0], Type(computed(SCALARS[instruction.result]), lanes))
    operands = [values[index] for index in instruction.operands]
    return OPERATIONS[instruction.operation].emit(b, operands, instruction.numbers)


def work(instructions: Sequence[Instruction]) -> float:
    """About how many vector instructions a chain takes per vector."""
    return sum(OPERATIONS[i.operation].cost if i.operation in OPERATIONS else 1.0 for i in instructions)


class _Loops:
    """The loops of one chain: rows of the outer axes, runs of the inner axis, vectors of a run."""

    def __init__(self, chain: Pointwise, target: TargetDescription) -> None:
        self.chain = chain
        operands = (*chain.inputs, *chain.outputs)
        shape, strides = collapse(chain.shape, [operand.strides for operand in operands])
        if not shape:
            shape, strides = (1,), tuple((0,) for _ in operands)
        self.outer, self.inner = shape[:-1], shape[-1]
        self.strides = strides
        self.scalars = [operand.scalar for operand in operands]
        self.offsets = [operand.offset for operand in operands]
        self.lanes = target.lanes(8 * max(self._widths()))
        self.runs = ceiling(self.inner, CHUNK)
        self.items = 0 if 0 in chain.shape else math.prod(self.outer) * self.runs
        vectors = math.prod(self.outer) * ceiling(self.inner, self.lanes)
        self.cost = vectors * NANOSECONDS_PER_UNIT * (len(operands) + work(chain.instructions))

    def _widths(self) -> list[int]:
        named = [SCALARS[i.result] for i in self.chain.instructions if i.result]
        wide = [computed(scalar).size for scalar in (*self.scalars, *named) if scalar != BOOL]
        return wide or [1]

    def write(self, w: PhaseWriter) -> None:
        """for item: for vector of the item's run: load, compute, store"""
        b = w.b
        arguments = self.chain.arguments or range(len(self.scalars))
        pointers = [
            b.offset(w.argument(index), offset, scalar)
            for index, offset, scalar in zip(arguments, self.offsets, self.scalars, strict=True)
        ]
        if not self.outer:
            low = w.begin * CHUNK
            self._run(b, pointers, low, b.least(w.end * CHUNK, self.inner))
            return
        with b.loop(w.begin, w.end) as item:
            row, low = item // self.runs, (item % self.runs) * CHUNK
            starts = locate(b, row, self.outer, [strides[:-1] for strides in self.strides])
            places = [b.offset(p, start, s) for p, start, s in zip(pointers, starts, self.scalars, strict=True)]
            high = b.least(low + CHUNK, self.inner) if self.runs > 1 else b.constant(self.inner)
            self._run(b, places, low, high)

    def _run(self, b: Builder, places: Sequence[Value], low: Value, high: Value) -> None:
        """Elements [low, high): several vectors at a time, whole vectors, then a masked one when the axis is ragged."""
        splats = self._splats(b, places)
        for count in (SIDE_BY_SIDE, 1) if self._is_long() else (1,):
            size = count * self.lanes
            whole = (high - low) // size * size + low if self.inner % size else high
            if self.inner >= size:
                with b.loop(low, whole, size) as index:
                    self._block(b, places, splats, [index + each * self.lanes for each in range(count)], None)
            if not self.inner % size:
                return
            low = whole
        rest = high - low
        with b.when(b.compare(">", rest, 0)):
            self._block(b, places, splats, [low], b.mask(rest, self.lanes))

    def _is_long(self) -> bool:
        """A chain on whole runs whose operations wait for each other: a processor sees no other vector's meanwhile."""
        return len(self.chain.instructions) > 1 and self.inner >= SIDE_BY_SIDE * self.lanes

    def _splats(self, b: Builder, places: Sequence[Value]) -> dict[int, Value]:
        """Inputs that do not move along the inner axis, loaded once per run."""
        inputs = range(len(self.chain.inputs))
        still = [index for index in inputs if self.strides[index][-1] == 0]
        return {index: self._load_splat(b, places[index], self.scalars[index]) for index in still}

    def _load_splat(self, b: Builder, place: Value, scalar: Scalar) -> Value:
        return b.splat(b.cast(b.load(place, 0, Type(scalar)), computed(scalar)), self.lanes)

    def _block(
        self,
        b: Builder,
        places: Sequence[Value],
        splats: dict[int, Value],
        indices: Sequence[Value],
        mask: Value | None,
    ) -> None:
        """The vectors at `indices`, instruction by instruction side by side."""
        inputs = range(len(self.chain.inputs))
        vectors = [
            [splats[p] if p in splats else self._load(b, p, places[p], index, mask) for p in inputs]
            for index in indices
        ]
        for instruction in self.chain.instructions:
            for values in vectors:
                values.append(evaluate(b, instruction, values, self.lanes))
        for position, result in enumerate(self.chain.results, len(self.chain.inputs)):
            for index, values in zip(indices, vectors, strict=True):
                self._store(b, position, places[position], index, values[result], mask)

    def _load(self, b: Builder, position: int, place: Value, index: Value, mask: Value | None) -> Value:
        scalar, stride = self.scalars[position], self.strides[position][-1]
        kind = Type(scalar, self.lanes)
        read = b.load(place, index, kind, mask) if stride == 1 else b.gather(place, index * stride, stride, kind, mask)
        return b.cast(read, computed(scalar))

    def _store(self, b: Builder, position: int, place: Value, index: Value, value: Value, mask: Value | None) -> None:
        scalar, stride = self.scalars[position], self.strides[position][-1]
        stored = b.cast(value, scalar)
        if stride == 1 or (stride == 0 and self.inner == 1):
            b.store(stored, place, index, mask)
        else:
            b.scatter(stored, place, index * stride, stride, mask)
