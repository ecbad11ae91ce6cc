"""Memory planning as data to data: `Problem` (blocks with lives) to `Plan` (an offset per block) with a certificate.

    plan = solve(problem)        arena_bytes >= lower_bound(problem)        faults(problem, plan) == ()

Nothing here knows tensors or graphs. Only the standard library is needed; NumPy makes very large problems faster.

>>> from nnc.planning import Block, Problem, faults, solve
>>> problem = Problem((Block("a", 64, 0, 2), Block("b", 32, 1, 3), Block("c", 64, 2, 4)))
>>> plan = solve(problem)
>>> plan.arena_bytes, plan.lower_bound, plan.optimal, faults(problem, plan)
(96, 96, True, ())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc.faces import face, homes

if TYPE_CHECKING:
    from nnc.planning.bound import lower_bound, proven_bytes
    from nnc.planning.page import (
        Band,
        BlockText,
        Curve,
        GraphNode,
        GraphStage,
        MapView,
        PageTable,
        StepText,
        TimelineBar,
        memory_begins,
        memory_map,
        page_of_views,
    )
    from nnc.planning.plan import Plan, Witness
    from nnc.planning.portfolio import SOLVERS, beyond, smallest_plan, solve
    from nnc.planning.problem import Block, Interference, Problem
    from nnc.planning.read import read_csv
    from nnc.planning.verify import faults

__all__ = [
    "SOLVERS",
    "Band",
    "Block",
    "BlockText",
    "Curve",
    "GraphNode",
    "GraphStage",
    "Interference",
    "MapView",
    "PageTable",
    "Plan",
    "Problem",
    "StepText",
    "TimelineBar",
    "Witness",
    "beyond",
    "faults",
    "lower_bound",
    "proven_bytes",
    "memory_begins",
    "memory_map",
    "page_of_views",
    "read_csv",
    "smallest_plan",
    "solve",
]

_HOMES = homes(
    {
        "nnc.planning.bound": "bound lower_bound proven_bytes",
        "nnc.planning.page": "Band BlockText Curve GraphNode GraphStage MapView PageTable StepText TimelineBar "
        "memory_begins memory_map page page_of_views",
        "nnc.planning.plan": "Plan Witness plan",
        "nnc.planning.portfolio": "SOLVERS beyond portfolio smallest_plan solve",
        "nnc.planning.problem": "Block Interference Problem problem",
        "nnc.planning.read": "read read_csv",
        "nnc.planning.verify": "faults verify",
    }
)

if not TYPE_CHECKING:
    # A type checker reads the imports above instead.
    __getattr__, __dir__ = face(_HOMES, globals())
