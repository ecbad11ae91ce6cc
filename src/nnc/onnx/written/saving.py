"""Models of ours as ONNX files, which are replaced whole or not at all.

A model keeps its batch open: it is written for two batches, and the sizes in which the two differ are computed in the
file from the input's. Tensors go into the file as they lie in memory; beyond 2 GB, or where it is asked for, into a
second file beside it that is named after its content, so that a crash between the two leaves the old pair.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

import onnx
from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.replacement import Chunk, write_atomically
from nnc.core.values.device import CPU
from nnc.errors import BackendError, UsageError
from nnc.nn.layers.layer import Scope
from nnc.nn.model.model import Model
from nnc.onnx.exporter import BATCHES, IR_VERSION, OPSET, ExportOperand, OnnxWriter
from nnc.onnx.exports import EXPORTS
from nnc.onnx.kept.asked_elements import TWINS
from nnc.onnx.node import Array
from nnc.onnx.runner import OnnxModel
from nnc.onnx.written.size_terms import OpenSize, SizeTerms
from nnc.symbolic import Symbol, SymbolicGraph

# What protobuf's readers take in one message, with room for the nodes.
MOST_INSIDE = (1 << 31) - (1 << 24)
ALIGNMENT = 64
BATCH = "batch"
K = TypeVar("K")


@dataclass(frozen=True, slots=True, eq=False)
class ExportedGraph:
    """A graph with the names of its inputs and outputs in the file, and named tensors with their values."""

    graph: SymbolicGraph
    inputs: Mapping[str, Symbol]
    outputs: Mapping[str, Symbol]
    tensors: Mapping[str, tuple[Symbol, Array]]


@checked
def save(source: Model | OnnxModel | ExportedGraph, path: str | os.PathLike[str], *, external: bool = False) -> None:
    """Write an ONNX file of operator set 18: the prediction of a `Model`, from `x` to `y` with open batch, or a graph.

    Further inputs are `x1`, `x2`, …, and outputs likewise.
    An `OnnxModel` is written as it was read. With `external` the tensors go into a file beside it, which happens by
    itself beyond 2 GB. BackendError lists everything that has no form in ONNX, with its nodes.

    >>> nnc.onnx.save(nn.Model(nn.Dense(2), (3,)), "net.onnx")
    >>> [*nnc.onnx.load("net.onnx").inputs], nnc.onnx.load("net.onnx").outputs
    (['x'], ('y',))
    """
    if isinstance(source, Model):
        source.between_updates(
            "save",
            lambda: _write(Path(path), *_merged(_of_model(source), [OpenSize(BATCH, "x", 0)]), external=external),
        )
    elif isinstance(source, OnnxModel):
        _write(Path(path), *_apart(source), external=external)
    else:
        write_graphs([source], (), path, external=external)


def write_graphs(
    sources: Sequence[ExportedGraph], opened: Sequence[OpenSize], path: str | os.PathLike[str], *, external: bool
) -> None:
    """Write a graph as a file, or one that was made for several values of its open sizes (`SizeTerms`)."""
    _write(Path(path), *_merged(sources, opened), external=external)


@checked
def exported(model: OnnxModel, **sizes: int) -> ExportedGraph:
    """The graph of a file for fixed sizes, in our operators."""
    graph, inputs, tensors, results = model.graph(**sizes)
    return ExportedGraph(graph, inputs, dict(zip(model.outputs, results, strict=True)), tensors)


def _of_model(model: Model) -> list[ExportedGraph]:
    """The same network for two batches."""
    values = {path: tensor.to(CPU).numpy() for path, tensor in model.tensors().items()}
    return [_for_batch(model, batch, values) for batch in BATCHES]


def _for_batch(model: Model, batch: int, values: Mapping[str, Array]) -> ExportedGraph:
    graph = SymbolicGraph("model")
    wide = [replace(operand, shape=(batch, *operand.shape)) for operand in model.inputs]
    inputs = {name: graph.input(entry, name) for name, entry in _numbered("x", wide)}
    tensors = {path: graph.input(row.spec, path) for path, row in model.specs.items()}
    scope: Scope[Symbol] = Scope(lambda parameter: tensors[parameter.path])
    outputs = dict(_numbered("y", model.layer.build_many(scope, tuple(inputs.values()))))
    return ExportedGraph(graph, inputs, outputs, {path: (entry, values[path]) for path, entry in tensors.items()})


def _numbered(name: str, values: Iterable[K]) -> list[tuple[str, K]]:
    """x, x1, x2, …"""
    return [(f"{name}{place or ''}", value) for place, value in enumerate(values)]


def _apart(model: OnnxModel) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A file's message without the tensors that are arrays of our element types, and these."""
    message, arrays = onnx.ModelProto(), dict[str, Array]()
    message.CopyFrom(model.file.message())
    kept = []
    for tensor in message.graph.initializer:
        array = model.file.array(tensor)
        if array.dtype in TWINS:
            arrays[tensor.name] = array
        else:
            kept.append(tensor if not tensor.external_data else onnx.numpy_helper.from_array(array, tensor.name))
    del message.graph.initializer[:]
    message.graph.initializer.extend(kept)
    return message, arrays


