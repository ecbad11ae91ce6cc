"""The memory plan of a compilation, checked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.core.values.device import device_of
from nnc.core.values.storage import ALIGNMENT
from nnc.errors import MemoryLimitError, VerificationError
from nnc.planning import Block, Interference, Plan, Problem, Witness, faults, lower_bound, proven_bytes, solve
from nnc.symbolic.compiler.place.liveness import LiveRange
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey

# How often the planner's searches put a block somewhere: two seconds, and a tenth of one where many plans are compared.
PLACES = 100_000
PLACES_OF_A_TRIAL = 5_000


@dataclass(slots=True)
class BlockSpan:
    """A block from one moment to another: as a block of this graph, the workspace of this exec if it is one.

    `step` is that of the graph whose plan is made, for a block of a body inside of it.
    """

    life: LiveRange
    lower: int
    upper: int
    name: str
    graph: SymbolicGraph
    exec: ExecKey | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class ArenaLayout:
    """Where each block lies: `plan.offsets[i]` for `spans[i]`, which the planner knows as `problem.blocks[i]`.

    That is in the arena of the block's kind of memory. `starts` are the
    moments at which the steps of the graph begin.
    """

    spans: tuple[BlockSpan, ...]
    problem: Problem
    plan: Plan
    starts: tuple[int, ...] = ()

    @property
    def blocks(self) -> tuple[LiveRange, ...]:
        """The blocks."""
        return tuple(span.life for span in self.spans)

    @property
    def witness(self) -> Witness:
        """What is alive at the peak of the largest arena, of those that are no files."""
        proofs = [proof for memory, proof in self.plan.witnesses.items() if not device_of(memory).is_file]
        return max(proofs, key=lambda proof: proven_bytes(self.problem, proof), default=self.plan.witness)

    def step(self) -> int:
        """The step of the peak."""
        return self.step_of(self.witness.step)

    def step_of(self, moment: int) -> int:
        """The step that is running at a moment."""
        return bisect_right(self.starts, moment) - 1 if self.starts else moment

    def placed(self) -> tuple[tuple[LiveRange, int], ...]:
        """Each block with its offset from the beginning of the arena of its kind of memory."""
        return tuple((span.life, offset) for span, offset in zip(self.spans, self.plan.offsets, strict=True))


def lay_out(
    spans: Sequence[BlockSpan],
    interference: Callable[[Sequence[BlockSpan]], Interference] | None = None,
    capacity: int | None = None,
    places: int = PLACES,
    starts: tuple[int, ...] = (),
) -> ArenaLayout:
    """Plan the blocks; VerificationError when the independent check finds a fault in the solver's plan.

    Spans say which blocks may share bytes, unless an `interference` graph of them does. A plan within the
    `capacity`, in bytes that are no file's, is good enough; MemoryLimitError when none is found.
    """
    problem = Problem(
        tuple(
            Block(span.name, span.life.nbytes, span.lower, span.upper, ALIGNMENT, memory=span.life.memory)
            for span in spans
        ),
        None if interference is None else interference(spans),
    )
    if capacity is not None:
        capacity += file_bytes(problem)
    if capacity is not None and (bound := lower_bound(problem)) > capacity:
        raise MemoryLimitError("plan", got=f"blocks of {bound} bytes at the peak", need=f"at most {capacity} bytes")
    plan = solve(problem, capacity=capacity, places=places)
    if broken := faults(problem, plan):
        raise VerificationError("memory plan: " + "; ".join(broken))
    return ArenaLayout(tuple(spans), problem, plan, starts)


def file_bytes(problem: Problem) -> int:
    """What files need at least; their plan is mostly that."""
    files = {memory for memory in {block.memory for block in problem.blocks} if device_of(memory).is_file}
    return lower_bound(Problem(tuple(block for block in problem.blocks if block.memory in files))) if files else 0


NOTHING = lay_out(())


def block_name(life: LiveRange, graph: SymbolicGraph, user: ExecKey | None) -> str:
    """The first tensor of a block, or whose workspace it is, as texts show it."""
    return graph.label(life.roots[0]) if user is None else f"workspace of {graph.execs[user].title}"
