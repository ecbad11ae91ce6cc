"""Symbol composition: expressions over any registry, before shapes, memory or execution exist (NNVM's front end).

    x, w = variable("x"), variable("w")
    y = compose(CONVOLUTION, x, w, name="conv1", groups=2)      missing inputs become variables `conv1_bias`
    y(x=other)                                                  the same expression with a variable replaced

Nodes are immutable and shared. Names are labels that the innermost `Names` authority makes unique; they are how
variables are found, never what a node is. Scopes are context variables, so threads and tasks do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from types import MappingProxyType
from typing import Self

from nnc.classes import dataclass
from nnc.errors import ArityError, AttributeValueError, FormatError
from nnc.graph.attribute import OpAttr
from nnc.graph.codec import STANDARD, Forms, Json, JsonObject, decode_call, encode_call
from nnc.graph.registry import Op, Registry, default_registry
from nnc.graph.serialize import load_document, save_document

# Inputs whose value an operator changes; variables read there are auxiliary state.
MUTATES = OpAttr[tuple[int, ...]]("mutates")
# Outputs that exist for other operators only (a gradient's saved values) and are left out of `internals`.
HIDDEN_OUTPUTS = OpAttr[tuple[int, ...]]("hidden_outputs")
# Inputs that stay absent when they are not given, instead of becoming variables.
OPTIONAL_INPUTS = OpAttr[tuple[int, ...]]("optional_inputs")

FORMAT, VERSION = "nnc-composition", 1

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_LABELS: ContextVar[Mapping[str, str]] = ContextVar("labels", default=_NO_LABELS)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A variable (no operator) or an operator applied to outputs of nodes; `after` are order-only dependencies."""

    name: str
    op: Op[object] | None = None
    attributes: object = None
    inputs: tuple[Output | None, ...] = ()
    after: tuple[Node, ...] = ()
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)

    def output_names(self) -> tuple[str, ...]:
        """`conv1_y` for an operator's outputs, the name itself for a variable."""
        if self.op is None:
            return (self.name,)
        names = self.op.outputs(self.attributes) if callable(self.op.outputs) else self.op.outputs
        return tuple(f"{self.name}_{output}" for output in names) if isinstance(names, tuple) else (self.name,)


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """One output of a node."""

    node: Node
    index: int = 0

    @property
    def name(self) -> str:
        """The output's name."""
        return self.node.output_names()[self.index]


