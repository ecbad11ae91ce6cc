"""`while`: the command, how one is built, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from types import TracebackType

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete import CountBelow
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import Command
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec
from nnc.errors import NotDifferentiableError, ShapeError, SymbolError
from nnc.ops.elementwise.pointwise import add, less
from nnc.ops.indexing.indexing import INDEX_SELECT, index_select, scatter_add
from nnc.ops.movement.fill import fill_like
from nnc.ops.rules import MIXED_DEVICES, Applied, Gradients, operator
from nnc.symbolic.control.commands import (
    CONTROL_REGISTRY,
    Holds,
    Kept,
    PythonCondition,
    Test,
    WhileAttrs,
    infer_while,
    result_spec,
)
from nnc.symbolic.control.parts import Pullback, as_symbol, pull_back_body, result_of_its_own, whole_of
from nnc.symbolic.ir import BODIES, Body, Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey


@checked
@dataclass(slots=True, eq=False)
class Loop:
    """A loop that is being built: `carry` and `next` make what goes from iteration to iteration."""

    outside: SymbolicGraph
    test: Test | None
    at_most: int | None
    origin: str
    name: str = ""
    body: SymbolicGraph = field(init=False)
    count: Symbol = field(init=False)
    _initial: dict[TensorKey, Symbol] = field(default_factory=dict)
    _next: dict[TensorKey, TensorKey] = field(default_factory=dict)
    _exit_count: Symbol | None = None

    def __post_init__(self) -> None:
        self.body = SymbolicGraph(enclosing=self.outside)
        self.count = self.body.input(TensorSpec((), I64), "count")

    def carry(self, initial: Symbol, name: str = "") -> Symbol:
        """The body's symbol that is `initial` at first, then what `next` says."""
        self.outside.own(initial)
        symbol = self.body.input(initial.spec, name)
        self._initial[symbol.key] = initial
        return symbol

    def capture(self, symbol: Symbol) -> Symbol:
        """The body's symbol for one of a graph around, as it is found by itself where one is used."""
        return self.body.symbol(self.body.own(symbol))

    def next(self, carried: Symbol, value: Symbol) -> None:
        """`carried` is `value` in the next iteration, and after the last one its result."""
        key, new = self.body.own(carried), self.body.own(value)
        if key not in self._initial or key in self._next:
            raise SymbolError(
                "while",
                got=f"a next value for {carried}",
                need="one for each symbol of carry()",
                origin=caller_origin(),
            )
        if (carried.shape, carried.spec.dtype) != (value.shape, value.spec.dtype):
            raise ShapeError(
                "while", got=f"{value.spec} carried over into {carried.spec}", need="one spec", origin=caller_origin()
            )
        self._next[key] = new

    def go_on_while(self, test: Symbol | Callable[..., object], *inputs: Symbol) -> None:
        """Test a symbol of the body, of one element, or a function of the tensors of `inputs`."""
        if not isinstance(test, Symbol):
            self.test = PythonCondition(test, tuple(self.body.own(symbol) for symbol in inputs))
            return
        if test.spec.elements != 1:
            raise ShapeError("while", got=str(test.spec), need="a test of one element", origin=caller_origin())
        self.test = Holds(self.body.own(test))

    def result(self, symbol: Symbol) -> Symbol:
        """The value of a symbol of the body at the test that failed, in the graph around.

        A carried symbol is what the last whole iteration made of it. Any other is computed once more, from the
        carried values: its commands run before the test.
        """
        return self._output(symbol, rows=False)

    def rows(self, symbol: Symbol) -> Symbol:
        """The values of a symbol of the body in all whole iterations, f[limit, …], in the graph around.

        SymbolError for a loop whose number of iterations has no bound.
        """
        return self._output(symbol, rows=True)

    @property
    def exit_count(self) -> Symbol:
        """The loop count at the test that failed, i64[]."""
        return self._after(str(self.count))

    def _after(self, asked: str) -> Symbol:
        if self._exit_count is None:
            raise SymbolError("while", got=asked, need="a symbol of the body, after the loop", origin=caller_origin())
        return self._exit_count

    def _output(self, symbol: Symbol, *, rows: bool) -> Symbol:
        count = self._after(str(symbol))
        if symbol.graph is not self.body:
            raise SymbolError("while", got=str(symbol), need="a symbol of the body", origin=caller_origin())
        writers = self.outside.writers(count.key)
        if not writers or self.outside.execs[writers[0]].command.attrs.body.graph is not self.body:
            got = f"{symbol} of a body that a pass has changed"
            raise SymbolError("while", got=got, need="results asked for before simplify()", origin=caller_origin())
        return keep(self.outside, writers[0], Kept(symbol.key, rows))

    def __enter__(self) -> Loop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()

    def _finish(self) -> None:
        missing = [self.body.label(key) for key in self._initial if key not in self._next]
        if missing or not self._initial or self.test is None:
            got = f"no next value for {missing[0]}" if missing else "no carried value or no test"
            raise SymbolError("while", got=got, need="a test, and next() for each carry()", origin=self.origin)
        results: list[TensorKey] = []
        for new in self._next.values():
            handed_on = new in self._initial or new in self.body.captured.values()
            results.append(new if handed_on else result_of_its_own(self.body, new, results))
        ordered = dict(zip(self._next, results, strict=True))
        carried = tuple(self._initial)
        body = Body(self.body, (*carried, *self.body.captured.values()), tuple(ordered[key] for key in carried))
        attrs = WhileAttrs(body, len(carried), self.count.key, self.test, self.at_most)
        invariants = [self.outside.symbol(key) for key in self.body.captured]
        self.body.enclosing = None
        initial = [whole_of(symbol) for symbol in self._initial.values()]
        (self._exit_count,) = self.outside.apply(Command(WHILE, attrs), [*initial, *invariants], name=self.name)


