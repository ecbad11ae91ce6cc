"""Building: a planned graph becomes a concrete one, with loops and branches in it.

Carried values of a loop move as pointers. What it gives back is in its place when the number of iterations is known;
else one copy behind the loop takes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from nnc.concrete import (
    Carry,
    ConcreteGraph,
    CountBelow,
    Multiview,
    NonZero,
    Phi,
    Place,
    PythonTest,
    Reference,
    synchronize_to_multiview,
)
from nnc.concrete import ExecKey as ConcreteKey
from nnc.concrete.graph import workspace_spec
from nnc.core.command import AnyCommand, Command
from nnc.core.settings import SETTINGS
from nnc.core.spec import TensorSpec, contiguous_strides
from nnc.core.storage import Storage
from nnc.core.tensor import Tensor
from nnc.errors import IndexRangeError, LayoutError
from nnc.ops.copy import COPY
from nnc.ops.fill import FILL, FillAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic.compiler.check.reads import check_reads
from nnc.symbolic.compiler.check.writes import WriteCheck, checked_writes
from nnc.symbolic.compiler.place.concatenation import copied_parts
from nnc.symbolic.compiler.place.liveness import OuterMemory, ends_at
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import (
    Slot,
    Slots,
    trips,
)
from nnc.symbolic.control import CaseAttrs, Holds, PythonHolds, WhileAttrs
from nnc.symbolic.ir import ExecSymbol, SymbolicGraph, TensorKey

_COPY = Command(COPY, NoAttrs())


@dataclass(slots=True, eq=False)
class _MovingOperand:
    """The slots of a loop in its concrete graph: for each slot and spec a place; `memory` gives the first ones."""

    slots: Slots
    body: ConcreteGraph
    memory: Callable[[int, TensorSpec], Place]
    _made: dict[tuple[Slot, TensorSpec], Place] = field(default_factory=dict)
    _first: dict[tuple[Slot, TensorSpec], Carry] = field(default_factory=dict)
    _exchanged: set[Slot] = field(default_factory=set)

    def place(self, slot: Slot, spec: TensorSpec) -> Place:
        """Where a value of this slot lies, as of the step that is being added."""
        if (slot, spec) not in self._made:
            cycle = self.slots.cycle(slot)
            if len(cycle) == 1 and not self.slots.passed:
                self._made[slot, spec] = self.memory(slot, spec)
            for one in cycle:
                if (one, spec) not in self._made:
                    assert one not in self._exchanged
                    self._made[one, spec] = self._first[one, spec] = Carry(self.memory(one, spec))
        return self._made[slot, spec]

    def exchange(self, branches: Sequence[Mapping[Slot, Slot]], specs: Iterable[TensorSpec]) -> list[Phi]:
        """From this step on each slot has the memory that the taken branch says, each where it was before."""
        moved = sorted({slot for slots in branches for slot in slots})
        phis = {}
        for spec in specs:
            for slot in moved:
                if spec.nbytes <= self.slots.sizes[slot]:
                    places = [self.place(slots.get(slot, slot), spec) for slots in branches]
                    phis[slot, spec] = Phi(places[0], *places)
        self._made.update(phis)
        self._exchanged.update(moved)
        return list(phis.values())

    def close(self) -> None:
        """Behind an iteration the pointers of each cycle of slots move on."""
        for (slot, spec), carry in self._first.items():
            source = self.slots.cycle(slot)[-1]
            self.body.carry_over(self._made[source, spec], carry)


@dataclass(slots=True, eq=False)
class GraphBuilder:
    """Makes a concrete graph of a planned whose arena begins at `base` of `storage`.

    `places` are the roots that live elsewhere; `build` adds the others. The body of a loop has `moving` slots, and
    writes `rows`: those of its parameters at the breakpoint, the others at the end.
    """

    planned: PlannedGraph
    storage: Storage
    base: int
    places: dict[TensorKey, Place]
    concrete: ConcreteGraph
    is_body: bool = False
    moving: _MovingOperand | None = None
    rows: Mapping[TensorKey, Place] = field(default_factory=dict)
    _offsets: dict[int, int] = field(default_factory=dict)
    _last: tuple[ConcreteKey, ...] = ()
    _ends: list[tuple[ConcreteKey, ...]] = field(default_factory=list)
    _tested: tuple[ConcreteKey, ...] = ()

    def build(self) -> GraphBuilder:
        """Append all execs, each behind those that its step waits for."""
        planned, layout = self.planned, self.planned.layout
        self._offsets = {id(life): self.base + offset for life, offset in layout.placed()}
        for root in planned.lives.of:
            if root not in planned.slots.of:
                self._root_place(root)
        dead = self._dead_slots() if SETTINGS.debug else {}
        check = self._write_check() if SETTINGS.debug else None
        first = () if check is None else (self.concrete.add_noop(check.start),)
        self._last = first
        for step, key in enumerate(planned.order):
            self._last = self._behind(step) or first
            self._pass_breakpoint(step)
            if check is not None:
                self._append(self.concrete.add_noop(partial(check.begin, step)))
            self._fill(step)
            self._add_exec(step, planned.graph.execs[key], planned.inner.get(key, ()))
            if check is not None:
                self._append(self.concrete.add_noop(partial(check.end, step)))
            for root in dead.get(step, ()):
                place = self._memory(root, workspace_spec(planned.lives.of[root].nbytes))
                self._append(self.concrete.add(_poison(place), [], [place]))
            self._ends.append(self._last)
        if planned.concurrency is not None:
            self._last = tuple(dict.fromkeys(key for keys in self._ends for key in keys))
        self._pass_breakpoint(len(planned.order))
        self._fill(len(planned.order))
        self._write_rows(of_parameters=False)
        return self

    def _pass_breakpoint(self, step: int) -> None:
        """What comes from here on runs when the test has held."""
        if step == self.planned.tested:
            self._tested = self._last
            self._write_rows(of_parameters=True)

    def _root_place(self, root: TensorKey) -> Place:
        if root not in self.places:
            self.places[root] = self._memory(root, self.planned.graph.tensors[root].spec)
        return self.places[root]

    def _memory(self, root: TensorKey, spec: TensorSpec) -> Place:
        """The place of a root, as elements of `spec`."""
        slot = self.planned.slots.of.get(root)
        if slot is None:
            lives = self.planned.lives
            offset = self._offsets.get(id(lives.of[root]), 0) + lives.shifts.get(root, 0)
            return Tensor(spec, self.storage, offset)
        assert self.moving is not None
        return self.moving.place(slot, spec)

    def _behind(self, step: int) -> tuple[ConcreteKey, ...]:
        """The nodes that the first node of a step waits for."""
        concurrency = self.planned.concurrency
        if concurrency is None:
            return self._last
        return tuple(dict.fromkeys(key for source in concurrency.after[step] for key in self._ends[source]))

    def _fill(self, step: int) -> None:
        """Fill what is alive from this step on and gets its other values later, or never."""
        for root in self.planned.lives.fills.get(step, ()):
            record = self.planned.graph.tensors[root]
            assert record.fill is not None
            self._append(
                self.concrete.add(Command(FILL, FillAttrs(record.fill, record.spec)), [], [self._root_place(root)])
            )

    def copy(self, source: Place, target: Place) -> None:
        """Append a copy of `source`'s elements."""
        self._append(self.concrete.add(_COPY, [source], [target]))

    def place(self, key: TensorKey) -> Place:
        """Where a symbol lies; an alias of what moves moves along."""
        found = self.places.get(key)
        if found is None:
            graph = self.planned.graph
            region, root = graph.region(key), self._root_place(graph.root(key))
            if graph.root(key) == key:
                return root
            if isinstance(root, Tensor):
                found = view_root(graph, key, root)
            else:
                assert isinstance(root, Multiview | Phi | Carry)
                part = Reference(graph.tensors[key].spec, region.offset, region.strides)
                found = synchronize_to_multiview(root, part)
            self.places[key] = found
        return found

    def _append(self, key: ConcreteKey) -> None:
        for earlier in self._last:
            self.concrete.connect(earlier, key, "order")
        self._last = (key,)

    def _dead_slots(self) -> dict[int, list[TensorKey]]:
        """A root of each block in a slot that nobody needs any more, by the step after which that is so."""
        dead: dict[int, list[TensorKey]] = {}
        for root in self.planned.slots.of:
            life = self.planned.lives.of[root]
            if life.roots[0] == root:
                dead.setdefault(life.upper - 1, []).append(root)
        return dead

    def _write_check(self) -> WriteCheck:
        """Over the arena, and over the guards around one that has its storage for itself."""
        planned, memory, base = self.planned, self.storage.bytes, self.base
        check_reads(planned.graph, planned.order, planned.lives, planned.layout.placed(), planned.kept)
        if self.is_body:
            memory, base = memory[base : base + planned.nbytes], 0
        return checked_writes(memory, base, planned.graph, planned.order, planned.lives, planned.layout.placed())

    def _add_exec(self, step: int, record: ExecSymbol, bodies: tuple[PlannedGraph, ...]) -> None:
        workspace, attrs = self.planned.lives.workspaces.get(step), record.command.attrs
        at = 0 if workspace is None else self._offsets[id(workspace)]
        if isinstance(attrs, WhileAttrs):
            self._add_while(record, attrs, bodies[0], at, self.planned.lives.outer[step], step)
        elif isinstance(attrs, CaseAttrs):
            self._add_case(record, attrs, bodies, at, step)
        elif step in self.planned.lives.in_place:
            whole = self.place(record.outputs[0])
            assert isinstance(whole, Tensor)
            graph, placed = self.planned.graph, self.planned.lives.in_place[step]
            for part, start, strides in copied_parts(graph, record, placed):
                self.copy(self.place(part), whole.view(graph.tensors[part].spec, start, strides))
        else:
            scratch = None if workspace is None else Tensor(workspace_spec(workspace.nbytes), self.storage, at)
            inputs = [None if tensor is None else self.place(tensor) for tensor in record.inputs]
            outputs = [self.place(tensor) for tensor in record.outputs]
            self._append(self.concrete.add(record.command, inputs, outputs, workspace=scratch, name=record.name))

    # ---- loops

    def _add_while(
        self, record: ExecSymbol, attrs: WhileAttrs, planned: PlannedGraph, at: int, outer: OuterMemory, step: int
    ) -> None:
        body = ConcreteGraph(backend=planned.backend, name=record.name or "while")
        inputs = [self.place(key) for key in record.inputs if key is not None]
        outputs = [self.place(key) for key in record.outputs]
        moving = self._moving_slots(planned, outer, body, at + planned.nbytes)
        places: dict[TensorKey, Place] = dict(zip(attrs.body.parameters, inputs, strict=True))
        resident = _resident(attrs, planned.slots, outer, record)
        for key in attrs.body.parameters[: attrs.carried]:
            if key in resident:
                del places[key]
            elif attrs.body.results[attrs.body.parameters.index(key)] != key:
                places[key] = Carry(places[key])
        places[attrs.count] = body.count
        rows = {kept.symbol: output for kept, output in zip(attrs.kept, outputs[1:], strict=True) if kept.rows}
        for place in rows.values() if trips(attrs) is None else ():
            self._append(self.concrete.add(Command(FILL, FillAttrs(0.0, place.spec)), [], [place]))
        builder = GraphBuilder(planned, self.storage, at, places, body, True, moving, rows).build()
        for key, result in zip(attrs.body.parameters, attrs.body.results, strict=False):
            carry = builder.place(key)
            if isinstance(carry, Carry) and key not in resident and result != key:
                body.carry_over(builder.place(result), carry)
        moving.close()
        test = builder._test(attrs)
        breakpoints = builder._tested if planned.tested else ()
        self._append(self.concrete.while_loop(body, test, breakpoints=breakpoints, name=record.name))
        self.copy(body.count, outputs[0])
        for kept, output, place in zip(attrs.kept, record.outputs[1:], outputs[1:], strict=True):
            if not kept.rows and output not in outer.found and not self._is_unread(output, step):
                self.copy(builder.place(kept.symbol), place)

    def _is_unread(self, key: TensorKey, step: int) -> bool:
        life = self.planned.lives.of.get(key)
        return life is not None and ends_at(life, step)

    def _moving_slots(self, planned: PlannedGraph, outer: OuterMemory, body: ConcreteGraph, at: int) -> _MovingOperand:
        """The slots of a loop; memories that no block around it gives lie one behind the other from `at` on."""
        offsets = {}
        for memory, size in enumerate(planned.slots.sizes):
            if memory not in outer.roots:
                offsets[memory] = at
                at += size

        def first(memory: int, spec: TensorSpec) -> Place:
            if memory in offsets:
                return Tensor(spec, self.storage, offsets[memory])
            return self._memory(outer.roots[memory], spec)

        return _MovingOperand(planned.slots, body, first)

    def _write_rows(self, *, of_parameters: bool) -> None:
        """Copy values of this iteration to their rows: of parameters, or of what it computes."""
        graph = self.planned.graph
        for symbol, stack in self.rows.items():
            spec = graph.tensors[symbol].spec
            rows = [_row(stack, spec, number) for number in range(stack.spec.shape[0])]
            if rows and of_parameters is not bool(graph.writers(symbol)):
                self.copy(self.place(symbol), self.concrete.multiview(rows))

    def _test(self, attrs: WhileAttrs) -> CountBelow | NonZero | PythonTest:
        match attrs.test:
            case CountBelow():
                return attrs.test
            case Holds() if attrs.at_most is None:
                return NonZero(self.place(attrs.test.symbol))
            case Holds():
                function: Callable[..., object] = _is_true
            case PythonHolds():
                function = attrs.test.function
        places = tuple(self.place(key) for key in attrs.asked())
        if attrs.at_most is None:
            return PythonTest(function, places)
        return PythonTest(_bounded(function, attrs.at_most), (self.concrete.count, *places))

    # ---- branches

    def _add_case(
        self, record: ExecSymbol, attrs: CaseAttrs, bodies: tuple[PlannedGraph, ...], at: int, step: int
    ) -> None:
        inputs = [self.place(key) for key in record.inputs if key is not None]
        outputs = [self.place(key) for key in record.outputs]
        passed = self.planned.slots.passed.get(step, tuple({} for _ in bodies))
        phis = self._pass(passed)
        choice = _choice(attrs.function or _integer, len(attrs.branches), attrs.otherwise is not None)
        node = self.concrete.case_of(choice, inputs=inputs[: attrs.chosen], outputs=phis, name=record.name)
        self._append(node)
        for index, ((name, body), planned) in enumerate(zip(attrs.bodies(), bodies, strict=True)):
            branch = ConcreteGraph(backend=planned.backend, name=name)
            places = dict(zip(body.parameters, inputs[attrs.chosen :], strict=True))
            written = zip(record.outputs, body.results, outputs, strict=True)
            ends = [(result, place) for key, result, place in written if key not in passed[index]]
            places.update((result, place) for result, place in ends if result not in body.parameters)
            builder = GraphBuilder(planned, self.storage, at, places, branch, True).build()
            for result, place in ends:
                if result in body.parameters:
                    builder.copy(builder.place(result), place)
            self.concrete.set_case(node, index, branch)

    def _pass(self, passed: Sequence[Mapping[TensorKey, TensorKey]]) -> list[Phi]:
        """Outputs that are operands handed on are where these are, and the slots of both change memory."""
        outputs = sorted({output for handed in passed for output in handed})
        if not outputs or self.moving is None:
            return []
        phis = {}
        for output in outputs:
            places = [self.place(handed.get(output, output)) for handed in passed]
            phis[output] = Phi(places[0], *places)
        of = self.planned.slots.of
        pairs = [[(of[output], of[operand]) for output, operand in handed.items()] for handed in passed]
        changes = [dict((*some, *((operand, output) for output, operand in some))) for some in pairs]
        slots = self.moving.exchange(changes, sorted(self._specs_in_slots(), key=str))
        self.places.update(phis)
        return [*phis.values(), *slots]

    def _specs_in_slots(self) -> set[TensorSpec]:
        """The specs that slots may be asked for: of roots in them, of roots in slots of loops inside, and bytes."""
        specs, sizes = set[TensorSpec](), set[int]()
        waiting = [self.planned]
        while waiting:
            planned = waiting.pop()
            waiting.extend(inner for bodies in planned.inner.values() for inner in bodies)
            specs.update(planned.graph.tensors[root].spec for root in planned.slots.of)
            sizes.update(planned.slots.sizes, (planned.lives.of[root].nbytes for root in planned.slots.of))
        sizes.update(spec.nbytes for spec in specs)
        return specs | {workspace_spec(nbytes) for nbytes in sizes} if SETTINGS.debug else specs


