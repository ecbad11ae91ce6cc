"""A graph of a file as a symbolic graph of ours, for fixed sizes of its inputs.

Each value has a spec, a symbol once somebody computes with it, and its elements where they are known: initializers,
constants, shapes, and what small nodes make of those. So what only computes shapes is gone before anything is planned.
A node whose option depends on the elements of an input raises `Unknown` with the names of those inputs: the caller
gives their values and imports again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np

import onnx
from nnc.classes import dataclass
from nnc.core.values.dtype import DTYPES, dtype_of
from nnc.core.values.spec import Shape, TensorSpec
from nnc.dynamic import DynamicGraph, Variable
from nnc.errors import BackendError, DTypeError, FormatError, MemoryLimitError, NncError, UsageError
from nnc.onnx.attributes import check_attributes, check_complex
from nnc.onnx.file import GraphPart, OnnxFile, check_expanded, schema_of
from nnc.onnx.kept.asked_elements import TWINS, Unknown
from nnc.onnx.node import FOLDED_RESULT, Array, Elements, NodeCall, OnnxNode, OnnxRow, Operand, decode
from nnc.onnx.node_order import check_unique, ordered
from nnc.onnx.node_values import NodeInputs, OnnxValue
from nnc.onnx.size_elements import computed_sizes, has_sizes, settled
from nnc.symbolic import Symbol, SymbolicGraph

# Results of nodes whose operands are all known are computed at once up to this size; larger ones are left to the run.
FOLDED_ELEMENTS = 1 << 16
# What stays in the graph for passes has more.
LATE_ELEMENTS = 256
# Bytes of all that is folded: a file of a few bytes has nodes that each make eight million.
MOST_FOLDED = 1 << 28
BUILTIN = (AssertionError, AttributeError, ArithmeticError, LookupError, TypeError, ValueError)
STAND_INS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


# Gives the symbol of a weight (or of a constant, whose name is empty) with its values.
Source: TypeAlias = Callable[[TensorSpec, str, Array], Symbol]
Special: TypeAlias = (
    "Callable[[OnnxImporter, OnnxNode, Sequence[OnnxValue | None], Mapping[str, OnnxValue]], Sequence[OnnxValue]]"
)


@dataclass(slots=True, eq=False)
class OnnxImporter:
    """Builds `graph`. `weights` are the initializers that became inputs, `constants` all others that did.

    `branches` counts those around the node at hand, `again` the nodes that are not written out in the file: those of
    functions, and of bodies after the first time. `folded` are bytes that were computed while building. Of the
    `constants` some are `computed` of sizes that remember where they come from, and such sizes made `decisions`.
    """

    file: OnnxFile
    rows: Mapping[str, OnnxRow]
    specials: Mapping[str, Special]
    graph: SymbolicGraph = field(default_factory=lambda: SymbolicGraph("onnx"))
    source: Source | None = None
    weights: dict[str, tuple[Symbol, Array]] = field(default_factory=dict)
    constants: dict[Symbol, Array] = field(default_factory=dict)
    computed: dict[Symbol, Elements] = field(default_factory=dict)
    decisions: list[tuple[Elements, bool]] = field(default_factory=list)
    again: int = 0
    folded: int = 0
    branches: int = 0
    _run: set[int] = field(default_factory=set)
    _tensors: dict[int, tuple[onnx.TensorProto, OnnxValue]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    outermost: SymbolicGraph = field(init=False)

    def __post_init__(self) -> None:
        self.outermost = self.graph

    # ---- values

    def operand(self, value: OnnxValue) -> Symbol:
        """The symbol of a value in the graph at hand; what is known becomes a bound input of the outermost."""
        symbol = self._outer(value)
        return symbol if symbol.graph is self.graph else self.graph.symbol(self.graph.own(symbol))

    def _outer(self, value: OnnxValue) -> Symbol:
        if value.symbol is None:
            array, spec = None if value.array is None else settled(value.array), value.spec
            if array is None or spec is None:
                got = "a sequence or text" if array is None else f"elements of type {array.dtype}"
                raise DTypeError("onnx", got=got, need="a tensor of " + " ".join(entry.name for entry in DTYPES))
            if self.source is not None:
                value.symbol = self.source(spec, value.weight, array)
                return value.symbol
            value.symbol = self.outermost.input(spec, value.weight)
            if value.weight:
                self.weights[value.weight] = (value.symbol, array)
            else:
                self.constants[value.symbol] = array
        return value.symbol

    def constant(self, value: Array) -> Symbol:
        """An input bound to these elements."""
        return self.operand(OnnxValue(np.ascontiguousarray(value)))

    # ---- graphs

    def run(self, graph: onnx.GraphProto | GraphPart, scope: dict[str, OnnxValue]) -> list[OnnxValue]:
        """The outputs of `graph`, whose inputs are in `scope`."""
        check_unique([entry.name for entry in graph.initializer])
        for tensor in graph.initializer:
            scope[tensor.name] = self.tensor(tensor, tensor.name)
        for sparse in graph.sparse_initializer:
            raise FormatError("onnx", got=f"sparse tensor {sparse.values.name}", need="dense tensors")
        if id(graph) in self._run:
            self._check_expansion(len(graph.node))
        self._run.add(id(graph))
        for place, node in enumerate(ordered(graph.node)):
            try:
                self.execute((decode(node, self.file.opsets),), scope)
            except Unknown as unknown:
                unknown.place = place
                raise
        return [self._named(entry.name, scope) for entry in graph.output]

    def tensor(self, message: onnx.TensorProto, name: str) -> OnnxValue:
        """The value of a tensor of the file: one, however often a loop comes by it; a name that is taken grows."""
        if id(message) not in self._tensors:
            while name and name in self._taken:
                name += "_"
            self._taken.add(name)
            self._tensors[id(message)] = (message, OnnxValue(self.file.array(message), weight=name))
        return self._tensors[id(message)][1]

    def messages(self) -> dict[Symbol, onnx.TensorProto]:
        """Of the symbols of the file's tensors: their messages."""
        return {entry.symbol: message for message, entry in self._tensors.values() if entry.symbol is not None}

    def bound(self) -> dict[Symbol, Array]:
        """All weights and constants by their symbols."""
        return dict(self.weights.values()) | self.constants

    def execute(self, nodes: Iterable[OnnxNode], scope: dict[str, OnnxValue]) -> None:
        """Node after node; what they write goes into `scope`."""
        for node in nodes:
            for name, value in zip(node.outputs, self.apply(node, scope)):
                if name:
                    scope[name] = value

    def _check_expansion(self, count: int) -> None:
        """FormatError where what a file does not write out becomes more than a file of its size may."""
        self.again += count
        check_expanded(self.again, self.file)

    def apply(self, node: OnnxNode, scope: Mapping[str, OnnxValue]) -> Sequence[OnnxValue]:
        """What a node writes, known or as symbols."""
        inputs = [self._named(name, scope) if name else None for name in node.inputs]
        special = self.specials.get(node.op if not node.domain else f"{node.domain}.{node.op}")
        try:
            if (node.domain, node.op) not in self.file.functions:
                check_attributes(node)
                check_complex(node, [None if entry is None else entry.array for entry in inputs])
            if special is not None:
                return special(self, node, inputs, scope)
            row = self.rows.get(node.op if not node.domain else f"{node.domain}.{node.op}")
            if row is None or (node.domain, node.op) in self.file.functions:
                return self._expand(node, inputs)
            return self.call(node, row, inputs)
        except NncError as error:
            if isinstance(error, UsageError) and not error.origin:
                error.origin = f"node {node.label}"
            raise
        except MemoryError:
            raise MemoryLimitError(node.label, got="more memory than there is", need="smaller operands") from None
        except BUILTIN as error:
            # A row trusts the file as far as ONNX's rules go; a node that breaks them fails somewhere inside.
            got = f"{type(error).__name__}: {error}"
            raise FormatError(node.label, got=got, need="operands and attributes as ONNX defines them") from error

    def _named(self, name: str, scope: Mapping[str, OnnxValue]) -> OnnxValue:
        if name not in scope:
            raise FormatError("onnx", got=f"{name!r}, which nothing writes", need="an input or the output of a node")
        return scope[name]

    # ---- calls

    def call(self, node: OnnxNode, row: OnnxRow, inputs: Sequence[OnnxValue | None]) -> Sequence[OnnxValue]:
        """What a row makes of the inputs: elements where it can be computed at once, else symbols."""
        given = NodeInputs.of(node, inputs)
        if row.build is None and not given.is_known:
            raise Unknown(given.sources, f"{node.label}, whose result depends on values", whole=True)
        if given.has_sizes:
            if given.is_known and (sizes := computed_sizes(node, given.known)) is not None:
                return [OnnxValue(sizes, sources=given.sources)]
            given = given.settled(row.sizes)
        if given.is_known and not given.has_sizes and self._is_folded(row, given):
            folded = self._fold(node, row, given.known)
            if folded is not None:
                self._count_folded(node, given, folded)
                return [OnnxValue(array, sources=given.sources) for array in folded]
        if any(entry is not None and entry.array is not None and entry.spec is None for entry in given.inputs):
            raise self._strange(node, [entry for entry in given.inputs if entry is not None])
        assert row.build is not None
        operands = tuple(
            None if entry is None or has_sizes(entry.array) else self.operand(entry) for entry in given.inputs
        )
        call = NodeCall(node, operands, given.known, given.sources_of_each, _Symbols(self))
        built = row.build(call)
        results = built if isinstance(built, tuple) else (built,)
        return [OnnxValue(symbol=self._own(entry), sources=given.sources) for entry in results]

    def _is_folded(self, row: OnnxRow, given: NodeInputs) -> bool:
        """Whether a node of known inputs is computed at once: it must be, or they are few, or options of the run."""
        if row.build is None or given.sources:
            return True
        return self._is_small(given.known) and not (row.late and self._is_weight(given.known))

    def _count_folded(self, node: OnnxNode, given: NodeInputs, folded: Sequence[Array]) -> None:
        """MemoryLimitError where constants that nodes make of constants are too many."""
        self.folded += 0 if given.sources else sum(array.nbytes for array in folded)
        if self.folded > MOST_FOLDED:
            got = f"{self.folded:,} bytes of constants that nodes compute from others"
            raise MemoryLimitError(node.label, got=got, need=f"at most {MOST_FOLDED:,}")

    def _strange(self, node: OnnxNode, inputs: Sequence[OnnxValue]) -> UsageError | Unknown:
        """The error, or the wish for values, of a node that reads an element type that is none of ours."""
        waiting = frozenset[str]().union(*(entry.sources for entry in inputs if entry.array is None))
        if waiting:
            return Unknown(waiting, f"{node.label}, which reads an element type that runs by value alone", whole=True)
        kinds = ", ".join(str(entry.array.dtype) for entry in inputs if entry.array is not None and entry.spec is None)
        return DTypeError(node.label, got=kinds, need="a tensor of " + " ".join(entry.name for entry in DTYPES))

    def _own(self, operand: Operand | None) -> Symbol | None:
        assert operand is None or isinstance(operand, Symbol)
        return operand

    def _is_small(self, known: Sequence[Array | None]) -> bool:
        return sum(array.size for array in known if array is not None) <= FOLDED_ELEMENTS

    def _is_weight(self, known: Sequence[Array | None]) -> bool:
        """Whether the first operand is more than an option, in an element type that a graph has."""
        first = known[0]
        return first is not None and first.size > LATE_ELEMENTS and first.dtype in TWINS

    def _fold(self, node: OnnxNode, row: OnnxRow, known: Sequence[Array | None]) -> list[Array] | None:
        """The results on known operands; None where their element types are none of ours and no host code is there."""
        if row.host is not None:
            with np.errstate(all="ignore"):
                folded = row.host(node, *known)
            if folded is not None:
                return [np.asarray(entry) for entry in (folded if isinstance(folded, tuple) else (folded,))]
        assert row.build is not None
        strange = [array.dtype for array in known if array is not None and array.dtype not in TWINS]
        if strange:
            return self._moved(node, row, known, strange[0]) if row.moves else None
        if not self._fits(node, row, known):
            return None
        world = _Arrays()
        operands = tuple(None if array is None else world.constant(array) for array in known)
        sources = tuple(frozenset[str]() for _ in known)
        built = row.build(NodeCall(node, operands, tuple(known), sources, world))
        results = built if isinstance(built, tuple) else (built,)
        return [np.array(entry.numpy()) if isinstance(entry, Variable) else np.empty(0) for entry in results]

    def _fits(self, node: OnnxNode, row: OnnxRow, known: Sequence[Array | None]) -> bool:
        """Whether the results are small enough to be computed at once; their sizes are inferred first."""
        assert row.build is not None
        graph = SymbolicGraph("sizes")
        world = _Sizes(graph)
        operands = tuple(None if array is None else world.constant(array) for array in known)
        built = row.build(NodeCall(node, operands, tuple(known), tuple(frozenset[str]() for _ in known), world))
        results = built if isinstance(built, tuple) else (built,)
        most = max(FOLDED_RESULT, 4 * sum(array.size for array in known if array is not None))
        return sum(entry.spec.elements for entry in results if entry is not None) <= most

    def _moved(
        self, node: OnnxNode, row: OnnxRow, known: Sequence[Array | None], kind: np.dtype[np.generic]
    ) -> list[Array] | None:
        """Results of a row that only moves elements of types that are none of ours: as integers of their size."""
        twin = STAND_INS.get(kind.itemsize)
        if twin is None or kind.kind in "OSU":
            return None
        cast = [array.view(twin) if array is not None and array.dtype == kind else array for array in known]
        folded = self._fold(node, row, cast)
        return None if folded is None else [entry.view(kind) for entry in folded]

    # ---- functions

    def _expand(self, node: OnnxNode, inputs: Sequence[OnnxValue | None]) -> Sequence[OnnxValue]:
        """The nodes of a function instead of the call."""
        function = self.file.functions.get((node.domain, node.op))
        defaults: dict[str, object] = {}
        if function is None:
            function, defaults = self._standard(node, inputs), _defaults(node)
        if function is None:
            raise BackendError(
                node.label, got=f"operator {node.domain or 'ai.onnx'}.{node.op}", need="one of the table"
            )
        scope: dict[str, OnnxValue] = {}
        for name, value in zip(function.input, inputs):
            if value is not None:
                scope[name] = value
        given = {**defaults, **node.attributes}
        for default in function.attribute_proto:
            given.setdefault(default.name, decode_default(default))
        own = {("" if entry.domain == "ai.onnx" else entry.domain): entry.version for entry in function.opset_import}
        opsets = {**self.file.opsets, **own}
        opsets.setdefault("", onnx.defs.onnx_opset_version())
        self._check_expansion(len(function.node))
        inner = (bind(decode(entry, opsets), entry, given, scope) for entry in function.node)
        self.execute(inner, scope)
        return [scope.get(name, OnnxValue()) for name in function.output]

    def _standard(self, node: OnnxNode, inputs: Sequence[OnnxValue | None]) -> onnx.FunctionProto | None:
        """The body that ONNX's own schema has for the operator."""
        schema = schema_of(node.op, node.opset, node.domain)
        if schema is None:
            return None
        if schema.has_context_dependent_function:
            types = [_type_of(entry).SerializeToString() for entry in inputs]
            version = _newest(schema.context_dependent_function_opset_versions, node.opset)
            message = _message(node).SerializeToString()
            return _function(schema.get_context_dependent_function_with_opset_version(version, message, types))
        if schema.has_function:
            version = _newest(schema.function_opset_versions, node.opset)
            return _function(schema.get_function_with_opset_version(version))
        return None


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((entry for entry in versions if entry <= opset), default=versions[0])


