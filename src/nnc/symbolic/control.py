"""Loops and branches: commands whose attributes hold graphs.

    while:     (initial values…, invariants…) -> (final values…, count at the exit, stacks…)
    case..of:  (choice…, operands…) -> what the chosen branch gives

    with while_loop(graph, CountBelow(5)) as loop:
        x = loop.carry(x0)
        loop.next(x, x * weight)        # weight belongs to the graph around: an invariant
    y = loop.result(x)

    y, = case_of(graph, index, [double, square], [x], bypass=[x])

The test comes at the start of an iteration (`while`), or at its end (`do … while`, one iteration more). A command is
a plain value, so passes, plans and gradients treat loops and branches like every other operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeAlias

from nnc.concrete import CountBelow
from nnc.core.command import Command
from nnc.core.dtype import I64
from nnc.core.origin import caller_origin
from nnc.core.spec import TensorSpec
from nnc.errors import ArityError, NotDifferentiableError, ShapeError, SymbolError
from nnc.graph import Registry
from nnc.ops.copy import contiguous
from nnc.ops.fill import fill_like
from nnc.ops.indexing import index_select
from nnc.ops.pointwise import add, less
from nnc.ops.rules import Applied, Gradients, Specs, operator
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import BODIES, Body, ExecKey, Symbol, SymbolicGraph, TensorKey

# Not the default one: a tool that goes through all operators could make nothing of these without bodies.
CONTROL_REGISTRY = Registry("control")


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """Go on while the single element of the body's `symbol` is not zero."""

    symbol: TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class PythonHolds:
    """Go on while `function` of the tensors of the body's `inputs` is true."""

    function: Callable[..., object]
    inputs: tuple[TensorKey, ...]


Test: TypeAlias = CountBelow | Holds | PythonHolds


@dataclass(frozen=True, slots=True, eq=False)
class WhileAttrs:
    """`body`'s first `carried` parameters get its results of the iteration before; the others never change.

    `count` is the body's symbol of the loop count, i64[]. Row k of a stack is what the body's symbol in `stacked` was
    in iteration k; stacks have `limit` rows.
    """

    body: Body
    carried: int
    count: TensorKey
    test: Test
    at_end: bool = False
    at_most: int | None = None
    stacked: tuple[TensorKey, ...] = ()

    @property
    def limit(self) -> int | None:
        """The largest number of iterations, None when nobody knows."""
        return self.test.limit + self.at_end if isinstance(self.test, CountBelow) else self.at_most

    def asked(self) -> tuple[TensorKey, ...]:
        """The body's symbols that the test reads."""
        match self.test:
            case CountBelow():
                return ()
            case Holds():
                return (self.test.symbol,)
            case PythonHolds():
                return self.test.inputs


@dataclass(frozen=True, slots=True, eq=False)
class CaseAttrs:
    """The branch that the first input names (or `function` of the first `chosen` inputs); `otherwise` for others."""

    branches: tuple[Body, ...]
    otherwise: Body | None = None
    function: Callable[..., int] | None = None
    chosen: int = 1

    def bodies(self) -> tuple[tuple[str, Body], ...]:
        """All branches, with names."""
        named = tuple((f"case {index}", body) for index, body in enumerate(self.branches))
        return named if self.otherwise is None else (*named, ("otherwise", self.otherwise))


def _infer_while(attrs: WhileAttrs, specs: Specs) -> Specs:
    body = attrs.body
    _check_specs("while", specs, _specs(body.graph, body.parameters))
    initial = specs[: attrs.carried]
    _check_specs("while", _specs(body.graph, body.results), initial)
    stacks = [replace(spec, shape=(attrs.limit or 1, *spec.shape)) for spec in _specs(body.graph, attrs.stacked)]
    return (*initial, TensorSpec((), I64), *stacks)


def _infer_case(attrs: CaseAttrs, specs: Specs) -> Specs:
    (_, first), *others = attrs.bodies()
    for body in (first, *(body for _, body in others)):
        _check_specs("case..of", specs[attrs.chosen :], _specs(body.graph, body.parameters))
        _check_specs("case..of", _specs(body.graph, body.results), _specs(first.graph, first.results))
    return _specs(first.graph, first.results)