def keep(graph: SymbolicGraph, key: ExecKey, kept: Kept) -> Symbol:
    """The output of a loop for `kept`; the loop gets it when it has none yet."""
    attrs = graph.execs[key].command.attrs
    assert isinstance(attrs, WhileAttrs)
    if kept.rows and attrs.limit is None:
        raise SymbolError(
            "while",
            got="rows of a loop whose number of iterations nobody knows",
            need="a bound: memory is planned before a run, a row for each iteration",
            fix="give while_loop at_most=",
            origin=caller_origin(),
        )
    if kept not in attrs.kept:
        grown = replace(attrs, kept=(*attrs.kept, kept))
        graph.add_outputs(key, Command(WHILE, grown), [result_spec(grown, kept)])
        attrs = grown
    return graph.symbol(graph.execs[key].outputs[1 + attrs.kept.index(kept)])


@checked
def while_loop(
    graph: SymbolicGraph, test: CountBelow | None = None, *, at_most: int | None = None, name: str = ""
) -> Loop:
    """A loop in `graph`, to be used in a `with` statement; without `test` the body calls `go_on_while`.

    `name` is that of the exec.

    `at_most` bounds the iterations of a loop whose test is no count: its gradient needs memory for each of them, and
    memory is planned before a run. A run that would go on beyond it ends with an IndexRangeError.
    """
    return Loop(graph, test, at_most, caller_origin(), name)


# ---- the gradient


@dataclass(frozen=True, slots=True)
class _Flow:
    """What gradients of a loop flow through: positions of carried values and invariants, and reads of rows.

    An invariant of which every iteration reads one row by its number (`index_select`) gets no sum over iterations:
    `selections` are those reads, each with the position of the invariant, and their gradients are put together behind
    the loop, so that time is linear in the number of rows.
    """

    carried: tuple[int, ...]
    summed: tuple[int, ...]
    selections: tuple[tuple[int, ExecSymbol], ...]


