"""Simplification: passes in the order the caller gives, each of which leaves a valid graph with the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from nnc.core.settings import SETTINGS
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.algebra import ALGEBRA, TRANSFERS
from nnc.symbolic.passes.batch_norm import BATCH_NORM
from nnc.symbolic.passes.branches import BRANCHES
from nnc.symbolic.passes.constants import CONSTANTS
from nnc.symbolic.passes.fusion import FUSION
from nnc.symbolic.passes.groups import fuse
from nnc.symbolic.passes.prune import prune
from nnc.symbolic.passes.subexpressions import eliminate_common
from nnc.symbolic.rewrite import Rule, rewrite
from nnc.symbolic.verify import verify


class Pass(Enum):
    """The passes by name; the first four are NNC's."""

    COMMON_SUBEXPRESSIONS = "common sub-expressions"
    DATA_TRANSFER = "data transfer"
    FUSION = "fusion"
    PRUNING = "pruning"
    ALGEBRA = "algebra"
    GROUPS = "fusion groups"
    CONSTANTS = "constants"
    BATCH_NORM = "batch norm"
    BRANCHES = "branches"


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass did: execs before and after, and how often each rule fired."""

    name: str
    before: int
    after: int
    fired: Mapping[str, int]


DEFAULT = (Pass.ALGEBRA, Pass.COMMON_SUBEXPRESSIONS, Pass.DATA_TRANSFER, Pass.FUSION, Pass.PRUNING)


def simplify(graph: SymbolicGraph, outputs: Iterable[Symbol], passes: Sequence[Pass] = DEFAULT) -> tuple[Report, ...]:
    """Run `passes` in this order. `outputs` keep their symbols and their values."""
    wanted = tuple(outputs)
    reports = []
    for each in passes:
        before = len(graph.execs)
        fired = _RUN[each](graph, wanted)
        reports.append(Report(each.value, before, len(graph.execs), dict(fired)))
        if SETTINGS.debug:
            verify(graph, each.value)
    return tuple(reports)


def _rules(rules: Sequence[Rule]) -> Callable[[SymbolicGraph, tuple[Symbol, ...]], Counter[str]]:
    def run(graph: SymbolicGraph, outputs: tuple[Symbol, ...]) -> Counter[str]:
        fired = rewrite(graph, rules, outputs)
        prune(graph, outputs)
        return fired

    return run


def _groups(graph: SymbolicGraph, outputs: tuple[Symbol, ...]) -> Counter[str]:
    dead = prune(graph, outputs)
    return +Counter(removed=dead, fused=fuse(graph, outputs))


_RUN: Mapping[Pass, Callable[[SymbolicGraph, tuple[Symbol, ...]], Counter[str]]] = {
    Pass.COMMON_SUBEXPRESSIONS: lambda graph, outputs: Counter(removed=eliminate_common(graph, outputs)),
    Pass.DATA_TRANSFER: _rules(TRANSFERS),
    Pass.FUSION: _rules(FUSION),
    Pass.PRUNING: lambda graph, outputs: Counter(removed=prune(graph, outputs)),
    Pass.ALGEBRA: _rules(ALGEBRA),
    Pass.GROUPS: _groups,
    Pass.CONSTANTS: _rules(CONSTANTS),
    Pass.BATCH_NORM: _rules(BATCH_NORM),
    Pass.BRANCHES: _rules(BRANCHES),
}
