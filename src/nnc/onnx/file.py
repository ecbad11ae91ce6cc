"""ONNX files: read and bounded before anything is built, tensors kept outside of the file among them.

Nothing outside the folder of the file is opened: a location is relative, has no `..`, and no link on its way. What is
opened later has to be as it was when the model was read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # stubs are a package of their own
from numpy.typing import NDArray

import onnx
from nnc.addresses import check_addresses
from nnc.arguments import checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.reading import fill, opened, read_file
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import DTYPES, DType, dtype_of
from nnc.core.values.spec import MAX_DIMENSIONS
from nnc.errors import DTypeError, FormatError
from nnc.onnx.weights import SharedWeights

Array = NDArray[Any]

# The element types of NumPy that are ours too.
TWINS = {dtype.numpy for dtype in DTYPES}
MOST_BYTES = 1 << 40
# More is no message of protobuf.
MOST_MESSAGE_BYTES = 1 << 31
# Nodes that a file need not write out, those of functions and of loops that are unrolled, and one more for so many
# bytes of it. A node takes 0.25 ms to be built, rewritten and planned: a file of 1 MB is done in 5 s.
MOST_EXPANDED, BYTES_A_NODE = 10_000, 128
OLDEST_OPSET = 7
# What ONNX's library takes when it is first asked for operators: it ends the process where it gets no memory.
LIBRARY_BYTES = 16_000_000
# The key of external data as a message has it.
MARKS = (b"\n\x08location",)
# What some exporters write for a size that is open.
OPEN = -1


@dataclass(frozen=True, slots=True, eq=False)
class GraphPart:
    """Some nodes of a graph as one of their own, with the messages of the file itself: nothing is copied."""

    node: Sequence[onnx.NodeProto]
    input: Sequence[onnx.ValueInfoProto]
    output: Sequence[onnx.ValueInfoProto]
    initializer: Sequence[onnx.TensorProto]
    sparse_initializer: Sequence[onnx.SparseTensorProto] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class FileState:
    """Which file it is, its bytes, and when it was last written, in nanoseconds."""

    device: int
    number: int
    nbytes: int
    written: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """As the system tells it."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


EMPTY: Mapping[Path, FileState] = {}


