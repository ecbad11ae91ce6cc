"""Pruning: take out execs that no wanted output depends on, and symbols that nobody names any more.

Of loops and branches that stay, `trim` takes out what nobody needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.trim import trim
from nnc.symbolic.records import ExecKey, TensorKey


@checked
def prune(graph: SymbolicGraph, outputs: Iterable[Symbol]) -> int:
    """Remove what `outputs` do not need; inputs stay. Returns how many execs went."""
    before = len(graph.execs)
    pruning = Pruning(graph, {graph.root(graph.own(symbol)) for symbol in outputs})
    pruning.look_at(graph.execs)
    pruning.forget()
    return before - len(graph.execs)


@dataclass(slots=True)
class Pruning:
    """Execs are looked at from the last one on, and again when a reader of theirs has gone; symbols go at the end."""

    graph: SymbolicGraph
    kept: Collection[TensorKey]
    orphans: set[TensorKey] = field(default_factory=set)

    def look_at(self, execs: Iterable[ExecKey]) -> None:
        """Take out what can go of these, and of what they alone needed."""
        graph = self.graph
        waiting = list(execs)
        while waiting:
            key = waiting.pop()
            if key in graph.execs:
                freed = self._visit(key)
                waiting.extend(writer for tensor in freed for writer in graph.writers(tensor))

    def _visit(self, key: ExecKey) -> tuple[TensorKey, ...]:
        """Remove the exec, or what nobody needs of it; the symbols that it read and perhaps reads no more."""
        record = self.graph.execs[key]
        used = tuple(map(self._is_used, record.outputs))
        if any(used):
            changed = trim(record, used)
            if changed is record:
                return ()
            self.graph.replace_exec(key, changed)
        else:
            changed = self.graph.remove_exec(key)
        self.orphans.update(output for output, is_used in zip(record.outputs, used, strict=True) if not is_used)
        self.orphans.difference_update(changed.outputs if any(used) else ())
        return tuple(tensor for tensor in record.inputs if tensor is not None)

    def _is_used(self, key: TensorKey) -> bool:
        root = self.graph.root(key)
        return root in self.kept or bool(self.graph.readers(root))

    def forget(self) -> None:
        """Remove the symbols that were written for nobody, behind their aliases."""
        orphans = self.orphans
        if not orphans:
            return
        aliases = [key for key, record in self.graph.tensors.items() if record.alias and record.alias.root in orphans]
        for tensor in (*aliases, *sorted(orphans.difference(aliases), reverse=True)):
            self.graph.remove_tensor(tensor)
