"""Symbolic graphs as one line of canonical, versioned JSON, and back.

    {"format": "nnc-symbolic", "version": 1, "name": …, "tensors": […], "execs": […]}

Tensors are named by their position; execs are in topological order. Operators go by name and their attributes by the
fields of their dataclass, so an operator of another package loads once that package is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from nnc.symbolic.ir import AliasOf, ExecSymbol, SymbolicGraph, TensorKey, TensorSymbol
from nnc.symbolic.verify import faults

FORMAT, VERSION = "nnc-symbolic", 1

T = TypeVar("T")


def _decode_dtype(data: Json, where: str) -> DType:
    if not isinstance(data, str):
        raise FormatError(where, got=f"{type(data).__name__}", need="the name of an element type")
    try:
        return dtype_of(data)
    except UsageError as error:
        raise FormatError(where, got=error.got, need=error.need) from None


def _encode_command(command: AnyCommand) -> Json:
    return encode_call(command.op, command.attrs, FORMS)


def _decode_command(data: Json, where: str) -> AnyCommand:
    return Command(*decode_call(default_registry, data, where, FORMS))


FORMS = Forms().add(DType, Codec(lambda dtype: dtype.name, _decode_dtype))
FORMS.add(Command, Codec(_encode_command, _decode_command))
_SPEC = record_codec(TensorSpec, FORMS)


def save(graph: SymbolicGraph) -> str:
    """The graph as text; equal graphs with equal keys give equal bytes. Origins are kept, memory there is none of."""
    position = {key: place for place, key in enumerate(graph.tensors)}
    document: JsonObject = {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "tensors": [_tensor(graph.tensors[key], position) for key in position],
        "execs": [_exec(graph.execs[key], position) for key in graph.execs.toposort()],
    }
    return canonical_json(document)


def load(text: str, registry: Registry = default_registry) -> SymbolicGraph:
    """The graph that `save` wrote, verified. FormatError for anything else."""
    document = parse_json(text, FORMAT)
    if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        got = f"format {document.get('format')!r}, version {document.get('version')!r}"
        raise FormatError(FORMAT, got=got, need=f"{FORMAT}, version {VERSION}")
    graph = SymbolicGraph(_field(document, "name", str))
    keys: list[TensorKey] = []
    with _values_checked():
        for place, row in enumerate(_field(document, "tensors", list)):
            keys.append(graph.tensors.new(_load_tensor(row, keys, f"tensors[{place}]")))
        for place, row in enumerate(_field(document, "execs", list)):
            graph.add_exec(_load_exec(row, keys, registry, f"execs[{place}]"))
    if broken := faults(graph):
        raise FormatError(FORMAT, got="; ".join(broken[:3]), need="a valid graph")
    return graph


def _tensor(record: TensorSymbol, position: dict[TensorKey, int]) -> Json:
    alias: Json = None
    if record.alias is not None:
        alias = [position[record.alias.root], record.alias.offset, list(record.alias.strides)]
    return {"spec": _SPEC.encode(record.spec), "name": record.name, "alias": alias, "origin": record.origin}


def _exec(record: ExecSymbol, position: dict[TensorKey, int]) -> Json:
    return {
        "call": encode_call(record.command.op, record.command.attrs, FORMS),
        "inputs": [None if key is None else position[key] for key in record.inputs],
        "outputs": [position[key] for key in record.outputs],
        "name": record.name,
        "origin": record.origin,
    }


def _load_tensor(row: Json, keys: list[TensorKey], where: str) -> TensorSymbol:
    record = _object(row, {"spec", "name", "alias", "origin"}, where)
    spec = _SPEC.decode(record["spec"], f"{where}.spec")
    name, origin = _field(record, "name", str), _field(record, "origin", str)
    if record["alias"] is None:
        return TensorSymbol(spec, name, None, origin)
    parts = _field(record, "alias", list)
    if len(parts) != 3 or not isinstance(parts[2], list) or not all(type(n) is int for n in (parts[1], *parts[2])):
        raise FormatError(f"{where}.alias", got="other values", need="[root, offset, strides]")
    return TensorSymbol(spec, name, AliasOf(_key(parts[0], keys, where), parts[1], tuple(parts[2])), origin)


def _load_exec(row: Json, keys: list[TensorKey], registry: Registry, where: str) -> ExecSymbol:
    record = _object(row, {"call", "inputs", "outputs", "name", "origin"}, where)
    op, attrs = decode_call(registry, record["call"], where, FORMS)
    inputs = tuple(None if place is None else _key(place, keys, where) for place in _field(record, "inputs", list))
    outputs = tuple(_key(place, keys, where) for place in _field(record, "outputs", list))
    return ExecSymbol(Command(op, attrs), inputs, outputs, _field(record, "name", str), _field(record, "origin", str))


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
