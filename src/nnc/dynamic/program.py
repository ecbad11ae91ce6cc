"""Gradient programs: a part of the record, differentiated and compiled once, run again whenever it comes again.

Places of a computation are numbered by first appearance. Two computations with the same commands on the same numbers
have the same signature, so the steps of a training loop share one program. What is older than the inputs does not
depend on them, and is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from operator import attrgetter
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.dynamic.calls import CALL
from nnc.dynamic.execution.prepared import PreparedCommand
from nnc.dynamic.record import (
    Place,
    RecordedAssembly,
    RecordedNode,
    RecordedOutput,
    RecordedView,
    appended,
    node_of,
    outputs_of,
    root_of,
    symbol_of,
)  # fmt: skip
from nnc.errors import UsageError
from nnc.symbolic.compiler import Arena, MovingProgram, compile
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes import Pass, is_on_host, simplify
from nnc.symbolic.records import AliasOf, ExecKey, ExecSymbol, TensorKey

# Canonical form of a recorded computation: what its nodes run on numbered places, and what is asked for.
Signature = tuple[object, ...]
# Where a view lies: the number of its root, its spec, offset and strides.
Part: TypeAlias = tuple[int, TensorSpec, int, Shape]
ABSENT = -1


class Computation:
    """The nodes that lead from what is at least as old as `inputs` to `outputs`, in order, and their places by number.

    A row is a node, the numbers of what it reads, and the number of its first output.
    """

    def __init__(self, outputs: Sequence[Place], inputs: Sequence[Place]) -> None:
        self.rows: list[tuple[RecordedNode, list[int], int]] = []
        self.places: list[Place] = []
        self.parts: dict[int, Part] = {}
        self._numbers: dict[object, int] = {None: ABSENT}
        # What its nodes run on which numbers, views where they appear first, and what is asked for.
        signature: list[object] = []
        places, numbers = self.places, self._numbers
        for node in _nodes_between(outputs, min((node_of(place).number for place in inputs), default=0)):
            read = []
            for place in node.inputs:
                number = numbers.get(place)
                read.append(self._number(place, signature) if number is None else number)  # type: ignore[arg-type]  # None has a number
            first = len(places)
            self.rows.append((node, read, first))
            signature.append(node.source)
            signature += read
            if len(node.outputs) == 1:
                numbers[node] = first
                places.append(node)
            else:
                for index, output in enumerate(outputs_of(node)):
                    numbers[node, index] = first + index
                    places.append(output)
            if type(node.source) is not PreparedCommand and not node.is_known:
                signature.append(tuple([type(output) is TensorSpec for output in node.outputs]))
        self.outputs = [self._asked(place, signature) for place in outputs]
        self.inputs = [self._asked(place, signature) for place in inputs]
        self.signature: Signature = (*signature, tuple(self.outputs), tuple(self.inputs))

    def _number(self, place: Place, signature: list[object]) -> int:
        """The number of a place that has none under its own name."""
        numbers = self._numbers
        if isinstance(place, RecordedOutput):
            same = numbers.get((place.node, place.index))
            if same is not None:
                numbers[place] = same
                return same
        elif isinstance(place, RecordedView):
            part = (self._asked(place.root, signature), place.spec, place.offset, place.strides)
            self.parts[len(self.places)] = part
            signature.append(part)
        number = numbers[place] = len(self.places)
        self.places.append(place)
        return number

    def _asked(self, place: Place, signature: list[object]) -> int:
        """The number of a place that may be none of any node's inputs: then its spec belongs to the signature."""
        number = self._numbers.get(place)
        if number is None:
            before = len(self.places)
            number = self._number(place, signature)
            if number >= before:
                signature.append(place.spec)
        return number

    def memory(self, number: int) -> Tensor:
        """That of a root which is known."""
        place = self.places[number]
        memory = place.outputs[0] if type(place) is RecordedNode else root_of(place).memory
        assert isinstance(memory, Tensor)
        return memory

    def check_unwritten(self, number: int, storage: Storage) -> None:
        """UsageError where somebody wrote the memory of a root behind a node that has read it."""
        names = {number, *(view for view, part in self.parts.items() if part[0] == number)}
        first = next((node for node, read, _ in self.rows if not names.isdisjoint(read)), None)
        if (
            first is not None
            and storage.watch is not None
            and not storage.watch.is_as_read(storage.bytes, first.number)
        ):
            raise UsageError(
                "backward",
                got=f"{self.places[number].spec} in shared memory, written since {first.origin} read it",
                need="what was read there",
                fix="leave share=True out, or write when the gradient has been taken",
                origin=caller_origin(),
            )