def _function(data: bytes) -> onnx.FunctionProto:
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    return function


@dataclass(frozen=True, slots=True, eq=False)
class _Symbols:
    """Calls that append to the graph."""

    importer: OnnxImporter

    def constant(self, value: Array) -> Operand:
        """An input bound to these elements."""
        return self.importer.constant(value)

    def computed(self, elements: Elements, shape: Shape) -> Operand:
        """An input bound to these elements, and to others at other sizes."""
        importer, array = self.importer, elements.array()
        symbol = importer.outermost.input(TensorSpec(shape, dtype_of(array.dtype)))
        importer.constants[symbol], importer.computed[symbol] = array, elements
        return importer.operand(OnnxValue(symbol=symbol))

    def decided(self, elements: Elements) -> bool:
        """What other sizes have to decide alike."""
        outcome = bool(elements.array())
        self.importer.decisions.append((elements, outcome))
        return outcome


@dataclass(frozen=True, slots=True, eq=False)
class _Sizes:
    """Calls that nothing is computed in: only shapes are asked for."""

    graph: SymbolicGraph

    def constant(self, value: Array) -> Operand:
        """An input like it."""
        return self.graph.input(TensorSpec(value.shape, dtype_of(value.dtype)))

    def computed(self, elements: Elements, shape: Shape) -> Operand:
        """An input like it."""
        return self.constant(elements.array())

    def decided(self, elements: Elements) -> bool:
        """At the sizes at hand."""
        return bool(elements.array())


