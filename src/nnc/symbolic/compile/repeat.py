"""A replay written into a graph: execs that run again, and who reads which of the values.

What runs again is an exec of its own with outputs of its own, as the graph is in static single assignment form. It is
tied behind the exec before it, so that it does not run too early, and passes leave it alone: else they would merge it
into the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from nnc.ops.repetition import stand_ins
from nnc.symbolic.compile.program import Numbered
from nnc.symbolic.compile.replay import NEVER, Replay, Root, Step
from nnc.symbolic.ir import Dependency, ExecKey, ExecSymbol, SymbolicGraph, TensorKey


def write_replay(graph: SymbolicGraph, numbered: Numbered, found: Replay, *, whole: bool = True) -> None:
    """Change `graph`, whose execs and roots the numbers stand for, so that they run as the replay says.

    The `whole` order becomes that of the replay, or else only that of what runs again.
    """
    writer = _Writer(graph, numbered, found)
    keys = [writer.place(position) for position in range(len(found.steps))]
    for (earlier, later), again in zip(pairwise(keys), found.repeats[1:], strict=True):
        if whole or again:
            graph.execs.add_edge(earlier, later, Dependency())


class _Writer:
    """The symbols that hold the values of a replay: the first where they always were, later ones in new symbols."""

    def __init__(self, graph: SymbolicGraph, numbered: Numbered, found: Replay) -> None:
        self.graph = graph
        self.numbered = numbered
        self.found = found
        self.records = [graph.execs[key] for key in numbered.order]
        self.holders = [numbered.roots[value.root] for value in found.values]
        self.aliases: dict[tuple[TensorKey, TensorKey], TensorKey] = {}

    def place(self, position: int) -> ExecKey:
        """The exec of a position: the first one with what it now reads, or a new one."""
        step, program = self.found.steps[position], self.numbered.program
        if self.found.repeats[position]:
            return self._repeat(step, self._holders(program.again[step], position), self.found.writes[position])
        record, key = self.records[step], self.numbered.order[step]
        inputs = self._read(record.inputs, self._holders(program.reads[step], position))
        if inputs != record.inputs:
            self.graph.replace_exec(key, replace(record, inputs=inputs))
        return key

    def _holders(self, roots: tuple[Root, ...], position: int) -> dict[TensorKey, TensorKey]:
        values = self.found.reads[position]
        return {self.numbered.roots[root]: self.holders[value] for root, value in zip(roots, values, strict=True)}

    def _repeat(self, step: Step, holders: Mapping[TensorKey, TensorKey], written: tuple[int, ...]) -> ExecKey:
        graph, record = self.graph, self.records[step]
        instead = stand_ins(record.command) or {}
        read = (record.outputs[instead[place]] if place in instead else key for place, key in enumerate(record.inputs))
        inputs = self._read(tuple(read), holders)
        outputs = tuple(graph.add_tensor(replace(graph.tensors[key], fill=None)) for key in record.outputs)
        for root, value, key in zip(self.numbered.program.writes[step], written, outputs, strict=True):
            if self.numbered.program.maker[root] != NEVER:
                self.holders[value] = key
        again = ExecSymbol(record.command, inputs, outputs, record.name, record.origin, optimize=False)
        return graph.add_exec(again)

    def _read(
        self, inputs: tuple[TensorKey | None, ...], holders: Mapping[TensorKey, TensorKey]
    ) -> tuple[TensorKey | None, ...]:
        """The inputs, each as a symbol of the root that holds its value."""
        return tuple(None if key is None else self._in(key, holders[self.graph.root(key)]) for key in inputs)

    def _in(self, key: TensorKey, holder: TensorKey) -> TensorKey:
        """The symbol that names in `holder` what `key` names in its root."""
        record = self.graph.tensors[key]
        if record.alias is None:
            return holder
        if record.alias.root == holder:
            return key
        if (key, holder) not in self.aliases:
            moved = replace(record, alias=replace(record.alias, root=holder))
            self.aliases[key, holder] = self.graph.add_tensor(moved)
        return self.aliases[key, holder]
