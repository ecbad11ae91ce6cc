"""Rematerialization of cheap chains: what is cheap to compute runs again before it is read late, instead of being kept.

    cheap = at most CHEAP floating-point operations per element of the largest tensor that the exec touches

Pointwise operators, normalization, pooling and moves are cheap; products and loops are not. The chains are chosen as
under a limit on memory (`nnc.symbolic.compile.recompute`), down to the lowest peak that cheap execs reach. The pass
comes last: what runs again is left alone by passes, and is tied behind what runs before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.symbolic.compile.needs import needs_of
from nnc.symbolic.compile.order import choose_order
from nnc.symbolic.compile.program import number
from nnc.symbolic.compile.recompute import descend
from nnc.symbolic.compile.repeat import write_replay
from nnc.symbolic.compile.replay import replay
from nnc.symbolic.ir import ExecKey, Symbol, SymbolicGraph

CHEAP = 16


def rematerialize(graph: SymbolicGraph, wanted: Sequence[Symbol]) -> int:
    """Let cheap execs run again where that lowers the peak; returns how many do."""
    kept = [graph.root(graph.own(symbol)) for symbol in wanted]
    execs = graph.needed_for(kept)
    needs = needs_of(graph, execs, (), kept)
    numbered = number(graph, choose_order(graph, execs, needs, {}), needs, {})
    work = zip(numbered.order, numbered.program.work, strict=True)
    cheap = [amount <= CHEAP * _elements(graph, key) for key, amount in work]
    both = zip(numbered.program.repeatable, cheap, strict=True)
    program = replace(numbered.program, repeatable=[may and is_cheap for may, is_cheap in both])
    found = replay(program, descend(program)[-1].choice)
    assert found is not None
    write_replay(graph, replace(numbered, program=program), found, whole=False)
    return sum(found.repeats)


def _elements(graph: SymbolicGraph, key: ExecKey) -> int:
    record = graph.execs[key]
    touched = (tensor for tensor in (*record.inputs, *record.outputs) if tensor is not None)
    return max((graph.tensors[tensor].spec.elements for tensor in touched), default=0)