def _find_flow(call: Applied[WhileAttrs]) -> _Flow:
    attrs = call.attrs
    carried = tuple(place for place in range(attrs.carried) if call.inputs[place].spec.dtype.is_continuous)
    wanted = tuple(place for place in range(attrs.carried, len(call.inputs)) if call.needed[place])
    rows = {place: _row_reads(attrs, attrs.body.parameters[place]) for place in wanted} if carried else {}
    selections = tuple((place, record) for place, records in rows.items() for record in records)
    return _Flow(carried, tuple(place for place in wanted if not rows.get(place)), selections)


def _row_reads(attrs: WhileAttrs, key: TensorKey) -> tuple[ExecSymbol, ...]:
    """The execs of a body that read an invariant, if each reads one row of it and nothing else does."""
    graph = attrs.body.graph
    if key in attrs.body.results or any(graph.root(kept.symbol) == key for kept in attrs.kept):
        return ()
    records = tuple(graph.execs[reader] for reader in graph.readers(key))
    for record in records:
        is_row = record.command.op is INDEX_SELECT and record.command.attrs.axis == 0 and record.inputs[0] == key
        index = record.inputs[1] if is_row else None
        if index is None or graph.tensors[index].spec.rank or graph.root(record.outputs[0]) != record.outputs[0]:
            return ()
    return records


def _while_gradient(call: Applied[WhileAttrs], gradients: Gradients) -> Gradients:
    """Backwards: what ran before the failed test, then a loop over the whole iterations, the last one first.

    The tape gives what each iteration began with; what it computed is computed again from there.
    """
    flow, sums = _find_flow(call), dict[int, Symbol]()
    for places, slopes in _exit_gradients(call, flow, gradients):
        for place, symbol in zip(places, slopes, strict=True):
            sums[place] = add(sums[place], symbol) if place in sums else symbol
    carried, others = _loop_gradients(call, flow, gradients, sums)
    results: list[Symbol | None] = [None] * len(call.inputs)
    for place, symbol in carried.items():
        results[place] = symbol
    for place, symbol in others:
        found_before = results[place]
        results[place] = symbol if found_before is None else add(found_before, symbol)
    return tuple(results)


def _exit_gradients(
    call: Applied[WhileAttrs], flow: _Flow, gradients: Gradients
) -> Iterator[tuple[tuple[int, ...], tuple[Symbol, ...]]]:
    """Positions, with the gradients of the values and invariants that the last, broken iteration began with."""
    attrs, body = call.attrs, call.attrs.body
    seeded = [
        (kept.symbol, as_symbol(gradient))
        for kept, gradient in zip(attrs.kept, gradients[1:], strict=True)
        if not kept.rows and gradient is not None and body.graph.tensors[kept.symbol].spec.dtype.is_continuous
    ]
    for key, seed in seeded:
        if key in body.parameters:
            yield (body.parameters.index(key),), (seed,)
    computed = [key for key, _ in seeded if key not in body.parameters]
    if not computed:
        return
    invariants = dict.fromkeys((*flow.summed, *(place for place, _ in flow.selections)))
    places = (*flow.carried, *invariants)
    pullback = pull_back_body(body, computed, [body.parameters[place] for place in places], keep=[attrs.count])
    count = as_symbol(call.outputs[0])
    given = {pullback.mapped[attrs.count]: count.key}
    read = pullback.reads()
    for place, parameter in enumerate(body.parameters):
        key = pullback.mapped[parameter]
        if place >= attrs.carried:
            given[key] = as_symbol(call.inputs[place]).key
        elif key in read:
            given[key] = keep(count.graph, count.graph.writers(count.key)[0], Kept(parameter)).key
    seeds = dict(zip(pullback.seeds, (seed for key, seed in seeded if key not in body.parameters), strict=True))
    given.update((key, whole_of(seed).key) for key, seed in seeds.items())
    yield places, pullback.into(count.graph, given)


