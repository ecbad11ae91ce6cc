"""The memory plan of a compilation, checked, and the statement that users read before a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnc.core.storage import ALIGNMENT
from nnc.errors import VerificationError
from nnc.planning import Block, Plan, Problem, faults, solve
from nnc.symbolic.compile.liveness import Life, Lives
from nnc.symbolic.ir import TensorKey


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each block lies: `plan.offsets[i]` for `blocks[i]`, which the planner knows as `problem.blocks[i]`."""

    blocks: tuple[Life, ...]
    problem: Problem
    plan: Plan


@dataclass(frozen=True, slots=True)
class MemoryStatement:
    """Bytes of a compiled graph, known before anything is allocated.

    `arena` holds activations, gradients on the way, workspace, inputs and outputs; `lower_bound` is what any
    plan of this order needs; `without_reuse` is what one buffer per tensor would take. `bound` counts the
    tensors that live outside: weights, optimizer state and scalars.
    """

    arena: int
    lower_bound: int
    without_reuse: int
    workspace: int
    bound: int
    optimal: bool
    peak_step: int
    peak_tensors: tuple[str, ...]

    def __str__(self) -> str:
        share = self.arena / self.without_reuse if self.without_reuse else 1.0
        return (
            f"arena {self.arena} B (lower bound {self.lower_bound} B, "
            f"without reuse {self.without_reuse} B, {share:.0%}), workspace {self.workspace} B, "
            f"bound tensors {self.bound} B; peak at step {self.peak_step}: " + ", ".join(self.peak_tensors)
        )


def lay_out(lives: Lives, names: Mapping[TensorKey, str]) -> Layout:
    """Plan the blocks; VerificationError when the independent check finds a fault in the solver's plan."""
    blocks = lives.blocks()
    problem = Problem(
        tuple(Block(block_name(life, names), life.nbytes, life.lower, life.upper, ALIGNMENT) for life in blocks)
    )
    plan = solve(problem)
    if broken := faults(problem, plan):
        raise VerificationError("memory plan: " + "; ".join(broken))
    return Layout(blocks, problem, plan)


def block_name(life: Life, names: Mapping[TensorKey, str]) -> str:
    """The first tensor of a block, as texts show it."""
    return names[life.roots[0]] if life.roots else f"workspace of step {life.lower}"
