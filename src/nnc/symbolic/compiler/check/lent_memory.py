"""A plan and the plans of all bodies in it, checked as one: memory that is lent is followed to where it lies.

a branch finds its operands where the graph around has them, and leaves its results where that looks for them
a loop begins with the initial values where they are; behind each iteration a carried value is where its next one was
    written, until an iteration begins as an earlier one did: block of slot s in iteration t = memory slots.memory(s, t)
what any of them has written is lost to the graph around

Which values the planner took to be lent, or to end there, is not asked: only where blocks lie, and what is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from math import lcm

from nnc.classes import dataclass
from nnc.errors import VerificationError
from nnc.symbolic.compiler.check.reads import Holders, check_steps, meet
from nnc.symbolic.compiler.check.writes import Span, exec_text
from nnc.symbolic.compiler.place.body_lives import resident_parameters
from nnc.symbolic.compiler.place.liveness import LiveRange, OuterMemory, ends_at
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import trips
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecSymbol, TensorKey

# Cycles of 2, 3, 4 and 6 slots are back where they began within 12 iterations; longer ones are looked at no further.
MOST_TURNS = 12
# Between the arenas of two devices, where addresses are compared.
FAR = 1 << 48

Spans = Mapping[TensorKey, Span]


def check_plan(planned: PlannedGraph, offsets: Mapping[int, int] | None = None) -> None:
    """VerificationError, with the exec and the user's line, where a step of the graph or of a body in it reads what its
    bytes no longer hold.

    `offsets` are those of blocks, by their identity: of the layout, unless others are given.
    """
    memories = sorted({span.life.memory for span in planned.layout.spans})
    begins = {memory: FAR * place for place, memory in enumerate(memories)}
    placed = {
        id(life): (offset if offsets is None else offsets[id(life)]) + begins[life.memory]
        for life, offset in planned.layout.placed()
    }
    _Check(placed).graph(planned)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Where an iteration finds the parameters of its body, by name, and which of them still hold their value there."""

    number: int
    places: Spans
    held: frozenset[TensorKey]


@dataclass(slots=True, eq=False)
class _Check:
    """Blocks at `offsets`, by their identity; what has no place yet is far `beyond` all of them."""

    offsets: Mapping[int, int]
    beyond: Iterator[int] = field(default_factory=lambda: count(1 << 62, 1 << 40))

    def graph(self, planned: PlannedGraph) -> None:
        """What a caller compiles: some of its values are in their blocks before, others are wanted behind."""
        graph, lives = planned.graph, planned.lives
        holders = Holders(self._spans(planned, {}), lives.parts)
        for life in lives.of.values():
            if life.outside:
                holders.take(life.roots[0], "what comes from outside")
        self._steps(planned, range(len(planned.order)), holders)
        for root in lives.fills.get(len(planned.order), ()):
            holders.take(root, "the fill at the end of the run")
        for root in sorted(planned.kept):
            holders.check(graph, root, "the end of the run")

    def _steps(self, planned: PlannedGraph, steps: Iterable[int], holders: Holders) -> None:
        scratch = {
            step: (self.offsets[id(life)], self.offsets[id(life)] + life.nbytes)
            for step, life in planned.lives.workspaces.items()
            if id(life) in self.offsets
        }

        def enter(step: int, around: Holders) -> Iterable[Span]:
            record = planned.graph.execs[planned.order[step]]
            is_loop = isinstance(record.command.attrs, WhileAttrs)
            return _Loop(self, planned, step, around).run() if is_loop else self._branches(planned, step, around)

        check_steps(planned, steps, holders, scratch, enter)

    def _spans(
        self, planned: PlannedGraph, around: Spans, memories: Sequence[int] = (), turn: int = 0
    ) -> dict[TensorKey, Span]:
        """Where each root lies, where those of the graph `around` do and the memories of slots begin there."""
        graph, slots, shifts = planned.graph, planned.slots, planned.lives.shifts
        spans = dict(around)
        for root, life in planned.lives.of.items():
            if root in slots.of:
                begin: int | None = memories[slots.memory(slots.of[root], turn)]
            else:
                begin = self._begin(planned, life, around)
            if begin is not None and root not in spans:
                spans[root] = _span(graph, root, begin + shifts.get(root, 0))
        return spans

    def _begin(self, planned: PlannedGraph, life: LiveRange, around: Spans) -> int | None:
        """Where a block lies: in the arena, or at the one place where the graph around has it."""
        shifts = planned.lives.shifts
        lent = [root for root in life.roots if root in planned.lent and root in around]
        begins = {around[root][0] - shifts.get(root, 0) for root in lent} if life.nbytes else set()
        if len(begins) > 1:
            names = " and ".join(planned.graph.label(root) for root in lent)
            raise VerificationError(f"memory plan: {names} are one block, and the graph around has them in two places")
        return begins.pop() if begins else self.offsets.get(id(life))

    def _branches(self, planned: PlannedGraph, step: int, around: Holders) -> Iterable[Span]:
        """Each branch by itself; operands that one hands on in their memory are there no more behind it."""
        record = planned.graph.execs[planned.order[step]]
        attrs, passed = record.command.attrs, planned.slots.passed.get(step, ())
        assert isinstance(attrs, CaseAttrs)
        written: dict[Span, None] = {}
        for index, inner in enumerate(planned.inner[planned.order[step]]):
            written.update(dict.fromkeys(self._branch(planned, step, around, inner, index)))
        for root in (operand for handed in passed for operand in handed.values()):
            around.lose(root, f"handing on in {exec_text(planned.graph, record)}")
        return written

    def _branch(
        self, planned: PlannedGraph, step: int, around: Holders, inner: PlannedGraph, index: int
    ) -> Iterable[Span]:
        record = planned.graph.execs[planned.order[step]]
        attrs, passed, lives = record.command.attrs, planned.slots.passed.get(step), planned.lives.of
        assert isinstance(attrs, CaseAttrs)
        name, body = attrs.bodies()[index]
        operands = dict(zip(body.parameters, record.inputs[attrs.chosen :], strict=True))
        places = _places(planned.graph, operands, around.spans)
        results = list(zip(record.outputs, body.results, strict=True))
        computed = [(output, result) for output, result in results if result not in operands]
        for output, result in computed:
            if output in around.spans and places.setdefault(result, around.spans[output]) != around.spans[output]:
                label = inner.graph.label(result)
                raise VerificationError(f"memory plan: {name} has two results in {label}, and their places differ")
        holders = Holders(self._spans(inner, places), inner.lives.parts)
        holders.share(operands)
        self._steps(inner, range(len(inner.order)), holders)
        text = f"the end of {name} of {exec_text(planned.graph, record)}"
        for output, result in results:
            if result in operands:
                holders.check(inner.graph, result, text)
                is_there = output in lives and lives[output] is lives.get(operands[result] or output)
                is_handed = passed is not None and output in passed[index]
                if not is_there and not is_handed and output in around.spans:
                    holders.evict(around.spans[output], f"the copy of {inner.graph.label(result)}")
        for _, result in computed:
            holders.check(inner.graph, inner.graph.root(result), text)
        return holders.written


