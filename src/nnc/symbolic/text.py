"""Symbolic graphs as text that people read and that parses back.

    graph net
      %0 x: f32[4, 3] = input
      %1 w: f32[3, 2] = input
      %2: f32[4, 2] = gemm <- %0, %1, –  # train.py:7
      %3 top: f32[2, 2] = part of %2 at 0 by [2, 1]
      %4: f32[2, 2] = affine(scale=2.0) as doubled <- %3

Symbols are numbered as they appear; those without a name that no exec names are left out. Execs stand in topological
order. A root that execs write only in parts is `memory`, and each part has a line of its own. Attributes are those that
differ from their defaults, as JSON; specs and steps of fused expressions as text. The comment behind a line is its
origin.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nnc.core.command import AnyCommand, Command
from nnc.core.device import CPU, Device
from nnc.core.dtype import DType, dtype_of
from nnc.core.exact import are_the_same
from nnc.core.spec import Layout, TensorSpec
from nnc.errors import FormatError, UsageError
from nnc.graph import Codec, Forms, Json, Registry, decode_call, default_registry, encode_call
from nnc.graph.text import to_dot
from nnc.ops.fused import FusedStep
from nnc.symbolic.ir import AliasOf, ExecSymbol, SymbolicGraph, TensorKey, TensorSymbol
from nnc.symbolic.verify import faults

PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
ABSENT = "–"
INPUT, MEMORY, PART = "input", "memory", "part"
WORDS = frozenset((INPUT, MEMORY, PART))


def dump(graph: SymbolicGraph, *, origins: bool = True) -> str:
    """The graph as text; equal graphs give equal texts. `parse` reads it back."""
    return "\n".join(_Writer(graph, origins).lines())


def parse(text: str, registry: Registry = default_registry) -> SymbolicGraph:
    """The graph that `dump` wrote, verified. FormatError with the number of the line for anything else."""
    lines = text.splitlines()
    head = _Line(lines[0] if lines else "", 1)
    head.expect("graph")
    graph = SymbolicGraph("" if head.at_end() else head.name())
    reader = _Reader(graph, registry)
    for number, line in enumerate(lines[1:], 2):
        if line.strip():
            reader.read(_Line(line, number))
    if broken := faults(graph):
        raise FormatError("graph text", got="; ".join(broken[:3]), need="a valid graph")
    return graph


def dot(graph: SymbolicGraph) -> str:
    """The Graphviz text: commands as nodes, the tensors that they hand on as edges."""
    return to_dot(
        graph.execs,
        lambda record: f"{record.name}\n{record.command}" if record.name else str(record.command),
        lambda dependency: graph.label(dependency.tensor),
    )


# ---- writing


@dataclass(slots=True)
class _Writer:
    graph: SymbolicGraph
    origins: bool
    numbers: dict[TensorKey, int] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The head, inputs and memory, execs with the parts that they name, and what nobody names."""
        graph = self.graph
        yield f"graph {_quoted(graph.name)}" if graph.name else "graph"
        order = graph.execs.toposort()
        whole = {key for exec_key in order for key in graph.execs[exec_key].outputs}
        for key, record in graph.tensors.items():
            used = record.name or graph.writers(key) or graph.readers(key)
            if record.alias is None and key not in whole and used:
                word = MEMORY if graph.writers(key) else INPUT
                yield self._line(f"{self._declared(key)} = {word}", record.origin)
        for exec_key in order:
            execution = graph.execs[exec_key]
            yield from self._parts(key for key in (*execution.inputs, *execution.outputs) if key is not None)
            yield self._exec(execution)
        yield from self._parts(key for key, record in graph.tensors.items() if record.name)

    def _parts(self, keys: Iterable[TensorKey]) -> Iterator[str]:
        for key in keys:
            record = self.graph.tensors[key]
            if record.alias is None or key in self.numbers or record.alias.root not in self.numbers:
                continue
            place = f"at {record.alias.offset} by {list(record.alias.strides)}"
            root = self.numbers[record.alias.root]
            yield self._line(f"{self._declared(key)} = {PART} of %{root} {place}", record.origin)

    def _exec(self, record: ExecSymbol) -> str:
        inputs = ", ".join(ABSENT if key is None else f"%{self.numbers[key]}" for key in record.inputs)
        outputs = ", ".join(f"%{self.numbers[k]}" if k in self.numbers else self._declared(k) for k in record.outputs)
        name = f" as {_quoted(record.name)}" if record.name else ""
        return self._line(f"{outputs} = {_call(record.command)}{name} <- {inputs}".rstrip(), record.origin)

    def _declared(self, key: TensorKey) -> str:
        record = self.graph.tensors[key]
        number = self.numbers.setdefault(key, len(self.numbers))
        return f"%{number}{' ' + _quoted(record.name) if record.name else ''}: {record.spec}"

    def _line(self, text: str, origin: str) -> str:
        return f"  {text}  # {origin}" if origin and self.origins else f"  {text}"


