"""What a model costs in memory, known before any of it is allocated."""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.core.values.dtype import DType
from nnc.symbolic import Budget, MemoryStatement


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of a step, before anything of it is allocated; weights and state live outside the arena.

    All steps of a model take turns in one arena. `arena` is what it has by the steps that were made so far, of which
    `programs` are kept (`SETTINGS.kept_programs`, `SETTINGS.kept_bytes`); a step that needs more makes it grow.

    `gradients` counts one buffer per parameter: what the fused update saves, and no part of the total. `budget` is what
    a limit on memory costs, if it costs anything, and `precision` that of products where it is not the parameters'.
    `kept_bytes` is about what the objects of all kept programs take, this one's among them, and `beside` the model's
    tensors that a frozen step leaves where they are, or the gradients that batches add up. `cache` is what a generation
    keeps of earlier tokens. `mapped` are weights that stay in their file, which all processes share that map it; of a
    language model `read` of them are read for each token: from memory, as far as the system has room for them. `filed`
    bytes of the optimizer's state lie in a file of the model's `state_folder`.
    """

    step: MemoryStatement
    weights: int
    gradients: int
    optimizer_state: int
    budget: Budget | None = None
    precision: DType | None = None
    arena: int = 0
    programs: int = 0
    kept_bytes: int = 0
    beside: int = 0
    cache: int = 0
    mapped: int = 0
    read: int = 0
    filed: int = 0

    @property
    def total(self) -> int:
        """Arena, weights, optimizer state and cache together."""
        return max(self.arena, self.step.arena) + self.weights + self.optimizer_state + self.cache

    @property
    def resident(self) -> int:
        """The total without what stays in files: what has to be in memory all the time."""
        return self.total - self.mapped - self.filed

    @property
    def process(self) -> int:
        """About what a process takes that uses this model alone, imports and inputs of the caller's left out.

        total + tensors beside + results handed out + programs + scratch of workers + compiling + nnc's own start

        without what is `mapped`, which is there once for all processes, or `filed`.
        """
        step = self.step
        outside = step.process - step.arena - step.program - (step.bound - step.mapped)
        return self.resident + self.beside + self.kept_bytes + outside

    def __str__(self) -> str:
        state = f"cache {self.cache} B" if self.cache else f"optimizer state {self.optimizer_state} B"
        state += f" in a file of {self.filed} B" if self.filed else ""
        beside = f"weights {self.weights} B, {state}, together {self.total} B"
        beside += f", in all a process of about {self.process} B"
        if self.mapped:
            beside += f" beside {self.mapped} B of a file that others may share"
        if self.step.compiling:
            beside += f" ({self.step.compiling} B of it for compiling)"
        if self.programs:
            beside += f"; {self.programs} programs share an arena of {self.arena} B"
        cost = "" if self.budget is None else f"; {self.budget}"
        precision = "" if self.precision is None else f"; products in {self.precision.name}"
        return f"{self.step}; {beside}{cost}{precision}"