# ---- nodes


def _written(source: ExportedGraph) -> OnnxWriter:
    """The nodes of a graph; BackendError for what has no form."""
    writer, graph = OnnxWriter(EXPORTS), source.graph
    operands = {}
    for name, symbol in source.inputs.items():
        operands[symbol.key] = ExportOperand(writer, symbol.spec, writer.reserve(name))
    for name, (symbol, array) in source.tensors.items():
        operands[symbol.key] = ExportOperand(writer, symbol.spec, writer.weight(name, array))
    for key in graph.tensors:
        record = graph.tensors[key]
        if record.alias is None and key not in operands and not graph.writers(key) and graph.readers(key):
            if record.fill is None:
                raise UsageError("save", got=f"{graph.label(key)} without a value", need="an input or a tensor")
            value = writer.constant(record.fill, record.spec.dtype)
            operands[key] = ExportOperand(
                writer, record.spec, writer.node("Expand", value, writer.constant(record.spec.shape))
            )
    ends = [writer.reserve(name) for name in source.outputs]
    names = writer.run(graph, operands, tuple(source.outputs.values()))
    if writer.missing:
        got = "; ".join(f"{name} ({', '.join(list(dict.fromkeys(at))[:4])})" for name, at in writer.missing.items())
        raise BackendError("save", got=got, need="operators of nnc.onnx.EXPORTS", fix="see docs/onnx.md")
    for inner, end in zip(names, ends):
        writer.finish(inner, end)
    return writer


