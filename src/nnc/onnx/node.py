"""Nodes of a file, and what a row of the table of operators is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import onnx
from nnc.classes import dataclass
from nnc.core.values.sizes import plain, size_of
from nnc.core.values.spec import Shape, TensorSpec
from nnc.errors import ArityError, AttributeValueError, BackendError, FormatError, IndexRangeError
from nnc.onnx.kept.asked_elements import Unknown
from nnc.ops.arithmetic import ArithmeticOperand

Array: TypeAlias = NDArray[Any]
Operand: TypeAlias = ArithmeticOperand
K = TypeVar("K")
# Longer lists in attributes of trees are arrays: Python's own objects take ten times the memory.
MOST_LISTED = 1 << 12
# Operands of one node: a file of 1 MB may name 300,000, which take a minute to plan.
MOST_OPERANDS = 10_000
Results: TypeAlias = ArithmeticOperand | tuple[ArithmeticOperand | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """One node: its operator, the names it reads and writes (empty where left out), its attributes as Python values."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    opset: int

    @property
    def label(self) -> str:
        """The operator with the name of the node, or of what it writes."""
        return f"{self.op} {self.name or (self.outputs[0] if self.outputs else '')}".rstrip()

    def integer(self, name: str, default: int) -> int:
        """An attribute of one integer; the default where it is absent or of another kind."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default


@dataclass(frozen=True, slots=True)
class Elements:
    """`function(*numbers)`: elements that follow from numbers, some of which may be sizes of a graph in the making."""

    function: Callable[..., Array]
    numbers: tuple[float, ...]
    kind: np.dtype[Any] | None = None

    @property
    def are_open(self) -> bool:
        """Whether other sizes give others."""
        return any(size_of(number) is not None for number in self.numbers)

    def array(self) -> Array:
        """The elements at the sizes at hand."""
        array = self.function(*[plain(number) for number in self.numbers])
        return array if self.kind is None else array.astype(self.kind)


class World(Protocol):
    """Where a call happens: symbols of a graph, or arrays that are known."""

    def constant(self, value: Array) -> ArithmeticOperand:
        """An operand with these elements."""

    def computed(self, elements: Elements, shape: Shape) -> ArithmeticOperand:
        """An operand whose elements follow from sizes that remember where they come from."""

    def decided(self, elements: Elements) -> bool:
        """Whether an element that follows from such sizes is true."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeCall:
    """A node with its operands. `known[i]` has the elements of operand i where they are known."""

    node: OnnxNode
    operands: tuple[ArithmeticOperand | None, ...]
    known: tuple[Array | None, ...]
    sources: tuple[frozenset[str], ...]
    world: World

    # ---- operands

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, position: int) -> ArithmeticOperand:
        operand = self.maybe(position)
        if operand is None:
            raise ArityError(self.node.label, got=f"no input {position}", need="the inputs that the operator has")
        return operand

    def maybe(self, position: int) -> ArithmeticOperand | None:
        """Operand `position`; None where it is left out."""
        return self.operands[position] if position < len(self.operands) else None

    @property
    def present(self) -> tuple[ArithmeticOperand, ...]:
        """All operands that are there."""
        return tuple(operand for operand in self.operands if operand is not None)

    def static(self, position: int) -> Array | None:
        """The elements of an operand that acts as a shape or an option; None where it is left out."""
        value = self.known[position] if position < len(self) else None
        if value is None and self.maybe(position) is None:
            return None
        if value is None:
            raise Unknown(self.sources[position], f"input {position} of {self.node.label}")
        return value

    def integers_at(self, position: int) -> Shape | None:
        """The same as a tuple of integers."""
        value = self.static(position)
        return None if value is None else tuple(whole(entry) for entry in value.reshape(-1).tolist())

    def wants(self, position: int) -> bool:
        """Whether somebody may read output `position`."""
        return position < len(self.node.outputs) and bool(self.node.outputs[position])

    # ---- attributes

    def has(self, name: str) -> bool:
        """Whether the node has this attribute."""
        return name in self.node.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute of one integer."""
        return self._attribute(name, default, int)

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the first, or from the last where it is below 0; IndexRangeError for one beyond."""
        if not -rank <= axis < max(rank, 1):
            raise IndexRangeError(self.node.label, got=f"axis {axis}", need=f"{-rank} ≤ axis < {rank}")
        return axis % max(rank, 1)

    def real(self, name: str, default: float | None = None) -> float:
        """An attribute of one number."""
        value = self.node.attributes.get(name, default)
        return float(value) if isinstance(value, int) else self._attribute(name, default, float)

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute of one text."""
        return self._attribute(name, default, str)

    def integers(self, name: str, default: Shape | None = None) -> Shape:
        """An attribute of several integers."""
        return self._attribute(name, default, tuple)

    def optional(self, name: str) -> Shape | None:
        """The same, or None where it is absent."""
        return self.integers(name) if self.has(name) else None

    def _attribute(self, name: str, default: K | None, kind: type[K]) -> K:
        value = self.node.attributes.get(name, default)
        if not isinstance(value, kind):
            got = f"attribute {name}: {'none' if value is None else type(value).__name__}"
            raise AttributeValueError(self.node.label, got=got, need=kind.__name__)
        return value

    # ---- making

    def constant(self, value: object, like: TensorSpec | None = None) -> ArithmeticOperand:
        """An operand with these elements, of the element type of `like` where that is given."""
        array = np.asarray(value)
        return self.world.constant(array if like is None else array.astype(like.dtype.numpy))

    def computed(
        self, function: Callable[..., Array], *numbers: float, shape: Shape, like: TensorSpec | None = None
    ) -> ArithmeticOperand:
        """An operand with the elements `function(*numbers)`, of this shape, and of the type of `like`.

        Graphs of other sizes ask the function again, so it keeps no operand.
        """
        elements = Elements(function, numbers, None if like is None else like.dtype.numpy)
        if elements.are_open:
            return self.world.computed(elements, shape)
        return self.world.constant(elements.array())

    def decided(self, function: Callable[..., Array], *numbers: float) -> bool:
        """Whether the element `function(*numbers)` is true; graphs of other sizes ask again."""
        elements = Elements(function, numbers)
        return self.world.decided(elements) if elements.are_open else bool(elements.array())

    def refuse(self, reason: str) -> BackendError:
        """The error of a row that does not serve the node."""
        return BackendError(self.node.label, got=reason, need="what nnc.onnx supports", fix="see docs/onnx.md")


Build: TypeAlias = Callable[[NodeCall], Results]
Host: TypeAlias = Callable[..., object]
# Results of nodes whose operands are all known are computed at import up to this many elements, larger ones by a run.
FOLDED_RESULT = 1 << 20


@dataclass(frozen=True, slots=True)
class OnnxRow:
    """How an operator is served: `build` on operands, and `host` on arrays where all of them are known.

    Where `host` gives None `build` serves these too.

    A row that `moves` looks at no element of its operands. A row without `build` has results that no plan can foresee,
    such as those whose size depends on data: its inputs must be known. `most` are the shapes that they have at most.
    The operands `sizes` act as shapes: `build` asks for their elements alone.
    One that is `late` stays in the graph, where passes look for it, though its inputs are known.
    """

    build: Build | None = None
    host: Host | None = None
    moves: bool = False
    most: Callable[..., tuple[Shape, ...]] | None = None
    late: bool = False
    sizes: tuple[int, ...] = ()


def whole(value: float) -> int:
    """The value as an integer; sizes are some already."""
    return value if isinstance(value, int) else int(value)


def check_names(node: onnx.NodeProto) -> None:
    """FormatError for a node with names that are no UTF-8, which are bytes where they are read."""
    words = (node.op_type, node.domain, node.name, *node.input, *node.output)
    if not all(isinstance(word, str) for word in words):
        raise FormatError("onnx", got="a node with text that is no UTF-8", need="names in UTF-8")


def decode(node: onnx.NodeProto, opsets: Mapping[str, int]) -> OnnxNode:
    """A node of the file; FormatError for attributes of unknown kinds."""
    check_names(node)
    domain = "" if node.domain == "ai.onnx" else node.domain
    if len(node.input) + len(node.output) > MOST_OPERANDS:
        got = f"{len(node.input):,} inputs and {len(node.output):,} outputs"
        raise FormatError(node.name or node.op_type, got=got, need=f"at most {MOST_OPERANDS:,} of both")
    most = MOST_LISTED if node.op_type.startswith("TreeEnsemble") else 1 << 62
    attributes = {entry.name: _value(entry, most) for entry in node.attribute if not entry.ref_attr_name}
    opset = opsets.get(domain, 1)
    return OnnxNode(node.op_type, domain, node.name, tuple(node.input), tuple(node.output), attributes, opset)


def _value(attribute: onnx.AttributeProto, most: int) -> object:
    kind = onnx.AttributeProto
    if attribute.type in (kind.INTS, kind.FLOATS):
        listed = attribute.ints if attribute.type == kind.INTS else attribute.floats
        return tuple(listed) if len(listed) <= most else np.array(listed)
    if attribute.type == kind.STRING:
        return attribute.s.decode("utf-8", "replace")
    if attribute.type == kind.STRINGS and len(attribute.strings) > most:
        return np.array(attribute.strings)
    if attribute.type == kind.STRINGS:
        return tuple(string.decode("utf-8", "replace") for string in attribute.strings)
    single = {kind.INT: "i", kind.FLOAT: "f", kind.TENSOR: "t", kind.GRAPH: "g", kind.TYPE_PROTO: "tp"}
    if attribute.type not in single:
        raise FormatError(f"attribute {attribute.name}", got=f"kind {attribute.type}", need="a kind that is known")
    value: object = getattr(attribute, single[attribute.type])
    return value
