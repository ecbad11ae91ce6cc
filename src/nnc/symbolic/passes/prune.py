"""Pruning: take out execs that no wanted output depends on, and symbols that nobody names any more."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.symbolic.control import drop_unread_tapes
from nnc.symbolic.ir import Symbol, SymbolicGraph


def prune(graph: SymbolicGraph, outputs: Sequence[Symbol]) -> int:
    """Remove what `outputs` do not need; inputs stay. Returns how many execs went."""
    kept = {graph.own(symbol) for symbol in outputs}
    needed = set(graph.needed_for(kept))
    dead = [key for key in reversed(graph.execs.toposort()) if key not in needed]
    orphans = {tensor for key in dead for tensor in graph.execs[key].outputs} - kept
    for key in dead:
        graph.remove_exec(key)
    aliases = [key for key, record in graph.tensors.items() if record.alias and record.alias.root in orphans]
    drop_unread_tapes(graph, kept)
    for tensor in (*aliases, *sorted(orphans.difference(aliases), reverse=True)):
        graph.remove_tensor(tensor)
    return len(dead)
