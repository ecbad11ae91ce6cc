"""Building: a planned graph becomes a concrete one, with loops and branches in it.

Carried values of a loop move as pointers. What it gives back is in its place when the number of iterations is known;
else one copy behind the loop takes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeGuard

from nnc.classes import dataclass
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
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import HOST, device_of
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.core.values.storage import DeviceStorage, Storage
from nnc.core.values.tensor import Tensor
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic.compiler.body_tests import bounded, chooser
from nnc.symbolic.compiler.check.lent_memory import check_plan
from nnc.symbolic.compiler.check.writes import WriteCheck, checked_writes
from nnc.symbolic.compiler.loop_places import places_in_body
from nnc.symbolic.compiler.moving_operand import MovingOperand, no_caller_memory
from nnc.symbolic.compiler.place.body_lives import resident_parameters
from nnc.symbolic.compiler.place.concatenation import copied_parts
from nnc.symbolic.compiler.place.liveness import LiveRange, OuterMemory, ends_at
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import trips
from nnc.symbolic.compiler.views import part_of, view_root
from nnc.symbolic.control import CaseAttrs, Holds, PythonCondition, WhileAttrs
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

_COPY = Command(contiguous, NoAttrs())


@dataclass(slots=True, eq=False)
class GraphBuilder:
    """Makes a concrete graph of a planned one whose blocks lie at these `offsets`, by their identity.

    That is in the arena of the block's kind of memory; the host's begins at `base`.

    `places` are the roots that live elsewhere; `build` adds the others. The body of a loop has `moving` slots, and
    writes `rows`: those of its parameters at the breakpoint, the others at the end. `lend` gives the memory of a block
    around a body that has no place of its own. `begin` is called before the first of the caller's roots `written` is.
    """

    planned: PlannedGraph
    arenas: Mapping[str, Storage]
    base: int
    offsets: dict[int, int]
    places: dict[TensorKey, Place]
    concrete: ConcreteGraph
    is_body: bool = False
    moving: MovingOperand | None = None
    rows: Mapping[TensorKey, Place] = field(default_factory=dict)
    lend: Callable[[TensorKey, TensorSpec], Place] = no_caller_memory
    begin: Callable[[], None] | None = None
    written: frozenset[TensorKey] = frozenset()
    _last: tuple[ConcreteKey, ...] = ()
    _ends: list[tuple[ConcreteKey, ...]] = field(default_factory=list)
    _tested: tuple[ConcreteKey, ...] = ()

    def build(self) -> GraphBuilder:
        """Append all execs, each behind those that its step waits for."""
        planned = self.planned
        for root in planned.lent & planned.lives.of.keys():
            self._find_fixed_block(root)
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
            if not self.written.isdisjoint(planned.uses.writes[key]):
                self.announce()
            self._add_exec(step, key, planned.inner.get(key, ()))
            if check is not None:
                self._append(self.concrete.add_noop(partial(check.end, step)))
            for root in () if key in planned.inner else dead.get(step, ()):
                life = planned.lives.of[root]
                place = self._memory(root, workspace_spec(life.nbytes).on(device_of(life.memory)))
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
        planned = self.planned
        life, shift = planned.lives.of[root], planned.lives.shifts.get(root, 0)
        slot, lender = planned.slots.of.get(root), planned.lender(life)
        if slot is not None and not shift:
            assert self.moving is not None
            return self.moving.place(slot, spec)
        if lender is not None and id(life) not in self.offsets and not shift:
            return self.lend(lender, spec)
        if slot is not None or (lender is not None and id(life) not in self.offsets):
            # The tensor that the block is as large as.
            whole = (
                lender
                if lender is not None
                else next(value for value in life.roots if value not in planned.lives.shifts)
            )
            return part_of(self._root_place(whole), spec, shift // spec.dtype.itemsize, contiguous_strides(spec.shape))
        return self._placed(spec, life, shift)

    def _placed(self, spec: TensorSpec, life: LiveRange, shift: int = 0) -> Tensor:
        """A block, or a part of it, in the arena; a block without bytes is nobody's to look at."""
        if id(life) in self.offsets:
            return Tensor(spec, self.arenas[str(spec.device)], self.offsets[id(life)] + shift)
        host = Storage.allocate(spec.nbytes) if spec.device.is_host else None
        return Tensor(spec, DeviceStorage(spec.device, None, 0, spec.nbytes) if host is None else host)

    def _is_in_arena(self, place: Place) -> TypeGuard[Tensor]:
        """Whether it is always in the same place of an arena."""
        return isinstance(place, Tensor) and place.storage is self.arenas.get(str(place.spec.device))

    def _find_fixed_block(self, root: TensorKey) -> None:
        """Note where the block of a root lies, if that is always in the same place."""
        place = self.places[root]
        if self._is_in_arena(place):
            self.offsets[id(self.planned.lives.of[root])] = place.offset

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

    def announce(self) -> None:
        """Append the call of `begin`, if there is one, once."""
        begin, self.begin = self.begin, None
        if begin is not None:
            self._append(self.concrete.add_noop(begin))

    def copy(self, source: Place, target: Place) -> None:
        """Append a copy of `source`'s elements."""
        self._append(self.concrete.add(_COPY, [source], [target]))

    def place(self, key: TensorKey) -> Place:
        """Where a symbol lies; an alias of what moves moves along."""
        place = self.places.get(key)
        if place is None:
            graph = self.planned.graph
            region, root = graph.region(key), self._root_place(graph.root(key))
            if graph.root(key) == key:
                return root
            if isinstance(root, Tensor):
                place = view_root(graph, key, root)
            else:
                assert isinstance(root, Multiview | Phi | Carry)
                part = Reference(graph.tensors[key].spec, region.offset, region.strides)
                place = synchronize_to_multiview(root, part)
            self.places[key] = place
        return place

    def _append(self, key: ConcreteKey) -> None:
        for earlier in self._last:
            self.concrete.connect(earlier, key, "order")
        self._last = (key,)

    def _dead_slots(self) -> dict[int, list[TensorKey]]:
        """A root of each block in a slot that nobody needs any more, by the step after which that is so.

        Not so for steps with bodies, in which others may begin in its bytes.
        """
        dead: dict[int, list[TensorKey]] = {}
        for root in self.planned.slots.of:
            life = self.planned.lives.of[root]
            if life.roots[0] == root:
                dead.setdefault(life.upper - 1, []).append(root)
        return dead

    def _write_check(self) -> WriteCheck:
        """Over the arena and the guards around it, or over what a body has there; with the check of the whole plan."""
        graph, order, lives = self.planned.graph, self.planned.order, self.planned.lives
        if not self.is_body:
            check_plan(self.planned)
        seen = {id(life): self.offsets[id(life)] for life in lives.of_host() if id(life) in self.offsets}
        return checked_writes(self.arenas[HOST].bytes, self.base, graph, order, lives, seen, whole=not self.is_body)

    def _add_exec(self, step: int, key: ExecKey, bodies: tuple[PlannedGraph, ...]) -> None:
        record, workspace = self.planned.graph.execs[key], self.planned.lives.workspaces.get(step)
        attrs = record.command.attrs
        if isinstance(attrs, WhileAttrs):
            self._add_while(record, attrs, bodies[0], self.planned.lives.outer[step], step)
        elif isinstance(attrs, CaseAttrs):
            self._add_case(record, attrs, bodies, step)
        elif step in self.planned.lives.in_place:
            whole = self.place(record.outputs[0])
            graph, placed = self.planned.graph, self.planned.lives.in_place[step]
            for part, start, strides in copied_parts(graph, record, placed):
                self.copy(self.place(part), part_of(whole, graph.tensors[part].spec, start, strides))
        else:
            scratch = None
            if workspace is not None:
                spec = workspace_spec(workspace.nbytes).on(device_of(workspace.memory))
                scratch = self._placed(spec, workspace)
            inputs = [None if tensor is None else self.place(tensor) for tensor in record.inputs]
            outputs = [self.place(tensor) for tensor in record.outputs]
            known, name = self.planned.claims.get(key), record.name
            self._append(self.concrete.add(record.command, inputs, outputs, workspace=scratch, name=name, claim=known))

    # ---- loops

    def _add_while(
        self, record: ExecSymbol, attrs: WhileAttrs, planned: PlannedGraph, outer: OuterMemory, step: int
    ) -> None:
        body = ConcreteGraph(backend=planned.backend, name=record.name or "while")
        inputs = [self.place(key) for key in record.inputs if key is not None]
        outputs = [self.place(key) for key in record.outputs]
        moving = MovingOperand(planned.slots, body, partial(self._first_memory, planned, outer))
        resident = resident_parameters(attrs, planned.slots, outer, record)
        places = places_in_body(attrs, inputs, resident, body.count)
        rows = {kept.symbol: output for kept, output in zip(attrs.kept, outputs[1:], strict=True) if kept.rows}
        for place in rows.values() if trips(attrs) is None else ():
            self._append(self.concrete.add(Command(FILL, FillAttrs(0.0, place.spec)), [], [place]))
        builder = GraphBuilder(
            planned,
            self.arenas,
            self.base,
            self.offsets,
            places,
            body,
            True,
            moving,
            rows,
            self._lend(dict(zip(attrs.body.parameters, record.inputs, strict=True)), self.moving),
        ).build()
        for key, result in zip(attrs.body.parameters, attrs.body.results, strict=False):
            carry = builder.place(key)
            if isinstance(carry, Carry) and key not in resident and result != key:
                body.carry_over(builder.place(result), carry)
        moving.close()
        test = builder._test(attrs)
        breakpoints = builder._tested if planned.tested else ()
        self._append(self.concrete.while_loop(body, test, breakpoints=breakpoints, name=record.name))
        for kept, output, place in zip(attrs.kept, record.outputs[1:], outputs[1:], strict=True):
            if not kept.rows and output not in outer.placed and not self._is_unread(output, step):
                self.copy(builder.place(kept.symbol), place)
        # Behind the copies: an initial value that is a result of no iteration may have lain there.
        if not self._is_unread(record.outputs[0], step):
            self.copy(body.count, outputs[0])

    def _is_unread(self, key: TensorKey, step: int) -> bool:
        life = self.planned.lives.of.get(key)
        return life is not None and ends_at(life, step)

    def _first_memory(self, planned: PlannedGraph, outer: OuterMemory, memory: int, spec: TensorSpec) -> Place:
        """A memory of the slots of a loop: in a block around it, or one of its own."""
        if memory in outer.roots:
            return self._memory(outer.roots[memory], spec)
        return self._placed(spec, planned.slots.memories[memory])

    def _write_rows(self, *, of_parameters: bool) -> None:
        """Copy values of this iteration to their rows: of parameters, or of what it computes."""
        graph = self.planned.graph
        for symbol, stack in self.rows.items():
            spec = graph.tensors[symbol].spec
            strides = contiguous_strides(spec.shape)
            rows = [part_of(stack, spec, number * spec.elements, strides) for number in range(stack.spec.shape[0])]
            if rows and of_parameters is not bool(graph.writers(symbol)):
                self.copy(self.place(symbol), self.concrete.multiview(rows))

    def _test(self, attrs: WhileAttrs) -> CountBelow | NonZero | PythonTest:
        match attrs.test:
            case CountBelow():
                return attrs.test
            case Holds():
                return NonZero(self.place(attrs.test.symbol), attrs.at_most)
            case PythonCondition():
                function = attrs.test.function
        places = tuple(self.place(key) for key in attrs.asked())
        if attrs.at_most is None:
            return PythonTest(function, places)
        return PythonTest(bounded(function, attrs.at_most), (self.concrete.count, *places))

    def _lend(
        self, around: Mapping[TensorKey, TensorKey | None], moving: MovingOperand | None
    ) -> Callable[[TensorKey, TensorSpec], Place]:
        """How a body finds the memory of blocks here, of roots by its own names: slots move, and have no places."""

        def memory(root: TensorKey, spec: TensorSpec) -> Place:
            own = around[root]
            assert own is not None
            if own in self.planned.slots.of and moving is not None:
                return moving.place(self.planned.slots.of[own], spec)
            return self._memory(own, spec)

        return memory

    # ---- branches

    def _add_case(self, record: ExecSymbol, attrs: CaseAttrs, bodies: tuple[PlannedGraph, ...], step: int) -> None:
        inputs = [self.place(key) for key in record.inputs if key is not None]
        outputs = [self.place(key) for key in record.outputs]
        passed = self.planned.slots.passed.get(step, tuple({} for _ in bodies))
        before = self._moving_before(passed)
        phis, lives = self._pass(passed), self.planned.lives.of
        choice = chooser(attrs, inputs)
        node = self.concrete.case_of(choice, inputs=inputs[: attrs.chosen], outputs=phis, name=record.name)
        self._append(node)
        for index, ((name, body), planned) in enumerate(zip(attrs.bodies(), bodies, strict=True)):
            branch = ConcreteGraph(backend=planned.backend, name=name)
            places = dict(zip(body.parameters, inputs[attrs.chosen :], strict=True))
            written = zip(record.outputs, body.results, outputs, strict=True)
            around = {
                **dict(zip(body.results, record.outputs, strict=True)),
                **dict(zip(body.parameters, record.inputs[attrs.chosen :], strict=True)),
            }
            ends = [(key, result, place) for key, result, place in written if key not in passed[index]]
            places.update((result, place) for _, result, place in ends if result not in body.parameters)
            builder = GraphBuilder(
                planned, self.arenas, self.base, self.offsets, places, branch, True, lend=self._lend(around, before)
            ).build()
            for key, result, place in ends:
                if result in body.parameters:
                    operand = record.inputs[attrs.chosen + body.parameters.index(result)]
                    if key not in lives or operand is None or lives[key] is not lives.get(operand):
                        builder.copy(builder.place(result), place)
            self.concrete.set_case(node, index, branch)

    def _moving_before(self, passed: Sequence[Mapping[TensorKey, TensorKey]]) -> MovingOperand | None:
        """The slots as they are in front of a step in which they exchange memory."""
        if self.moving is None or not any(passed):
            return self.moving
        for spec in sorted(self._specs_in_slots(), key=str):
            for slot in range(len(self.planned.slots.sizes)):
                if self.planned.slots.holds(slot, spec):
                    self.moving.place(slot, spec)
        return replace(self.moving, _made=dict(self.moving._made))

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
        changes = [dict((*((operand, output) for output, operand in some), *some)) for some in pairs]
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
        devices = {device_of(life.memory) for life in self.planned.slots.memories}
        raw = {workspace_spec(nbytes).on(device) for nbytes in sizes for device in devices}
        return specs | raw if SETTINGS.debug else specs


def _poison(dead: Place) -> AnyCommand:
    """Bytes of 0xFF: not-a-number in every floating-point type, so that whoever reads freed memory is found out."""
    return Command(FILL, FillAttrs(255.0, dead.spec))