class Names:
    """A name authority: `conv0`, `conv1`, … under a prefix; use it as a context with `naming`."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._counts: dict[str, int] = {}

    def unique(self, stem: str) -> str:
        """The next free name of this stem."""
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return f"{self.prefix}{stem}{count}"


_NAMES: ContextVar[Names | None] = ContextVar("names", default=None)
_GLOBAL_NAMES = Names()


@contextmanager
def naming(names: Names) -> Iterator[Names]:
    """Names inside come from `names`; a `Names("net_")` prefixes them."""
    token = _NAMES.set(names)
    try:
        yield names
    finally:
        _NAMES.reset(token)


@contextmanager
def labelled(**labels: str) -> Iterator[None]:
    """Nodes made inside carry these labels, beside those of outer scopes."""
    token = _LABELS.set(MappingProxyType({**_LABELS.get(), **labels}))
    try:
        yield
    finally:
        _LABELS.reset(token)


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """One or more outputs, with everything they are made of."""

    outputs: tuple[Output, ...] = field(default=())

    # ---- outputs

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[Self]:
        return (type(self)((output,)) for output in self.outputs)

    def __getitem__(self, which: int | str) -> Self:
        """The output at a position or of a name."""
        if isinstance(which, int):
            if not -len(self.outputs) <= which < len(self.outputs):
                raise IndexError(which)
            return type(self)((self.outputs[which],))
        named = [output for output in self.outputs if output.name == which]
        if len(named) != 1:
            need = "a name that one output has: " + ", ".join(self.output_names())
            raise AttributeValueError("expression", got=f"{which!r}, {len(named)} outputs", need=need)
        return type(self)((named[0],))

    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(output.name for output in self.outputs)

    def internals(self) -> Self:
        """Every visible output of every node, in topological order."""
        return type(self)(tuple(output for node in self.nodes() for output in _visible(node)))

    def children(self) -> Self:
        """The direct inputs of the outputs' nodes."""
        nodes = dict.fromkeys(output.node for output in self.outputs)
        return type(self)(tuple(entry for node in nodes for entry in node.inputs if entry is not None))

    # ---- nodes

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, each once, inputs before users; iterative and deterministic."""
        order: dict[Node, None] = {}
        for head in self.outputs:
            stack: list[tuple[Node, bool]] = [(head.node, False)]
            while stack:
                node, is_done = stack.pop()
                if node in order:
                    continue
                if is_done:
                    order[node] = None
                    continue
                stack.append((node, True))
                stack.extend((other, False) for other in reversed(node.after) if other not in order)
                needed = [entry.node for entry in node.inputs if entry is not None]
                stack.extend((other, False) for other in reversed(needed) if other not in order)
        return tuple(order)

    def variables(self, kind: str = "all") -> tuple[Node, ...]:
        """Variables in order of use: "all", "read" only, or the "mutated" ones (auxiliary state)."""
        if kind not in ("all", "read", "mutated"):
            raise AttributeValueError("variables", got=repr(kind), need='"all", "read" or "mutated"')
        nodes = self.nodes()
        mutated = {entry.node for node in nodes for entry in _mutated(node)}
        leaves = [node for node in nodes if node.op is None]
        return tuple(node for node in leaves if kind == "all" or (node in mutated) == (kind == "mutated"))

    def variable_names(self, kind: str = "all") -> tuple[str, ...]:
        """Names of `variables(kind)`."""
        return tuple(node.name for node in self.variables(kind))

    def label(self, key: str) -> str | None:
        """The label of the only output's node; "name" and "op" are always there."""
        (output,) = self._only()
        if key == "name":
            return output.node.name
        if key == "op":
            return output.node.op.name if output.node.op else "variable"
        return output.node.labels.get(key)

    def labels(self) -> dict[str, str]:
        """All labels of all nodes, as `node$key`."""
        return {f"{node.name}${key}": value for node in self.nodes() for key, value in sorted(node.labels.items())}

    def _only(self) -> tuple[Output]:
        if len(self.outputs) != 1:
            raise ArityError(
                "expression", got=f"{len(self.outputs)} outputs", need="one", fix="choose one with [index]"
            )
        return (self.outputs[0],)

    # ---- composition

    def __call__(self, **replacements: Expression) -> Self:
        """A copy in which the named variables are replaced; the original stays as it is."""
        known = self.variable_names()
        for name in replacements:
            if known.count(name) != 1:
                need = "the name of one variable: " + ", ".join(known)
                raise AttributeValueError("compose", got=f"{name!r}, {known.count(name)} variables", need=need)
        copies: dict[Node, Output] = {}
        for node in self.nodes():
            if node.op is None:
                chosen = replacements.get(node.name)
                copies[node] = Output(node) if chosen is None else chosen._only()[0]
                continue
            inputs = tuple(None if entry is None else _moved(entry, copies) for entry in node.inputs)
            after = tuple(copies[other].node for other in node.after)
            changed = inputs != node.inputs or after != node.after
            copy = Node(node.name, node.op, node.attributes, inputs, after, node.labels) if changed else node
            copies[node] = Output(copy)
        return type(self)(tuple(_moved(output, copies) for output in self.outputs))

    def following(self, *others: Expression) -> Self:
        """The same outputs from nodes that come after the nodes of `others` too (control dependencies)."""
        extra = tuple(output.node for other in others for output in other.outputs)
        copies = {
            node: Node(node.name, node.op, node.attributes, node.inputs, (*node.after, *extra), node.labels)
            for node in dict.fromkeys(output.node for output in self.outputs)
        }
        return type(self)(tuple(Output(copies[output.node], output.index) for output in self.outputs))

    # ---- texts

    def __str__(self) -> str:
        lines = []
        for node in self.nodes():
            shown = ", ".join("–" if entry is None else entry.name for entry in node.inputs)
            lines.append(f"{node.name} = {node.op.name}({shown})" if node.op else f"{node.name}")
        return "\n".join([*lines, "-> " + ", ".join(self.output_names())])

    def __repr__(self) -> str:
        return f"Expression({', '.join(self.output_names())})"

    def save(self, forms: Forms = STANDARD) -> str:
        """One line of canonical JSON: nodes by position, operators by name, attributes typed by their dataclass."""
        position = {node: place for place, node in enumerate(self.nodes())}
        document: JsonObject = {
            "nodes": [_encode(node, position, forms) for node in position],
            "outputs": [[position[output.node], output.index] for output in self.outputs],
        }
        return save_document(FORMAT, VERSION, document)


def variable(name: str, **labels: str) -> Expression:
    """A named hole: its value, shape and type come later."""
    return Expression((Output(Node(name, labels=_merged(labels))),))


def group(parts: Iterable[Expression]) -> Expression:
    """The outputs of all parts as one expression."""
    return Expression(tuple(output for part in parts for output in part.outputs))


def compose(op: Op[object], *inputs: Expression, name: str = "", **options: object) -> Expression:
    """Apply `op`. Inputs are positional or by name, never both; other keywords are the operator's attributes.

    Inputs that are not given become variables `{name}_{input}`, unless the operator may go without them.
    """
    label = name or (_NAMES.get() or _GLOBAL_NAMES).unique(op.name)
    named = {key: value for key, value in options.items() if isinstance(value, Expression)}
    rest = {key: value for key, value in options.items() if key not in named}
    attributes = _attributes(op, rest)
    if inputs and named:
        raise ArityError(op.name, got="inputs by position and by name", need="one of the two")
    node = Node(label, op, attributes, _entries(op, label, attributes, inputs, named), (), _merged({}))
    return Expression(tuple(Output(node, index) for index in range(len(node.output_names()))))