@dataclass(slots=True, eq=False)
class _Loop:
    """A loop at a step of the graph around it, whose roots hold their bytes as `around` says."""

    check: _Check
    planned: PlannedGraph
    step: int
    around: Holders
    record: ExecSymbol = field(init=False)
    attrs: WhileAttrs = field(init=False)
    inner: PlannedGraph = field(init=False)
    outer: OuterMemory = field(init=False)
    memories: list[int] = field(init=False)
    resident: frozenset[TensorKey] = field(init=False)
    text: str = field(init=False)
    written: dict[Span, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        key = self.planned.order[self.step]
        self.record = self.planned.graph.execs[key]
        assert isinstance(self.record.command.attrs, WhileAttrs)
        self.attrs = self.record.command.attrs
        (self.inner,) = self.planned.inner[key]
        self.outer = self.planned.lives.outer[self.step]
        self.memories = [self._memory(number) for number in range(len(self.inner.slots.sizes))]
        self.resident = resident_parameters(self.attrs, self.inner.slots, self.outer, self.record)
        self.text = exec_text(self.planned.graph, self.record)

    def _memory(self, number: int) -> int:
        """Where a memory of the slots begins, in a block around or in one of its own."""
        lender = self.outer.roots.get(number)
        if lender is not None:
            return self.around.spans[lender][0] if lender in self.around.spans else next(self.check.beyond)
        begin = self.check.offsets.get(id(self.inner.slots.memories[number]))
        return next(self.check.beyond) if begin is None else begin

    def run(self) -> Iterable[Span]:
        """Iterations until one begins as another did, or there are no more; each may be the last, if none is known."""
        last, body = trips(self.attrs), self.attrs.body
        given = dict(zip(body.parameters, self.record.inputs, strict=True))
        turn = _Turn(0, _places(self.planned.graph, given, self.around.spans), frozenset(given))
        slots, begun = self.inner.slots, dict[object, int]()
        period = lcm(*(len(slots.cycle(slot)) for slot in range(len(slots.sizes))))
        for _ in range(MOST_TURNS):
            state = (turn.number % period, tuple(sorted(turn.places.items())), turn.held)
            if state in begun:
                if last is None:
                    break
                # What is left but for whole rounds.
                turn = replace(turn, number=last - (last - turn.number) % (turn.number - begun[state]))
                begun.clear()
            begun[state] = turn.number
            following = self._iterate(turn, is_last=turn.number == last)
            if following is None:
                break
            turn = following
        if slots.passed:
            memories = zip(self.memories, slots.sizes, strict=True)
            self.written.update(((begin, begin + size), None) for begin, size in memories)
        return self.written

    def _iterate(self, turn: _Turn, *, is_last: bool) -> _Turn | None:
        """What the next iteration begins with; None behind the last one, of which only the test runs."""
        graph, inner, attrs = self.inner.graph, self.inner, self.attrs
        holders = self._begin(turn)
        self.check._steps(inner, range(inner.tested), holders)
        for key in (*attrs.asked(), *attrs.exits()):
            holders.check(graph, graph.root(key), f"the end of {self.text}")
        if is_last or trips(attrs) is None:
            self._leave(holders.copy())
        if is_last:
            self.written.update(holders.written)
            return None
        for symbol in attrs.stacked():
            if not graph.writers(symbol):
                holders.check(graph, graph.root(symbol), f"a row of {self.text}")
        self.check._steps(inner, range(inner.tested, len(inner.order)), holders)
        for root in inner.lives.fills.get(len(inner.order), ()):
            holders.take(root, f"the fill at the end of an iteration of {self.text}")
        for key in (*attrs.body.results, *(key for key in attrs.stacked() if graph.writers(key))):
            holders.check(graph, graph.root(key), f"the end of an iteration of {self.text}")
        self._check_rows(holders)
        self.written.update(holders.written)
        following = dict(zip(attrs.body.parameters, attrs.body.results, strict=False))
        places = {**turn.places, **_places(graph, following, holders.spans)}
        held = [key for key in attrs.body.parameters if key in following or key in holders.now or key not in places]
        return _Turn(turn.number + 1, places, frozenset(held))

    def _begin(self, turn: _Turn) -> Holders:
        """What holds its bytes at the beginning of an iteration."""
        graph, slots = self.inner.graph, self.inner.slots
        for key in sorted(self.resident & turn.places.keys()):
            memory = self.memories[slots.memory(slots.of[key], turn.number)]
            if turn.places[key][0] != memory:
                raise VerificationError(f"memory plan: {graph.label(key)} is not in its slot in {self.text}")
        spans = self.check._spans(self.inner, turn.places, self.memories, turn.number)
        holders = Holders(spans, self.inner.lives.parts)
        holders.share(turn.held)
        holders.taken_by.update((key, "an iteration before") for key in self.attrs.body.parameters if key in spans)
        for root in holders.now:
            holders.taken_by.pop(root, None)
        for span in self._rows():
            holders.evict(span, f"a row of {self.text}")
        return holders

    def _rows(self) -> list[Span]:
        """Where the rows are that iterations leave behind."""
        pairs = zip(self.record.outputs[1:], self.attrs.kept, strict=True)
        return [self.around.spans[key] for key, kept in pairs if kept.rows and key in self.around.spans]

    def _check_rows(self, holders: Holders) -> None:
        rows = self._rows()
        if any(meet(span, row) for row in rows for span in holders.written if span not in rows):
            raise VerificationError(f"memory plan: an iteration of {self.text} writes over rows of others")

    def _leave(self, holders: Holders) -> None:
        """What is given back is where it is looked for, or is copied there, one behind the other; then the count is."""
        graph, lives = self.inner.graph, self.planned.lives.of
        placed = set[TensorKey]()
        for output, kept in zip(self.record.outputs[1:], self.attrs.kept, strict=True):
            root, wanted = graph.root(kept.symbol), self.around.spans.get(output)
            if kept.rows or wanted is None:
                continue
            if output in self.outer.placed:
                placed.add(root)
                if holders.spans.get(root, wanted) != wanted:
                    raise VerificationError(f"memory plan: {graph.label(root)} is not left where {self.text} gives it")
            elif output not in lives or not ends_at(lives[output], self.step):
                holders.check(graph, root, f"the copy behind {self.text}")
                holders.evict(wanted, f"the copy of {graph.label(root)}")
        number = self.record.outputs[0]
        if number in self.around.spans and (number not in lives or not ends_at(lives[number], self.step)):
            holders.evict(self.around.spans[number], f"the count of {self.text}")
        for root in sorted(placed):
            holders.check(graph, root, f"what comes behind {self.text}")
        self.written.update(holders.written)


def _places(graph: SymbolicGraph, keys: Mapping[TensorKey, TensorKey | None], spans: Spans) -> dict[TensorKey, Span]:
    """Where values are that others name: all bytes from the first to the last of a part."""
    places = {}
    for name, key in keys.items():
        if key is None or graph.root(key) not in spans:
            continue
        begin, end = spans[graph.root(key)]
        if graph.root(key) != key:
            size = graph.tensors[key].spec.dtype.itemsize
            begin, end = (begin + size * bound for bound in graph.region(key).bounds())
        places[name] = (begin, end)
    return places


def _span(graph: SymbolicGraph, root: TensorKey, begin: int) -> Span:
    return (begin, begin + graph.tensors[root].spec.nbytes)