def _merged(
    sources: Sequence[ExportedGraph], opened: Sequence[OpenSize] = ()
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model of one graph, or of the same for several sizes; and its tensors."""
    writers = [_written(entry) for entry in sources]
    first, writer = sources[0], writers[0]
    nodes = [entry.SerializeToString() for entry in writer.nodes]
    if any([entry.SerializeToString() for entry in other.nodes] != nodes for other in writers[1:]):
        raise UsageError("save", got="a network whose options depend on an open size", need="one whose sizes alone do")
    terms = SizeTerms(opened, [{name: symbol.spec for name, symbol in entry.inputs.items()} for entry in sources])
    constants, sizes = terms.constants(writers)
    more, ranges = terms.ranges([{name: array for name, (_, array) in entry.tensors.items()} for entry in sources])
    constants |= more
    known = {node.name for node in sizes}
    kept = _live([*sizes, *[node for node in ranges if node.name not in known], *writer.nodes], first.outputs)
    read = {name for node in kept for name in node.input}
    made = _written_by(ranges)
    arrays = {name: weight for name, weight in writer.weights.items() if name in read and name not in made}
    renamed, turns = _tensor_names(writer, arrays)
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    kept, arrays = [*turns, *kept], {name: entry for name, entry in arrays.items() if name not in _written_by(turns)}
    graph = onnx.helper.make_graph(
        kept,
        first.graph.name or "graph",
        [terms.port(name, [entry.inputs[name].spec for entry in sources]) for name in first.inputs],
        [terms.port(name, [entry.outputs[name].spec for entry in sources]) for name in first.outputs],
        [onnx.numpy_helper.from_array(constant, name) for name, constant in constants.items() if name in read],
    )
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(graph, producer_name="nnc", opset_imports=opsets, ir_version=IR_VERSION)
    return model, {renamed.get(name, name): entry for name, entry in arrays.items()}


def _live(nodes: Sequence[onnx.NodeProto], outputs: Mapping[str, object]) -> list[onnx.NodeProto]:
    """What the outputs need, in order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
    return kept[::-1]


def _tensor_names(writer: OnnxWriter, arrays: Mapping[str, Array]) -> tuple[dict[str, str], list[onnx.NodeProto]]:
    """Names of turned tensors: their own where they stand in the file once, else what a node writes."""
    orders: dict[str, list[str]] = {}
    for name in arrays:
        turned = writer.turned(name)
        orders.setdefault(name if turned is None else turned[0], []).append(name)
    turns = []
    for base, names in orders.items():
        for name in names if base in names else ():
            if name != base and (turned := writer.turned(name)) is not None:
                turns.append(onnx.helper.make_node("Transpose", [base], [name], name, perm=turned[1]))
    return {names[0]: base for base, names in orders.items() if len(names) == 1}, turns


def _written_by(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    return {name for node in nodes for name in node.output}


# ---- bytes


def _write(path: Path, model: onnx.ModelProto, arrays: Mapping[str, Array], *, external: bool) -> None:
    """The model with its tensors inside, or beside it."""
    if not external and sum(entry.nbytes for entry in arrays.values()) + model.ByteSize() <= MOST_INSIDE:
        write_atomically(path, _inside(model, arrays))
        return
    digest = hashlib.sha256()
    for chunk in _aligned(arrays):
        digest.update(chunk)
    data = path.with_name(f"{path.stem}.{digest.hexdigest()[:16]}.data")
    write_atomically(data, _aligned(arrays))
    offset = 0
    for name, array in arrays.items():
        tensor = _head(name, array)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", data.name), ("offset", offset), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        model.graph.initializer.append(tensor)
        offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    write_atomically(path, [model.SerializeToString()])
    pattern = re.compile(re.escape(path.stem) + r"\.[0-9a-f]{16}\.data")
    for old in path.parent.iterdir():
        if old != data and pattern.fullmatch(old.name):
            with suppress(OSError):
                old.unlink()


def _head(name: str, array: Array) -> onnx.TensorProto:
    number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.TensorProto(name=name, dims=array.shape, data_type=number)


def _content(array: Array) -> memoryview:
    """The elements, little-endian: a copy only of what is not contiguous."""
    little = array if array.dtype.byteorder != ">" else array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def _aligned(arrays: Mapping[str, Array]) -> Iterator[Chunk]:
    for array in arrays.values():
        yield _content(array)
        yield bytes(-array.nbytes % ALIGNMENT)


def _inside(model: onnx.ModelProto, arrays: Mapping[str, Array]) -> Iterator[Chunk]:
    """The model's message with the tensors behind the graph's other fields, without a second copy of them."""
    heads = {name: _head(name, array).SerializeToString() for name, array in arrays.items()}
    raws = {name: _field(9, array.nbytes) for name, array in arrays.items()}
    sizes = {name: len(heads[name]) + len(raws[name]) + array.nbytes for name, array in arrays.items()}
    graph = model.graph.SerializeToString()
    own = onnx.ModelProto()
    own.CopyFrom(model)
    own.ClearField("graph")
    total = len(graph) + sum(len(_field(5, size)) + size for size in sizes.values())
    yield own.SerializeToString() + _field(7, total) + graph
    for name, array in arrays.items():
        yield _field(5, sizes[name]) + heads[name] + raws[name]
        yield _content(array)


def _field(number: int, length: int) -> bytes:
    """The head of a field with that many bytes: its number, and the length seven bits at a time."""
    result, left = bytearray([number << 3 | 2]), length
    while left > 0x7F:
        result.append(left & 0x7F | 0x80)
        left >>= 7
    result.append(left)
    return bytes(result)