def load(text: str, registry: Registry = default_registry, forms: Forms = STANDARD) -> Expression:
    """The expression that `save` wrote. FormatError for anything else, RegistryError for an unknown operator."""
    document = load_document(text, FORMAT, VERSION)
    nodes: list[Node] = []
    rows, heads = document.get("nodes"), document.get("outputs")
    if not isinstance(rows, list) or not isinstance(heads, list):
        raise FormatError(FORMAT, got="no nodes or outputs", need="lists of both")
    for place, row in enumerate(rows):
        nodes.append(_decode(row, nodes, registry, forms, f"nodes[{place}]"))
    return Expression(tuple(_entry(head, nodes, "outputs") for head in heads))


def _attributes(op: Op[object], options: dict[str, object]) -> object:
    try:
        return op.attributes(**options)
    except TypeError as error:
        raise AttributeValueError(op.name, got=str(error), need=f"the fields of {op.attributes.__name__}") from None


def _entries(
    op: Op[object], label: str, attributes: object, inputs: tuple[Expression, ...], named: dict[str, Expression]
) -> tuple[Output | None, ...]:
    names = op.inputs(attributes) if callable(op.inputs) else op.inputs
    if not isinstance(names, tuple):
        return tuple(expression._only()[0] for expression in inputs)
    if len(inputs) > len(names) or not named.keys() <= set(names):
        got = f"{len(inputs)} inputs" if inputs else ", ".join(named)
        raise ArityError(op.name, got=got, need=", ".join(names))
    given = dict(zip(names, inputs, strict=False)) | named
    absent = OPTIONAL_INPUTS.get(op, ())
    entries: list[Output | None] = []
    for position, name in enumerate(names):
        if name in given:
            entries.append(given[name]._only()[0])
        else:
            entries.append(None if position in absent else Output(Node(f"{label}_{name}", labels=_merged({}))))
    return tuple(entries)


def _merged(labels: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({**_LABELS.get(), **labels})


def _visible(node: Node) -> list[Output]:
    hidden = HIDDEN_OUTPUTS.get(node.op, ()) if node.op else ()
    return [Output(node, index) for index in range(len(node.output_names())) if index not in hidden]


def _mutated(node: Node) -> list[Output]:
    places = MUTATES.get(node.op, ()) if node.op else ()
    return [entry for place in places if (entry := node.inputs[place]) is not None]


def _moved(entry: Output, copies: Mapping[Node, Output]) -> Output:
    """The entry after replacement; a replaced variable becomes the replacing output."""
    target = copies[entry.node]
    if entry.node.op is None:
        return target if target.node is not entry.node else entry
    return Output(target.node, entry.index) if target.node is not entry.node else entry


def _encode(node: Node, position: Mapping[Node, int], forms: Forms) -> Json:
    inputs: list[Json] = [None if entry is None else [position[entry.node], entry.index] for entry in node.inputs]
    return {
        "name": node.name,
        "call": encode_call(node.op, node.attributes, forms) if node.op else None,
        "inputs": inputs,
        "after": [position[other] for other in node.after],
        "labels": dict(sorted(node.labels.items())),
    }


def _decode(row: Json, nodes: list[Node], registry: Registry, forms: Forms, where: str) -> Node:
    if not isinstance(row, dict) or row.keys() != {"name", "call", "inputs", "after", "labels"}:
        raise FormatError(where, got="other fields", need="name, call, inputs, after, labels")
    inputs, after, labels, name = row["inputs"], row["after"], row["labels"], row["name"]
    if not (
        isinstance(inputs, list) and isinstance(after, list) and isinstance(labels, dict) and isinstance(name, str)
    ):
        raise FormatError(where, got="fields of other types", need="lists of inputs and after, a text, an object")
    entries = tuple(None if entry is None else _entry(entry, nodes, where) for entry in inputs)
    followed = tuple(_entry([other, 0], nodes, where).node for other in after)
    texts = {key: value for key, value in labels.items() if isinstance(value, str)}
    if row["call"] is None:
        return Node(name, None, None, entries, followed, MappingProxyType(texts))
    op, attributes = decode_call(registry, row["call"], where, forms)
    return Node(name, op, attributes, entries, followed, MappingProxyType(texts))


def _entry(entry: Json, nodes: list[Node], where: str) -> Output:
    if isinstance(entry, list) and len(entry) == 2:
        place, index = entry
        if isinstance(place, int) and isinstance(index, int) and 0 <= place < len(nodes):
            node = nodes[place]
            if 0 <= index < len(node.output_names()):
                return Output(node, index)
    raise FormatError(where, got="an output that is not there", need="[node, index] of an earlier node")
