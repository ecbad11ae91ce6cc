"""ONNX files: read and bounded before anything is built. Where elements of tensors are: `nnc.onnx.stored`."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, cast

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # stubs are a package of their own
from numpy.typing import NDArray

import onnx
from nnc.addresses import check_addresses
from nnc.arguments import checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.reading import MappedFile
from nnc.core.values.dtype import DType, dtype_of
from nnc.core.values.spec import MAX_DIMENSIONS
from nnc.core.values.tensor import Tensor
from nnc.errors import DTypeError, FormatError
from nnc.onnx.kept.asked_elements import TWINS
from nnc.onnx.kept.opened_file import OpenedFile, open_file, refuse_maps
from nnc.onnx.stored.external import ExternalFiles
from nnc.onnx.weights import SharedWeights

Array = NDArray[Any]

# Nodes that a file need not write out, those of functions and of loops that are unrolled, and one more for so many
# bytes of it. A node takes 0.25 ms to be built, rewritten and planned: a file of 1 MB is done in 5 s.
MOST_EXPANDED, BYTES_A_NODE = 10_000, 128
OLDEST_OPSET = 7
# What ONNX's library takes when it is first asked for operators: it ends the process where it gets no memory.
LIBRARY_BYTES = 16_000_000
NO_FILES = ExternalFiles()
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


@dataclass(frozen=True, slots=True, eq=False)
class OnnxFile:
    """A model: its graph, the version of each operator set, its own functions, the folder of external data.

    `nbytes` is what was read; 0 for a message of the caller's. `weights`: what programs of this file share. The
    `digest` stands for all of its content; it is empty where that is not known, or draws numbers. The `contents` of
    large initializers are not in their messages, but here, by identity: `array` has them, `message` is whole again.
    They lie in the `map` where that is asked for.
    """

    graph: onnx.GraphProto
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict)
    files: ExternalFiles = NO_FILES
    ir: int = onnx.IR_VERSION
    nbytes: int = 0
    weights: SharedWeights = field(default_factory=SharedWeights)
    digest: str = ""
    contents: Mapping[int, NDArray[np.uint8]] = field(default_factory=dict)
    map: MappedFile | None = None

    @property
    def held_bytes(self) -> int:
        """What was read and is in memory: without elements that are mapped."""
        return self.nbytes - (sum(content.nbytes for content in self.contents.values()) if self.map else 0)

    @property
    def name(self) -> str:
        """The name of its graph."""
        return self.graph.name

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return tuple(entry.name for entry in self.graph.output)

    @property
    def has_external_data(self) -> bool:
        """Whether elements of its tensors are in files beside it."""
        return any(entry.data_location == onnx.TensorProto.EXTERNAL for entry in self.graph.initializer)

    def parsed(self) -> OnnxFile:
        """Itself."""
        return self

    def bound(self, number: int, nbytes: int) -> Tensor:
        """The tensor of the file with this number, of so many bytes; IndexError where there is none."""
        return self.tensor(self.weights.initializer(number))

    def message(self) -> onnx.ModelProto:
        """The whole model as ONNX's own message."""
        imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        functions = list(self.functions.values())
        model = onnx.helper.make_model(self.graph, opset_imports=imports, functions=functions, ir_version=self.ir)
        for tensor, copy in zip(self.graph.initializer, model.graph.initializer, strict=True):
            if (content := self.contents.get(id(tensor))) is not None:
                copy.raw_data = content.tobytes()
        return model

    def itemsize(self, tensor: onnx.TensorProto) -> int:
        """Bytes of an element as NumPy has it; 0 for text and types that are none."""
        try:
            twin = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        except KeyError:
            return 0
        return 0 if twin.kind == "O" else int(twin.itemsize)

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The elements of a tensor of the file; FormatError for one that is not whole."""
        if (file := self._map_of(tensor)) is not None:
            file.check()
        held = self.weights.array(tensor)
        if held is not None:
            return held
        return self.weights.keep(tensor, array_of(tensor, self.files, self.contents.get(id(tensor))))

    def tensor(self, tensor: onnx.TensorProto) -> Tensor:
        """A tensor of the file over the memory in which its elements are; one that is mapped is looked after."""
        made = Tensor.from_numpy(self.array(tensor))
        made.storage.file = self._map_of(tensor)
        return made

    def _map_of(self, tensor: onnx.TensorProto) -> MappedFile | None:
        return self.map if id(tensor) in self.contents else self.files.map_of(tensor)

    def own_bytes(self, tensors: Iterable[Tensor]) -> int:
        """Bytes of those tensors that lie where the file was read to, which are in `held_bytes` too."""
        if self.map is not None:
            return 0
        own = {int(content.ctypes.data) for content in self.contents.values()}
        return sum(tensor.spec.nbytes for tensor in tensors if tensor.storage.address in own)


@checked
def read(source: str | os.PathLike[str] | bytes | onnx.ModelProto, *, mapped: bool = False) -> OnnxFile:
    """The model in a file, in bytes or in a message; FormatError for anything that is no whole ONNX model.

    Elements are `mapped` when asked, as `load` has it.
    """
    check_addresses("reading an ONNX model", LIBRARY_BYTES)
    if isinstance(source, onnx.ModelProto):
        refuse_maps(mapped=mapped)
        return _checked(source, 0)
    return parsed(open_file(source, mapped=mapped))


def parsed(opened: OpenedFile, weights: SharedWeights | None = None) -> OnnxFile:
    """The model of a file that was opened; its programs share these `weights`."""
    check_addresses("reading an ONNX model", LIBRARY_BYTES)
    message = opened.message
    model = onnx.ModelProto()
    try:
        model.ParseFromString(message.rest)
    except (DecodeError, ValueError, UnicodeDecodeError):
        raise FormatError("onnx", got="bytes that are no protobuf message", need="an ONNX model") from None
    file = _checked(model, opened.nbytes)
    files = ExternalFiles.named_by(model.graph.initializer, opened.folder, is_mapped=opened.is_mapped)
    shared = file.weights if weights is None else weights
    shared.messages, shared.is_mapped = file.weights.messages, opened.is_mapped
    initializers = [*shared.messages]
    contents = {initializers[number]: content for number, content in message.elements.items()}
    return replace(file, files=files, contents=contents, digest=opened.digest, map=message.map, weights=shared)


def _checked(model: onnx.ModelProto, nbytes: int) -> OnnxFile:
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
    file = OnnxFile(model.graph, opsets, functions, ir=version, nbytes=nbytes, weights=weights)
    _check_size(file)
    return file


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


def array_of(
    tensor: onnx.TensorProto, files: ExternalFiles = NO_FILES, content: NDArray[np.uint8] | None = None
) -> Array:
    """The elements of a tensor, whose `content` may be apart; FormatError where sizes and data do not agree."""
    if not isinstance(cast(object, tensor), onnx.TensorProto):
        # An attribute may hold anything.
        raise FormatError("tensor", got=shown(tensor), need="a tensor")
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape) or len(shape) > MAX_DIMENSIONS:
        raise FormatError(f"tensor {tensor.name}", got=f"shape {list(shape)}", need="sizes ≥ 0, at most 8 of them")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return files.elements(tensor, shape)
    try:
        if content is not None and (twin := _plain_type(tensor, content)) is not None:
            return content.view(twin).reshape(shape)
        return np.asarray(onnx.numpy_helper.to_array(tensor if content is None else whole(tensor, content)))
    except (ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise FormatError(f"tensor {tensor.name}", got=f"shape {list(shape)} and other data", need=str(error)) from None


def _plain_type(tensor: onnx.TensorProto, content: NDArray[np.uint8]) -> np.dtype[Any] | None:
    """The type of elements that lie in memory as in the file; None where ONNX's library shall read them."""
    twin = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    is_whole = twin in TWINS and content.nbytes == math.prod(tensor.dims) * twin.itemsize
    return twin if is_whole and sys.byteorder == "little" else None


def whole(tensor: onnx.TensorProto, content: NDArray[np.uint8]) -> onnx.TensorProto:
    """A copy of a tensor with its content."""
    message = onnx.TensorProto()
    message.CopyFrom(tensor)
    message.raw_data = content.tobytes()
    return message
