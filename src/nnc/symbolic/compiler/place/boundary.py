"""What a plan of a graph has to keep of what lies around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from nnc.classes import dataclass
from nnc.symbolic.compiler.place.liveness import (
    LiveRange,
)
from nnc.symbolic.control import WhileAttrs
from nnc.symbolic.records import ExecKey, TensorKey

Pair = tuple[TensorKey, TensorKey]


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """What a graph has to do with what is around it, in roots.

    `execs` are those that are needed, the `early` ones first. The memory of `outside` is somebody else's; `kept` hold
    their values behind the last step; new values in `carried` are written over old ones. `lent` roots lie in blocks of
    the graph around; an operand's block may become a result's for
    the pairs in `merged` (None: for all). `loop` is the loop that the graph is the body of.
    """

    execs: tuple[ExecKey, ...]
    outside: frozenset[TensorKey]
    kept: frozenset[TensorKey]
    carried: Mapping[TensorKey, TensorKey] = field(default_factory=dict)
    early: frozenset[ExecKey] = frozenset()
    operands: frozenset[TensorKey] = frozenset()
    results: frozenset[TensorKey] = frozenset()
    merged: frozenset[Pair] | None = None
    loop: WhileAttrs | None = None

    @property
    def lent(self) -> frozenset[TensorKey]:
        """Roots that lie in blocks of the graph around."""
        return self.operands | self.results

    def may_join(self, old: LiveRange, new: LiveRange) -> bool:
        """May the block of an operand go on as that of a result?"""
        ending, begun = self.operands.intersection(old.roots), self.results.intersection(new.roots)
        return self.merged is None or all((value, other) in self.merged for value in ending for other in begun)
