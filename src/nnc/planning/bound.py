"""The lower bound of a problem and what proves it.

    bound = sum over memories of  max over steps of  sum(reserved[b] for b alive at the step)

A pinned block ends where it ends, so `offset[b] + reserved[b]` is a bound too. Under explicit interference the steps
are replaced by cliques of the interference graph, the heaviest that a greedy start and a bounded branch and bound find.
"""

from __future__ import annotations

from nnc.arguments import checked
from nnc.planning.plan import Witness
from nnc.planning.problem import Problem, bits

CLIQUE_WORK = 400_000
GREEDY_STARTS = 64


@checked
def lower_bound(problem: Problem) -> int:
    """The bytes that every valid plan of `problem` needs at least, over all kinds of memory."""
    return sum(proven_bytes(problem, witness) for witness in witnesses(problem).values())


@checked
def proven_bytes(problem: Problem, witness: Witness) -> int:
    """What the witness proves: the sum of its blocks, or the highest end of a pinned one."""
    blocks = [problem.blocks[i] for i in witness.blocks]
    ends = [block.offset + block.reserved for block in blocks if block.offset is not None]
    return max(sum(block.reserved for block in blocks), max(ends, default=0))


def witnesses(problem: Problem) -> dict[str, Witness]:
    """For each kind of memory the blocks that prove its part of the bound."""
    together = _peak if problem.interference is None else _heaviest_clique
    proofs = {
        memory: [together(problem, blocks), _highest_pin(problem, blocks)]
        for memory, blocks in problem.members().items()
    }
    return {memory: max(each, key=lambda witness: proven_bytes(problem, witness)) for memory, each in proofs.items()}


def _highest_pin(problem: Problem, members: list[int]) -> Witness:
    """The pinned block that ends highest."""
    ends = [
        (offset + problem.blocks[i].reserved, -i) for i in members if (offset := problem.blocks[i].offset) is not None
    ]
    if not ends:
        return Witness(0, ())
    block = -max(ends)[1]
    return Witness(problem.blocks[block].lower, (block,))


def _peak(problem: Problem, members: list[int]) -> Witness:
    """The first step at which the most bytes are alive, deaths counted before births."""
    blocks = problem.blocks
    events = [(blocks[i].upper, -blocks[i].reserved) for i in members]
    events += [(blocks[i].lower, blocks[i].reserved) for i in members]
    alive = highest = step = 0
    for moment, change in sorted(events):
        alive += change
        if alive > highest:
            highest, step = alive, moment
    return Witness(step, tuple(i for i in members if blocks[i].lower <= step < blocks[i].upper))


def _heaviest_clique(problem: Problem, members: list[int]) -> Witness:
    """Blocks are renumbered from the heaviest down, so the lowest bit of a set is its heaviest block."""
    assert problem.interference is not None
    order = sorted(members, key=lambda i: (-problem.blocks[i].reserved, i))
    weight = [problem.blocks[i].reserved for i in order]
    rank = {block: place for place, block in enumerate(order)}
    rows = [sum(1 << rank[j] for j in problem.interference.neighbours(i) if j in rank) for i in order]
    around = [weight[i] + sum(weight[j] for j in bits(row)) for i, row in enumerate(rows)]
    starts = sorted(range(len(order)), key=lambda i: -around[i])[:GREEDY_STARTS]
    cliques = [_greedy_clique(rows, i) for i in starts]
    alive = [rank[i] for i in _peak(problem, members).blocks]
    if _is_clique(rows, alive):
        cliques.append(alive)
    best = max(cliques, key=lambda clique: _total(weight, clique), default=[])
    clique = sorted(order[i] for i in _branch(rows, weight, best))
    return Witness(max((problem.blocks[i].lower for i in clique), default=0), tuple(clique))


def _is_clique(rows: list[int], blocks: list[int]) -> bool:
    """Whether all of `blocks` interfere: so they do at every step where a partial order only adds to the lives."""
    every = sum(1 << i for i in blocks)
    return all(every & ~rows[i] == 1 << i for i in blocks)


def _total(weight: list[int], clique: list[int]) -> int:
    return sum(weight[i] for i in clique)


def _greedy_clique(rows: list[int], start: int) -> list[int]:
    """Grow from `start` by the heaviest block that interferes with all taken so far."""
    clique, candidates = [start], rows[start]
    while candidates:
        chosen = _lowest(candidates)
        clique.append(chosen)
        candidates &= rows[chosen]
    return clique


def _lowest(row: int) -> int:
    return (row & -row).bit_length() - 1


def _branch(rows: list[int], weight: list[int], best: list[int]) -> list[int]:
    """Branch and bound over cliques, at most `CLIQUE_WORK` looks at a block; returns `best` or a heavier one."""
    heaviest = _total(weight, best)
    open_cliques: list[tuple[list[int], int, int]] = [([], (1 << len(rows)) - 1, 0)]
    for _ in range(CLIQUE_WORK // max(len(rows), 1)):
        if not open_cliques:
            break
        clique, candidates, total = open_cliques.pop()
        if total > heaviest:
            heaviest, best = total, clique
        if not candidates or not _may_exceed(rows, weight, candidates, heaviest - total):
            continue
        chosen = _lowest(candidates)
        open_cliques.append((clique, candidates ^ 1 << chosen, total))
        open_cliques.append(([*clique, chosen], candidates & rows[chosen], total + weight[chosen]))
    return best


def _may_exceed(rows: list[int], weight: list[int], candidates: int, missing: int) -> bool:
    """A clique takes one block at most from each class of blocks that do not interfere: add the heaviest of each."""
    while candidates:
        free = candidates
        missing -= weight[_lowest(free)]
        if missing < 0:
            return True
        while free:
            chosen = _lowest(free)
            candidates ^= 1 << chosen
            free &= ~(rows[chosen] | 1 << chosen)
    return False
