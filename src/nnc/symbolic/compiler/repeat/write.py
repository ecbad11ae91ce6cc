"""A schedule written into a graph: execs that run again, and who reads which of the values.

What runs again is an exec of its own with outputs of its own, as the graph is in static single assignment form. It is
tied behind the exec before it, so that it does not run too early, and passes leave it alone: else they would merge it
into the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from nnc.symbolic.compiler.repeat.program import Numbered, instead_of, recomputed_inputs
from nnc.symbolic.compiler.repeat.schedule import ReplaySchedule, Root, Step
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import Dependency, ExecKey, ExecSymbol, TensorKey


def write_schedule(graph: SymbolicGraph, numbered: Numbered, schedule: ReplaySchedule, *, whole: bool = True) -> None:
    """Change `graph`, whose execs and roots the numbers stand for, so that they run as the schedule says.

    The `whole` order becomes that of the schedule, or else only that of what runs again.
    """
    writer = _RepeatWriter(graph, numbered, schedule)
    keys = [writer.place(position) for position in range(len(schedule.steps))]
    for (earlier, later), again in zip(pairwise(keys), schedule.repeats[1:], strict=True):
        if whole or again:
            graph.execs.add_edge(earlier, later, Dependency())


class _RepeatWriter:
    """The symbols that hold the versions of roots: the first where they always were, later ones in new symbols."""

    def __init__(self, graph: SymbolicGraph, numbered: Numbered, schedule: ReplaySchedule) -> None:
        self.graph = graph
        self.numbered = numbered
        self.schedule = schedule
        self.records = [graph.execs[key] for key in numbered.order]
        self.holders: dict[tuple[Root, int], TensorKey] = {}
        self.aliases: dict[tuple[TensorKey, TensorKey], TensorKey] = {}

    def place(self, position: int) -> ExecKey:
        """The exec of a position: the first one with what it now reads, or a new one."""
        step, program = self.schedule.steps[position], self.numbered.program
        if self.schedule.repeats[position]:
            return self._repeat(step, position)
        record, key = self.records[step], self.numbered.order[step]
        inputs = self._read(record.inputs, self._holders(program.reads[step], position))
        if inputs != record.inputs:
            self.graph.replace_exec(key, replace(record, inputs=inputs))
        return key

    def _holders(self, roots: tuple[Root, ...], position: int) -> dict[TensorKey, TensorKey]:
        """Per root that a run reads the symbol of the version that is there."""
        keys = {root: self.numbered.roots[root] for root in roots}
        return {key: self.holders.get((root, self.schedule.version(root, position)), key) for root, key in keys.items()}

    def _repeat(self, step: Step, position: int) -> ExecKey:
        graph, record, program = self.graph, self.records[step], self.numbered.program
        read = recomputed_inputs(record, instead_of(record) or {})
        inputs = self._read(read, self._holders(program.again[step], position))
        outputs = tuple(graph.add_tensor(replace(graph.tensors[key], fill=None, alias=None)) for key in record.outputs)
        for root, key in zip(program.writes[step], outputs, strict=True):
            if program.may_return(root):
                self.holders[root, self.schedule.version(root, position + 1)] = key
        name = f"{record.name or record.command.op.name} again"
        again = ExecSymbol(record.command, inputs, outputs, name, record.origin, optimize=False)
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