def _specs(graph: SymbolicGraph, keys: Sequence[TensorKey]) -> Specs:
    return tuple(graph.tensors[key].spec for key in keys)


def _check_specs(subject: str, got: Specs, need: Specs) -> None:
    if [(spec.shape, spec.dtype) for spec in got] != [(spec.shape, spec.dtype) for spec in need]:
        raise ShapeError(subject, got=", ".join(map(str, got)), need=", ".join(map(str, need)) or "nothing")


# ---- building


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that is being built: `carry` and `next` make what goes from iteration to iteration."""

    outside: SymbolicGraph
    test: Test | None
    at_end: bool
    at_most: int | None
    origin: str
    body: SymbolicGraph = field(init=False)
    count: Symbol = field(init=False)
    _initial: dict[TensorKey, Symbol] = field(default_factory=dict)
    _next: dict[TensorKey, TensorKey] = field(default_factory=dict)
    _results: tuple[Symbol, ...] = ()

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
            self.test = PythonHolds(test, tuple(self.body.own(symbol) for symbol in inputs))
            return
        if test.spec.elements != 1:
            raise ShapeError("while", got=str(test.spec), need="a test of one element", origin=caller_origin())
        self.test = Holds(self.body.own(test))

    def result(self, carried: Symbol) -> Symbol:
        """The value of a carried symbol after the loop, in the graph around."""
        if not self._results or carried.graph is not self.body or carried.key not in self._initial:
            raise SymbolError("while", got=str(carried), need="a symbol of carry(), after the loop")
        return self._results[tuple(self._initial).index(carried.key)]

    @property
    def exit_count(self) -> Symbol:
        """The loop count at the test that failed, i64[]."""
        return self._results[len(self._initial)]

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
            results.append(new if handed_on else _result_of_its_own(self.body, new, results))
        ordered = dict(zip(self._next, results, strict=True))
        carried = tuple(self._initial)
        body = Body(self.body, (*carried, *self.body.captured.values()), tuple(ordered[key] for key in carried))
        attrs = WhileAttrs(body, len(carried), self.count.key, self.test, self.at_end, self.at_most)
        invariants = [self.outside.symbol(key) for key in self.body.captured]
        self.body.enclosing = None
        initial = [_whole(symbol) for symbol in self._initial.values()]
        self._results = self.outside.apply(Command(WHILE, attrs), [*initial, *invariants])


def while_loop(
    graph: SymbolicGraph, test: CountBelow | None = None, *, at_end: bool = False, at_most: int | None = None
) -> Loop:
    """A loop in `graph`, to be used in a `with` statement; without `test` the body calls `go_on_while`.

    `at_most` bounds the iterations of a loop whose test is no count: its gradient needs memory for each of them. A
    run that would go on beyond it ends with an IndexRangeError.
    """
    return Loop(graph, test, at_end, at_most, caller_origin())


def case_of(
    graph: SymbolicGraph,
    choice: Symbol | tuple[Callable[..., int], Sequence[Symbol]],
    branches: Sequence[Callable[..., Symbol | tuple[Symbol, ...]]],
    operands: Sequence[Symbol] = (),
    *,
    bypass: Sequence[Symbol] | None = None,
) -> tuple[Symbol, ...]:
    """What branch number `choice` gives for the operands, or `bypass` when there is no such branch.

    `choice` is a symbol of one integer, or a function with the symbols whose tensors it gets; a gradient calls the
    function again. Branches are functions of the operands' symbols; symbols of graphs around may be used in them.
    Without `bypass` a choice without a branch is an IndexRangeError of the run.
    """
    function, asked = (None, (choice,)) if isinstance(choice, Symbol) else (choice[0], tuple(choice[1]))
    if not branches or not asked:
        raise ArityError("case..of", got="no branch, or no symbol to choose by", need="both", origin=caller_origin())
    built = [_build_branch(graph, branch, operands) for branch in branches]
    if bypass is not None:
        built.append(_build_branch(graph, lambda *_: tuple(bypass), operands))
    captured = tuple(dict.fromkeys(key for inner, _ in built for key in inner.captured))
    bodies = [_close_branch(inner, results, [graph.symbol(key) for key in captured]) for inner, results in built]
    count, otherwise = len(branches), None if bypass is None else bodies[-1]
    attrs = CaseAttrs(tuple(bodies[:count]), otherwise, function, len(asked))
    whole = [_whole(graph.symbol(graph.own(symbol))) for symbol in asked]
    return graph.apply(Command(CASE_OF, attrs), [*whole, *(graph.symbol(key) for key in captured)])


def _build_branch(
    graph: SymbolicGraph, branch: Callable[..., Symbol | tuple[Symbol, ...]], operands: Sequence[Symbol]
) -> tuple[SymbolicGraph, tuple[Symbol, ...]]:
    inner = SymbolicGraph(enclosing=graph)
    given = branch(*(inner.symbol(inner.own(symbol)) for symbol in operands))
    results = (given,) if isinstance(given, Symbol) else tuple(given)
    return inner, tuple(inner.symbol(inner.own(symbol)) for symbol in results)


def _close_branch(inner: SymbolicGraph, results: Sequence[Symbol], captured: Sequence[Symbol]) -> Body:
    """The branch with the parameters of all branches; results lie in memory of their own."""
    parameters = tuple(inner.own(symbol) for symbol in captured)
    inner.enclosing = None
    taken: list[TensorKey] = []
    for symbol in results:
        taken.append(_result_of_its_own(inner, symbol.key, taken))
    return Body(inner, parameters, tuple(taken))


def _result_of_its_own(graph: SymbolicGraph, key: TensorKey, taken: Sequence[TensorKey]) -> TensorKey:
    """`key`, or a copy of it unless one exec writes all of it and nobody else gives it back."""
    writers = graph.writers(key)
    if graph.root(key) == key and key not in taken and len(writers) == 1 and key in graph.execs[writers[0]].outputs:
        return key
    return contiguous(graph.symbol(key)).key


def _whole(symbol: Symbol) -> Symbol:
    """The symbol, or a copy of it when it is a part of another."""
    return symbol if symbol.graph.root(symbol.key) == symbol.key else contiguous(symbol)


# ---- gradients


@dataclass(frozen=True, slots=True)
class _Pullback:
    """A copy of a body with its gradient: `graph`, old → new keys, seeds, gradients, and the execs that these need."""

    graph: SymbolicGraph
    mapped: dict[TensorKey, TensorKey]
    seeds: tuple[TensorKey, ...]
    gradients: tuple[TensorKey, ...]
    execs: tuple[ExecKey, ...]

    def into(self, graph: SymbolicGraph, given: dict[TensorKey, TensorKey]) -> tuple[Symbol, ...]:
        """Append the gradient to another graph; `given` says what the copy's inputs are there."""
        known = dict(given)
        graph.graft(self.graph, self.execs, self.gradients, known)
        return tuple(graph.symbol(known[key]) for key in self.gradients)


