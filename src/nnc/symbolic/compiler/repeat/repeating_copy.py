"""A program that computes some values again: the graph that was compiled beside the copy of it that runs."""

from __future__ import annotations

from collections.abc import Mapping

from nnc.classes import dataclass
from nnc.errors import SymbolError
from nnc.symbolic.compiler.repeat.budget import Budget
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class RepeatingCopy:
    """The graph that was compiled, when a copy of it runs, its symbols in the copy, and why there is a copy."""

    graph: SymbolicGraph
    tensors: Mapping[TensorKey, TensorKey]
    budget: Budget

    def own(self, symbol: Symbol) -> TensorKey:
        """The key in the copy."""
        key = self.graph.own(symbol)
        if key not in self.tensors:
            raise SymbolError("compiled", got=str(symbol), need="a symbol that was there at compile()")
        return self.tensors[key]
