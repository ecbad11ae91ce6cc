"""What is recorded: nodes that hold what they read, and the symbolic graph of them, made when somebody looks.

    leaf          tensor                              no source, nothing read
    node          source(read…) → outputs             outputs have memory, or specs alone where nobody computed them
    output        number `index` of a node            of a node with several; one with a single output is its output
    view          elements of another place's root

A variable holds its place, a node the places that it reads: what no variable depends on goes with the last of them, by
Python's own counts, on whichever thread. Nothing that is made is changed, so nothing is locked, and Ctrl-C breaks
nothing. Numbers grow: what a node reads has a smaller one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Protocol, TypeAlias

from nnc.classes import dataclass
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.shield import Shield
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.graph import DictStorage
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import AliasOf, ExecKey, ExecSymbol, TensorKey, TensorSymbol


class Source(Protocol):
    """What a node runs. The same object means the same command on operands of the same specs."""

    @property
    def command(self) -> AnyCommand:
        """The command."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedAssembly:
    """Execs of one operand that write parts of one root, whose other elements are `fill`."""

    execs: tuple[ExecSymbol, ...]
    places: tuple[tuple[TensorSpec, int, Shape], ...]
    fill: float | None

    @property
    def command(self) -> AnyCommand:
        """That of each of them."""
        return self.execs[0].command


class RecordedNode:
    """A leaf or a command that ran. `oldest` is the smallest number of a variable's node that leads to it."""

    __slots__ = ("hooks", "inputs", "number", "oldest", "origin", "outputs", "source")

    def __init__(
        self,
        source: Source | None,
        inputs: tuple[Place | None, ...],
        outputs: tuple[Tensor | TensorSpec, ...],
        number: int,
        oldest: int,
        origin: str,
    ) -> None:
        self.source = source
        self.inputs = inputs
        self.outputs = outputs
        self.number = number
        self.oldest = oldest
        self.origin = origin
        # By output, what is asked of its gradient (`nnc.dynamic.tensor_hooks`).
        self.hooks: dict[int, Any] | None = None

    @property
    def memory(self) -> Tensor | None:
        """The memory of its output, unless nobody computed it."""
        return _memory(self.outputs[0])

    @property
    def spec(self) -> TensorSpec:
        """The spec of its output."""
        return _spec(self.outputs[0])

    @property
    def is_known(self) -> bool:
        """Whether all of its outputs have memory."""
        return TensorSpec not in map(type, self.outputs)


class RecordedOutput:
    """One output of a node with several."""

    __slots__ = ("index", "node", "oldest")

    def __init__(self, node: RecordedNode, index: int) -> None:
        self.node = node
        self.index = index
        self.oldest = node.oldest

    @property
    def memory(self) -> Tensor | None:
        """Its memory, unless nobody computed it."""
        return _memory(self.node.outputs[self.index])

    @property
    def spec(self) -> TensorSpec:
        """Its spec."""
        return _spec(self.node.outputs[self.index])

    @property
    def origin(self) -> str:
        """The line that made the node."""
        return self.node.origin


class RecordedView:
    """A part of a root: `offset` and `strides` in elements of its memory."""

    __slots__ = ("hooks", "number", "offset", "oldest", "origin", "root", "spec", "strides")

    def __init__(self, root: Root, spec: TensorSpec, offset: int, strides: Shape, number: int, origin: str) -> None:
        self.root = root
        self.spec = spec
        self.offset = offset
        self.strides = strides
        self.number = number
        self.oldest = root.oldest
        self.origin = origin
        self.hooks: dict[int, Any] | None = None


Root: TypeAlias = RecordedNode | RecordedOutput
Place: TypeAlias = RecordedNode | RecordedOutput | RecordedView
# A place by number: that of its node or view, and which output of the node.
Name: TypeAlias = tuple[int, int]
# Of nodes and views of all graphs, which may share memory.
NUMBERS = count()


def root_of(place: Place) -> Root:
    """The place whose memory it is in."""
    return place.root if type(place) is RecordedView else place  # type: ignore[return-value]  # no view


def node_of(place: Place) -> RecordedNode:
    """The node that makes it."""
    root = root_of(place)
    return root if type(root) is RecordedNode else root.node  # type: ignore[union-attr]  # one of the two