def _pull_back(
    graph: SymbolicGraph, outputs: Sequence[TensorKey], inputs: Sequence[TensorKey], keep: Sequence[TensorKey]
) -> _Pullback:
    copy, mapped = graph.subgraph(graph.execs.toposort(), (*outputs, *inputs, *keep))
    results = [copy.symbol(mapped[key]) for key in outputs]
    seeds = [copy.input(symbol.spec, "seed") for symbol in results]
    gradients = backward(copy, results, [copy.symbol(mapped[key]) for key in inputs], seeds)
    keys = tuple(symbol.key for symbol in gradients)
    return _Pullback(copy, dict(mapped), tuple(symbol.key for symbol in seeds), keys, copy.needed_for(keys))


@dataclass(frozen=True, slots=True)
class _Flow:
    """Positions that gradients flow through: carried values, wanted invariants, stacks that have a gradient."""

    carried: tuple[int, ...]
    invariants: tuple[int, ...]
    stacks: tuple[int, ...]

    def pull_back(self, attrs: WhileAttrs) -> _Pullback:
        """The gradient of one iteration."""
        body = attrs.body
        outputs = [*(body.results[place] for place in self.carried), *(attrs.stacked[place] for place in self.stacks)]
        inputs = [body.parameters[place] for place in (*self.carried, *self.invariants)]
        return _pull_back(body.graph, outputs, inputs, (*body.parameters, attrs.count))