@dataclass(frozen=True, slots=True, eq=False)
class OnnxFile:
    """A model: its graph, the version of each operator set, its own functions, the folder of external data.

    `nbytes` is what was read; 0 for a message of the caller's. `weights`: what programs of this file share. The
    `digest` stands for all of its content; it is empty where that is not known, or draws numbers. `beside` says how the
    files of external data were.
    """

    graph: onnx.GraphProto
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict)
    folder: Path | None = None
    ir: int = onnx.IR_VERSION
    nbytes: int = 0
    weights: SharedWeights = field(default_factory=SharedWeights)
    digest: str = ""
    beside: Mapping[Path, FileState] = field(default_factory=dict)

    def message(self) -> onnx.ModelProto:
        """The whole model as ONNX's own message."""
        imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        functions = list(self.functions.values())
        return onnx.helper.make_model(self.graph, opset_imports=imports, functions=functions, ir_version=self.ir)

    def itemsize(self, tensor: onnx.TensorProto) -> int:
        """Bytes of an element as NumPy has it; 0 for text and types that are none."""
        try:
            twin = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        except KeyError:
            return 0
        return 0 if twin.kind == "O" else int(twin.itemsize)

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The elements of a tensor of the file; FormatError for one that is not whole."""
        held = self.weights.array(tensor)
        return self.weights.keep(tensor, array_of(tensor, self.folder, self.beside)) if held is None else held


@checked
def read(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> OnnxFile:
    """The model in a file, in bytes or in a message; FormatError for anything that is no whole ONNX model."""
    check_addresses("reading an ONNX model", LIBRARY_BYTES)
    folder, nbytes, digest = None, 0, ""
    if isinstance(source, onnx.ModelProto):
        model = source
    else:
        data = source
        if not isinstance(data, bytes):
            folder = Path(data).absolute().parent
            data = bytes(read_file(os.fspath(data), "an ONNX model", MOST_MESSAGE_BYTES))
        model, nbytes, digest = onnx.ModelProto(), len(data), _digest(data)
        try:
            model.ParseFromString(data)
        except (DecodeError, ValueError, UnicodeDecodeError):
            raise FormatError("onnx", got="bytes that are no protobuf message", need="an ONNX model") from None
    return replace(_checked(model, folder, nbytes), digest=digest)


def _digest(data: bytes) -> str:
    """sha256 of a file; empty where other files belong to it, where it draws numbers, and where nothing is kept."""
    if SETTINGS.cache_folder is None or any(mark in data for mark in MARKS):
        return ""
    return hashlib.sha256(data).hexdigest()


def _checked(model: onnx.ModelProto, folder: Path | None, nbytes: int) -> OnnxFile:
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FormatError("onnx", got="a model without a graph", need="nodes and outputs")
    opsets = {_domain(each.domain): each.version for each in model.opset_import} or {"": 1}
    newest = onnx.defs.onnx_opset_version()
    opset = opsets.get("", newest)
    if not (OLDEST_OPSET <= opset <= newest or (0 < opset < OLDEST_OPSET and _is_unchanged(model.graph, opset))):
        raise FormatError(
            "onnx",
            got=f"operator set {opset}",
            need=f"{OLDEST_OPSET}..{newest}",
            fix="convert it with onnx.version_converter, or install a newer onnx",
        )
    if not all(isinstance(value.name, str) for value in (*model.graph.input, *model.graph.output)):
        raise FormatError("onnx", got="an input or output whose name is no UTF-8", need="names in UTF-8")
    for value in model.graph.input:
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if any(size < OPEN for size in sizes):
            raise FormatError(f"input {value.name}", got=f"sizes {sizes}", need=f"sizes ≥ 0, or {OPEN} for an open one")
    functions = {(_domain(function.domain), function.name): function for function in model.functions}
    weights = SharedWeights({id(each): each for each in model.graph.initializer})
    version = model.ir_version or onnx.IR_VERSION
    beside = _files_beside(model.graph, folder)
    file = OnnxFile(model.graph, opsets, functions, folder, version, nbytes, weights=weights, beside=beside)
    _check_size(file)
    return file


def _files_beside(graph: onnx.GraphProto, folder: Path | None) -> dict[Path, FileState]:
    """How the files are now that initializers name; those that are not there are told when they are read."""
    states: dict[Path, FileState] = {}
    if folder is None:
        return states
    outside = [each for each in graph.initializer if each.data_location == onnx.TensorProto.EXTERNAL]
    for place in {entry.value for tensor in outside for entry in tensor.external_data if entry.key == "location"}:
        with suppress(OSError, FormatError):
            path = _inside("onnx", folder, place)
            states[path] = FileState.of(path.lstat())
    return states


def _is_unchanged(graph: onnx.GraphProto, opset: int) -> bool:
    """Whether all operators of an old set are still the same in the oldest that is served."""
    for node in graph.node:
        schemas = [schema_of(node.op_type, each, _domain(node.domain)) for each in (opset, OLDEST_OPSET)]
        versions = {None if schema is None else schema.since_version for schema in schemas}
        if (
            len(versions) > 1
            or None in versions
            or any(each.type == onnx.AttributeProto.GRAPH for each in node.attribute)
        ):
            return False
    return True


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _check_size(file: OnnxFile) -> None:
    """FormatError for functions that call each other in a circle or expand too far; nothing is expanded."""
    sizes: dict[tuple[str, str], int] = {}
    open_calls: set[tuple[str, str]] = set()
    stack = list(file.functions)
    while stack:
        key = stack[-1]
        if key in sizes:
            stack.pop()
            continue
        inner = [(_domain(node.domain), node.op_type) for node in file.functions[key].node]
        waiting = [call for call in inner if call in file.functions and call not in sizes]
        if not waiting:
            sizes[key] = sum(sizes.get(call, 1) for call in inner)
            open_calls.discard(key)
            stack.pop()
            continue
        if key in open_calls or key in waiting:
            raise FormatError("onnx", got=f"function {key[1]} that calls itself", need="functions without a circle")
        open_calls.add(key)
        stack.extend(waiting)
    check_expanded(sum(sizes.get((_domain(node.domain), node.op_type), 0) for node in file.graph.node), file)


def check_expanded(count: int, file: OnnxFile) -> None:
    """FormatError where so many nodes are more than a file of its size may stand for without writing them out."""
    most = MOST_EXPANDED + (file.nbytes or file.graph.ByteSize()) // BYTES_A_NODE
    if count > most:
        got = f"{count:,} nodes or more once functions and loops are written out"
        raise FormatError("onnx", got=got, need=f"at most {most:,} in a file of its size", fix="write the nodes out")


class Schema(Protocol):
    """What we ask of ONNX's own description of an operator."""

    since_version: int
    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: list[int]
    context_dependent_function_opset_versions: list[int]
    attributes: Mapping[str, onnx.defs.OpSchema.Attribute]
    inputs: Sequence[onnx.defs.OpSchema.FormalParameter]

    def get_function_with_opset_version(self, version: int, /) -> bytes:
        """The body."""

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: list[bytes], /
    ) -> bytes:
        """The body for this node."""


def kind_name(number: int) -> str:
    """What NumPy calls an element type of ONNX; `?` for one that there is not."""
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        return "?"