class _Arrays:
    """Calls on known arrays, run at once by the reference backend."""

    def __init__(self) -> None:
        self.graph = DynamicGraph("reference")

    def constant(self, value: Array) -> Operand:
        """A value that is not recorded."""
        return self.graph.constant(np.ascontiguousarray(value).reshape(value.shape))

    def computed(self, elements: Elements, shape: Shape) -> Operand:
        """The same of these elements."""
        return self.constant(elements.array())

    def decided(self, elements: Elements) -> bool:
        """At the sizes at hand."""
        return bool(elements.array())


def decode_default(attribute: onnx.AttributeProto) -> object:
    """The value of an attribute that a function has of itself."""
    holder = onnx.NodeProto(op_type="default")
    holder.attribute.append(attribute)
    return decode(holder, {}).attributes[attribute.name]


def bind(
    node: OnnxNode, message: onnx.NodeProto, given: Mapping[str, object], scope: Mapping[str, OnnxValue]
) -> OnnxNode:
    """A node of a function with the caller's attributes where it refers to them; inputs left out stay so."""
    refers = {entry.name: entry.ref_attr_name for entry in message.attribute if entry.ref_attr_name}
    attributes = {name: value for name, value in node.attributes.items() if name not in refers}
    attributes.update({name: given[other] for name, other in refers.items() if other in given})
    return OnnxNode(node.op, node.domain, node.name, node.inputs, node.outputs, attributes, node.opset)


def _defaults(node: OnnxNode) -> dict[str, object]:
    """What the schema says of attributes that are left out."""
    schema = schema_of(node.op, node.opset, node.domain)
    rows = {} if schema is None else {name: entry.default_value for name, entry in schema.attributes.items()}
    return {name: decode_default(entry) for name, entry in rows.items() if entry.type != onnx.AttributeProto.UNDEFINED}


def _type_of(value: OnnxValue | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    spec = value.spec
    if spec is None:
        assert value.array is not None
        return onnx.helper.make_tensor_type_proto(
            onnx.helper.np_dtype_to_tensor_dtype(value.array.dtype), value.array.shape
        )
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(spec.dtype.numpy), spec.shape)


def _message(node: OnnxNode) -> onnx.NodeProto:
    message = onnx.helper.make_node(node.op, node.inputs, node.outputs, node.name, domain=node.domain)
    for name, value in node.attributes.items():
        message.attribute.append(onnx.helper.make_attribute(name, value))
    return message
