"""Rematerialization of cheap chains: what is cheap to compute runs again before it is read late, instead of being kept.

    cheap   = at most CHEAP floating-point operations per element of the largest tensor that the exec touches
    dropped = values of cheap execs that live over the peak of memory, and that at most `depth` cheap execs, one behind
              the other, make again from values that are kept

Pointwise operators, normalization, pooling and moves are cheap; products and loops are not. Each exec runs again once
at most, in front of the first reader behind the peak. Of the depths 1, 2, 4, … that of the lowest peak is taken: a
chain of n cheap execs keeps about √n values. The pass comes last: what runs again is left alone by passes, and is tied
behind what runs before it. A limit on memory goes further (`nnc.symbolic.compile`, `memory_limit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from nnc.symbolic.compiler.order.choose import choose_order
from nnc.symbolic.compiler.order.uses import uses_of
from nnc.symbolic.compiler.repeat.program import number
from nnc.symbolic.compiler.repeat.schedule import NEVER, ReplaySchedule, Root, Step
from nnc.symbolic.compiler.repeat.write import write_schedule
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey

CHEAP = 16


def rematerialize(graph: SymbolicGraph, wanted: Sequence[Symbol]) -> int:
    """Let cheap execs run again where that lowers the peak; returns how many do."""
    kept = [graph.root(graph.own(symbol)) for symbol in wanted]
    execs = graph.needed_for(kept)
    uses = uses_of(graph, execs, (), kept)
    numbered = number(graph, choose_order(graph, execs, uses, {}), uses, {})
    work = zip(numbered.order, numbered.program.work, strict=True)
    cheap = [amount <= CHEAP * _elements(graph, key) for key, amount in work]
    both = zip(numbered.program.repeatable, cheap, strict=True)
    program = replace(numbered.program, repeatable=[may and is_cheap for may, is_cheap in both])
    once = ReplaySchedule(program, range(len(program.reads)))
    depths = [2**exponent for exponent in range(len(execs).bit_length())]
    cheapest = min(
        [once, *(_Dropping(once, depth).schedule() for depth in depths)], key=lambda value: (value.peak, value.extra)
    )
    write_schedule(graph, replace(numbered, program=program), cheapest, whole=False)
    return sum(cheapest.repeats)


def _elements(graph: SymbolicGraph, key: ExecKey) -> int:
    record = graph.execs[key]
    touched = (tensor for tensor in (*record.inputs, *record.outputs) if tensor is not None)
    return max((graph.tensors[tensor].spec.elements for tensor in touched), default=0)


class _Dropping:
    """Which values of a schedule without repeats are dropped at its peak.

    `chains` are per step how many cheap ones, one behind the other, end with it, beginning at values that are kept.
    """

    def __init__(self, once: ReplaySchedule, depth: int) -> None:
        self.once = once
        self.program = once.program
        self.peak = once.bytes.at_peak
        self.dropped: set[Step] = set()
        self.chains: list[float] = []
        for step in once.steps:
            behind = (self._chain_of(root) for root in self.program.again[step])
            length = 1 + max(behind, default=0) if self.program.repeatable[step] else inf
            self.chains.append(length)
            if length <= depth and any(map(self._crosses, self.program.writes[step])):
                self.dropped.add(step)

    def _chain_of(self, root: Root) -> float:
        """Execs, one behind the other, that make a root again behind the peak; none for what is there anyhow."""
        maker = self.program.maker[root]
        is_there = maker == NEVER or self.program.lasting[root] or (self._crosses(root) and maker not in self.dropped)
        return 0 if is_there else self.chains[maker]

    def _crosses(self, root: Root) -> bool:
        """True for a root that is made in front of the peak, and read behind it."""
        ((birth, last),) = self.once.lives(root)
        return birth < self.peak < last

    def schedule(self) -> ReplaySchedule:
        """The runs with each dropped value made again in front of its first reader behind the peak."""
        steps = [*self.once.steps[: self.peak + 1]]
        made: set[Step] = set()
        for step in self.once.steps[self.peak + 1 :]:
            asked = (self.program.maker[root] for root in self.program.reads[step])
            steps += self._chain([maker for maker in asked if maker in self.dropped], made)
            steps.append(step)
        return ReplaySchedule(self.program, steps)

    def _chain(self, waiting: list[Step], made: set[Step]) -> list[Step]:
        """The steps that make these again, from values that are there."""
        steps: set[Step] = set()
        while waiting:
            step = waiting.pop()
            if step in made:
                continue
            made.add(step)
            steps.add(step)
            waiting.extend(self.program.maker[root] for root in self.program.again[step] if self._chain_of(root))
        return sorted(steps)
