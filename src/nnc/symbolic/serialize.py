"""Symbolic graphs as one line of canonical, versioned JSON, and back.

    {"format": "nnc-symbolic", "version": 2, "name": …, "tensors": […], "execs": […]}

Tensors are named by their position; execs are in topological order, and named by it where an order was given
(`after`). Operators go by name and their attributes by the fields of their dataclass, so an operator of another package
loads once that package is imported. The body of a loop or a branch is an attribute: a graph of this form with
`parameters` and `results`. Rows and versions are written and read by `nnc.graph` (`record_codec`, `load_document`), as
all JSON of this package is; a graph of nodes and edges alone would need `GraphFormat` and nothing of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import DType, dtype_of
from nnc.core.values.spec import TensorSpec
from nnc.errors import FormatError, UsageError
from nnc.graph import (
    Codec,
    Forms,
    Json,
    Registry,
    decode_call,
    default_registry,
    encode_call,
    load_document,
    record_codec,
    save_document,
)
from nnc.symbolic.bodies import Renamed, change_bodies, holding
from nnc.symbolic.ir import Body, SymbolicGraph
from nnc.symbolic.records import AliasOf, ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.text.forms import FUNCTION, refuse_function
from nnc.symbolic.verification import faults

FORMAT, VERSION = "nnc-symbolic", 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor; `alias` is the position of its root, offset and strides."""

    spec: TensorSpec
    name: str
    alias: tuple[int, int, tuple[int, ...]] | None
    origin: str
    fill: float | None


@dataclass(frozen=True, slots=True)
class _Call:
    """A command, and whose it is, for messages; attributes name symbols of bodies by position, as the bodies do."""

    command: AnyCommand
    owner: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class _Exec:
    """An exec; `after` are the positions of those that it was told to follow."""

    call: _Call
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    name: str
    origin: str
    optimize: bool
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Graph:
    """A graph: its tensors in order of their keys, its execs in topological order."""

    name: str
    tensors: tuple[_Tensor, ...]
    execs: tuple[_Exec, ...]


@dataclass(frozen=True, slots=True)
class _Body(_Graph):
    """A graph inside a command."""

    parameters: tuple[int, ...]
    results: tuple[int, ...]


def _decode_dtype(data: Json, where: str) -> DType:
    if not isinstance(data, str):
        raise FormatError(where, got=f"{type(data).__name__}", need="the name of an element type")
    try:
        return dtype_of(data)
    except UsageError as error:
        raise FormatError(where, got=error.got, need=error.need) from None


def _forms_of(registry: Registry) -> Forms:
    """The form of attributes; operators are looked up in `registry`, and inside a body too."""

    def encode_command(command: AnyCommand) -> Json:
        return encode_call(command.op, command.attrs, forms)

    def decode_command(data: Json, where: str) -> AnyCommand:
        name = data.get("op") if isinstance(data, dict) else None
        return Command(*decode_call(holding(registry, str(name)), data, where, forms))

    def encode_owned(call: _Call) -> Json:
        try:
            return encode_command(call.command)
        except FormatError as error:
            origin = error.origin or call.origin
            raise FormatError(call.owner, got=error.got, need=error.need, origin=origin) from None

    def encode_body(body: Body) -> Json:
        position = _positions(body.graph)
        graph = _rows(body.graph, position)
        ends = (tuple(position[key] for key in keys) for keys in (body.parameters, body.results))
        return bodies.encode(_Body(graph.name, graph.tensors, graph.execs, *ends))

    def decode_body(data: Json, where: str) -> Body:
        row = bodies.decode(data, where)
        graph, keys = _restored(row, where)
        ends = (tuple(_at(place, keys, where) for place in places) for places in (row.parameters, row.results))
        return Body(graph, *ends)

    forms = Forms().add(DType, Codec(lambda dtype: dtype.name, _decode_dtype))
    forms.add(Command, Codec(encode_command, decode_command)).add(Body, Codec(encode_body, decode_body))
    forms.add(_Call, Codec(encode_owned, lambda data, where: _Call(decode_command(data, where))))
    forms.add(FUNCTION, Codec(_refuse_function, refuse_function))
    bodies = record_codec(_Body, forms)
    return forms


def _refuse_function(function: Callable[..., object]) -> Json:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    need = "a test or choice that is data: a symbol, a count"
    raise FormatError("save", got=f"the Python function {name}", need=need)