def view_root(graph: SymbolicGraph, key: TensorKey, root: Tensor) -> Tensor:
    """The part of `root` that an alias names; LayoutError for memory that has gaps."""
    if not root.is_contiguous:
        raise LayoutError(
            "bind",
            got=f"strides {list(root.strides)} for {graph.label(graph.root(key))}, which has aliases",
            need="contiguous memory",
            fix="bind a contiguous copy",
        )
    region = graph.region(key)
    return root.view(graph.tensors[key].spec, region.offset, region.strides)


def _resident(attrs: WhileAttrs, slots: Slots, outer: OuterMemory, record: ExecSymbol) -> frozenset[TensorKey]:
    """The carried symbols that lie in their slots from the first iteration on."""
    body, found = attrs.body, set[TensorKey]()
    if slots.passed:
        return frozenset()
    carried = body.parameters[: attrs.carried]
    given = {
        key
        for key, initial in zip(carried, record.inputs, strict=False)
        if key in slots.of and outer.roots.get(slots.of[key]) == initial
    }
    for key in given:
        links = [key]
        while links[-1] in given and body.results[carried.index(links[-1])] in carried:
            links.append(body.results[carried.index(links[-1])])
        if links[-1] in given:
            found.add(key)
    return frozenset(found)


def _row(stack: Place, spec: TensorSpec, number: int) -> Place:
    offset, strides = number * spec.elements, contiguous_strides(spec.shape)
    if isinstance(stack, Tensor):
        return stack.view(spec, offset, strides)
    assert isinstance(stack, Multiview | Phi | Carry)
    return synchronize_to_multiview(stack, Reference(spec, offset, strides))


