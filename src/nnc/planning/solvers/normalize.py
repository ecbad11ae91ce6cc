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
    """The blocks of one memory as solvers see them: lives in sections, companions and pins by place."""
    chosen = [problem.blocks[i] for i in blocks]
    lower, upper = sections([block.lower for block in chosen], [block.upper for block in chosen])
    groups, pinned = _companions(problem, blocks)
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
        groups,
        _interference_rows(problem, blocks, lower, upper),
        [block.upper - block.lower for block in chosen],
    )


def _companions(problem: Problem, blocks: list[int]) -> tuple[tuple[tuple[int, ...], ...], dict[int, int]]:
    """Groups of blocks with one offset, and the offsets that are given: a pinned block pins its companions."""
    place_of = {block: place for place, block in enumerate(blocks)}
    offsets = ((place, problem.blocks[block].offset) for place, block in enumerate(blocks))
    pinned = {place: offset for place, offset in offsets if offset is not None}
    groups = []
    for group in problem.companions:
        members = tuple(place_of[i] for i in group if i in place_of)
        offset = next((pinned[place] for place in members if place in pinned), None)
        if offset is not None:
            pinned.update(dict.fromkeys(members, offset))
        if len(members) > 1:
            groups.append(members)
    return tuple(groups), pinned


def _interference_rows(
    problem: Problem, blocks: list[int], lower: list[int], upper: list[int]
) -> tuple[int, ...] | None:
    """Who interferes with whom, as bits; None where lives decide, also if an explicit graph says the same."""
    if problem.interference is None:
        return None
    place_of = {block: place for place, block in enumerate(blocks)}
    rows = tuple(sum(1 << place_of[j] for j in problem.interference.neighbours(i) if j in place_of) for i in blocks)
    lives_decide = rows == overlap_rows(lower, upper) and all(map(int.__lt__, lower, upper))
    return None if lives_decide else rows


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
    counts = [0] * instance.count
    for i in alive:
        counts[i] = bisect_left(births, upper[i]) - bisect_right(deaths, lower[i]) - 1
    return counts


def conflicts(instance: Instance, effort: Effort | None = None) -> list[list[int]]:
    """`conflicts[i]` = the blocks that interfere with block `i`, ascending; raises `ExpiredError` at the deadline.

    They are listed once for an instance, and nobody changes them.
    """
    if not instance.neighbours:
        instance.neighbours.extend(_listed(instance, effort))
    return instance.neighbours


def _listed(instance: Instance, effort: Effort | None) -> list[list[int]]:
    if instance.rows is not None:
        return [list(bits(row)) for row in instance.rows]
    neighbours: list[list[int]] = [[] for _ in range(instance.count)]
    alive: list[int] = []
    for turn, i in enumerate(sorted(range(instance.count), key=lambda i: (instance.lower[i], i))):
        if effort is not None and turn % CHECK_EVERY == 0:
            effort.check()
        if not instance.size[i] or instance.lower[i] == instance.upper[i]:
            continue
        alive = [j for j in alive if instance.upper[j] > instance.lower[i]]
        for j in alive:
            neighbours[j].append(i)
        neighbours[i].extend(alive)
        alive.append(i)
    return [sorted(row) for row in neighbours]
