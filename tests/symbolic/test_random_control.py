"""Random loops and branches against the same programs unrolled: values exactly, gradients closely."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.symbolic.evaluation import inputs_of, random_arrays, values_of

from nnc.concrete import CountBelow
from nnc.ops.pointwise import maximum, tanh
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, verify, while_loop

pytestmark = pytest.mark.usefixtures("debug")

CARRIED, TRIPS, SHAPE = 3, 3, (2, 2)


class Program:
    """Steps by random choice, the same ones each time it is applied."""

    def __init__(self, seed: int, depth: int = 2) -> None:
        generator = np.random.default_rng(seed)
        self.steps = [tuple(int(number) for number in generator.integers(0, 100, 4)) for _ in range(5)]
        self.ends = [int(number) for number in generator.integers(0, CARRIED + len(self.steps), CARRIED)]
        self.inner = Program(seed + 1000, depth - 1) if depth else None

    def apply(self, values: Sequence[Symbol], invariant: Symbol, unrolled: bool) -> list[Symbol]:
        """One iteration: from carried values to the next ones."""
        known = list(values)
        for kind, *places in self.steps:
            a, b, c = (known[place % len(known)] for place in places)
            known.append(self._step(kind, a, b, c, invariant, unrolled))
        return [known[end] for end in self.ends]

    def _step(self, kind: int, a: Symbol, b: Symbol, c: Symbol, invariant: Symbol, unrolled: bool) -> Symbol:
        if self.inner is not None and kind % 3 == 0:
            return self.inner.loop([a, b, c], invariant, unrolled)[0]
        table = (
            lambda: tanh(a * invariant),
            lambda: a[::-1] + b,
            lambda: maximum(a, b) - c,
            lambda: (a @ b) * 0.25,
            lambda: a[:, ::-1],
            lambda: tanh(a)[:1] + invariant,
        )
        return table[kind % len(table)]()

    def loop(self, initial: Sequence[Symbol], invariant: Symbol, unrolled: bool) -> list[Symbol]:
        """The program again and again; its second iteration takes a branch that turns values round."""
        values = list(initial)
        if unrolled:
            for trip in range(TRIPS):
                values = self.apply(values, invariant, unrolled) if trip != 1 else values[::-1]
            return values
        graph = max((symbol.graph for symbol in (*initial, invariant)), key=lambda graph: len(graph.around()))
        with while_loop(graph, CountBelow(TRIPS)) as loop:
            carried = [loop.carry(symbol) for symbol in initial]
            branches = (
                lambda *values: tuple(self.apply(values, invariant, unrolled)),
                lambda *values: tuple(values[::-1]),
            )
            bypass = self.apply(carried, invariant, unrolled)
            found = case_of(loop.body, loop.count, branches, carried, bypass=bypass)
            for symbol, value in zip(carried, found, strict=True):
                loop.next(symbol, value)
        return [loop.result(symbol) for symbol in carried]


@pytest.mark.parametrize("seed", range(12))
def test_loops_are_their_unrolled_programs(seed: int) -> None:
    arrays = random_arrays([SHAPE] * (CARRIED + 1), seed, -1.0, 1.0)
    values, gradients = [], []
    for unrolled in (False, True):
        graph = SymbolicGraph()
        symbols = inputs_of(graph, [SHAPE] * (CARRIED + 1))
        outputs = Program(seed).loop(symbols[:-1], symbols[-1], unrolled)
        given = dict(zip(symbols, arrays, strict=True))
        values.append(values_of(graph, outputs, given))
        changes = backward(graph, outputs, symbols)
        verify(graph)
        gradients.append(values_of(graph, changes, given))
    assert [value.tolist() for value in values[0]] == [value.tolist() for value in values[1]]
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
