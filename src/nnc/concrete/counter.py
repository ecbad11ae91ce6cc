"""Loop counts: each graph has a counter, and a counter knows those of the graphs around it.

    index = (count of the outermost loop, …, count of this one)

Graphs that are no loop (the root, the branches of a case..of) do not appear in an index.
"""

from __future__ import annotations

from typing import ClassVar

from nnc.core.precautions.uncopied import Uncopied
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import GraphError

Index = tuple[int, ...]


class Counter(Uncopied):
    """Where a loop is: `count` for its body to see, `turn` = iterations since it began; a backward loop counts down.

    `tensor` holds the count for commands (i64[], always the same memory).
    """

    instead: ClassVar[str] = "build the graph again"

    __slots__ = ("_cell", "active", "count", "is_loop", "name", "parent", "tensor", "turn")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.parent: Counter | None = None
        self.is_loop = False
        self.active = False
        self.count = 0
        self.turn = 0
        self.tensor = Tensor.zeros(TensorSpec((), I64), "count")
        self._cell = self.tensor.numpy()

    def move(self, count: int, turn: int | None = None) -> None:
        """Go to another iteration."""
        self.count = count
        self.turn = count if turn is None else turn
        self._cell[...] = count

    def index(self) -> Index:
        """The counts of all loops around the graph and of its own, outermost first."""
        return tuple(counter.count for counter in reversed(self.chain()) if counter.is_loop)

    def chain(self) -> tuple[Counter, ...]:
        """This counter and those around it, innermost first."""
        counters: list[Counter] = []
        counter: Counter | None = self
        while counter is not None:
            counters.append(counter)
            counter = counter.parent
        return tuple(counters)

    def enter(self, parent: Counter, is_loop: bool) -> None:
        """This graph is in a node of that one from now on; GraphError where it is in a node, or around it."""
        if self.parent is not None or self in parent.chain():
            raise GraphError(
                "graph", got="a graph that is inside a node already, or around this one", need="a graph of its own"
            )
        self.parent, self.is_loop = parent, is_loop

    def __repr__(self) -> str:
        return f"Counter({self.name or 'graph'} at {self.count})"
