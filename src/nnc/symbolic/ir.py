"""The symbolic graph: commands over tensor symbols in static single assignment form, without memory.

    ┌ Arena[TensorKey, TensorSymbol] ┐      each root is written once (its aliases: at disjoint places)
    └ Graph[ExecSymbol, Dependency, ExecKey] ┘   edges are derived from use, writer → reader, or given

Symbols are records in an arena; `Symbol` is the handle that users hold. An alias names a strided part of its
root, never of another alias. A symbol may be made without a spec, which is set later or inferred from others.

Commands of loops and branches hold graphs of their own, as bodies. While a body is built, a symbol of a graph around
it may be used in it: it becomes an input of the body.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

from nnc.arguments import checked, explained, frequent
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Shape, TensorSpec
from nnc.errors import ShapeError, SymbolError, UsageError
from nnc.faces import imported
from nnc.graph import ListStorage, OpAttr, StorageFactory
from nnc.graph.screen import preformatted
from nnc.ops.arithmetic import ArithmeticOperand
from nnc.ops.products.products import gemm
from nnc.ops.rules import infer
from nnc.symbolic.auto import AUTO
from nnc.symbolic.graph_records import EditableGraph, Observer, TensorObserver, fits
from nnc.symbolic.records import AliasOf, ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.region import Region
from nnc.symbolic.scopes import scoped
from nnc.vocabulary.answers import Answering
from nnc.vocabulary.names import SYMBOL


class Duplicate(NamedTuple):
    """A graph that is a copy of another, and what each key of the other one is in it."""

    graph: SymbolicGraph
    tensors: Mapping[TensorKey, TensorKey]
    execs: Mapping[ExecKey, ExecKey]


@explained
class SymbolicGraph(EditableGraph):
    """Commands over tensor symbols. Symbols are made by `input`, `apply` and `alias`; edges come from use or `connect`.

    `storage` decides what becomes of removed records: a list keeps their slots, a dict (for records that grow and
    shrink without end) gives them back. `enclosing` is the graph around a body that is being built, whose roots become
    inputs of the body where they are used (`captured`: theirs → ours).
    """

    def __init__(
        self, name: str = "", storage: StorageFactory = ListStorage, enclosing: SymbolicGraph | None = None
    ) -> None:
        self.name = name
        self.enclosing = enclosing
        self.captured: dict[TensorKey, TensorKey] = {}
        super().__init__(storage)

    def __copy__(self) -> SymbolicGraph:
        return copy.deepcopy(self)

    # ---- symbols

    def input(self, spec: TensorSpec = AUTO, name: str = "", *, fill: float | None = None) -> Symbol:
        """A symbol that no exec writes yet: its value comes from outside, or is `fill` wherever nobody writes it.

        Without a spec it gets one by `specify`, or as an output of `apply`.
        """
        return Symbol(self, self.add_tensor(TensorSymbol(spec, scoped(name), None, caller_origin(), fill)))

    def specify(self, symbol: Symbol, spec: TensorSpec) -> Symbol:
        """Set the spec of a symbol that was made without one; what can be inferred from it now is.

        ShapeError for a symbol that has one, and as in `apply` where the spec does not fit: then nothing changes.
        """
        key = self.own(symbol)
        if self.tensors[key].spec is not AUTO:
            raise ShapeError("specify", got=str(symbol), need="a symbol without a spec", origin=caller_origin())
        inferred_specs = {key: spec}
        waiting = deque([*self.readers(key), *self.writers(key)])
        while waiting:
            record = self.execs[waiting.popleft()]
            results = self._infer(record.command, record.inputs, record.origin, inferred_specs)
            for output, inferred in zip(record.outputs, results, strict=True):
                known = inferred_specs.get(output, self.tensors[output].spec)
                if known is AUTO and inferred is not AUTO:
                    inferred_specs[output] = inferred
                    waiting.extend(self.readers(output))
                elif inferred is not AUTO and not fits(known, inferred):
                    got, origin = f"{self.label(output)}, specified as {known}", record.origin
                    raise ShapeError(record.command.op.name, got=got, need=str(inferred), origin=origin)
        for tensor, known in inferred_specs.items():
            self.tensors.replace(tensor, replace(self.tensors[tensor], spec=known))
        return symbol

    def alias(self, of: TensorKey, spec: TensorSpec, offset: int, strides: Shape) -> Symbol:
        """A symbol for a part of `of`'s root, at `offset` and `strides` elements of the root's memory."""
        root = self.root(of)
        base = self.tensors[root].spec
        region = Region(spec.shape, offset, strides)
        if spec.dtype is not base.dtype or not region.inside(base.elements):
            got = f"{spec} at {offset}, strides {list(strides)} of {base}"
            raise ShapeError("alias", got=got, need="elements inside the root, of its type", origin=caller_origin())
        record = TensorSymbol(spec, "", AliasOf(root, offset, strides), caller_origin())
        return Symbol(self, self.add_tensor(record))

    @frequent
    def symbol(self, key: TensorKey) -> Symbol:
        """The handle for a key of this graph."""
        self.tensors[key]
        return Symbol(self, key)

    def rename(self, symbol: Symbol, name: str) -> Symbol:
        """Give a symbol a name (in the open scopes) for texts and messages; names are labels, never identity."""
        key = self.own(symbol)
        self.tensors.replace(key, replace(self.tensors[key], name=scoped(name)))
        return symbol

    @frequent
    def own(self, symbol: Symbol) -> TensorKey:
        """The key of a symbol of this graph, or of one that encloses it; SymbolError for a symbol of another."""
        if isinstance(symbol, Symbol) and symbol.graph is not self and symbol.graph in self.around():
            return self._capture(symbol)
        if not isinstance(symbol, Symbol) or symbol.graph is not self:
            got = f"{symbol} of another graph" if isinstance(symbol, Symbol) else f"a {type(symbol).__name__}"
            raise SymbolError("symbol", got=got, need="a symbol of this graph", origin=caller_origin())
        return symbol.key

    @frequent
    def around(self) -> tuple[SymbolicGraph, ...]:
        """The graphs that enclose this one while it is built, innermost first."""
        enclosing: list[SymbolicGraph] = []
        graph = self.enclosing
        while graph is not None:
            enclosing.append(graph)
            graph = graph.enclosing
        return tuple(enclosing)

    def _capture(self, symbol: Symbol) -> TensorKey:
        """Our symbol for one of an enclosing graph: its root is an input of each body in between."""
        root = symbol.graph.root(symbol.key)
        layers = self.around()
        for graph in reversed((self, *layers[: layers.index(symbol.graph)])):
            if root not in graph.captured:
                record = replace(symbol.graph.tensors[symbol.graph.root(symbol.key)], alias=None, fill=None)
                graph.captured[root] = graph.add_tensor(record)
            root = graph.captured[root]
        if symbol.graph.root(symbol.key) == symbol.key:
            return root
        return self.alias(root, symbol.spec, symbol.offset, symbol.strides).key

    # ---- execs

    def apply(
        self,
        command: AnyCommand,
        inputs: Sequence[Symbol | None],
        outputs: Sequence[Symbol] | None = None,
        name: str = "",
    ) -> tuple[Symbol, ...]:
        """Append an exec. Fresh output symbols are made unless `outputs` (unwritten symbols or aliases) are given.

        Outputs have no spec while some input has none; given ones without a spec get that which is inferred.
        """
        keys = tuple(None if symbol is None else self.own(symbol) for symbol in inputs)
        origin, label = caller_origin(), scoped(name, command.op.name)
        results = self._infer(command, keys, origin, {})
        if outputs is None:
            written = tuple([self.add_tensor(TensorSymbol(spec, "", None, origin)) for spec in results])
        else:
            written = tuple(self.own(symbol) for symbol in outputs)
            self._check_written(ExecSymbol(command, keys, written, label, origin), results)
            for key, spec in zip(written, results, strict=True):
                if self.tensors[key].spec is AUTO:
                    self.tensors.replace(key, replace(self.tensors[key], spec=spec))
        self.add_exec(ExecSymbol(command, keys, written, label, origin))
        return tuple([Symbol(self, key) for key in written])

    def _infer(
        self,
        command: AnyCommand,
        inputs: tuple[TensorKey | None, ...],
        origin: str,
        specified: Mapping[TensorKey, TensorSpec],
    ) -> tuple[TensorSpec, ...]:
        """Specs of the outputs, AUTO while an input has none; `specified` comes before what the symbols have."""
        specs = tuple([None if key is None else specified.get(key, self.tensors[key].spec) for key in inputs])
        if any(spec is AUTO for spec in specs) and (names := outputs_named(command)):
            return (AUTO,) * len(names)
        try:
            return infer(command.op, command.attrs, specs)
        except UsageError as error:
            error.origin = error.origin or origin
            raise

    @frequent
    @checked
    @contextmanager
    def observed(self, execs: Observer | None = None, tensors: TensorObserver | None = None) -> Iterator[None]:
        """Inside, `execs` is told each exec that is appended, and `tensors` each symbol that is made."""
        pair = (execs, tensors)
        self._observers.append(pair)
        try:
            yield
        finally:
            self._observers.remove(pair)

    # ---- copies and text

    def subgraph(
        self, execs: Iterable[ExecKey], tensors: Iterable[TensorKey] = ()
    ) -> tuple[SymbolicGraph, Mapping[TensorKey, TensorKey]]:
        """A new graph with these execs (in this order) and tensors, and the map from old to new tensor keys."""
        result = SymbolicGraph(self.name)
        mapped: dict[TensorKey, TensorKey] = {}
        result.graft(self, execs, tensors, mapped)
        return result, mapped

    def duplicate(self) -> Duplicate:
        """A copy of the whole graph, to be changed on its own, and where everything is in it."""
        result = SymbolicGraph(self.name)
        tensors: dict[TensorKey, TensorKey] = {}
        order = self.execs.toposort()
        made = result.graft(self, order, self.tensors, tensors)
        return Duplicate(result, tensors, dict(zip(order, made, strict=True)))

    def renewed(self, tensors: Mapping[TensorKey, TensorSymbol], execs: Mapping[ExecKey, ExecSymbol]) -> SymbolicGraph:
        """A copy with the same keys, to be changed on its own, and these records in the place of some.

        They have the aliases, inputs and outputs of the old ones, or such as make the same edges.
        """
        result = SymbolicGraph(self.name)
        result.execs, result.tensors = self.execs.copy(), self.tensors.copy()
        result._writers = {root: [*keys] for root, keys in self._writers.items()}
        result._readers = {root: {**keys} for root, keys in self._readers.items()}
        for tensor, symbol in tensors.items():
            result.tensors.replace(tensor, symbol)
        for key, record in execs.items():
            result.execs.replace_node(key, record)
        return result

    def __str__(self) -> str:
        # The text that this module writes and reads stands above the graph.
        text: str = imported("nnc.symbolic.text").dump(self)
        return text

    def __repr__(self) -> str:
        return f"SymbolicGraph({self.name!r}, {len(self.execs)} execs, {len(self.tensors)} tensors)"

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def outputs_named(command: AnyCommand) -> tuple[str, ...]:
    """Names of a command's outputs; empty where their number follows from the inputs."""
    names = command.op.outputs
    named = names(command.attrs) if callable(names) else names
    return named if isinstance(named, tuple) and not bodies_of(command) else ()


