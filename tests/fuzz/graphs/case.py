"""A random program and what the oracle, the interpreter, gives for it.

bits of the reference backend must be equal to the oracle's, and whatever rounds in another order must agree within the
tolerance table, widened by what the program makes of single roundings
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from tests.fuzz.graphs.compare import coarseness, other_bits, other_form, outside
from tests.symbolic.interpreter import Array, Noise, interpret
from tests.symbolic.programs import Built, Program, build, values_for

from nnc.core.values.dtype import F64, TOLERANCE, DType, dtype_of
from nnc.errors import NotDifferentiableError
from nnc.ops import multiply, reduce_sum
from nnc.symbolic import Symbol, backward, faults

DISTURBED = 3


class Fault(AssertionError):
    """What a check found."""


@dataclass
class Case:
    """A program, how often it is differentiated, and what it gives without a plan."""

    program: Program
    order: int = 0
    outcomes: set[str] = field(default_factory=set)

    def fresh(self, *, unrolled: bool = False) -> Built:
        """A new graph with its gradients, verified; the wanted values first, then the gradients of each order."""
        built = self._grown(unrolled)
        if broken := faults(built.graph):
            raise Fault(f"a new graph breaks {broken[0]}")
        return built

    def _grown(self, unrolled: bool) -> Built:
        built = build(self.program, unrolled=unrolled)
        wanted = [symbol for symbol in built.wanted if symbol.spec.dtype.is_float]
        inputs = [symbol for symbol in built.inputs if symbol.spec.dtype.is_float]
        try:
            for _ in range(self.order if inputs else 0):
                wanted = [*backward(built.graph, [squared(symbol) for symbol in wanted], inputs)]
                built.wanted.extend(wanted)
        except NotDifferentiableError:
            self.outcomes.add("not differentiable")
        return built

    @cached_property
    def built(self) -> Built:
        """The graph that the oracle runs; nobody changes it."""
        return self._grown(False)

    @cached_property
    def arrays(self) -> list[Array]:
        """Elements of the inputs, and of tensors that come from outside in part."""
        return values_for([*self.built.inputs, *self.built.outside])

    @cached_property
    def expected(self) -> list[Array]:
        """The oracle's values."""
        return interpret(self.built.graph, self.built.wanted, self.values(self.built))

    def disturbed(self, coarse: DType) -> list[list[Array]]:
        """Values when every result is off by about one rounding."""
        built = self.built
        return [
            interpret(built.graph, built.wanted, self.values(built), Noise(np.random.default_rng(seed), coarse))
            for seed in range(DISTURBED)
        ]

    def values(self, built: Built) -> dict[Symbol, Array]:
        """The inputs of a graph of this program with their elements."""
        return dict(zip([*built.inputs, *built.outside], self.arrays, strict=True))

    def require_bits(self, got: Sequence[Array], what: str) -> None:
        """The oracle's bits, or Fault."""
        for place, (one, want) in enumerate(zip(got, self.expected, strict=True)):
            if bad := other_form(one, want) or other_bits(one, want):
                raise Fault(f"{what}: output {place} has other bits: {bad}")

    def require_close(self, got: Sequence[Array], what: str, coarse: DType = F64) -> None:
        """Within the tolerance table where single roundings, of the type `coarse` at least, do not change much."""
        pairs = list(zip(got, self.expected, strict=True))
        if not any(other_form(one, want) or other_bits(one, want) for one, want in pairs):
            return
        disturbed = self.disturbed(coarse)
        for place, (one, want) in enumerate(pairs):
            row = TOLERANCE[max(coarse, dtype_of(want.dtype), key=coarseness)]
            beside = [values[place] for values in disturbed]
            if bad := other_form(one, want) or outside(one, want, beside, row):
                raise Fault(f"{what}: output {place} is off: {bad}")


def squared(symbol: Symbol) -> Symbol:
    """Σ symbol²: what programs are differentiated by."""
    return reduce_sum(multiply(symbol, symbol))
