"""An operand of a graph that lies in another slot of memory after each branch or iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.concrete import (
    Carry,
    ConcreteGraph,
    Phi,
    Place,
)
from nnc.core.values.spec import TensorSpec
from nnc.symbolic.compiler.place.slots import (
    Slot,
    Slots,
)
from nnc.symbolic.records import TensorKey


@dataclass(slots=True, eq=False)
class MovingOperand:
    """The slots of a loop in its concrete graph: for each slot and spec a place; `memory` gives the first ones."""

    slots: Slots
    body: ConcreteGraph
    memory: Callable[[int, TensorSpec], Place]
    _made: dict[tuple[Slot, TensorSpec], Place] = field(default_factory=dict)
    _first: dict[tuple[Slot, TensorSpec], Carry] = field(default_factory=dict)
    _exchanged: set[Slot] = field(default_factory=set)

    def place(self, slot: Slot, spec: TensorSpec) -> Place:
        """Where a value of this slot lies, as of the step that is being added."""
        if (slot, spec) not in self._made:
            cycle = self.slots.cycle(slot)
            if len(cycle) == 1 and not self.slots.passed:
                self._made[slot, spec] = self.memory(slot, spec)
            for value in cycle:
                if (value, spec) not in self._made:
                    assert value not in self._exchanged
                    self._made[value, spec] = self._first[value, spec] = Carry(self.memory(value, spec))
        return self._made[slot, spec]

    def exchange(self, branches: Sequence[Mapping[Slot, Slot]], specs: Iterable[TensorSpec]) -> list[Phi]:
        """From this step on each slot has the memory that the taken branch says, each where it was before."""
        moved = sorted({slot for slots in branches for slot in slots})
        phis = {}
        for spec in specs:
            for slot in moved:
                if self.slots.holds(slot, spec):
                    places = [self.place(slots.get(slot, slot), spec) for slots in branches]
                    phis[slot, spec] = Phi(places[0], *places)
        self._made.update(phis)
        self._exchanged.update(moved)
        return list(phis.values())

    def close(self) -> None:
        """Behind an iteration the pointers of each cycle of slots move on."""
        for (slot, spec), carry in self._first.items():
            source = self.slots.cycle(slot)[-1]
            self.body.carry_over(self._made[source, spec], carry)


def no_caller_memory(root: TensorKey, spec: TensorSpec) -> Place:
    """Where memory is that nobody lends: nobody asks."""
    raise AssertionError(root)
