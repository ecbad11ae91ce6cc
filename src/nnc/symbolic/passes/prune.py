"""Pruning: take out execs that no wanted output depends on, and symbols that nobody names any more."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.symbolic.ir import Symbol, SymbolicGraph


def prune(graph: SymbolicGraph, outputs: Sequence[Symbol]) -> int:
    """Remove what `outputs` do not need; inputs stay. Returns how many execs went."""
    needed = set(graph.needed_for(graph.own(symbol) for symbol in outputs))
    kept = {graph.own(symbol) for symbol in outputs}
    dead = [key for key in reversed(graph.execs.toposort()) if key not in needed]
    candidates = {tensor for key in dead for tensor in graph.execs[key].outputs}
    for key in dead:
        graph.remove_exec(key)
    for tensor in sorted(candidates - kept, reverse=True):
        graph.remove_tensor(tensor)
    return len(dead)
