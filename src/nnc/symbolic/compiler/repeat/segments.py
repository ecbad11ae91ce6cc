"""Sequences in segments: a recurrent operator and its gradient become chains of shorter ones, for the same bits.

    y[t] = cell(x[t], y[t - 1]), t < T, in one exec   →   segments [a, b) of it, each with tensors of its own;
    what a segment begins with is what the one in front of it ends with, and backwards the same from the end

What goes by step around them is cut along (`step_axes.py`). Sums over steps stand in the graph part by part
(`passes/numbers/step_sums.py`), and segments end where parts do. So they cost no work, and as execs of their own they
run again like any other: √T and binomial schedules are points of the search, as for loops (`checkpoints.py`). What is
read across segments stays in one piece, of which each segment writes a part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise
from math import prod
from operator import itemgetter
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin, inherited_origin
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import Shape, TensorSpec, contiguous_strides
from nnc.ops.elementwise.pointwise import add
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.movement.movement import CONCATENATE, EMBED, ConcatenateAttrs, EmbedAttrs
from nnc.ops.rules import NoAttrs, infer
from nnc.symbolic.compiler.repeat.sequences import CELLS, is_ascending, is_recurrent, parts_of, recurrent_gradients
from nnc.symbolic.compiler.repeat.step_axes import Axes, StepAxes, joins_steps, of_steps
from nnc.symbolic.ir import Duplicate, SymbolicGraph
from nnc.symbolic.records import Dependency, ExecKey, ExecSymbol, TensorKey

# Sequences are tried in this many segments, as far as they have steps enough.
SEGMENTS = (4, 8, 16)
# Forwards or backwards, the segment in the order of the computation, and the place in it.
_Rank: TypeAlias = tuple[int, int, int]


def segmented(graph: SymbolicGraph, wanted: Collection[TensorKey]) -> Iterator[Duplicate]:
    """Copies of the graph with its longest sequences in ever more segments; `wanted` roots are read by the caller."""
    shapes = [graph.tensors[record.outputs[0]].spec.shape for record in recurrent_gradients(graph)]
    if not shapes:
        return
    steps, batch, _ = max(shapes)
    parts = parts_of(steps, batch)
    axes = StepAxes(graph, steps, parts)
    done = {1}
    for count in SEGMENTS:
        each = -(-(len(parts) - 1) // count)
        places = [*parts[:-1:each], steps]
        if len(places) - 1 not in done and (axes.cut or axes.find()):
            done.add(len(places) - 1)
            yield in_segments(axes, wanted, places)


def in_segments(axes: StepAxes, wanted: Collection[TensorKey], places: Sequence[int]) -> Duplicate:
    """A copy of the graph in which what is by step is cut at these places."""
    return _Cutter(axes, wanted, places).duplicate()


@dataclass(slots=True, eq=False)
class _Carried:
    """What recurrent execs of one direction hand from segment to segment: all states in one tensor, by their offsets.

    `ends` are the states with which a segment ends. The next one begins with a copy of its own of these, `begins`: so
    what its gradient reads is of the segment alone, and all that must be kept in front of a segment is one tensor.
    """

    spec: TensorSpec
    ascending: bool
    slots: dict[tuple[ExecKey, int], int] = field(default_factory=dict)
    ends: dict[int, dict[int, TensorKey]] = field(default_factory=dict)
    begins: dict[int, TensorKey] = field(default_factory=dict)

    def behind(self, number: int) -> int:
        """The segment that is computed behind one."""
        return number + 1 if self.ascending else number - 1


class _Cutter:
    """Copies a graph exec by exec; `pieces` are the segments of each root that is cut, by number.

    Execs are appended segment by segment, those of the gradient from the other end: an order in which few are alive.
    """

    def __init__(self, axes: StepAxes, wanted: Collection[TensorKey], places: Sequence[int]) -> None:
        self.of = axes
        self.graph = axes.graph
        self.segments = [*pairwise(places)]
        self.copy = SymbolicGraph(self.graph.name)
        self.tensors: dict[TensorKey, TensorKey] = {}
        self.pieces: dict[TensorKey, dict[int, TensorKey]] = {}
        # Where the states are with which segments end, by sequence and step.
        self.ends: dict[tuple[TensorKey, int], TensorKey] = {}
        self.whole = {root for root in axes.axes if root in wanted or self._is_read_across(root)}
        self.recurrent = {
            key: CELLS[self.graph.execs[key].command.op] for key in axes.cut if is_recurrent(self.graph.execs[key])
        }
        forward = [key for key, cell in self.recurrent.items() if not cell.backward]
        self.forward = self.graph.execs.reachable(forward, reverse=True)
        self.carried = self._carried_by(forward)
        # The place of each exec in the order, the exec, and which one of the graph it is.
        self.appended: list[tuple[_Rank, ExecSymbol, ExecKey | None]] = []
        self.ranks: dict[TensorKey, _Rank] = {}

    def duplicate(self) -> Duplicate:
        """The copy, with all that is not cut."""
        graph, execs = self.graph, dict[ExecKey, ExecKey]()
        for key in graph.execs.toposort():
            record = graph.execs[key]
            with inherited_origin(record.origin):
                if key not in self.of.cut:
                    self._keep(key, record)
                elif key not in self.recurrent:
                    self._cut(key, record)
                elif self.recurrent[key].backward:
                    self._cut_backward(key, record)
                else:
                    self._cut_forward(key, record)
        for states in dict.fromkeys(self.carried.values()):
            self._hand_on(states)
        for _, record, own in sorted(self.appended, key=itemgetter(0)):
            made = self.copy.add_exec(record)
            if own is not None:
                execs[own] = made
        for key in execs:
            for edge in graph.given_order(key):
                self.copy.execs.add_edge(execs[graph.execs.edge(edge).source], execs[key], Dependency())
        rest = (key for key in graph.tensors if graph.root(key) not in self.pieces)
        self.copy.graft(graph, (), rest, self.tensors)
        return Duplicate(self.copy, self.tensors, execs)

    def _keep(self, key: ExecKey, record: ExecSymbol) -> None:
        """Append an exec that is not cut: behind the segments that it reads."""
        self._find_windows(record)
        inputs = tuple([None if operand is None else self._moved(operand) for operand in record.inputs])
        outputs = tuple(map(self._moved, record.outputs))
        before = [self.ranks[root] for root in self.copy.roots(inputs) if root in self.ranks]
        rank = max([(0, 0, 0) if key in self.forward else (1, -1, 0), *before])
        self._append(replace(record, inputs=inputs, outputs=outputs), rank, key)

    def _append(self, record: ExecSymbol, rank: _Rank, own: ExecKey | None = None) -> None:
        self.appended.append((rank, record, own))
        self.ranks.update((root, rank) for root in self.copy.roots(record.outputs))

    def _apply(self, command: AnyCommand, inputs: Sequence[TensorKey], rank: _Rank) -> TensorKey:
        """The one output of a command that the graph does not have."""
        (spec,) = infer(command.op, command.attrs, self.copy.specs(inputs))
        key = self.copy.input(spec).key
        self._append(ExecSymbol(command, tuple(inputs), (key,), command.op.name, caller_origin()), rank)
        return key

    # ---- what stays in one piece

    def _is_read_across(self, root: TensorKey) -> bool:
        """Whether an exec reads a root neither by step nor within a segment."""
        graph = self.graph
        for reader in graph.readers(root):
            record = graph.execs[reader]
            axes = self.of.cut.get(reader, (None,) * len(record.inputs))
            for operand, axis in zip(record.inputs, axes, strict=True):
                if operand is None or graph.root(operand) != root:
                    continue
                joined = axis is not None and joins_steps(record, axis) and self.of.follows(operand)
                by_step = axis is not None and self.of.root_axis(operand, axis) == self.of.axes[root]
                if not joined and not by_step and self._segment_of(operand) is None:
                    return True
        return False

    def _segment_of(self, key: TensorKey) -> int | None:
        """The segment that a tensor lies in as a whole."""
        root = self.graph.root(key)
        if self.of.axes[root]:
            return None
        step, (first, last) = prod(self.graph.tensors[root].spec.shape[1:]), self.graph.region(key).bounds()
        inside = (start * step <= first and last <= stop * step for start, stop in self.segments)
        return next((number for number, holds in enumerate(inside) if holds), None)

    def _find_windows(self, record: ExecSymbol) -> None:
        """Note where operands of an exec that stays lie in segments."""
        graph = self.graph
        for key in record.inputs:
            root = None if key is None else graph.root(key)
            if key is None or root not in self.pieces or key in self.tensors:
                continue
            number, region = self._segment_of(key), graph.region(key)
            assert number is not None
            offset = region.offset - self.segments[number][0] * prod(graph.tensors[root].spec.shape[1:])
            held = self.pieces[root][number]
            self.tensors[key] = self.copy.alias(held, graph.tensors[key].spec, offset, region.strides).key

    # ---- parts of tensors

    def _moved(self, key: TensorKey) -> TensorKey:
        """The tensor of the copy for one that is not cut."""
        self.copy.graft(self.graph, (), (key,), self.tensors)
        return self.tensors[key]

    def _piece(self, key: TensorKey, axis: int, number: int) -> TensorKey:
        """The steps of a segment of a tensor."""
        graph, region, root = self.graph, self.graph.region(key), self.graph.root(key)
        start, stop = self.segments[number]
        part = of_steps(graph.tensors[key].spec, axis, stop - start)
        step = region.strides[axis]
        if root not in self.pieces:
            return self.copy.alias(self._moved(root), part, region.offset + start * step, region.strides).key
        held = self.pieces[root][number]
        if key == root:
            return held
        # What lies apart by all steps now lies apart by those of the segment.
        every, mine = self.of.steps * step, (stop - start) * step
        offset = region.offset // every * mine + region.offset % every
        strides = tuple([by // every * mine if by and by % every == 0 else by for by in region.strides])
        return self.copy.alias(held, part, offset, strides).key

    def _steps_of(self, key: TensorKey, first: int, count: int) -> TensorKey:
        """Steps [first, first + count) of a tensor of the copy whose first axis they are."""
        spec, region = self.copy.tensors[key].spec, self.copy.region(key)
        part = of_steps(spec, 0, count)
        return self.copy.alias(key, part, region.offset + first * region.strides[0], region.strides).key

    def _step_of(self, key: TensorKey, index: int) -> TensorKey:
        """One step of it, without that axis."""
        spec, region = self.copy.tensors[key].spec, self.copy.region(key)
        part = replace(spec, shape=spec.shape[1:])
        return self.copy.alias(key, part, region.offset + index * region.strides[0], region.strides[1:]).key

    def _made(self, output: TensorKey, number: int) -> TensorKey:
        """The tensor that a segment of an exec writes: one of its own, or a part of the whole."""
        graph, axis = self.graph, self.of.axes.get(output)
        if axis is None:
            return self.copy.add_tensor(graph.tensors[output])
        spec = graph.tensors[output].spec
        start, stop = self.segments[number]
        part = of_steps(spec, axis, stop - start)
        if output in self.whole:
            strides = contiguous_strides(spec.shape)
            return self.copy.alias(self._moved(output), part, start * strides[axis], strides).key
        key = self.copy.add_tensor(replace(graph.tensors[output], spec=part))
        self.pieces.setdefault(output, {})[number] = key
        return key

    def _write(
        self, key: ExecKey, command: AnyCommand, inputs: Sequence[TensorKey | None], number: int, *, ascending: bool
    ) -> list[TensorKey]:
        """Append a segment of an exec: what it writes."""
        record = self.graph.execs[key]
        outputs = [self._made(output, number) for output in record.outputs]
        rank = self._rank(number, 1, ascending=ascending, forward=key in self.forward)
        self._append(replace(record, command=command, inputs=tuple(inputs), outputs=tuple(outputs)), rank)
        return outputs

    def _rank(self, number: int, place: int, *, ascending: bool, forward: bool) -> _Rank:
        return (0 if forward else 1, number if ascending else len(self.segments) - 1 - number, place)

    # ---- execs by step

    def _cut(self, key: ExecKey, record: ExecSymbol) -> None:
        place, axes = self.of.axes[record.outputs[0]], self.of.cut[key]
        ascending = (key in self.forward) == self.ascends
        for number in range(len(self.segments)):
            command = self._command(record, place, number)
            inputs: list[TensorKey | None] = []
            if joins_steps(record, place):
                inputs = [*self._joined(record, number)]
            elif command.op is not FILL:
                inputs = self._operands(record, axes, number)
            self._write(key, command, inputs, number, ascending=ascending)

    @property
    def ascends(self) -> bool:
        """Whether the first recurrent exec begins with the first step."""
        return next((states.ascending for states in self.carried.values()), True)

    def _operands(self, record: ExecSymbol, axes: Axes, number: int) -> list[TensorKey | None]:
        return [
            None if operand is None else self._moved(operand) if axis is None else self._piece(operand, axis, number)
            for operand, axis in zip(record.inputs, axes, strict=True)
        ]

    def _command(self, record: ExecSymbol, place: int, number: int) -> AnyCommand:
        """The command for a segment, of its shape; where nothing is embedded, zeros are filled in."""
        attrs, spec = record.command.attrs, self.graph.tensors[record.outputs[0]].spec
        start, stop = self.segments[number]
        part = of_steps(spec, place, stop - start)
        if isinstance(attrs, FillAttrs):
            return Command(FILL, FillAttrs(attrs.value, part))
        if not isinstance(attrs, EmbedAttrs):
            return record.command
        step = prod(spec.shape[1:])
        if not start * step <= attrs.offset < stop * step:
            return Command(FILL, FillAttrs(0.0, part))
        return Command(EMBED, EmbedAttrs(part.shape, attrs.offset - start * step, attrs.strides))

    def _joined(self, record: ExecSymbol, number: int) -> list[TensorKey]:
        """The operands of a concatenation along the steps that lie in a segment."""
        graph, parts, begin = self.graph, list[TensorKey](), 0
        start, stop = self.segments[number]
        axis = record.command.attrs.axis
        for key in record.inputs:
            assert key is not None
            size = graph.tensors[key].spec.shape[axis]
            low, high = max(start - begin, 0), min(stop - begin, size)
            if low < high:
                parts += self._windows(key, axis, low, high)
            begin += size
        return parts

    def _windows(self, key: TensorKey, axis: int, low: int, high: int) -> Iterator[TensorKey]:
        """Steps [low, high) of an operand, by the segments that they lie in."""
        graph, region, root = self.graph, self.graph.region(key), self.graph.root(key)
        spec, step = graph.tensors[key].spec, region.strides[axis]
        if root not in self.pieces:
            part = of_steps(spec, axis, high - low)
            yield self.copy.alias(self._moved(root), part, region.offset + low * step, region.strides).key
            return
        first, within = divmod(region.offset, step)
        for number, (start, stop) in enumerate(self.segments):
            begin, end = max(first + low, start), min(first + high, stop)
            if end - begin == 1 and (root, begin) in self.ends:
                yield self._as_step(self.ends[root, begin])
            elif begin < end:
                part = of_steps(spec, 0, end - begin)
                offset = (begin - start) * step + within
                yield self.copy.alias(self.pieces[root][number], part, offset, region.strides).key

    # ---- recurrent execs

    def _carried_by(self, forward: Sequence[ExecKey]) -> dict[ExecKey, _Carried]:
        """For each recurrent exec where its states are, among those of all of its direction and type."""
        groups: dict[tuple[bool, str, str], _Carried] = {}
        carried: dict[ExecKey, _Carried] = {}
        for key in forward:
            record, cell = self.graph.execs[key], self.recurrent[key]
            spec = self.graph.tensors[record.outputs[0]].spec
            kind = (is_ascending(record), str(spec.dtype), str(spec.device))
            states = carried[key] = groups.setdefault(kind, _Carried(replace(spec, shape=(0,)), kind[0]))
            for _, place in cell.carried:
                begin = states.spec.shape[0]
                states.slots[key, place] = begin
                states.spec = replace(states.spec, shape=(begin + prod(spec.shape[1:]),))
        for states in groups.values():
            numbers = range(1, len(self.segments)) if states.ascending else range(len(self.segments) - 1)
            states.begins = {number: self.copy.input(states.spec).key for number in numbers}
        return carried

    def _begin(self, key: ExecKey, place: int, number: int) -> TensorKey:
        """A state with which a segment begins, where it is not the first that is computed."""
        states = self.carried[key]
        spec = self.graph.tensors[self.graph.execs[key].inputs[place] or self.graph.execs[key].outputs[0]].spec
        return self.copy.alias(
            states.begins[number], spec, states.slots[key, place], contiguous_strides(spec.shape)
        ).key

    def _cut_forward(self, key: ExecKey, record: ExecSymbol) -> None:
        """Each segment begins with the states of the last step of the one in front."""
        states, cell = self.carried[key], self.recurrent[key]
        for number, (start, stop) in enumerate(self.segments):
            inputs = self._operands(record, self.of.cut[key], number)
            for _, place in cell.carried if number in states.begins else ():
                inputs[place] = self._begin(key, place, number)
            made = self._write(key, record.command, inputs, number, ascending=states.ascending)
            behind = states.behind(number)
            for output, place in cell.carried if behind in states.begins else ():
                index = stop - start - 1 if states.ascending else 0
                end = self._flat(self._step_of(made[output], index))
                states.ends.setdefault(number, {})[states.slots[key, place]] = end
                self.ends[record.outputs[output], start + index] = self._begin(key, place, behind)

    def _hand_on(self, states: _Carried) -> None:
        """Put together what segments end with, and copy it for the next ones."""
        join, copy = Command(CONCATENATE, ConcatenateAttrs(0)), Command(contiguous, NoAttrs())
        for number, ends in states.ends.items():
            rank = self._rank(number, 2, ascending=states.ascending, forward=True)
            parts = [ends[offset] for offset in sorted(ends)]
            joined = self._apply(join, parts, rank)
            behind = states.behind(number)
            rank = self._rank(behind, 0, ascending=states.ascending, forward=True)
            record = ExecSymbol(copy, (joined,), (states.begins[behind],), copy.op.name, caller_origin())
            self._append(record, rank)

    def _cut_backward(self, key: ExecKey, record: ExecSymbol) -> None:
        """The gradient of the states that a segment ends with is added to that of its last step."""
        ascending, cell = is_ascending(record), self.recurrent[key]
        numbers = range(len(self.segments))
        made: list[TensorKey] = []
        for number in numbers if ascending else reversed(numbers):
            inputs = self._operands(record, self.of.cut[key], number)
            rank = self._rank(number, 0, ascending=ascending, forward=False)
            for output, place in cell.carried if made else ():
                inputs[place] = self._with_added(inputs[place], made[output], rank, first=ascending)
            other = number + 1 if ascending else number - 1
            for place, sequence in cell.before if 0 <= other < len(self.segments) else ():
                inputs[place] = self._state_of(record.inputs[sequence], other, first=ascending)
            made = self._write(key, record.command, inputs, number, ascending=ascending)
        for output, result in zip(record.outputs, made, strict=True):
            if output not in self.of.axes:
                self.tensors[output] = result

    def _state_of(self, key: TensorKey | None, number: int, *, first: bool) -> TensorKey:
        """The first or the last state of a segment of a sequence."""
        assert key is not None
        start, stop = self.segments[number]
        moment = start if first else stop - 1
        known = self.ends.get((key, moment))
        return self._step_of(self._piece(key, 0, number), moment - start) if known is None else known

    def _as_step(self, key: TensorKey) -> TensorKey:
        """A state as a sequence of one step."""
        spec = self.copy.tensors[key].spec
        return self._as_shape(key, (1, *spec.shape))

    def _flat(self, key: TensorKey) -> TensorKey:
        return self._as_shape(key, (self.copy.tensors[key].spec.elements,))

    def _as_shape(self, key: TensorKey, shape: Shape) -> TensorKey:
        """A tensor whose elements follow each other, in another shape."""
        spec = replace(self.copy.tensors[key].spec, shape=shape)
        return self.copy.alias(key, spec, self.copy.region(key).offset, contiguous_strides(shape)).key

    def _with_added(self, key: TensorKey | None, state: TensorKey, rank: _Rank, *, first: bool) -> TensorKey:
        """A sequence with something added to its first or to its last step."""
        assert key is not None
        count = self.copy.tensors[key].spec.shape[0]
        edge = self._step_of(key, 0 if first else count - 1)
        total = self._as_step(self._apply(Command(add, NoAttrs()), [edge, state], rank))
        if count == 1:
            return total
        rest = self._steps_of(key, 1 if first else 0, count - 1)
        join = Command(CONCATENATE, ConcatenateAttrs(0))
        return self._apply(join, [total, rest] if first else [rest, total], rank)