def _nodes_between(outputs: Iterable[Place], oldest: int) -> list[RecordedNode]:
    """The nodes that lead to `outputs`, by number: those that are not older, or whose values nobody knows."""
    between: set[RecordedNode] = set()
    waiting = [node_of(place) for place in outputs]
    while waiting:
        node = waiting.pop()
        if node.source is None or node in between or (node.number < oldest and node.is_known):
            continue
        between.add(node)
        for place in node.inputs:
            if type(place) is RecordedNode:
                waiting.append(place)
            elif place is not None:
                waiting.append(node_of(place))
    return sorted(between, key=attrgetter("number"))


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A gradient: root number `root` of those that a program is given and writes, or with `part` a view of that."""

    root: int
    slot: int
    part: tuple[TensorSpec, int, Shape] | None


@dataclass(frozen=True, slots=True, eq=False)
class GradientProgram:
    """A compiled gradient, which reads the known roots with the numbers `given` and writes others.

    `execs` are the backward execs. `grafts` record them: each makes a slot for every place of its own, behind the slots
    of the places that have numbers.
    """

    compiled: MovingProgram
    given: tuple[int, ...]
    results: tuple[Result, ...]
    execs: tuple[ExecKey, ...]
    grafts: tuple[Graft, ...]

    def grafted(self, places: Sequence[Place], roots: Sequence[Tensor], numbers: count[int]) -> list[Place]:
        """All slots, with fresh nodes for the execs; `roots` are those that it was given and has written."""
        slots = [*places]
        for graft in self.grafts:
            if isinstance(graft, GraftedView):
                root = root_of(slots[graft.root])
                slots.append(RecordedView(root, graft.spec, graft.offset, graft.strides, next(numbers), graft.origin))
                continue
            inputs = tuple([None if slot == ABSENT else slots[slot] for slot in graft.inputs])
            outputs = tuple([roots[value] if isinstance(value, int) else value for value in graft.outputs])
            number = next(numbers)
            oldest = min([operand.oldest for operand in inputs if operand is not None], default=number)
            slots += outputs_of(RecordedNode(graft.source, inputs, outputs, number, oldest, graft.origin))
        return slots


@dataclass(frozen=True, slots=True, eq=False)
class GraftedExec:
    """An exec to be recorded: the slots that it reads; per output the number of a root, or the spec of no root."""

    source: ExecSymbol | RecordedAssembly
    inputs: tuple[int, ...]
    outputs: tuple[int | TensorSpec, ...]
    origin: str


@dataclass(frozen=True, slots=True, eq=False)
class GraftedView:
    """A view of the place in a slot."""

    root: int
    spec: TensorSpec
    offset: int
    strides: Shape
    origin: str


Graft: TypeAlias = GraftedExec | GraftedView


def part_of(computation: Computation) -> tuple[SymbolicGraph, list[TensorKey]]:
    """The computation in a graph of its own, and the symbols of its places."""
    graph, keys = SymbolicGraph("record"), list[TensorKey]()
    for number, place in enumerate(computation.places):
        part = computation.parts.get(number)
        alias = None if part is None else AliasOf(keys[part[0]], *part[2:])
        keys.append(graph.add_tensor(symbol_of(place, alias)))
    for node, read, first in computation.rows:
        inputs = tuple([None if number == ABSENT else keys[number] for number in read])
        appended(graph, node, inputs, tuple(keys[first : first + len(node.outputs)]))
    return graph, keys


def gradient_program(computation: Computation, backend: str, arena: Arena) -> GradientProgram:
    """Differentiate a computation; compile the gradients alone, from the roots that are known."""
    graph, keys = part_of(computation)
    sources = [graph.symbol(keys[number]) for number in computation.inputs]
    results = backward(graph, [graph.symbol(keys[number]) for number in computation.outputs], sources)
    if not is_on_host(graph):
        recorded = dict.fromkeys(graph.root(key) for key in keys)
        simplify(graph, (*results, *map(graph.symbol, recorded)), (Pass.PLACEMENT,), backend=backend)
    known = {
        keys[number]: number
        for number, place in enumerate(computation.places)
        if number not in computation.parts and root_of(place).memory is not None
    }
    roots = dict.fromkeys(graph.root(symbol.key) for symbol in results)
    needed = graph.needed_for(roots, known)
    read = dict.fromkeys(root for key in needed for root in graph.roots(graph.execs[key].inputs))
    given = [key for key in known if key in read or key in roots]
    fresh = [key for key in roots if key not in known]
    symbols, written = [*map(graph.symbol, given)], [*map(graph.symbol, fresh)]
    compiled = compile(graph, results, given=dict.fromkeys(symbols), bind=dict.fromkeys(written), backend=backend)
    # A call may run gradient programs of its own meanwhile.
    has_calls = any(graph.execs[key].command.op is CALL for key in needed)
    program = MovingProgram(compiled.in_arena_of(Arena() if has_calls else arena), symbols, written)
    places = {key: place for place, key in enumerate((*given, *fresh))}
    execs = graph.needed_for(roots, {graph.root(key) for key in keys})
    grafts, slots = _grafts(graph, execs, keys, results, places)
    return GradientProgram(
        program,
        tuple(known[key] for key in given),
        tuple(_result(graph, symbol, places, slots) for symbol in results),
        execs,
        grafts,
    )


def _result(graph: SymbolicGraph, symbol: Symbol, places: dict[TensorKey, int], slots: dict[TensorKey, int]) -> Result:
    root, region = graph.root(symbol.key), graph.region(symbol.key)
    part = None if root == symbol.key else (symbol.spec, region.offset, region.strides)
    return Result(places[root], slots[symbol.key], part)


def _grafts(
    graph: SymbolicGraph,
    execs: Sequence[ExecKey],
    keys: Sequence[TensorKey],
    results: Sequence[Symbol],
    places: dict[TensorKey, int],
) -> tuple[tuple[Graft, ...], dict[TensorKey, int]]:
    """How execs are recorded behind the places of a computation, whose symbols are `keys`; the slots of all symbols."""
    slots = {key: slot for slot, key in enumerate(keys)}
    grafts: list[Graft] = []

    def slot(key: TensorKey) -> int:
        if key not in slots:
            record = graph.tensors[key]
            alias = record.alias
            assert alias is not None
            grafts.append(GraftedView(slots[alias.root], record.spec, alias.offset, alias.strides, record.origin))
            slots[key] = len(slots)
        return slots[key]

    for key in execs:
        record = graph.execs[key]
        source: ExecSymbol | RecordedAssembly = record
        roots = graph.roots(record.outputs)
        if roots != record.outputs:
            # The last one that writes a part of the root stands for all.
            source, writers = _assembly(graph, roots[0]), graph.writers(roots[0])
            if key != writers[-1]:
                continue
            record = replace(record, inputs=tuple([graph.execs[writer].inputs[0] for writer in writers]))
        inputs = tuple([ABSENT if operand is None else slot(operand) for operand in record.inputs])
        outputs = tuple([places.get(value, graph.tensors[value].spec) for value in roots])
        grafts.append(GraftedExec(source, inputs, outputs, record.origin))
        slots.update({value: len(slots) + index for index, value in enumerate(roots)})
    for symbol in results:
        slot(symbol.key)
    return tuple(grafts), slots


def _assembly(graph: SymbolicGraph, root: TensorKey) -> RecordedAssembly:
    """What writes a root part by part."""
    execs = tuple([graph.execs[key] for key in graph.writers(root)])
    assert all(len(step.inputs) == len(step.outputs) == 1 for step in execs)
    regions = [(graph.tensors[step.outputs[0]].spec, graph.region(step.outputs[0])) for step in execs]
    places = tuple([(spec, region.offset, region.strides) for spec, region in regions])
    return RecordedAssembly(execs, places, graph.tensors[root].fill)
