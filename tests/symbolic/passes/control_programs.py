"""Random loops with branches and loops inside them, for tests of passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnc.concrete import CountBelow
from nnc.ops.elementwise.pointwise import maximum, tanh
from nnc.symbolic import Symbol, case_of, while_loop

CARRIED, TRIPS, SHAPE = 3, 3, (2, 2)


class Program:
    """Steps by random choice, the same ones each time it is applied."""

    def __init__(self, seed: int, depth: int = 2) -> None:
        generator = np.random.default_rng(seed)
        self.steps = [tuple(int(number) for number in generator.integers(0, 100, 4)) for _ in range(5)]
        self.ends = [int(number) for number in generator.integers(0, CARRIED + len(self.steps), CARRIED)]
        self.inner = Program(seed + 1000, depth - 1) if depth else None

    def apply(self, values: Sequence[Symbol], invariant: Symbol) -> list[Symbol]:
        """One iteration: from carried values to the next ones."""
        known = list(values)
        for kind, *places in self.steps:
            a, b, c = (known[place % len(known)] for place in places)
            known.append(self._step(kind, a, b, c, invariant))
        return [known[end] for end in self.ends]

    def _step(self, kind: int, a: Symbol, b: Symbol, c: Symbol, invariant: Symbol) -> Symbol:
        if self.inner is not None and kind % 3 == 0:
            return self.inner.loop([a, b, c], invariant)[0]
        table = (
            lambda: tanh(a * invariant),
            lambda: a[::-1] + b,
            lambda: maximum(a, b) - c,
            lambda: (a @ b) * 0.25,
            lambda: a[:, ::-1],
            lambda: tanh(a)[:1] + invariant,
        )
        return table[kind % len(table)]()

    def loop(self, initial: Sequence[Symbol], invariant: Symbol) -> list[Symbol]:
        """The program again and again; its second iteration takes a branch that turns values round."""
        graph = max((symbol.graph for symbol in (*initial, invariant)), key=lambda graph: len(graph.around()))
        with while_loop(graph, CountBelow(TRIPS)) as loop:
            carried = [loop.carry(symbol) for symbol in initial]
            branches = (
                lambda *values: tuple(self.apply(values, invariant)),
                lambda *values: tuple(values[::-1]),
            )
            bypass = self.apply(carried, invariant)
            found = case_of(loop.body, loop.count, branches, carried, bypass=bypass)
            for symbol, value in zip(carried, found, strict=True):
                loop.next(symbol, value)
        return [loop.result(symbol) for symbol in carried]