def _find_flow(call: Applied[WhileAttrs], gradients: Gradients) -> _Flow:
    count = call.attrs.carried
    carried = tuple(place for place in range(count) if call.inputs[place].spec.dtype.is_float)
    invariants = tuple(place for place in range(count, len(call.inputs)) if call.needed[place])
    stacks = tuple(place for place, gradient in enumerate(gradients[count + 1 :]) if gradient is not None)
    return _Flow(carried, invariants, stacks)


def _while_gradient(call: Applied[WhileAttrs], gradients: Gradients) -> Gradients:
    """A loop backwards: the tape gives what each iteration began with; gradients of invariants are summed up.

    What an iteration computed is computed again from there.
    """
    attrs, inputs = call.attrs, tuple(map(_symbol, call.inputs))
    flow = _find_flow(call, gradients)
    loop = _start_backward(attrs, inputs[0].graph)
    pullback = flow.pull_back(attrs)
    tape = _tape(call, inputs[0].graph, pullback)
    exit_count = _symbol(call.outputs[attrs.carried])
    trips = exit_count + 1 if attrs.at_end else exit_count
    with loop:
        if loop.test is None:
            loop.go_on_while(less(loop.count, trips))
        index = trips - 1 - loop.count
        carried = [loop.carry(_seed(gradients[place], inputs[place])) for place in flow.carried]
        sums = [loop.carry(fill_like(inputs[place], 0.0)) for place in flow.invariants]
        rows = [index_select(_symbol(gradients[attrs.carried + 1 + place]), index) for place in flow.stacks]
        given = {pullback.mapped[attrs.count]: index.key}
        for place, key in enumerate(attrs.body.parameters):
            if place in tape:
                given[pullback.mapped[key]] = index_select(tape[place], index).key
            elif place >= attrs.carried:
                given[pullback.mapped[key]] = loop.capture(inputs[place]).key
        given.update((key, symbol.key) for key, symbol in zip(pullback.seeds, [*carried, *rows], strict=True))
        found = pullback.into(loop.body, given)
        values = (*found[: len(carried)], *map(add, sums, found[len(carried) :]))
        for symbol, value in zip((*carried, *sums), values, strict=True):
            loop.next(symbol, value)
    results: list[Symbol | None] = [None] * len(inputs)
    for place, symbol in zip((*flow.carried, *flow.invariants), (*carried, *sums), strict=True):
        results[place] = loop.result(symbol)
    return tuple(results)


def _start_backward(attrs: WhileAttrs, graph: SymbolicGraph) -> Loop:
    """A loop of as many iterations; NotDifferentiableError when nobody knows a bound on them."""
    limit = attrs.limit
    if limit is None:
        raise NotDifferentiableError(
            "while", got="a loop of unknown length", need="a bound on its iterations", fix="give while_loop at_most="
        )
    if isinstance(attrs.test, CountBelow):
        return while_loop(graph, CountBelow(limit))
    return while_loop(graph, at_most=limit)


def _tape(call: Applied[WhileAttrs], graph: SymbolicGraph, pullback: _Pullback) -> dict[int, Symbol]:
    """Stacks of the carried values that the gradient reads, by position; the loop gets those that it has not yet."""
    attrs = call.attrs
    exec_key = graph.writers(_symbol(call.outputs[0]).key)[0]
    read = set(pullback.graph.inputs_of(pullback.execs)) | {pullback.graph.root(key) for key in pullback.gradients}
    places = [place for place in range(attrs.carried) if pullback.mapped[attrs.body.parameters[place]] in read]
    keys = [attrs.body.parameters[place] for place in places]
    fresh = tuple(key for key in keys if key not in attrs.stacked)
    if fresh:
        attrs = replace(attrs, stacked=(*attrs.stacked, *fresh))
        specs = _infer_while(attrs, tuple(operand.spec for operand in call.inputs))
        graph.add_outputs(exec_key, Command(WHILE, attrs), specs[len(call.outputs) :])
    stacks = graph.execs[exec_key].outputs[attrs.carried + 1 :]
    return {place: graph.symbol(stacks[attrs.stacked.index(key)]) for place, key in zip(places, keys, strict=True)}