def outputs_of(node: RecordedNode) -> tuple[Root, ...]:
    """The places of its outputs."""
    if len(node.outputs) == 1:
        return (node,)
    return tuple([RecordedOutput(node, index) for index in range(len(node.outputs))])


def appended(
    graph: SymbolicGraph, node: RecordedNode, inputs: tuple[TensorKey | None, ...], outputs: tuple[TensorKey, ...]
) -> tuple[tuple[ExecKey, ...], tuple[TensorKey, ...]]:
    """A node in a graph where its operands have these keys: its execs, and the symbols that only they name."""
    source = node.source
    if source is None:
        return (), ()
    if isinstance(source, RecordedAssembly):
        places = [
            graph.add_tensor(TensorSymbol(spec, "", AliasOf(outputs[0], offset, strides), node.origin))
            for spec, offset, strides in source.places
        ]
        rows = zip(source.execs, inputs, places, strict=True)
        return tuple([graph.add_exec(replace(value, inputs=(key,), outputs=(at,))) for value, key, at in rows]), (
            *places,
        )
    if isinstance(source, ExecSymbol):
        return (graph.add_exec(replace(source, inputs=inputs, outputs=outputs)),), ()
    return (graph.add_exec(ExecSymbol(source.command, inputs, outputs, "", node.origin)),), ()


def symbol_of(place: Place, alias: AliasOf | None = None) -> TensorSymbol:
    """The symbol that stands for a place in a graph."""
    source = None if isinstance(place, RecordedView) else node_of(place).source
    fill = source.fill if isinstance(source, RecordedAssembly) else None
    return TensorSymbol(place.spec, "", alias, place.origin, fill)


def leading_to(places: Iterable[Place]) -> list[RecordedNode | RecordedView]:
    """The nodes and the views that these places depend on, by number."""
    nodes: set[RecordedNode | RecordedView] = set()
    waiting: list[Place | None] = [*places]
    while waiting:
        place = waiting.pop()
        if place is None:
            continue
        if isinstance(place, RecordedView):
            nodes.add(place)
        node = node_of(place)
        if node not in nodes:
            nodes.add(node)
            waiting.extend(node.inputs)
    return sorted(nodes, key=lambda value: value.number)


class RecordGraph:
    """The record as a symbolic graph: at each look what is new is appended, and what is gone is taken out."""

    def __init__(self) -> None:
        self.graph = SymbolicGraph("record", storage=DictStorage)
        self._lock = fork_safe_rlock()
        # Per node or view in the graph its execs and its symbols.
        self._made: dict[int, tuple[tuple[ExecKey, ...], tuple[TensorKey, ...]]] = {}

    def look(self, held: Callable[[], Sequence[Place]]) -> None:
        """Bring the graph up to what `held` leads to."""
        with self._lock, Shield():
            nodes = leading_to(held())
            alive = {value.number for value in nodes}
            gone = [number for number in reversed(self._made) if number not in alive]
            for number in gone:
                for key in self._made[number][0]:
                    self.graph.remove_exec(key)
            for number in gone:
                for tensor in self._made.pop(number)[1]:
                    self.graph.remove_tensor(tensor)
            for value in nodes:
                if value.number not in self._made:
                    self._made[value.number] = self._appended(value)

    def key(self, place: Place) -> TensorKey:
        """The symbol of a place that has been looked at."""
        if isinstance(place, RecordedOutput):
            return self._made[place.node.number][1][place.index]
        return self._made[place.number][1][0]

    def _appended(self, node: RecordedNode | RecordedView) -> tuple[tuple[ExecKey, ...], tuple[TensorKey, ...]]:
        if isinstance(node, RecordedView):
            alias = AliasOf(self.key(node.root), node.offset, node.strides)
            return (), (self.graph.add_tensor(symbol_of(node, alias)),)
        inputs = tuple(None if place is None else self.key(place) for place in node.inputs)
        outputs = tuple(self.graph.add_tensor(symbol_of(place)) for place in outputs_of(node))
        execs, symbols = appended(self.graph, node, inputs, outputs)
        return execs, (*outputs, *symbols)


def _memory(output: Tensor | TensorSpec) -> Tensor | None:
    return None if isinstance(output, TensorSpec) else output


def _spec(output: Tensor | TensorSpec) -> TensorSpec:
    return output if isinstance(output, TensorSpec) else output.spec
