"""Local search over orders: what ends at the top of the arena is moved forward in the order, and kept if not worse.

It takes everything that the greedy orders take, which is its use: where pinned blocks, companions or an explicit
interference keep the exact search out, it is what lowers a plan further.
"""

from __future__ import annotations

from random import Random

from nnc.planning.instance import Effort, Instance, Solution
from nnc.planning.solvers.greedy import by_size, place
from nnc.planning.solvers.normalize import conflicts

PLACEMENTS = 100_000


def local_search(instance: Instance, effort: Effort) -> Solution:
    """At most `PLACEMENTS` blocks, or `effort.places`, are placed in all; random choices come from the seed alone."""
    draw = Random(effort.seed)
    neighbours = conflicts(instance, effort)
    order = by_size(instance)
    best = place(instance, order, neighbours, effort, tightest=False)
    if best is None:
        return Solution(None)
    arena = instance.arena(best)
    placements = PLACEMENTS if effort.places is None else min(effort.places, PLACEMENTS)
    for _ in range(placements // max(instance.count, 1)):
        if arena <= effort.target or effort.expired:
            break
        highest = [turn for turn, i in enumerate(order) if best[i] + instance.size[i] == arena]
        source = draw.choice(highest)
        target = draw.randrange(source + 1)
        trial = order.copy()
        trial.insert(target, trial.pop(source))
        offsets = place(instance, trial, neighbours, effort, tightest=False, kept=target, before=best)
        if offsets is not None and instance.arena(offsets) <= arena:
            order, best, arena = trial, offsets, instance.arena(offsets)
    return Solution(best)