@checked
def save(graph: SymbolicGraph) -> str:
    """The graph as text; equal graphs with equal keys give equal bytes. Origins are kept, memory there is none of.

    FormatError, with the line, for a loop or a branch that a Python function decides.
    """
    return save_document(FORMAT, VERSION, ROWS.encode(_rows(graph, _positions(graph))))


@checked
def load(text: str, registry: Registry = default_registry) -> SymbolicGraph:
    """The graph that `save` wrote, verified. FormatError for anything else."""
    document = load_document(text, FORMAT, VERSION)
    try:
        with _values_checked():
            rows = ROWS if registry is default_registry else record_codec(_Graph, _forms_of(registry))
            graph, _ = _restored(rows.decode(document, FORMAT), FORMAT)
    except RecursionError:
        raise FormatError(FORMAT, got="bodies inside bodies without end", need="a valid graph") from None
    if broken := faults(graph):
        raise FormatError(FORMAT, got="; ".join(broken[:3]), need="a valid graph")
    return graph


def _positions(graph: SymbolicGraph) -> dict[TensorKey, int]:
    return {key: place for place, key in enumerate(graph.tensors)}


def _rows(graph: SymbolicGraph, position: dict[TensorKey, int]) -> _Graph:
    tensors = tuple(_tensor(graph.tensors[key], position) for key in position)
    return _Graph(graph.name, tensors, tuple(_execs(graph, position)))


def _tensor(record: TensorSymbol, position: dict[TensorKey, int]) -> _Tensor:
    of = record.alias
    alias = None if of is None else (position[of.root], of.offset, of.strides)
    return _Tensor(record.spec, record.name, alias, record.origin, record.fill)


def _execs(graph: SymbolicGraph, position: dict[TensorKey, int]) -> Iterator[_Exec]:
    order = graph.execs.toposort()
    places = {key: place for place, key in enumerate(order)}
    for key in order:
        record = graph.execs[key]
        inputs = tuple(None if tensor is None else position[tensor] for tensor in record.inputs)
        outputs = tuple(position[tensor] for tensor in record.outputs)
        after = tuple(places[graph.execs.edge(edge).source] for edge in graph.given_order(key))
        yield _Exec(_call(record), inputs, outputs, record.name, record.origin, record.optimize, after)


def _call(record: ExecSymbol) -> _Call:
    def place(body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
        return body, {key: TensorKey(position) for key, position in _positions(body.graph).items()}

    return _Call(change_bodies(record.command, place), record.name or record.command.op.name, record.origin)


def _restored(row: _Graph, where: str) -> tuple[SymbolicGraph, list[TensorKey]]:
    graph, keys = SymbolicGraph(row.name), list[TensorKey]()
    for place, tensor in enumerate(row.tensors):
        alias = None
        if tensor.alias is not None:
            root, offset, strides = tensor.alias
            alias = AliasOf(_at(root, keys, f"{where}.tensors[{place}].alias"), offset, strides)
        fill = tensor.fill if alias is None else None
        keys.append(graph.add_tensor(TensorSymbol(tensor.spec, tensor.name, alias, tensor.origin, fill)))
    execs: list[ExecKey] = []
    for place, step in enumerate(row.execs):
        inside = f"{where}.execs[{place}]"
        inputs = tuple(None if tensor is None else _at(tensor, keys, inside) for tensor in step.inputs)
        outputs = tuple(_at(tensor, keys, inside) for tensor in step.outputs)
        key = graph.add_exec(ExecSymbol(step.call.command, inputs, outputs, step.name, step.origin, step.optimize))
        for earlier in step.after:
            graph.connect(_at(earlier, execs, f"{inside}.after"), key)
        execs.append(key)
    return graph, keys


def _at(place: int, items: Sequence[T], where: str) -> T:
    if not 0 <= place < len(items):
        raise FormatError(where, got=f"position {place}", need=f"a position below {len(items)}")
    return items[place]


@contextmanager
def _values_checked() -> Iterator[None]:
    """Values that a dataclass refuses are faults of the file."""
    try:
        yield
    except FormatError:
        raise
    except UsageError as error:
        raise FormatError(FORMAT, got=str(error), need="values that the operators allow") from None


ROWS = record_codec(_Graph, _forms_of(default_registry))
