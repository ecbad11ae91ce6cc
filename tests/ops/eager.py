"""The least that gradient rules can be tried on: operands that hold a NumPy array and remember how they were made.

    y = function([x₀, x₁, …])
    gradients([y], [g], [x₀, x₁])     # appends the gradient's own records, so it can be called on its results again

Only `nnc.ops` and the kernels of the reference backend take part; no upper layer does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.backends.reference.kernels import KERNELS
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import Shape, TensorSpec
from nnc.ops.arithmetic import ArithmeticOperand
from nnc.ops.elementwise.pointwise import add
from nnc.ops.movement.movement import EmbedAttrs, embed
from nnc.ops.operand import PlacedOperand
from nnc.ops.rules import Applied, Gradients, differentiate, infer

# `Any`: elements of any type, as in the kernels.
Array = NDArray[Any]
Function = Callable[[Sequence["Eager"]], "Eager"]

STEP = 1e-5
DIRECTIONS = 2


class Eager(PlacedOperand, ArithmeticOperand):
    """An array, its place in the memory of `root`, and the record that made it (None for leaves)."""

    __slots__ = ("array", "record", "root")

    def __init__(self, array: Array, record: Record | None = None, spec: TensorSpec | None = None) -> None:
        super().__init__(spec or TensorSpec(array.shape, dtype_of(array.dtype)))
        self.array = array
        self.record = record
        self.root = self

    def apply(self, command: AnyCommand, inputs: Sequence[Eager | None]) -> tuple[Eager, ...]:
        specs = infer(command.op, command.attrs, tuple(None if x is None else x.spec for x in inputs))
        outputs = tuple(Eager(np.empty(spec.shape, spec.dtype.numpy), spec=spec) for spec in specs)
        arrays = [None if x is None else x.array for x in inputs]
        with np.errstate(all="ignore"):
            KERNELS[command.op](command.attrs, arrays, [y.array for y in outputs])
        record = Record(command, tuple(inputs), outputs)
        for y in outputs:
            y.record = record
        return outputs

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Eager:
        root = self.root
        byte_strides = tuple(stride * spec.dtype.itemsize for stride in strides)
        flat = root.array.reshape(-1)[offset:]
        view = Eager(np.lib.stride_tricks.as_strided(flat, spec.shape, byte_strides))
        view.root, view._offset, view._strides = root, offset, strides
        view.record = Record(None, (root,), (view,))
        return view


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A command that was applied, or a view that was taken (no command)."""

    command: AnyCommand | None
    inputs: tuple[Eager | None, ...]
    outputs: tuple[Eager, ...]

    def back(self, gradients: Gradients, needed: tuple[bool, ...]) -> Gradients:
        """Gradients of the inputs from those of the outputs."""
        if self.command is not None:
            # Absent optional inputs stay None, as in every layer: no rule reads them, for they are not needed.
            applied = Applied(self.command.attrs, self.inputs, self.outputs, needed)  # type: ignore[arg-type]
            return differentiate(self.command.op, applied, gradients)
        (g,), (view,) = gradients, self.outputs
        assert g is not None
        return (embed(g, EmbedAttrs(view.root.shape, view.offset, view.strides)),)


def records_of(results: Iterable[Eager]) -> list[Record]:
    """All records that the results depend on, each after those that it reads."""
    order: dict[Record, None] = {}
    stack = [(y.record, False) for y in results]
    while stack:
        record, ready = stack.pop()
        if record is None or record in order:
            continue
        if ready:
            order[record] = None
            continue
        stack.append((record, True))
        stack.extend((x.record, False) for x in record.inputs if x is not None)
    return list(order)


def gradients(results: Sequence[Eager], seeds: Sequence[Eager], variables: Sequence[Eager]) -> list[Eager]:
    """For each variable the sum over results of seed · ∂result / ∂variable."""
    records = records_of(results)
    depends = {id(x) for x in variables}
    for record in records:
        if any(id(x) in depends for x in record.inputs):
            depends.update(map(id, record.outputs))
    found: dict[int, Eager] = {}
    for y, seed in zip(results, seeds, strict=True):
        found[id(y)] = add(found[id(y)], seed) if id(y) in found else seed
    for record in reversed(records):
        incoming = tuple(found.get(id(y)) for y in record.outputs)
        needed = tuple(id(x) in depends for x in record.inputs)
        if not any(needed) or all(g is None for g in incoming):
            continue
        for x, g, wanted in zip(record.inputs, record.back(incoming, needed), needed, strict=True):
            if x is None or g is None or not wanted:
                continue
            assert isinstance(g, Eager)
            assert g.spec == x.spec, f"{record.command}: a gradient {g.spec} of an input {x.spec}"
            found[id(x)] = add(found[id(x)], g) if id(x) in found else g
    return [found.get(id(x)) or Eager(np.zeros_like(x.array)) for x in variables]


def dot(left: Sequence[Array], right: Sequence[Array]) -> float:
    """sum of products over all arrays."""
    return sum(float(np.sum(a * b)) for a, b in zip(left, right, strict=True))


def check_derivative(
    value: Callable[[Sequence[Array]], float],
    slope: Sequence[Array],
    point: Sequence[Array],
    generator: np.random.Generator,
) -> None:
    """(value(x + h d) - value(x - h d)) / 2h = slope · d within 1e-6 of the scale, for some directions d."""
    for _ in range(DIRECTIONS):
        direction = [generator.standard_normal(x.shape) for x in point]
        ends = [value([x + side * STEP * d for x, d in zip(point, direction, strict=True)]) for side in (1, -1)]
        got, want = dot(slope, direction), (ends[0] - ends[1]) / (2 * STEP)
        scale = max(1.0, abs(ends[0]), dot([abs(s) for s in slope], [abs(d) for d in direction]))
        assert abs(got - want) <= 1e-6 * scale, f"gradient {got}, differences {want}"


def check_gradients(function: Callable[[Sequence[Eager]], Sequence[Eager]], point: Sequence[Array]) -> list[Record]:
    """Check the gradient of function's results and the gradient of that gradient; return all records made."""
    generator = np.random.default_rng(7)
    weights = [generator.standard_normal(y.shape) for y in function([Eager(x) for x in point])]
    second_weights = [generator.standard_normal(x.shape) for x in point]

    def first(arrays: Sequence[Array]) -> tuple[list[Eager], list[Eager]]:
        variables = [Eager(x) for x in arrays]
        results = function(variables)
        seeds = [Eager(weight, spec=y.spec) for weight, y in zip(weights, results, strict=True)]
        return variables, gradients(results, seeds, variables)

    def value(arrays: Sequence[Array]) -> float:
        return dot([y.array for y in function([Eager(x) for x in arrays])], weights)

    variables, slopes = first(point)
    check_derivative(value, [g.array for g in slopes], point, generator)
    curvatures = gradients(slopes, [Eager(weight) for weight in second_weights], variables)

    def second(arrays: Sequence[Array]) -> float:
        return dot([g.array for g in first(arrays)[1]], second_weights)

    check_derivative(second, [g.array for g in curvatures], point, generator)
    return records_of([*slopes, *curvatures])