def drop_unread_tapes(graph: SymbolicGraph, kept: Collection[TensorKey]) -> None:
    """Loops make no stacks that nobody reads and that are not `kept`."""
    for key, record in tuple(graph.execs.items()):
        attrs = record.command.attrs
        if isinstance(attrs, WhileAttrs) and attrs.stacked:
            stacks = record.outputs[attrs.carried + 1 :]
            read = [stack in kept or bool(graph.readers(stack)) for stack in stacks]
            unread = {stack for stack, used in zip(stacks, read, strict=True) if not used}
            stacked = tuple(source for source, used in zip(attrs.stacked, read, strict=True) if used)
            graph.drop_outputs(key, Command(WHILE, replace(attrs, stacked=stacked)), unread)


def _case_gradient(call: Applied[CaseAttrs], gradients: Gradients) -> Gradients:
    """The same choice again, of the gradients of the branches."""
    attrs = call.attrs
    inputs = tuple(_symbol(operand) for operand in call.inputs)
    operands = inputs[attrs.chosen :]
    wanted = [place for place in range(len(operands)) if call.needed[attrs.chosen + place]]
    seeded = [place for place, gradient in enumerate(gradients) if gradient is not None]
    bodies = [_branch_gradient(body, wanted, seeded) for _, body in attrs.bodies()]
    count = len(attrs.branches)
    changed = replace(attrs, branches=tuple(bodies[:count]), otherwise=None if attrs.otherwise is None else bodies[-1])
    seeds = [_whole(_symbol(gradients[place])) for place in seeded]
    found = inputs[0].graph.apply(Command(CASE_OF, changed), [*inputs, *seeds])
    results: list[Symbol | None] = [None] * len(inputs)
    for place, symbol in zip(wanted, found, strict=True):
        results[attrs.chosen + place] = symbol
    return tuple(results)


def _branch_gradient(body: Body, wanted: Sequence[int], seeded: Sequence[int]) -> Body:
    """(operands…, seeds…) -> gradients of the wanted operands."""
    outputs, inputs = [body.results[place] for place in seeded], [body.parameters[place] for place in wanted]
    pullback = _pull_back(body.graph, outputs, inputs, body.parameters)
    graph = SymbolicGraph()
    given = {
        key: graph.input(pullback.graph.tensors[key].spec).key
        for key in (*(pullback.mapped[parameter] for parameter in body.parameters), *pullback.seeds)
    }
    results: list[TensorKey] = []
    for symbol in pullback.into(graph, given):
        results.append(_result_of_its_own(graph, symbol.key, results))
    return Body(graph, tuple(given.values()), tuple(results))


def _seed(gradient: object, like: Symbol) -> Symbol:
    return fill_like(like, 0.0) if gradient is None else _symbol(gradient)


def _symbol(operand: object) -> Symbol:
    assert isinstance(operand, Symbol)
    return operand


WHILE = operator(
    "while",
    WhileAttrs,
    (),
    infer=_infer_while,
    gradient=_while_gradient,
    variadic=True,
    registry=CONTROL_REGISTRY,
    doc="x = next(x) while the test holds",
)
CASE_OF = operator(
    "case_of",
    CaseAttrs,
    (),
    infer=_infer_case,
    gradient=_case_gradient,
    variadic=True,
    registry=CONTROL_REGISTRY,
    doc="y = branch[choice](x…)",
)
BODIES.set(WHILE, lambda attrs: (("body", attrs.body),))
BODIES.set(CASE_OF, CaseAttrs.bodies)