def _poison(dead: Place) -> AnyCommand:
    """Bytes of 0xFF: not-a-number in every floating-point type, so that whoever reads freed memory is found out."""
    return Command(FILL, FillAttrs(255.0, dead.spec))


def _is_true(tensor: Tensor) -> bool:
    return bool(tensor.numpy().item())


def _integer(tensor: Tensor) -> int:
    return int(tensor.numpy().item())


def _bounded(function: Callable[..., object], last: int) -> Callable[..., bool]:
    """The test, with an error where it would let the loop go beyond its last iteration."""

    def test(count: Tensor, *tensors: Tensor) -> bool:
        goes_on = bool(function(*tensors))
        if goes_on and _integer(count) >= last:
            raise IndexRangeError("while", got="a loop that goes on", need="an end within at_most", fix="raise at_most")
        return goes_on

    return test


def _choice(function: Callable[..., int], count: int, has_bypass: bool) -> Callable[..., int]:
    """The branch to take: `count` stands for the bypass."""

    def choose(*tensors: Tensor) -> int:
        chosen = function(*tensors)
        if 0 <= chosen < count:
            return chosen
        if not has_bypass:
            raise IndexRangeError(
                "case..of", got="a choice without a branch", need=f"0 ≤ choice < {count}", fix="bypass="
            )
        return count

    return choose