@explained
class Symbol(ArithmeticOperand, Answering):
    """The handle of a tensor symbol: hashable, comparable by identity of graph and key, with array operators."""

    __slots__ = ("graph", "key")
    forms: ClassVar[Mapping[str, str]] = SYMBOL

    @frequent
    def __init__(self, graph: SymbolicGraph, key: TensorKey) -> None:
        self.graph = graph
        self.key = key

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""
        return self.graph.tensors[self.key].spec

    @property
    def name(self) -> str:
        """The label given by the user, or empty."""
        return self.graph.tensors[self.key].name

    @property
    def strides(self) -> Shape:
        """Strides in elements over the root's memory."""
        return self.graph.region(self.key).strides

    @property
    def offset(self) -> int:
        """Elements between the root's first element and this symbol's."""
        return self.graph.region(self.key).offset

    def apply(self, command: AnyCommand, inputs: Sequence[Symbol | None]) -> tuple[Symbol, ...]:
        """Append an exec to this symbol's graph, or to that of an input which this one's graph encloses."""
        graphs = (symbol.graph for symbol in inputs if isinstance(symbol, Symbol))
        inner = (graph for graph in graphs if self.graph in graph.around())
        graph = max(inner, key=lambda graph: len(graph.around()), default=self.graph)
        return graph.apply(command, inputs)

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Symbol:
        """A symbol for a part of this symbol's root."""
        return self.graph.alias(self.key, spec, offset, strides)

    def specify(self, spec: TensorSpec) -> Symbol:
        """This symbol, which was made without a spec, with this one; see `SymbolicGraph.specify`."""
        return self.graph.specify(self, spec)

    def named(self, name: str) -> Symbol:
        """This symbol, with a name for texts and messages."""
        return self.graph.rename(self, name)

    def __matmul__(self, other: Self) -> Self:
        """As NumPy; a product of matrices where a spec is not there yet."""
        unknown = AUTO is self.spec or AUTO is getattr(other, "spec", None)
        return gemm(self, other) if unknown else super().__matmul__(other)

    def __bool__(self) -> bool:
        raise SymbolError(
            "truth",
            got=str(self),
            need="a value, which a symbol has only in a run",
            fix="choose with where(), case_of() or while_loop()",
            origin=caller_origin(),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and other.graph is self.graph and other.key == self.key

    def __hash__(self) -> int:
        return hash((id(self.graph), self.key))

    def __repr__(self) -> str:
        return f"Symbol({self.graph.label(self.key)})"


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A graph inside a command: `parameters` get the command's values, by position, and `results` give them back."""

    graph: SymbolicGraph
    parameters: tuple[TensorKey, ...]
    results: tuple[TensorKey, ...]

    def __repr__(self) -> str:
        return f"Body({len(self.graph.execs)} execs)"


# `Any`: a column holds rules of all operators; each operator with bodies sets it for its own attributes.
BODIES = OpAttr[Callable[[Any], tuple[tuple[str, Body], ...]]]("bodies")


def bodies_of(command: AnyCommand) -> tuple[tuple[str, Body], ...]:
    """The graphs inside a command, each with what it is there."""
    return BODIES[command.op](command.attrs) if command.op in BODIES else ()