def _quoted(name: str) -> str:
    return name if PLAIN.fullmatch(name) and name not in WORDS else json.dumps(name, ensure_ascii=False)


def _call(command: AnyCommand) -> str:
    encoded = encode_call(command.op, command.attrs, TEXTS)["attributes"]
    assert isinstance(encoded, dict)
    defaults = {one.name: one.default for one in dataclasses.fields(command.attrs)}
    shown = [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in encoded.items()
        if not are_the_same(getattr(command.attrs, name), defaults[name])
    ]
    return f"{command.op.name}({', '.join(shown)})" if shown else command.op.name


# ---- reading


class _Line:
    """One line under a cursor; every method takes what it names and the blanks behind it."""

    def __init__(self, text: str, number: int) -> None:
        self.text = text.strip()
        self.number = number
        self.at = 0

    def fault(self, need: str) -> FormatError:
        """What is there instead of what is needed."""
        got = self.text[self.at : self.at + 20] or "the end of the line"
        return FormatError(f"graph text, line {self.number}", got=repr(got), need=need)

    def at_end(self) -> bool:
        """True at the end and in front of a comment."""
        return self.at >= len(self.text) or self.text[self.at] == "#"

    def comment(self) -> str:
        """The rest, without its sign."""
        if not self.at_end():
            raise self.fault("the end of the line, or a comment")
        return self.text[self.at :].removeprefix("#").strip()

    def take(self, sign: str) -> bool:
        """True when the sign is next."""
        found = self.text.startswith(sign, self.at)
        if found:
            self._skip(self.at + len(sign))
        return found

    def expect(self, sign: str) -> None:
        """The sign."""
        if not self.take(sign):
            raise self.fault(repr(sign))

    def match(self, pattern: str, need: str) -> re.Match[str]:
        """Whatever the pattern matches."""
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            raise self.fault(need)
        self._skip(found.end())
        return found

    def json(self) -> Json:
        """One JSON value."""
        try:
            value: Json
            value, end = json.JSONDecoder().raw_decode(self.text, self.at)
        except (ValueError, RecursionError):
            raise self.fault("a JSON value") from None
        self._skip(end)
        return value

    def name(self) -> str:
        """A plain or a quoted name."""
        if self.text[self.at : self.at + 1] != '"':
            return self.match(PLAIN.pattern, "a name")[0]
        value = self.json()
        assert isinstance(value, str)
        return value

    def number_of(self) -> int:
        """`%3`"""
        return int(self.match(r"%(\d{1,9})\b", "a symbol, as %0")[1])

    def integer(self) -> int:
        """A whole number."""
        return int(self.match(r"-?\d{1,18}\b", "a whole number")[0])

    def integers(self) -> tuple[int, ...]:
        """`[4, 3]`"""
        found = self.match(r"\[((?:-?\d{1,18}(?:, -?\d{1,18})*)?)\]", "whole numbers, as [4, 3]")[1]
        return tuple(int(part) for part in found.split(", ") if part)

    def attributes(self) -> dict[str, Json]:
        """`(scale=2.0, shift=1.0)`, or nothing."""
        found: dict[str, Json] = {}
        if self.take("("):
            while not self.take(")"):
                name = self.match(r"\w+", "an attribute")[0]
                self.expect("=")
                found[name] = self.json()
                self.take(",")
        return found

    def command(self, registry: Registry, op: str, attributes: dict[str, Json]) -> AnyCommand:
        """The operator of this name with the attributes."""
        where = f"graph text, line {self.number}"
        try:
            return Command(*decode_call(registry, {"op": op, "attributes": attributes}, where, TEXTS))
        except FormatError:
            raise
        except UsageError as error:
            raise FormatError(where, got=str(error), need="attributes that the operator allows") from None

    def spec(self) -> TensorSpec:
        """`f32[4, 3]:NCHW@cuda:0`, layout and device where they are not the usual ones."""
        try:
            dtype = dtype_of(self.match(r"\w+", "an element type")[0])
            shape = self.integers()
            layout = Layout[self.match(r":(NHWC|NCHW)\b", "a layout")[1]] if self._next(":") else Layout.NHWC
            place = self.match(r"@(\w+):(\d{1,9})\b", "a device, as @cuda:0") if self._next("@") else None
            device = CPU if place is None else Device(place[1], int(place[2]))
            return TensorSpec(shape, dtype, layout, device)
        except FormatError:
            raise
        except UsageError as error:
            raise FormatError(f"graph text, line {self.number}", got=error.got, need=error.need) from None

    def _next(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def _skip(self, at: int) -> None:
        while at < len(self.text) and self.text[at] == " ":
            at += 1
        self.at = at


@dataclass(slots=True)
class _Reader:
    graph: SymbolicGraph
    registry: Registry
    keys: list[TensorKey] = field(default_factory=list)

    def read(self, line: _Line) -> None:
        """One line behind the head."""
        written = [self._written(line)]
        while line.take(","):
            written.append(self._written(line))
        line.expect("=")
        name = line.match(r"\w+", "an operator, or input, memory or part")[0]
        if name in WORDS:
            self._declare(line, written, name)
        else:
            self._exec(line, written, name)

    def _written(self, line: _Line) -> TensorKey | TensorSymbol:
        """A symbol that was there before, or a new one."""
        at = line.at
        number = line.number_of()
        if line.text.startswith((",", "="), line.at):
            return self._known(line, number)
        if number != len(self.keys):
            line.at = at
            raise line.fault(f"%{len(self.keys)}, the next new symbol")
        name = "" if line.take(":") else line.name()
        if name:
            line.expect(":")
        return TensorSymbol(line.spec(), name)

    def _declare(self, line: _Line, written: list[TensorKey | TensorSymbol], word: str) -> None:
        (record, *others) = written
        if others or not isinstance(record, TensorSymbol):
            raise line.fault("one new symbol in front of input, memory and part")
        alias = None
        if word == PART:
            line.expect("of")
            root = self._known(line, line.number_of())
            line.expect("at")
            offset = line.integer()
            line.expect("by")
            alias = AliasOf(root, offset, line.integers())
        self._add(dataclasses.replace(record, alias=alias, origin=line.comment()))

    def _exec(self, line: _Line, written: list[TensorKey | TensorSymbol], op: str) -> None:
        attributes = line.attributes()
        name = line.name() if line.take("as ") else ""
        line.expect("<-")
        inputs: list[TensorKey | None] = []
        while not line.at_end():
            inputs.append(None if line.take(ABSENT) else self._known(line, line.number_of()))
            if not line.take(","):
                break
        origin = line.comment()
        command = line.command(self.registry, op, attributes)
        outputs = tuple(
            self._add(dataclasses.replace(one, origin=origin)) if isinstance(one, TensorSymbol) else one
            for one in written
        )
        self.graph.add_exec(ExecSymbol(command, tuple(inputs), outputs, name, origin))

    def _add(self, record: TensorSymbol) -> TensorKey:
        self.keys.append(self.graph.tensors.new(record))
        return self.keys[-1]

    def _known(self, line: _Line, number: int) -> TensorKey:
        if number >= len(self.keys):
            raise FormatError(f"graph text, line {line.number}", got=f"%{number}", need="a symbol of a line above")
        return self.keys[number]


# ---- attributes that are shorter as text than as JSON


def _text(data: Json, where: str) -> _Line:
    if not isinstance(data, str):
        raise FormatError(where, got=f"JSON of type {type(data).__name__}", need="a text")
    return _Line(data, 0)


def _decode_step(data: Json, where: str) -> FusedStep:
    line = _text(data, where)
    op = line.match(r"\w+", "an operator")[0]
    command = line.command(default_registry, op, line.attributes())
    operands = []
    while not line.at_end():
        operands.append(line.integer())
    return FusedStep(command, tuple(operands))


def _encode_step(step: FusedStep) -> Json:
    return " ".join((_call(step.command), *map(str, step.operands)))


TEXTS = (
    Forms()
    .add(DType, Codec(lambda dtype: dtype.name, lambda data, where: dtype_of(_text(data, where).text)))
    .add(TensorSpec, Codec(str, lambda data, where: _text(data, where).spec()))
    .add(FusedStep, Codec(_encode_step, _decode_step))
)