def schema_of(operator: str, opset: int, domain: str) -> Schema | None:
    """ONNX's description of an operator; None for one that it does not know."""
    if not 0 < opset < 1 << 31 or not (isinstance(operator, str) and isinstance(domain, str)):
        return None  # beyond what it takes; protobuf gives bytes for text that is no UTF-8
    try:
        return cast(Schema, onnx.defs.get_schema(operator, opset, domain))
    except onnx.defs.SchemaError:
        return None


def dtype_named(number: int, subject: str = "onnx") -> DType:
    """Our element type for ONNX's number; DTypeError where we have none."""
    try:
        return dtype_of(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, DTypeError):
        names = {value: name for name, value in onnx.TensorProto.DataType.items()}
        known = names.get(number, str(number))
        raise DTypeError(subject, got=f"element type {known}", need="f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool") from None


def differing_axes(inputs: Mapping[str, onnx.ValueInfoProto], arrays: Mapping[str, object]) -> tuple[str, str] | None:
    """Two axes that the file gives one name, as a message tells them, and the name, where their sizes differ."""
    first: dict[str, tuple[str, int]] = {}
    for name, operand in inputs.items():
        shape = getattr(arrays.get(name), "shape", ())
        for axis, (dim, size) in enumerate(zip(operand.type.tensor_type.shape.dim, shape)):
            text = f"axis {axis} of {name} of size {size}"
            other, known = first.setdefault(dim.dim_param, (text, size)) if dim.dim_param else (text, size)
            if known != size:
                return f"{other} and {text}", dim.dim_param
    return None


def array_of(tensor: onnx.TensorProto, folder: Path | None = None, beside: Mapping[Path, FileState] = EMPTY) -> Array:
    """The elements of a tensor; FormatError where sizes and data do not agree, or a file is not as `beside` says."""
    if not isinstance(cast(object, tensor), onnx.TensorProto):
        # An attribute may hold anything.
        raise FormatError("tensor", got=shown(tensor), need="a tensor")
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape) or len(shape) > MAX_DIMENSIONS:
        raise FormatError(f"tensor {tensor.name}", got=f"shape {list(shape)}", need="sizes ≥ 0, at most 8 of them")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, shape, folder, beside)
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise FormatError(f"tensor {tensor.name}", got=f"shape {list(shape)} and other data", need=str(error)) from None


def _external(
    tensor: onnx.TensorProto, shape: tuple[int, ...], folder: Path | None, beside: Mapping[Path, FileState]
) -> Array:
    """Bytes of another file of the folder, read into memory of their own."""
    subject = f"tensor {tensor.name}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_type not in onnx.TensorProto.DataType.values() or kind_name(tensor.data_type) in ("?", "object"):
        raise FormatError(subject, got=f"element type {tensor.data_type}", need="one whose elements are all of a size")
    twin = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    try:
        offset, count = int(entries.get("offset", "0")), int(np.prod(shape, dtype=object))
        length = int(entries.get("length", str(count * twin.itemsize)))
    except ValueError:
        raise FormatError(subject, got="an offset or length that is no number", need="bytes") from None
    if offset < 0 or length != count * twin.itemsize or length > MOST_BYTES:
        raise FormatError(subject, got=f"{length} bytes for {list(shape)}", need=f"{count * twin.itemsize} bytes")
    if folder is None:
        raise FormatError(subject, got="external data of a model without a folder", need="a file", fix="load a path")
    path = _inside(subject, folder, entries.get("location", ""))
    with opened(path) as (handle, size):
        status = os.fstat(handle)
        if status.st_nlink != 1:
            raise FormatError(subject, got=f"{path.name}, a file of several names", need="a file of the model alone")
        if beside.get(path, state := FileState.of(status)) != state:
            got = f"{path.name}, which has changed since the model was read"
            raise FormatError(subject, got=got, need="the file as it was", fix="load the model again")
        if size < offset + length:
            raise FormatError(subject, got=f"{path.name} of {size} bytes", need=f"{offset + length} bytes")
        elements = np.empty(shape, twin)
        fill(path, handle, memoryview(elements.reshape(-1).view(np.uint8).data), offset)
    return elements


def _inside(subject: str, folder: Path, location: str) -> Path:
    """A regular file inside the folder, reached without links."""
    parts = Path(location).parts
    if not parts or Path(location).is_absolute() or ".." in parts or "\0" in location or "\\" in location:
        raise FormatError(subject, got=f"location {location!r}", need="a path inside the folder of the model")
    path = folder
    for part in parts:
        path = path / part
        try:
            mode = os.lstat(path).st_mode
        except OSError as error:
            raise FormatError(subject, got=f"location {location!r}: {error.strerror}", need="a file") from None
        if stat.S_ISLNK(mode):
            raise FormatError(subject, got=f"location {location!r} through a link", need="a file that is no link")
    if not stat.S_ISREG(mode):
        raise FormatError(subject, got=f"location {location!r}", need="a regular file")
    return path
