"""From a graph to its text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.symbolic.bodies import Renamed, change_bodies
from nnc.symbolic.ir import Body, SymbolicGraph
from nnc.symbolic.records import ExecSymbol, TensorKey
from nnc.symbolic.text.forms import blocks_of, write_command
from nnc.symbolic.text.line import PLAIN

ABSENT = "–"
INPUT, MEMORY, PART = "input", "memory", "part"
INDENT = 2
WORDS = frozenset((INPUT, MEMORY, PART))


@checked
def dump(graph: SymbolicGraph, *, origins: bool = True) -> str:
    """The graph as text; equal graphs give equal texts. `parse` reads it back."""
    head = f"graph {_quoted(graph.name)}" if graph.name else "graph"
    return "\n".join((head, *_TextWriter(graph, origins).lines()))


@dataclass(slots=True)
class _TextWriter:
    """`ends` are symbols that get a line even if no exec of the graph names them."""

    graph: SymbolicGraph
    origins: bool
    ends: Sequence[TensorKey] = ()
    numbers: dict[TensorKey, int] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Inputs and memory, execs with the parts that they name, and what nobody names."""
        graph = self.graph
        order = graph.execs.toposort()
        whole = {key for exec_key in order for key in graph.execs[exec_key].outputs}
        ends = {graph.root(key) for key in self.ends}
        for key, record in graph.tensors.items():
            used = record.name or key in ends or graph.writers(key) or graph.readers(key)
            if record.alias is None and key not in whole and used:
                word = MEMORY if graph.writers(key) else INPUT
                fill = "" if record.fill is None else f" holding {json.dumps(record.fill)}"
                yield self._line(f"{self._declared(key)} = {word}{fill}", record.origin)
        places = {key: place for place, key in enumerate(order)}
        for exec_key in order:
            execution = graph.execs[exec_key]
            yield from self._parts(key for key in (*execution.inputs, *execution.outputs) if key is not None)
            earlier = (places[graph.execs.edge(edge).source] for edge in graph.given_order(exec_key))
            yield from self._exec(execution, ", ".join(map(str, earlier)))
        yield from self._parts(self.ends)
        yield from self._parts(key for key, record in graph.tensors.items() if record.name)

    def _parts(self, keys: Iterable[TensorKey]) -> Iterator[str]:
        for key in keys:
            record = self.graph.tensors[key]
            if record.alias is None or key in self.numbers or record.alias.root not in self.numbers:
                continue
            place = f"at {record.alias.offset} by {list(record.alias.strides)}"
            root = self.numbers[record.alias.root]
            yield self._line(f"{self._declared(key)} = {PART} of %{root} {place}", record.origin)

    def _exec(self, record: ExecSymbol, earlier: str) -> Iterator[str]:
        """The line of an exec, and below it a block for each body."""
        blocks: list[list[str]] = []

        def write(body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
            inner = _TextWriter(body.graph, self.origins, (*body.parameters, *body.results, *named))
            lines = list(inner.lines())
            ends = (", ".join(f"%{inner.numbers[key]}" for key in keys) for keys in (body.parameters, body.results))
            blocks.append(["({}) -> ({})".format(*ends), *lines])
            return body, inner.numbers_as_keys()

        command = change_bodies(record.command, write)
        inputs = ", ".join(ABSENT if key is None else f"%{self.numbers[key]}" for key in record.inputs)
        outputs = ", ".join(f"%{self.numbers[k]}" if k in self.numbers else self._declared(k) for k in record.outputs)
        name = f" as {_quoted(record.name)}" if record.name else ""
        order = ("" if record.optimize else " kept") + (f" after {earlier}" if earlier else "")
        yield self._line(f"{outputs} = {write_command(command)}{name}{order} <- {inputs}".rstrip(), record.origin)
        for (attribute, place), (head, *lines) in zip(blocks_of(record.command), blocks, strict=True):
            yield f"    {attribute}{'' if place is None else f' {place}'} {head}"
            yield from (f"    {line}" for line in lines)

    def numbers_as_keys(self) -> Renamed:
        """What attributes name a symbol by in the text."""
        return {key: TensorKey(number) for key, number in self.numbers.items()}

    def _declared(self, key: TensorKey) -> str:
        record = self.graph.tensors[key]
        number = self.numbers.setdefault(key, len(self.numbers))
        return f"%{number}{' ' + _quoted(record.name) if record.name else ''}: {record.spec}"

    def _line(self, text: str, origin: str) -> str:
        return f"  {text}  # {origin}" if origin and self.origins else f"  {text}"


def _quoted(name: str) -> str:
    return name if PLAIN.fullmatch(name) and name not in WORDS else json.dumps(name, ensure_ascii=False)
