"""What is alive on a dynamic graph, and which line made it.

    print(nnc.dynamic.memory())

A recorded tensor lives as long as a variable holds it, or a gradient may read it on the way to one that is held. What
is not recorded (constants, results under no_grad) is counted in `lent` alone.
"""

from __future__ import annotations

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.graph import DynamicGraph, default_graph

SHOWN = 10


@dataclass(frozen=True, slots=True)
class AliveTensor:
    """A recorded tensor: the user's line that made it, and whether a variable holds it, or a gradient alone does."""

    spec: TensorSpec
    origin: str
    is_held: bool

    def __str__(self) -> str:
        return f"{self.spec.nbytes} B {self.spec} ({self.origin}){'' if self.is_held else ', for a gradient'}"


@dataclass(frozen=True, slots=True)
class AliveMemory:
    """Bytes in use: recorded `tensors`, largest first, each memory once; all that is `lent` to tensors of the graph.

    `waiting` is what tensors that are gone have left for others, `arena` that of gradient programs.
    """

    tensors: tuple[AliveTensor, ...]
    lent: int
    waiting: int
    arena: int

    @property
    def recorded(self) -> int:
        """Bytes of the recorded tensors."""
        return sum(tensor.spec.nbytes for tensor in self.tensors)

    def __str__(self) -> str:
        rows = [f"  {tensor}" for tensor in self.tensors[:SHOWN]]
        more = len(self.tensors) - len(rows)
        head = f"recorded {self.recorded} B, lent {self.lent} B, waiting {self.waiting} B, arena {self.arena} B"
        return "\n".join([head, *rows, *([f"  and {more} smaller ones"] if more else [])])


@checked
def memory(graph: DynamicGraph | None = None) -> AliveMemory:
    """What is alive on a dynamic graph, the default one where none is given."""
    chosen = default_graph() if graph is None else graph
    alive: dict[int, AliveTensor] = {}
    for spec, origin, is_held, address in chosen.alive():
        # A fork of a variable is in its memory: the one that is held stands for both.
        if address not in alive or (is_held and not alive[address].is_held):
            alive[address] = AliveTensor(spec, origin, is_held)
    tensors = sorted(alive.values(), key=lambda value: -value.spec.nbytes)
    return AliveMemory(tuple(tensors), *chosen.reserved())
