"""A compiled function recorded for a signature: the graph that its commands build, its ends, and the program of it.

    draft = record(function, arguments)      the function run on traced values
    draft.at(numbers)                        the same for other sizes, where arrays had open axes

A draft that was recorded with open sizes serves all that meet its guards (`nnc.symbolic.sharing.openings`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.running.dispatch import Claim
from nnc.core.values.sizes import ATOMS, Numbers, depends
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.calls import ProgramCall
from nnc.dynamic.graph import default_graph
from nnc.dynamic.traced import FunctionTrace, TracedValue
from nnc.dynamic.transforms.signatures import is_tensor, spec_of
from nnc.dynamic.tree import LEAF, Structure, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import SymbolError
from nnc.ops.movement.copy import contiguous
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, TensorKey
from nnc.symbolic.compiler import KnownOrders, MovingProgram
from nnc.symbolic.kept.kept_graphs import CachedGraph
from nnc.symbolic.passes import simplify
from nnc.symbolic.records import ExecKey
from nnc.symbolic.sharing.openings import Opening, OpenShapes, Shapes
from nnc.symbolic.sharing.rank_programs import name_program
from nnc.symbolic.sharing.sized_answers import KnownClaims
from nnc.symbolic.sharing.templates import GraphRenewal, GraphTemplate

Mode = Callable[[], Hashable]
Signature = tuple[Structure, tuple[Hashable, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function as it was recorded, before passes changed it: inputs, outputs, constants."""

    graph: SymbolicGraph
    inputs: tuple[TensorKey, ...]
    outputs: tuple[TensorKey, ...]
    constants: Mapping[TensorKey, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDraft:
    """What a function did, in front of passes or, `simplified`, behind them.

    `results` are symbols, or whatever else the function gave, as it is. `captured` are variables that it uses, whose
    values come with each call behind the arguments; `renewed` those that it changes, with what they become. A program
    depends on `modes` beside its arguments, such as whether a layer is in training, by its owner's identity.
    """

    graph: SymbolicGraph
    inputs: tuple[Symbol, ...]
    results: tuple[Any, ...]
    structure: Structure
    source: FunctionSource
    constants: Mapping[Symbol, Tensor]
    captured: tuple[Variable, ...]
    renewed: tuple[tuple[Variable, Symbol], ...]
    modes: Mapping[int, Mode]
    orders: KnownOrders = field(default_factory=KnownOrders)
    claims: Mapping[ExecKey, Claim] = field(default_factory=dict)

    def simplified(self, backend: str) -> FunctionDraft:
        """Itself, whose graph has gone through passes."""
        simplify(self.graph, self.outputs, backend=backend)
        return self

    @property
    def outputs(self) -> tuple[Symbol, ...]:
        """What the program computes: results and renewed values, each once."""
        kept = (*self.results, *(symbol for _, symbol in self.renewed))
        return tuple(dict.fromkeys(entry for entry in kept if isinstance(entry, Symbol)))


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTemplate:
    """A draft for all sizes that meet the guards of its `shapes`, while modes are what they were."""

    shapes: OpenShapes
    draft: FunctionDraft
    graph: GraphTemplate
    source: GraphTemplate
    modes: tuple[tuple[Mode, Hashable], ...]
    claims: KnownClaims

    @classmethod
    def of(cls, opening: Opening, draft: FunctionDraft, backend: str) -> FunctionTemplate | None:
        """Of what was recorded at the shapes of an opening, which is closed, for this backend.

        None where the function gave something in which there may be sizes that cannot be renewed.
        """
        if any(not isinstance(entry, Symbol) and not _is_plain(entry) for entry in draft.results):
            return None
        graphs = GraphTemplate.of(draft.graph), GraphTemplate.of(draft.source.graph)
        modes = tuple((mode, mode()) for mode in draft.modes.values())
        return cls(opening.close(), draft, *graphs, modes, KnownClaims(backend))

    def at(self, shapes: Shapes) -> FunctionDraft | None:
        """The draft for these shapes; None where the function takes another way for them."""
        if any(mode() != value for mode, value in self.modes):
            return None
        numbers = self.shapes.numbers(shapes)
        return None if numbers is None else self._moved(numbers)

    def _moved(self, numbers: Numbers) -> FunctionDraft:
        draft, instance, renewal = self.draft, self.graph.instance(numbers), GraphRenewal(numbers)
        graph = instance.graph

        def here(entry: Any) -> Any:  # noqa: ANN401  # a symbol, or what a function gave
            return graph.symbol(entry.key) if isinstance(entry, Symbol) else renewal.of(entry)

        source = draft.source
        return FunctionDraft(
            graph,
            tuple(map(here, draft.inputs)),
            tuple(map(here, draft.results)),
            draft.structure,
            FunctionSource(self.source.at(numbers), source.inputs, source.outputs, source.constants),
            {here(symbol): tensor for symbol, tensor in draft.constants.items()},
            draft.captured,
            tuple((variable, here(symbol)) for variable, symbol in draft.renewed),
            draft.modes,
            draft.orders,
            self.claims.of(instance),
        )


def _is_plain(value: object) -> bool:
    """Whether a renewal has all sizes that are in what a function gave."""
    return type(value) in ATOMS or isinstance(value, Variable) or depends(value)


@dataclass(slots=True, eq=False)
class RecordedFunction:
    """The program of a function for one signature. `call` is the same as a node of the record."""

    program: Compiled | CachedGraph
    moving: MovingProgram
    draft: FunctionDraft
    signature: str
    call: ProgramCall | None = None
    # Per result which output it is, None for what is no symbol.
    order: tuple[int | None, ...] = ()
    renewals: tuple[tuple[Variable, int], ...] = ()
    # The outputs that are results, and whether the function gives one of them and nothing else.
    given: tuple[int, ...] = ()
    is_single: bool = False
    # The signature that it is kept under, and what is the same at all sizes.
    of: Signature = field(default=(LEAF, ()))
    kind: Hashable = None

    @property
    def compiled(self) -> Compiled:
        """The program with its graph and its plan."""
        return self.program if isinstance(self.program, Compiled) else self.program.compiled

    def __post_init__(self) -> None:
        draft = self.draft
        numbers = {entry: number for number, entry in enumerate(draft.outputs)}
        self.order = tuple(numbers[entry] if isinstance(entry, Symbol) else None for entry in draft.results)
        self.renewals = tuple((variable, numbers[symbol]) for variable, symbol in draft.renewed)
        self.given = tuple(dict.fromkeys(place for place in self.order if place is not None))
        self.is_single = draft.structure is LEAF and self.order[0] is not None

    def assembled(self, values: Mapping[int, Variable]) -> Tree:
        """What the function gives, of the values of its outputs."""
        structure = self.draft.structure
        if self.is_single:
            return values[self.given[0]]
        pairs = zip(self.order, self.draft.results, strict=True)
        return structure.unflatten([entry if place is None else values[place] for place, entry in pairs])


def record(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    structure: Structure,
    names: Sequence[str],
    shapes: Mapping[str, Shape] | None = None,
) -> FunctionDraft:
    """Run the function on traced values, of other `shapes` where these are given."""
    trace = FunctionTrace(getattr(function, "__name__", "function"))
    traced = [
        trace.input(_spec(leaf, None if shapes is None else shapes[place_of(place)]), name) if is_tensor(leaf) else leaf
        for place, (leaf, name) in enumerate(zip(leaves, names, strict=True))
    ]
    # The function has handles of its own: `x[index] = value` gives the name that it calls x by another value.
    handles = [entry.twin() if isinstance(entry, TracedValue) else entry for entry in traced]
    given_args, given_kwargs = structure.unflatten(handles)
    with trace.active():
        returned, shape = flatten(function(*given_args, **given_kwargs))
        results = tuple([_result(trace, entry) for entry in returned])
        renewed = tuple([(variable, _result(trace, value)) for variable, value in trace.renewed.values()])
    inputs = [entry.symbol for entry in traced if isinstance(entry, TracedValue)]
    inputs += [value.symbol for _, value in trace.captured.values()]
    # Where random numbers are drawn, each call gives their counter as one more input.
    inputs += [] if trace.counter is None else [trace.counter.symbol]
    captured = tuple([variable for variable, _ in trace.captured.values()])
    name_program(trace.graph, [leaf for leaf in leaves if not is_tensor(leaf)])
    copy = trace.graph.duplicate()
    source = FunctionSource(
        copy.graph,
        tuple([copy.tensors[operand.key] for operand in inputs]),
        tuple([copy.tensors[symbol.key] for symbol in _outputs(results, renewed)]),
        {copy.tensors[constant.key]: tensor for constant, tensor in trace.constants.items()},
    )
    constants = dict(trace.constants)
    return FunctionDraft(
        trace.graph, tuple(inputs), results, shape, source, constants, captured, renewed, dict(trace.modes)
    )


def place_of(leaf: int) -> str:
    """The name of a leaf among shapes."""
    return str(leaf)


def _spec(leaf: Tree, shape: Shape | None) -> TensorSpec:
    spec = spec_of(leaf)
    return spec if shape is None else replace(spec, shape=shape)


def _outputs(results: Sequence[Any], renewed: Sequence[tuple[Variable, Symbol]]) -> tuple[Symbol, ...]:
    kept = (*results, *(symbol for _, symbol in renewed))
    return tuple(dict.fromkeys(entry for entry in kept if isinstance(entry, Symbol)))


def _result(trace: FunctionTrace, value: Tree) -> Tree:
    """The symbol of a traced value, in memory that a command of the program writes; anything else as it is."""
    if isinstance(value, Variable) and value.place is not None:
        trace.lift(value)
    if isinstance(value, np.ndarray | Tensor):
        return default_graph().constant(value)
    if isinstance(value, Symbol):
        got, need = f"{value!r}, of another graph", "values of this function"
        raise SymbolError("compile", got=got, need=need, fix="nnc.symbolic.compile(graph, …)", origin=caller_origin())
    if not isinstance(value, TracedValue):
        return value
    symbol = trace.symbol(value)
    is_written = trace.graph.root(symbol.key) == symbol.key and trace.graph.writers(symbol.key)
    return symbol if is_written else trace.symbol(contiguous(value))