def _loop_gradients(
    call: Applied[WhileAttrs], flow: _Flow, gradients: Gradients, sums: Mapping[int, Symbol]
) -> tuple[dict[int, Symbol], list[tuple[int, Symbol]]]:
    """The gradients by position behind all whole iterations, and those that are put together from rows.

    `sums` are the gradients by position in front of the loop.
    """
    attrs, body, inputs = call.attrs, call.attrs.body, tuple(map(as_symbol, call.inputs))
    stacks = [
        (kept.symbol, as_symbol(gradient))
        for kept, gradient in zip(attrs.kept, gradients[1:], strict=True)
        if kept.rows and gradient is not None
    ]
    outputs = [*(body.results[place] for place in flow.carried), *(key for key, _ in stacks)]
    summed = (*flow.carried, *flow.summed)
    rows = [record.outputs[0] for _, record in flow.selections]
    indices = [number for _, record in flow.selections if (number := record.inputs[1]) is not None]
    wanted = [*(body.parameters[place] for place in summed), *rows]
    pullback = pull_back_body(body, outputs, wanted, indices, keep=[attrs.count])
    loop = _start_backward(attrs, inputs[0].graph)
    tape = _tape(call, pullback)
    trips = as_symbol(call.outputs[0])
    with loop:
        if loop.test is None:
            loop.go_on_while(less(loop.count, trips))
        index = trips - 1 - loop.count
        initial = (sums[place] if place in sums else fill_like(inputs[place], 0.0) for place in summed)
        carried = [loop.carry(symbol) for symbol in initial]
        seeds = [*carried[: len(flow.carried)], *(index_select(gradient, index) for _, gradient in stacks)]
        given = {pullback.mapped[attrs.count]: index.key}
        for place, key in enumerate(body.parameters):
            if place in tape:
                given[pullback.mapped[key]] = index_select(tape[place], index).key
            elif place >= attrs.carried:
                given[pullback.mapped[key]] = loop.capture(inputs[place]).key
        given.update((key, symbol.key) for key, symbol in zip(pullback.seeds, seeds, strict=True))
        gradients_in_body = pullback.into(loop.body, given)
        for position, (symbol, value) in enumerate(zip(carried, gradients_in_body, strict=False)):
            loop.next(symbol, value if position < len(flow.carried) else add(symbol, value))
    made = {place: loop.result(symbol) for place, symbol in zip(summed, carried, strict=True)}
    parts = [(place, sums[place]) for place in dict.fromkeys(place for place, _ in flow.selections) if place in sums]
    slopes, numbers = gradients_in_body[len(summed) :][: len(rows)], gradients_in_body[len(summed) + len(rows) :]
    for (place, _), slope, row in zip(flow.selections, slopes, numbers, strict=True):
        parts.append((place, scatter_add(loop.rows(slope), loop.rows(row), 0, inputs[place].shape[0])))
    return made, parts


def _start_backward(attrs: WhileAttrs, graph: SymbolicGraph) -> Loop:
    """A loop of as many iterations; NotDifferentiableError when nobody knows a bound on them."""
    limit = attrs.limit
    if limit is None:
        raise NotDifferentiableError(
            "while",
            got="a loop whose number of iterations nobody knows",
            need="a bound: the gradient reads values of all iterations, and memory for them is planned before a run",
            fix="give while_loop at_most=",
        )
    if isinstance(attrs.test, CountBelow):
        return while_loop(graph, CountBelow(limit))
    return while_loop(graph, at_most=limit)


def _tape(call: Applied[WhileAttrs], pullback: Pullback) -> dict[int, Symbol]:
    """Rows of the carried values that the gradient reads, by position; the loop gets those that it has not yet."""
    attrs, count = call.attrs, as_symbol(call.outputs[0])
    read, key = pullback.reads(), count.graph.writers(count.key)[0]
    parameters = attrs.body.parameters[: attrs.carried]
    return {
        place: keep(count.graph, key, Kept(parameter, rows=True))
        for place, parameter in enumerate(parameters)
        if pullback.mapped[parameter] in read
    }


WHILE = operator(
    "while",
    WhileAttrs,
    (),
    infer=infer_while,
    gradient=_while_gradient,
    variadic=True,
    registry=CONTROL_REGISTRY,
    doc="x = next(x) while the test holds",
)
BODIES.set(WHILE, lambda attrs: (("body", attrs.body),))
MIXED_DEVICES.set(WHILE, True)
