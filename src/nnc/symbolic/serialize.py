"""Symbolic graphs as one line of canonical, versioned JSON, and back.

    {"format": "nnc-symbolic", "version": 2, "name": …, "tensors": […], "execs": […]}

Tensors are named by their position; execs are in topological order, and named by it where an order was given
(`after`). Operators go by name and their attributes by the fields of their dataclass, so an operator of another package
loads once that package is imported. The body of a loop or a branch is an attribute: a graph of this form with
`parameters` and `results`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from nnc.core.command import AnyCommand, Command
from nnc.core.dtype import DType, dtype_of
from nnc.core.spec import TensorSpec
from nnc.errors import FormatError, UsageError
from nnc.graph import (
    Codec,
    Forms,
    Json,
    JsonObject,
    Registry,
    canonical_json,
    decode_call,
    default_registry,
    encode_call,
    parse_json,
    record_codec,
)
from nnc.symbolic.bodies import Renamed, change_bodies, holding
from nnc.symbolic.ir import AliasOf, Body, ExecKey, ExecSymbol, SymbolicGraph, TensorKey, TensorSymbol
from nnc.symbolic.text.forms import FUNCTION, refuse_function
from nnc.symbolic.verification import faults

FORMAT, VERSION = "nnc-symbolic", 2

T = TypeVar("T")


def _decode_dtype(data: Json, where: str) -> DType:
    if not isinstance(data, str):
        raise FormatError(where, got=f"{type(data).__name__}", need="the name of an element type")
    try:
        return dtype_of(data)
    except UsageError as error:
        raise FormatError(where, got=error.got, need=error.need) from None


def _forms_of(registry: Registry) -> Forms:
    """The form of attributes; operators are looked up in `registry`, and inside a body too."""

    def decode_command(data: Json, where: str) -> AnyCommand:
        return Command(*decode_call(registry, data, where, forms))

    forms = Forms().add(DType, Codec(lambda dtype: dtype.name, _decode_dtype))
    forms.add(Command, Codec(lambda command: encode_call(command.op, command.attrs, forms), decode_command))
    forms.add(Body, Codec(_body, lambda data, where: _load_body(data, registry, forms, where)))
    return forms.add(FUNCTION, Codec(_refuse_function, refuse_function))


def _refuse_function(function: Callable[..., object]) -> Json:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    need = "a test or choice that is data: a symbol, a count"
    raise FormatError("save", got=f"the Python function {name}", need=need)


def save(graph: SymbolicGraph) -> str:
    """The graph as text; equal graphs with equal keys give equal bytes. Origins are kept, memory there is none of.

    FormatError, with the line, for a loop or a branch that a Python function decides.
    """
    return canonical_json({"format": FORMAT, "version": VERSION, **_graph(graph, _positions(graph))})


def load(text: str, registry: Registry = default_registry) -> SymbolicGraph:
    """The graph that `save` wrote, verified. FormatError for anything else."""
    document = parse_json(text, FORMAT)
    if (document.pop("format", None), document.pop("version", None)) != (FORMAT, VERSION):
        raise FormatError(FORMAT, got="another format or version", need=f"{FORMAT}, version {VERSION}")
    forms = FORMS if registry is default_registry else _forms_of(registry)
    try:
        with _values_checked():
            graph, _ = _load_graph(document, registry, forms, "")
    except RecursionError:
        raise FormatError(FORMAT, got="bodies inside bodies without end", need="a valid graph") from None
    if broken := faults(graph):
        raise FormatError(FORMAT, got="; ".join(broken[:3]), need="a valid graph")
    return graph


def _positions(graph: SymbolicGraph) -> dict[TensorKey, int]:
    return {key: place for place, key in enumerate(graph.tensors)}


def _graph(graph: SymbolicGraph, position: dict[TensorKey, int]) -> JsonObject:
    return {
        "name": graph.name,
        "tensors": [_tensor(graph.tensors[key], position) for key in position],
        "execs": list(_execs(graph, position)),
    }


def _body(body: Body) -> Json:
    position = _positions(body.graph)
    ends: JsonObject = {
        name: [position[key] for key in keys]
        for name, keys in (("parameters", body.parameters), ("results", body.results))
    }
    return _graph(body.graph, position) | ends


def _load_graph(
    document: JsonObject, registry: Registry, forms: Forms, where: str
) -> tuple[SymbolicGraph, list[TensorKey]]:
    graph = SymbolicGraph(_field(_object(document, {"name", "tensors", "execs"}, where or FORMAT), "name", str))
    keys: list[TensorKey] = []
    execs: list[ExecKey] = []
    for place, row in enumerate(_field(document, "tensors", list)):
        keys.append(graph.add_tensor(_load_tensor(row, keys, f"{where}tensors[{place}]")))
    for place, row in enumerate(_field(document, "execs", list)):
        inside = f"{where}execs[{place}]"
        key = graph.add_exec(_load_exec(row, keys, registry, forms, inside))
        for earlier in _earlier(row, inside, place):
            graph.connect(execs[earlier], key)
        execs.append(key)
    return graph, keys


def _load_body(data: Json, registry: Registry, forms: Forms, where: str) -> Body:
    record = dict(_object(data, {"name", "tensors", "execs", "parameters", "results"}, where))
    ends = {name: record.pop(name) for name in ("parameters", "results")}
    graph, keys = _load_graph(record, registry, forms, f"{where}.")
    parameters, results = (
        tuple(_key(place, keys, where) for place in _field(ends, name, list)) for name in ("parameters", "results")
    )
    return Body(graph, parameters, results)


def _tensor(record: TensorSymbol, position: dict[TensorKey, int]) -> Json:
    alias: Json = None
    if record.alias is not None:
        alias = [position[record.alias.root], record.alias.offset, list(record.alias.strides)]
    spec = _SPEC.encode(record.spec)
    return {"spec": spec, "name": record.name, "alias": alias, "origin": record.origin, "fill": record.fill}


def _execs(graph: SymbolicGraph, position: dict[TensorKey, int]) -> Iterator[Json]:
    order = graph.execs.toposort()
    places = {key: place for place, key in enumerate(order)}
    for key in order:
        record = graph.execs[key]
        yield {
            "call": _call(record),
            "inputs": [None if tensor is None else position[tensor] for tensor in record.inputs],
            "outputs": [position[tensor] for tensor in record.outputs],
            "name": record.name,
            "origin": record.origin,
            "optimize": record.optimize,
            "after": [places[graph.execs.edge(edge).source] for edge in graph.given_order(key)],
        }


def _call(record: ExecSymbol) -> Json:
    """Attributes name symbols of bodies by position, as the bodies' documents do."""

    def place(body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
        return body, {key: TensorKey(position) for key, position in _positions(body.graph).items()}

    command = change_bodies(record.command, place)
    try:
        return encode_call(command.op, command.attrs, FORMS)
    except FormatError as error:
        subject = f"{record.name or command.op.name}"
        raise FormatError(subject, got=error.got, need=error.need, origin=error.origin or record.origin) from None


def _load_tensor(row: Json, keys: list[TensorKey], where: str) -> TensorSymbol:
    record = _object(row, {"spec", "name", "alias", "origin", "fill"}, where)
    spec = _SPEC.decode(record["spec"], f"{where}.spec")
    name, origin = _field(record, "name", str), _field(record, "origin", str)
    if record["alias"] is None:
        fill = None if record["fill"] is None else _field(record, "fill", float)
        return TensorSymbol(spec, name, None, origin, fill)
    parts = _field(record, "alias", list)
    if len(parts) != 3 or not isinstance(parts[2], list) or not all(type(n) is int for n in (parts[1], *parts[2])):
        raise FormatError(f"{where}.alias", got="other values", need="[root, offset, strides]")
    return TensorSymbol(spec, name, AliasOf(_key(parts[0], keys, where), parts[1], tuple(parts[2])), origin)


def _load_exec(row: Json, keys: list[TensorKey], registry: Registry, forms: Forms, where: str) -> ExecSymbol:
    record = _object(row, {"call", "inputs", "outputs", "name", "origin", "optimize", "after"}, where)
    call = _object(record["call"], {"op", "attributes"}, where)
    op, attrs = decode_call(holding(registry, _field(call, "op", str)), call, where, forms)
    inputs = tuple(None if place is None else _key(place, keys, where) for place in _field(record, "inputs", list))
    outputs = tuple(_key(place, keys, where) for place in _field(record, "outputs", list))
    name, origin, optimize = (
        _field(record, "name", str),
        _field(record, "origin", str),
        _field(record, "optimize", bool),
    )
    return ExecSymbol(Command(op, attrs), inputs, outputs, name, origin, optimize)


def _earlier(row: Json, where: str, place: int) -> list[int]:
    """Positions of the execs that this one was told to follow."""
    assert isinstance(row, dict)
    found = [other for other in _field(row, "after", list) if type(other) is int and 0 <= other < place]
    if len(found) != len(_field(row, "after", list)):
        raise FormatError(where, got="other values of after", need=f"positions below {place}")
    return found


def _key(place: Json, keys: list[TensorKey], where: str) -> TensorKey:
    if type(place) is not int or not 0 <= place < len(keys):
        raise FormatError(where, got=f"tensor {place!r}", need=f"a position below {len(keys)}")
    return keys[place]


def _object(row: Json, names: set[str], where: str) -> JsonObject:
    if not isinstance(row, dict) or row.keys() != names:
        raise FormatError(where, got="other fields", need=", ".join(sorted(names)))
    return row


def _field(document: JsonObject, name: str, kind: type[T]) -> T:
    value = document.get(name)
    if not isinstance(value, kind):
        raise FormatError(name, got=type(value).__name__, need=kind.__name__)
    return value


@contextmanager
def _values_checked() -> Iterator[None]:
    """Values that a dataclass refuses are faults of the file."""
    try:
        yield
    except FormatError:
        raise
    except UsageError as error:
        raise FormatError(FORMAT, got=str(error), need="values that the operators allow") from None


FORMS = _forms_of(default_registry)
_SPEC = record_codec(TensorSpec, FORMS)
