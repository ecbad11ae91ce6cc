"""What of a graph goes by step: recurrent execs over T steps, and the execs around them that treat each step alike.

An exec is by step along an axis of its result when a part of the steps of its operands makes that part of the result.
The steps of an operand lie along an axis of its root; the root is then cut along that axis (`segments.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise
from math import prod
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.core.values.spec import Blocked, TensorSpec, contiguous_strides
from nnc.errors import UsageError
from nnc.ops.composed.fused import FUSED_OUTPUT, FUSED_POINTWISE, FusedAttrs, is_fusable
from nnc.ops.indexing.indexing import INDEX_SELECT
from nnc.ops.movement.fill import FILL
from nnc.ops.movement.movement import CONCATENATE, EMBED, TRANSPOSE
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import infer
from nnc.symbolic.compiler.repeat.sequences import CELLS, is_recurrent
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# Per operand the axis of its steps; None for one that is the same for all.
Axes: TypeAlias = tuple[int | None, ...]
Specs: TypeAlias = Sequence[TensorSpec | None]
# Products of fewer rows are those of vectors, whose sums have another order.
FEW_ROWS = 8


@dataclass(slots=True)
class StepAxes:
    """What goes by step of all recurrent execs over `steps` steps, which are cut at some of the `places`.

    `cut` are the execs with the axes of their operands, `axes` those of the roots that they write.
    """

    graph: SymbolicGraph
    steps: int
    places: Sequence[int]
    cut: dict[ExecKey, Axes] = field(default_factory=dict)
    axes: dict[TensorKey, int] = field(default_factory=dict)

    def find(self) -> bool:
        """Whether there is anything to cut."""
        graph, waiting = self.graph, deque[ExecKey]()
        order = graph.execs.toposort()
        for key in order:
            record = graph.execs[key]
            if is_recurrent(record) and self._may_cut(record):
                sequences = CELLS[record.command.op].sequences
                self._accept(key, 0, tuple([0 if place in sequences else None for place in range(len(record.inputs))]))
                waiting.append(key)
        while waiting:
            waiting.extend(self._in_front(waiting.popleft()))
        for key in order:
            self._follow(key)
        return bool(self.cut)

    def _may_cut(self, record: ExecSymbol) -> bool:
        spec = self.graph.tensors[record.outputs[0]].spec
        # Carries of 16 bits would be rounded where segments meet.
        return spec.dtype.itemsize >= 4 and spec.shape[0] == self.steps and self._is_free(record)

    def _is_free(self, record: ExecSymbol) -> bool:
        """Whether an exec may be changed, and its outputs are tensors of their own."""
        graph = self.graph
        own = (graph.root(key) == key and len(graph.writers(key)) == 1 for key in record.outputs)
        return (
            record.optimize
            and all(own)
            and not any(isinstance(graph.tensors[key].spec.layout, Blocked) for key in record.outputs)
        )

    def _accept(self, key: ExecKey, place: int, axes: Axes) -> None:
        self.cut[key] = axes
        record = self.graph.execs[key]
        for output in record.outputs:
            # What a recurrent exec ends with has no steps.
            if not is_recurrent(record) or self.graph.tensors[output].spec.rank == 3:
                self.axes[output] = place

    def _in_front(self, key: ExecKey) -> Iterator[ExecKey]:
        """The execs that make what a cut one reads by step, where they can be cut."""
        graph = self.graph
        for operand, axis in zip(graph.execs[key].inputs, self.cut[key], strict=True):
            place = None if operand is None or axis is None else self.root_axis(operand, axis)
            if operand is None or place is None:
                continue
            for writer in graph.writers(graph.root(operand)):
                axes = None if writer in self.cut else self._operand_axes(graph.execs[writer], place)
                if axes is not None:
                    self._accept(writer, place, axes)
                    yield writer

    def _follow(self, key: ExecKey) -> None:
        """Cut an exec that reads by step what is cut."""
        graph, record = self.graph, self.graph.execs[key]
        if key in self.cut or len(record.outputs) != 1 or self.axes.keys().isdisjoint(graph.roots(record.inputs)):
            return
        shape = graph.tensors[record.outputs[0]].spec.shape
        for place in (axis for axis, size in enumerate(shape) if size == self.steps):
            axes = self._operand_axes(record, place)
            joined = joins_steps(record, place) and all(map(self.follows, record.inputs))
            if axes is not None and (joined or all(map(self._agrees, record.inputs, axes))):
                self._accept(key, place, axes)
                return

    def _agrees(self, operand: TensorKey | None, axis: int | None) -> bool:
        """Whether an operand that is cut has its steps along that axis."""
        root = None if operand is None else self.graph.root(operand)
        if operand is None or root not in self.axes:
            return True
        return axis is not None and self.root_axis(operand, axis) == self.axes[root]

    def follows(self, key: TensorKey | None) -> bool:
        """Whether a tensor is some steps, one behind the other, of a root whose first axis they are, or of no such."""
        root = None if key is None else self.graph.root(key)
        if key is None or root not in self.axes:
            return True
        region, shape = self.graph.region(key), self.graph.tensors[root].spec.shape
        step = contiguous_strides(shape)[0]
        return self.axes[root] == 0 and region.strides == contiguous_strides(region.shape) and region.strides[0] == step

    def root_axis(self, key: TensorKey, axis: int) -> int | None:
        """The axis of the root along which all steps of a tensor lie; None where they lie otherwise."""
        graph, region = self.graph, self.graph.region(key)
        shape = graph.tensors[graph.root(key)].spec.shape
        step, size = region.strides[axis], region.shape[axis]
        both = zip(shape, contiguous_strides(shape), strict=True)
        place = next((number for number, pair in enumerate(both) if pair == (self.steps, step)), None)
        if place is None or size != self.steps or step <= 0:
            return None
        rest = [pair for other, pair in enumerate(zip(region.shape, region.strides, strict=True)) if other != axis]
        near = [(count - 1) * by for count, by in rest if by < step]
        apart = all(count == 1 or 0 <= by < step or by % (size * step) == 0 for count, by in rest)
        return place if apart and region.offset % (size * step) + sum(near) < step else None

    # ---- what each operator reads by step

    def _operand_axes(self, record: ExecSymbol, place: int) -> Axes | None:
        """The axes of the operands where the one output has its steps along the axis `place`; None if it has not."""
        if not self._is_free(record) or len(record.outputs) != 1:
            return None
        specs, result = self.graph.specs(record.inputs), self.graph.tensors[record.outputs[0]].spec
        if result.rank <= place or result.shape[place] != self.steps:
            return None
        axes = self._guessed(record, specs, result, place)
        return axes if axes is not None and self._fits(record, axes, place) else None

    def _guessed(self, record: ExecSymbol, specs: Specs, result: TensorSpec, place: int) -> Axes | None:
        command = record.command
        if command.op is FILL:
            return ()
        if command.op is TRANSPOSE:
            return (command.attrs.permutation[place],)
        if command.op is CONCATENATE:
            return (place,) * len(specs)
        if command.op is EMBED:
            return (None,) if place == 0 and self._is_within_part(record) else None
        if command.op is INDEX_SELECT:
            index = specs[1]
            return (None, place) if command.attrs.axis == 0 and index is not None and place < index.rank else None
        if command.op is GEMM:
            return _product_axes(command.attrs, specs, result, place)
        if command.op is FUSED_OUTPUT:
            return _fused_axes(command.attrs, specs, result, place)
        pointwise = command.op is FUSED_POINTWISE or is_fusable(command.op)
        return _pointwise_axes(specs, result, place) if pointwise and specs else None

    def _fits(self, record: ExecSymbol, axes: Axes, place: int) -> bool:
        """Whether operands of one step make a result of one step."""
        command = record.command
        if command.op in (FILL, EMBED) or joins_steps(record, place):
            return True
        specs = zip(self.graph.specs(record.inputs), axes, strict=True)
        parts = [spec if spec is None or axis is None else of_steps(spec, axis, 1) for spec, axis in specs]
        try:
            made = infer(command.op, command.attrs, tuple(parts))
        except UsageError:
            return False
        return made == (of_steps(self.graph.tensors[record.outputs[0]].spec, place, 1),)

    def _is_within_part(self, record: ExecSymbol) -> bool:
        """Whether what is embedded lies within one part."""
        attrs, (spec,) = record.command.attrs, self.graph.specs(record.inputs)
        assert spec is not None
        step = prod(attrs.shape[1:])
        last = attrs.offset + sum((size - 1) * by for size, by in zip(spec.shape, attrs.strides, strict=True))
        return any(start * step <= attrs.offset and last < stop * step for start, stop in pairwise(self.places))


def joins_steps(record: ExecSymbol, place: int) -> bool:
    """Whether operands lie one behind the other along the steps."""
    return record.command.op is CONCATENATE and record.command.attrs.axis == place


def of_steps(spec: TensorSpec, axis: int, steps: int) -> TensorSpec:
    """The spec of so many steps along an axis."""
    return replace(spec, shape=(*spec.shape[:axis], steps, *spec.shape[axis + 1 :]))


def _product_axes(attrs: GemmAttrs, specs: Specs, result: TensorSpec, place: int) -> Axes | None:
    """Rows of a by those of the result, where all share b."""
    a, b, *_ = specs
    assert a is not None
    assert b is not None
    rows = prod(result.shape[:-1]) // result.shape[place]
    if attrs.transpose_a or b.rank != 2 or a.rank != result.rank or place > a.rank - 2 or rows < FEW_ROWS:
        return None
    return (place, *[None] * (len(specs) - 1))


def _fused_axes(attrs: FusedAttrs, specs: Specs, result: TensorSpec, place: int) -> Axes | None:
    """Those of the product, and of what is worked into its result."""
    head, operands = attrs.steps[0].command, attrs.steps[0].operands
    if head.op is not GEMM or len(set(operands)) < len(operands):
        return None
    product = _product_axes(head.attrs, [specs[operand] for operand in operands], result, place)
    rest = [number for number in range(len(specs)) if number not in operands]
    others = _pointwise_axes([specs[number] for number in rest], result, place)
    if product is None or others is None or any(set(operands) & set(step.operands) for step in attrs.steps[1:]):
        return None
    known = dict(zip((*operands, *rest), (*product, *others), strict=True))
    return tuple([known[number] for number in range(len(specs))])


def _pointwise_axes(specs: Specs, result: TensorSpec, place: int) -> Axes | None:
    """Axes count from the last one; a size of 1 is spread."""
    axes: list[int | None] = []
    for spec in specs:
        axis = -1 if spec is None else place - result.rank + spec.rank
        if spec is None or axis < 0 or spec.shape[axis] == 1:
            axes.append(None)
        elif spec.shape[axis] == result.shape[place]:
            axes.append(axis)
        else:
            return None
    return tuple(axes)
