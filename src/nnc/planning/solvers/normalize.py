"""From a problem to instances and back: empty blocks dropped, time compressed, split where nothing is alive across.

Only maximal sections are kept: points in time after a birth and before a death. Everything alive at another point
is alive at one of these too, so overlap between them is overlap anywhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from nnc.classes import dataclass
from nnc.errors import PlanningError
from nnc.planning.instance import Effort, Instance
from nnc.planning.problem import Problem, bits

CHECK_EVERY = 256  # so many rows are up to a million pairs of the largest instances that pairs are listed for


@dataclass(frozen=True, slots=True)
class Subproblem:
    """An instance whose blocks are `blocks[0]`, `blocks[1]`, … of the problem; parts of one memory share its arena."""

    memory: str
    blocks: list[int]
    instance: Instance


def normalize(problem: Problem) -> list[Subproblem]:
    """The instances that solve `problem` together: a plan of each, side by side in time, is a plan of the whole."""
    members = problem.members()
    for block in sorted(block for group in problem.companions for block in group):
        if not problem.takes_bytes(block):
            insort(members[problem.blocks[block].memory], block)
    parts = []
    for memory, blocks in members.items():
        if not blocks:
            continue
        instance = _instance(problem, blocks)
        if instance.plain:
            parts.extend(_split(memory, blocks, instance))
        else:
            parts.append(Subproblem(memory, blocks, instance))
    return parts


def _instance(problem: Problem, blocks: list[int]) -> Instance:
    chosen = [problem.blocks[i] for i in blocks]
    rank = {block: place for place, block in enumerate(blocks)}
    lower, upper = sections([block.lower for block in chosen], [block.upper for block in chosen])
    pinned = {place: block.offset for place, block in enumerate(chosen) if block.offset is not None}
    groups = []
    for group in problem.companions:
        members = tuple(rank[i] for i in group if i in rank)
        offset = next((pinned[place] for place in members if place in pinned), None)
        if offset is not None:
            pinned.update(dict.fromkeys(members, offset))
        if len(members) > 1:
            groups.append(members)
    rows = None
    if problem.interference is not None:
        rows = tuple(sum(1 << rank[j] for j in problem.interference.neighbours(i) if j in rank) for i in blocks)
        if rows == overlap_rows(lower, upper) and all(map(int.__lt__, lower, upper)):
            rows = None
    for place, offset in pinned.items():
        if offset % chosen[place].alignment:
            raise PlanningError(
                f"block {chosen[place].name}",
                got=f"a companion at {offset}",
                need=f"a multiple of {chosen[place].alignment}",
            )
    return Instance(
        lower,
        upper,
        [block.reserved if problem.interference is not None or not block.empty else 0 for block in chosen],
        [block.alignment for block in chosen],
        pinned,
        tuple(groups),
        rows,
        [block.upper - block.lower for block in chosen],
    )


def sections(lower: list[int], upper: list[int]) -> tuple[list[int], list[int]]:
    """Lives in maximal sections: block `i` is alive in the sections `first[i] <= s < last[i]`."""
    events = sorted(
        [(moment, 0, i) for i, moment in enumerate(upper)] + [(moment, 1, i) for i, moment in enumerate(lower)]
    )
    first, last = [0] * len(lower), [0] * len(lower)
    section, grew = 0, False
    for _, birth, i in events:
        if birth:
            grew = True
            first[i] = section
            continue
        if grew:
            section, grew = section + 1, False
        last[i] = section
    return first, last


def overlap_rows(lower: list[int], upper: list[int]) -> tuple[int, ...]:
    """The rows of the graph in which blocks interfere where their lives overlap.

    An explicit graph equal to it needs no general solver: lives decide after all.
    """
    count = len(lower)
    births = sorted(range(count), key=lambda i: lower[i])
    deaths = sorted(range(count), key=lambda i: upper[i])
    dead = [0] * count
    gone, pointer = 0, 0
    for i in births:
        while pointer < count and upper[deaths[pointer]] <= lower[i]:
            gone |= 1 << deaths[pointer]
            pointer += 1
        dead[i] = gone
    rows = [0] * count
    born, pointer = 0, 0
    for i in deaths:
        while pointer < count and lower[births[pointer]] < upper[i]:
            born |= 1 << births[pointer]
            pointer += 1
        rows[i] = born & ~dead[i] & ~(1 << i)
    return tuple(rows)


def _split(memory: str, blocks: list[int], instance: Instance) -> list[Subproblem]:
    """Cut where no life crosses; a cut costs nothing and lets each side be planned alone."""
    order = sorted(range(instance.count), key=lambda i: instance.lower[i])
    parts: list[list[int]] = []
    reach = 0
    for i in order:
        if instance.lower[i] >= reach:
            parts.append([])
        parts[-1].append(i)
        reach = max(reach, instance.upper[i])
    if len(parts) == 1:
        return [Subproblem(memory, blocks, instance)]
    return [Subproblem(memory, [blocks[i] for i in sorted(part)], _slice(instance, sorted(part))) for part in parts]


def _slice(instance: Instance, members: list[int]) -> Instance:
    start = min(instance.lower[i] for i in members)
    return Instance(
        [instance.lower[i] - start for i in members],
        [instance.upper[i] - start for i in members],
        [instance.size[i] for i in members],
        [instance.alignment[i] for i in members],
        lifetime=[instance.lifetime[i] for i in members],
    )


def totals(instance: Instance) -> list[int]:
    """`totals[s]` = the bytes alive in section `s`."""
    change = [0] * (instance.steps + 1)
    for lower, upper, size in zip(instance.lower, instance.upper, instance.size, strict=True):
        change[lower] += size
        change[upper] -= size
    alive = 0
    return [alive := alive + step for step in change[:-1]]


def degrees(instance: Instance) -> list[int]:
    """How many blocks interfere with each: those born before it dies, less those dead before it is born."""
    if instance.rows is not None:
        return [row.bit_count() for row in instance.rows]
    lower, upper = instance.lower, instance.upper
    alive = [i for i in range(instance.count) if instance.size[i] and lower[i] < upper[i]]
    births, deaths = sorted(lower[i] for i in alive), sorted(upper[i] for i in alive)
    found = [0] * instance.count
    for i in alive:
        found[i] = bisect_left(births, upper[i]) - bisect_right(deaths, lower[i]) - 1
    return found


def conflicts(instance: Instance, effort: Effort | None = None) -> list[list[int]]:
    """`conflicts[i]` = the blocks that interfere with block `i`, ascending; raises `ExpiredError` at the deadline."""
    if instance.rows is not None:
        return [list(bits(row)) for row in instance.rows]
    found: list[list[int]] = [[] for _ in range(instance.count)]
    alive: list[int] = []
    for turn, i in enumerate(sorted(range(instance.count), key=lambda i: (instance.lower[i], i))):
        if effort is not None and turn % CHECK_EVERY == 0:
            effort.check()
        if not instance.size[i] or instance.lower[i] == instance.upper[i]:
            continue
        alive = [j for j in alive if instance.upper[j] > instance.lower[i]]
        for j in alive:
            found[j].append(i)
        found[i].extend(alive)
        alive.append(i)
    return [sorted(row) for row in found]
