"""From a text to its graph: lines go to the graph of their indent, a block becomes an attribute of the exec above."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.errors import FormatError
from nnc.graph import Json, Registry, default_registry
from nnc.symbolic.ir import Body, SymbolicGraph
from nnc.symbolic.records import AliasOf, ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.text.forms import forms_of, read_command
from nnc.symbolic.text.line import Line
from nnc.symbolic.text.writer import ABSENT, INDENT, PART, WORDS
from nnc.symbolic.verification import faults

MakeCommand = Callable[[Line, str, dict[str, Json]], AnyCommand]


@checked
def parse(text: str, registry: Registry = default_registry) -> SymbolicGraph:
    """The graph that `dump` wrote, verified. FormatError with the number of the line for anything else."""
    rows = text.splitlines()
    head = Line(rows[0] if rows else "", 1)
    head.expect("graph")
    graph = SymbolicGraph("" if head.at_end() else head.name())
    levels = _Levels(graph, registry)
    for number, row in enumerate(rows[1:], 2):
        if row.strip():
            levels.read(Line(row, number), len(row) - len(row.lstrip(" ")))
    levels.end(0)
    if broken := faults(graph):
        raise FormatError("graph text", got="; ".join(broken[:3]), need="a valid graph")
    return graph


class _Levels:
    """The graphs that are being read, one inside the other."""

    def __init__(self, graph: SymbolicGraph, registry: Registry) -> None:
        self._bodies: list[Body] = []
        self._registry = registry
        self._forms = forms_of(registry, self._bodies)
        self._open = [_Level(graph, self._command)]
        self._blocks: list[_TextBlock] = []

    def read(self, line: Line, indent: int) -> None:
        """A line of a graph has two blanks, and four more for each graph around; a block's head has two less."""
        depth, is_line = divmod(indent // INDENT, 2)
        inner = depth + is_line
        if indent % INDENT or not 1 <= inner <= len(self._open):
            raise line.fault("an indent of two blanks, and of four more in a block")
        self.end(inner)
        if is_line:
            self._open[-1].read(line)
        else:
            self._blocks.append(_TextBlock.read(line, self._open[-1]))
            self._open.append(_Level(SymbolicGraph(), self._command))

    def end(self, count: int) -> None:
        """Close all graphs but the outermost `count`."""
        while len(self._open) > count:
            level = self._open.pop()
            level.finish()
            if self._open:
                block = self._blocks.pop()
                self._open[-1].attach(block, len(self._bodies))
                parameters, results = (level.named(block.line, ends) for ends in (block.parameters, block.results))
                self._bodies.append(Body(level.graph, parameters, results))

    def _command(self, line: Line, op: str, attributes: dict[str, Json]) -> AnyCommand:
        return read_command(self._registry, self._forms, line, op, attributes)


@dataclass(frozen=True, slots=True)
class _TextBlock:
    """`branches 1 (%0, %1) -> (%3)`: which attribute the body is, and its symbols as numbers."""

    line: Line
    attribute: str
    place: int | None
    parameters: tuple[int, ...]
    results: tuple[int, ...]

    @staticmethod
    def read(line: Line, above: _Level) -> _TextBlock:
        """The head of a block below an exec."""
        if above.waiting is None:
            raise line.fault("a block below the line of a loop or a branch")
        attribute = line.match(r"\w+", "an attribute")[0]
        place = None if line.text.startswith("(", line.at) else line.integer()
        parameters = line.numbers()
        line.expect("->")
        return _TextBlock(line, attribute, place, parameters, line.numbers())


@dataclass(slots=True)
class _Level:
    """A graph that is being read; its last exec is `waiting` for the blocks below it."""

    graph: SymbolicGraph
    command: MakeCommand
    keys: list[TensorKey] = field(default_factory=list)
    execs: list[ExecKey] = field(default_factory=list)
    waiting: _WaitingLine | None = None

    def read(self, line: Line) -> None:
        """One line of the graph."""
        self.finish()
        written = [self._written(line, len(self.keys))]
        while line.take(","):
            fresh = sum(isinstance(value, TensorSymbol) for value in written)
            written.append(self._written(line, len(self.keys) + fresh))
        line.expect("=")
        name = line.match(r"\w+", "an operator, or input, memory or part")[0]
        if name in WORDS:
            self._declare(line, written, name)
        else:
            self._exec(line, written, name)

    def attach(self, block: _TextBlock, number: int) -> None:
        """Body `number` of the text is an attribute of the waiting exec, or the next item of one."""
        assert self.waiting is not None
        attributes = self.waiting.attributes
        items = attributes.get(block.attribute, [])
        if block.place is None and block.attribute not in attributes:
            attributes[block.attribute] = number
        elif isinstance(items, list) and block.place == len(items):
            attributes[block.attribute] = [*items, number]
        else:
            raise FormatError(block.line.where, got=block.line.text, need="blocks in order, each of them once")

    def finish(self) -> None:
        """Append the waiting exec."""
        if self.waiting is None:
            return
        waiting, self.waiting = self.waiting, None
        command = self.command(waiting.line, waiting.op, waiting.attributes)
        key = self.graph.add_exec(
            ExecSymbol(command, waiting.inputs, waiting.outputs, waiting.name, waiting.origin, waiting.optimize)
        )
        for other in waiting.earlier:
            self.graph.connect(self.execs[other], key)
        self.execs.append(key)

    def named(self, line: Line, numbers: tuple[int, ...]) -> tuple[TensorKey, ...]:
        """The symbols of these numbers."""
        return tuple(self._known(line, number) for number in numbers)

    def _written(self, line: Line, following: int) -> TensorKey | TensorSymbol:
        """A symbol that was there before, or a new one, which has the `following` number."""
        at = line.at
        number = line.number_of()
        if line.text.startswith((",", "="), line.at):
            return self._known(line, number)
        if number != following:
            line.at = at
            raise line.fault(f"%{following}, the next new symbol")
        name = "" if line.take(":") else line.name()
        if name:
            line.expect(":")
        return TensorSymbol(line.spec(), name)

    def _declare(self, line: Line, written: list[TensorKey | TensorSymbol], word: str) -> None:
        (record, *others) = written
        if others or not isinstance(record, TensorSymbol):
            raise line.fault("one new symbol in front of input, memory and part")
        alias = fill = None
        if word != PART and line.take("holding "):
            fill = line.real()
        if word == PART:
            line.expect("of")
            root = self._known(line, line.number_of())
            line.expect("at")
            offset = line.integer()
            line.expect("by")
            alias = AliasOf(root, offset, line.integers())
        self._add(replace(record, alias=alias, fill=fill, origin=line.comment()))

    def _exec(self, line: Line, written: list[TensorKey | TensorSymbol], op: str) -> None:
        attributes = line.attributes()
        name = line.name() if line.take("as ") else ""
        optimize = not line.take("kept ")
        earlier = self._earlier(line) if line.take("after ") else ()
        line.expect("<-")
        inputs: list[TensorKey | None] = []
        while not line.at_end():
            inputs.append(None if line.take(ABSENT) else self._known(line, line.number_of()))
            if not line.take(","):
                break
        origin = line.comment()
        outputs = tuple(
            self._add(replace(value, origin=origin)) if isinstance(value, TensorSymbol) else value for value in written
        )
        self.waiting = _WaitingLine(line, op, attributes, tuple(inputs), outputs, name, origin, optimize, earlier)

    def _earlier(self, line: Line) -> tuple[int, ...]:
        places = [line.integer()]
        while line.take(","):
            places.append(line.integer())
        if not all(0 <= place < len(self.execs) for place in places):
            raise line.fault("execs of lines above in front of this")
        return tuple(places)

    def _add(self, record: TensorSymbol) -> TensorKey:
        self.keys.append(self.graph.add_tensor(record))
        return self.keys[-1]

    def _known(self, line: Line, number: int) -> TensorKey:
        if number >= len(self.keys):
            raise FormatError(line.where, got=f"%{number}", need="a symbol of a line above")
        return self.keys[number]


@dataclass(slots=True)
class _WaitingLine:
    """What a line says of an exec."""

    line: Line
    op: str
    attributes: dict[str, Json]
    inputs: tuple[TensorKey | None, ...]
    outputs: tuple[TensorKey, ...]
    name: str
    origin: str
    optimize: bool
    earlier: tuple[int, ...]
