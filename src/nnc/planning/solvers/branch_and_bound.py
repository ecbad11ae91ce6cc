"""Exact search by branch and bound: is there a plan within a capacity?

A plan is canonical if no block can sink: each stands on the ground or on a block under it. Every plan sinks into a
canonical one, so only these are searched. A node is known by two numbers per block that is left:

    ground[i] = max(top[j] for placed j that meet i)        least[i] >= ground[i]: no plan of this node has i lower

A decision takes a supported block (`least == ground`): first it is placed there for good, and where that is refuted
it is barred from there: it will stand on a block that is left, so `least[i] >= min(least[j] + size[j])` over these.
The rules that cut the tree:

    section bound      low[s] + total[s] > capacity, where low[s] = min(least) and total[s] the bytes left in section s
    support            a block that is not supported rests on one that is left; when that one rises, so does it
    forced             a section that cannot spare another byte and has one supported block at `low` takes that first
    lowest first       otherwise the lowest section is decided, so that nothing can come to lie under what is placed
    equal blocks       where one is refuted, so are those of the same life, size and alignment that stand beside it
    equal lives        of two blocks of one life that lie on each other, the lower one has the lower rank
    parts              where no block that is left crosses, the rest falls into parts that are searched one by one
    backjumping        a node that died did so for reasons, the decisions that its `least` follow from; the search
                       returns to the last of them, past all decisions that have nothing to do with it

Of four decisions in a row three were about other sections than the one that dies: of 49 planted problems that 5 s did
not solve without backjumping, 3 s with it solve 15. Reasons are sets of decisions, bits of the row `why[i]` of words:

    placed             `least[i]` is the top of what decision d placed: d, and why `i` cannot lie under it
    barred             why it was refuted at its ground, that it leans on what is left, and the next line
    leaning            the reasons of each that is left, and the decision of each that is placed, that it might rest on
    section bound      the reasons of all blocks that are left in the section

All state is integers and flat arrays of them, so that `grow` can be translated to native code as it stands.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import field
from itertools import accumulate, chain
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.normalize import conflicts, totals

Cells: TypeAlias = "array[int]"

FOUND, REFUTED, STOPPED, FULL = range(4)
NONE = -1
NEVER = 1 << 62
BLOCK, PART_OF, BLOCKS_FROM, SECTIONS_FROM, PARTS_FROM, BARS = range(6)
FRAME = 6  # cells of a frame: a block placed, where what it changed begins, the bars before it
FIRST, LAST, NEXT, FULLEST = range(4)
PART = 4  # cells of a part: its sections, the part to search after it, its most bytes
BLOCK_NOTE = 3  # block, least, ground; then the words of its reasons
WORD = 62  # bits of a set of decisions in one cell
SECTION_NOTE = 6  # section, total, low, choice, ways, topmost


@dataclass(slots=True)
class SearchTree:
    """An instance, what is known at the node that the search is at, and the way back from there.

    The first `many[s]` cells of a section's row of `crossing` are the blocks that are left in it; `slots` says where
    in these rows a block is, one cell per section of its life. What is placed changes places with the last one left,
    so that taking it back is no more than counting it again.
    `why` has a row of `words` cells per block, `level[i]` is the decision that placed it; `deaths[s]` counts, over all
    searches of the tree, the nodes that died in the section.
    `choice[s]` is the first supported block at `low[s]` by rank, `ways[s]` how many there are, plus one where the
    section can do without; `topmost[s]` was placed last; `bridges[s]` blocks left live on both sides of its start.
    """

    lower: Cells
    upper: Cells
    size: Cells
    alignment: Cells
    neighbour_from: Cells
    neighbours: Cells
    crossing_from: Cells
    crossing: Cells
    slots_from: Cells
    slots: Cells
    many: Cells
    rank: Cells
    least: Cells
    ground: Cells
    left: Cells
    offset: Cells
    total: Cells
    low: Cells
    choice: Cells
    ways: Cells
    topmost: Cells
    bridges: Cells
    raised: Cells
    is_raised: Cells
    changed: Cells
    is_changed: Cells
    deaths: Cells
    noted_block: Cells
    noted_section: Cells
    block_notes: Cells
    section_notes: Cells
    frames: Cells
    parts: Cells
    why: Cells
    conflict: Cells
    level: Cells
    count: int = field(default=0, init=False)
    sections: int = field(default=0, init=False)
    capacity: int = field(default=0, init=False)
    nodes: int = field(default=0, init=False)
    alive: int = field(default=0, init=False)
    part: int = field(default=0, init=False)
    words: int = field(default=0, init=False)
    bars: int = field(default=0, init=False)
    depth: int = field(default=0, init=False)
    stamp: int = field(default=0, init=False)
    raised_end: int = field(default=0, init=False)
    changed_end: int = field(default=0, init=False)
    block_notes_end: int = field(default=0, init=False)
    section_notes_end: int = field(default=0, init=False)
    parts_end: int = field(default=0, init=False)
    block_room: int = field(default=0, init=False)
    section_room: int = field(default=0, init=False)
    part_room: int = field(default=0, init=False)


# ---- what is translated


def grow(s: SearchTree, limit: int) -> int:
    """Go on until a plan is found, all is refuted, `limit` blocks have been placed in all, or the notes are full."""
    settle(s)
    while True:
        if s.alive == 1 and s.part == NONE:
            return FOUND
        if s.block_room - s.block_notes_end < s.count * (BLOCK_NOTE + s.words):
            return FULL
        if s.section_room - s.section_notes_end < s.sections * SECTION_NOTE:
            return FULL
        if s.part_room - s.parts_end < s.sections * PART:
            return FULL
        if s.alive == 1:
            block = choose_block(s)
            if is_out_of_order(s, block) == 1:
                blame(s, s.topmost[s.lower[block]])
                bar(s, block)
            elif s.nodes >= limit:
                return STOPPED
            else:
                s.nodes += 1
                place(s, block)
        else:
            block = take_back(s)
            if block == NONE:
                return REFUTED
            s.alive = 1
            bar(s, block)


def choose_block(s: SearchTree) -> int:
    """A block that is forced, or else the choice of the lowest section; of these the one with the fewest ways."""
    best, lowest = NONE, NEVER
    for section in range(s.parts[s.part + FIRST], s.parts[s.part + LAST]):
        block = s.choice[section]
        if s.total[section] > 0 and block != NONE:
            if s.ways[section] == 1 and is_clear_below(s, block) == 1:
                return block
            if s.low[section] < lowest:
                best, lowest = section, s.low[section]
            elif s.low[section] == lowest:
                more = s.ways[section] - s.ways[best]
                if more < 0 or (more == 0 and s.rank[block] < s.rank[s.choice[best]]):
                    best = section
    return s.choice[best]


def is_clear_below(s: SearchTree, block: int) -> int:
    """1 when nothing that is left can come to lie under the block, which may then be placed before lower ones."""
    for at in range(s.neighbour_from[block], s.neighbour_from[block + 1]):
        i = s.neighbours[at]
        if s.left[i] == 1 and s.least[i] + s.size[i] <= s.least[block]:
            return 0
    return 1


def is_out_of_order(s: SearchTree, block: int) -> int:
    """1 when the block would lie on one of the same life that has a higher rank: they could change places."""
    under = s.topmost[s.lower[block]]
    if under == NONE or s.rank[under] < s.rank[block]:
        return 0
    if s.lower[under] != s.lower[block] or s.upper[under] != s.upper[block]:
        return 0
    if s.alignment[under] != s.alignment[block] or s.offset[under] + s.size[under] != s.least[block]:
        return 0
    return 1


def blame(s: SearchTree, block: int) -> int:
    """The conflict is with where the block was placed, alone."""
    for word in range(s.words):
        s.conflict[word] = 0
    s.conflict[s.level[block] // WORD] = 1 << s.level[block] % WORD
    return 0


def place(s: SearchTree, block: int) -> int:
    """Put the block on its ground, for good."""
    frame = s.depth * FRAME
    s.frames[frame + BLOCK] = block
    s.frames[frame + PART_OF] = s.part
    s.frames[frame + BLOCKS_FROM] = s.block_notes_end
    s.frames[frame + SECTIONS_FROM] = s.section_notes_end
    s.frames[frame + PARTS_FROM] = s.parts_end
    s.frames[frame + BARS] = s.bars
    s.level[block] = s.depth
    s.depth += 1
    s.stamp += 1
    s.left[block] = 0
    s.offset[block] = s.least[block]
    for section in range(s.lower[block], s.upper[block]):
        note_section(s, section)
        s.total[section] -= s.size[block]
        s.topmost[section] = block
        change(s, section)
        leave(s, section, block)
    move_bridges(s, block, -1)
    lift_neighbours(s, block, s.least[block] + s.size[block])
    settle(s)
    if s.alive == 1:
        split(s, block)
    return 0


def leave(s: SearchTree, section: int, block: int) -> int:
    """The block is not left in the section: the last that is takes its slot."""
    s.many[section] -= 1
    end = s.crossing_from[section] + s.many[section]
    last = s.crossing[end]
    own = s.slots_from[block] + section - s.lower[block]
    at = s.slots[own]
    s.crossing[at], s.crossing[end] = last, block
    s.slots[s.slots_from[last] + section - s.lower[last]], s.slots[own] = at, end
    return 0


def move_bridges(s: SearchTree, block: int, sign: int) -> int:
    """Count the block where it bridges the start of a section, or no longer."""
    for section in range(s.lower[block] + 1, s.upper[block]):
        s.bridges[section] += sign
    return 0


def lift_neighbours(s: SearchTree, block: int, top: int) -> int:
    """Those that meet the block stand on it or higher; those that leaned on it look for another support."""
    for at in range(s.neighbour_from[block], s.neighbour_from[block + 1]):
        i = s.neighbours[at]
        if s.left[i] == 1:
            ground = align(s, i, top)
            if s.ground[i] < ground:
                note_block(s, i)
                s.ground[i] = ground
                if s.least[i] < ground:
                    stand_on(s, i, block)
                    rise(s, i, ground)
                elif s.least[i] == ground:
                    change_lowest(s, i)
            if s.bars > 0 and s.least[i] > s.ground[i]:
                lean(s, i, support(s, i))
    return 0


def stand_on(s: SearchTree, block: int, under: int) -> int:
    """The reasons why the block is above the placed one: where that is, and why there is no room under it."""
    why = block * s.words
    if s.size[block] > s.offset[under]:
        for word in range(s.words):
            s.why[why + word] = 0
    s.why[why + s.level[under] // WORD] |= 1 << s.level[under] % WORD
    return 0


def lean(s: SearchTree, block: int, place: int) -> int:
    """The block rests on one that is left, at `place` or higher, for the reasons of all that it could rest on lower."""
    if place <= s.least[block]:
        return 0
    note_block(s, block)
    for at in range(s.neighbour_from[block], s.neighbour_from[block + 1]):
        i = s.neighbours[at]
        if s.size[i] < place:  # those that are not smaller cannot be lower
            if s.left[i] == 1:
                merge(s, block, i)
            else:
                s.why[block * s.words + s.level[i] // WORD] |= 1 << s.level[i] % WORD
    rise(s, block, place)
    return 0


def merge(s: SearchTree, block: int, other: int) -> int:
    """Add the reasons of the other block."""
    to, of = block * s.words, other * s.words
    for word in range(s.words):
        s.why[to + word] |= s.why[of + word]
    return 0


def align(s: SearchTree, block: int, place: int) -> int:
    """`place` rounded up to the alignment of the block."""
    return (place + s.alignment[block] - 1) // s.alignment[block] * s.alignment[block]


def support(s: SearchTree, block: int) -> int:
    """The lowest place on a block that is left: `min(least[j] + size[j])`, aligned; `NEVER` when there is none."""
    neighbours, left, least, size = s.neighbours, s.left, s.least, s.size
    lowest = NEVER
    for at in range(s.neighbour_from[block], s.neighbour_from[block + 1]):
        i = neighbours[at]
        if left[i] == 1 and least[i] + size[i] < lowest:
            lowest = least[i] + size[i]
    if lowest == NEVER:
        return NEVER
    return align(s, block, lowest)


def rise(s: SearchTree, block: int, place: int) -> int:
    """The block cannot be below `place`; the node is dead when that is too high."""
    if place <= s.least[block]:
        return 0
    if place > s.capacity - s.size[block]:
        s.alive = 0
        for word in range(s.words):
            s.conflict[word] = s.why[block * s.words + word]
        return 0
    note_block(s, block)
    change_lowest(s, block)
    s.least[block] = place
    if s.is_raised[block] == 0:
        s.is_raised[block] = 1
        s.raised[s.raised_end] = block
        s.raised_end += 1
    return 0


def change_lowest(s: SearchTree, block: int) -> int:
    """Look again at the sections in which the block is among the lowest."""
    low, place = s.low, s.least[block]
    for section in range(s.lower[block], s.upper[block]):
        if low[section] == place:
            change(s, section)
    return 0


def change(s: SearchTree, section: int) -> int:
    """Look again at the section."""
    if s.is_changed[section] == 0:
        s.is_changed[section] = 1
        s.changed[s.changed_end] = section
        s.changed_end += 1
    return 0


def settle(s: SearchTree) -> int:
    """Let those rise that lean on what rose, then look at all sections that changed.

    Only a block that was barred, and what came to lean on it, is without support: no bar, nothing to look for.
    """
    neighbours, left, least, ground = s.neighbours, s.left, s.least, s.ground
    while s.raised_end > 0:
        s.raised_end -= 1
        block = s.raised[s.raised_end]
        s.is_raised[block] = 0
        if s.alive == 1 and s.bars > 0:
            top = s.least[block] + s.size[block]
            for at in range(s.neighbour_from[block], s.neighbour_from[block + 1]):
                i = neighbours[at]
                if ground[i] < least[i] and least[i] < top and left[i] == 1:
                    lean(s, i, support(s, i))
    while s.changed_end > 0:
        s.changed_end -= 1
        section = s.changed[s.changed_end]
        s.is_changed[section] = 0
        if s.alive == 1 and s.total[section] > 0:
            look(s, section)
    return 0


def look(s: SearchTree, section: int) -> int:
    """Bring `low`, `choice` and `ways` of the section up to date; the node is dead if its bytes no longer fit."""
    crossing, least, ground, rank = s.crossing, s.least, s.ground, s.rank
    low, second, count, leaning, best = NEVER, NEVER, 0, 0, NONE
    start = s.crossing_from[section]
    for at in range(start, start + s.many[section]):
        i = crossing[at]
        place = least[i]
        if place > low:
            if place < second:
                second = place
            continue
        if place < low:
            second, low, count, leaning, best = low, place, 0, 0, NONE
        if ground[i] < place:
            leaning = 1
        else:
            count += 1
            if best == NONE or rank[i] < rank[best]:
                best = i
    highest = s.capacity - s.total[section]
    if low > highest:
        s.deaths[section] += 1
        return die_of_all(s, start, start + s.many[section])
    note_section(s, section)
    s.low[section] = low
    s.choice[section] = best
    s.ways[section] = count + 1
    if leaning == 0 and second > highest and is_spent(s, section, low, highest) == 1:
        s.ways[section] = count
    return 0


def die_of_all(s: SearchTree, start: int, end: int) -> int:
    """The node is dead, for the reasons of all blocks in these slots."""
    s.alive = 0
    for word in range(s.words):
        reasons = 0
        for at in range(start, end):
            reasons |= s.why[s.crossing[at] * s.words + word]
        s.conflict[word] = reasons
    return 0


def is_spent(s: SearchTree, section: int, low: int, highest: int) -> int:
    """1 when none of the blocks at `low` may rise: each would have to go higher than the section can bear."""
    if low == highest:
        return 1
    start = s.crossing_from[section]
    for at in range(start, start + s.many[section]):
        i = s.crossing[at]
        if s.least[i] == low and support(s, i) <= highest:
            return 0
    return 1


def bar(s: SearchTree, block: int) -> int:
    """The block does not stand where it could: it and its equals beside it will rest on a block that is left."""
    s.stamp += 1
    s.bars += 1
    place = s.least[block]
    raise_off(s, block)
    for at in range(s.neighbour_from[block], s.neighbour_from[block + 1]):
        i = s.neighbours[at]
        if s.left[i] == 1 and s.least[i] == place and s.ground[i] == place and is_equal(s, block, i) == 1:
            note_block(s, i)
            merge(s, i, block)
            raise_off(s, i)
    settle(s)
    return 0


def raise_off(s: SearchTree, block: int) -> int:
    """The block rises from its ground onto one that is left."""
    note_block(s, block)
    for word in range(s.words):
        s.why[block * s.words + word] |= s.conflict[word]
    lean(s, block, max(support(s, block), align(s, block, s.least[block] + 1)))
    return 0


def is_equal(s: SearchTree, one: int, other: int) -> int:
    """1 when the blocks could stand for each other."""
    if s.lower[one] != s.lower[other] or s.upper[one] != s.upper[other]:
        return 0
    if s.size[one] != s.size[other] or s.alignment[one] != s.alignment[other]:
        return 0
    return 1


def take_back(s: SearchTree) -> int:
    """Undo the last decision among the reasons and all after it; the block that it had placed, `NONE` for none."""
    level = last_reason(s)
    if level == NONE:
        return NONE
    s.conflict[level // WORD] ^= 1 << level % WORD
    block = NONE
    while s.depth > level:
        s.depth -= 1
        frame = s.depth * FRAME
        block = s.frames[frame + BLOCK]
        s.left[block] = 1
        move_bridges(s, block, 1)
        for section in range(s.lower[block], s.upper[block]):
            s.many[section] += 1
    frame = s.depth * FRAME
    restore_blocks(s, s.frames[frame + BLOCKS_FROM])
    restore_sections(s, s.frames[frame + SECTIONS_FROM])
    s.parts_end = s.frames[frame + PARTS_FROM]
    s.bars = s.frames[frame + BARS]
    s.part = s.frames[frame + PART_OF]
    return block


def last_reason(s: SearchTree) -> int:
    """The latest decision in the conflict."""
    word = s.words - 1
    while word >= 0 and s.conflict[word] == 0:
        word -= 1
    if word < 0:
        return NONE
    bit, reasons = 0, s.conflict[word]
    while reasons > 1:
        reasons = reasons >> 1
        bit += 1
    return word * WORD + bit


def note_block(s: SearchTree, block: int) -> int:
    """Keep what the block was before this decision."""
    if s.noted_block[block] != s.stamp:
        s.noted_block[block] = s.stamp
        at = s.block_notes_end
        s.block_notes[at] = block
        s.block_notes[at + 1] = s.least[block]
        s.block_notes[at + 2] = s.ground[block]
        for word in range(s.words):
            s.block_notes[at + BLOCK_NOTE + word] = s.why[block * s.words + word]
        s.block_notes_end += BLOCK_NOTE + s.words
    return 0


def restore_blocks(s: SearchTree, start: int) -> int:
    """Blocks as they were when the notes ended at `start`."""
    while s.block_notes_end > start:
        s.block_notes_end -= BLOCK_NOTE + s.words
        at = s.block_notes_end
        for word in range(s.words):
            s.why[s.block_notes[at] * s.words + word] = s.block_notes[at + BLOCK_NOTE + word]
        s.least[s.block_notes[at]] = s.block_notes[at + 1]
        s.ground[s.block_notes[at]] = s.block_notes[at + 2]
    return 0


def note_section(s: SearchTree, section: int) -> int:
    """Keep what the section was before this decision."""
    if s.noted_section[section] != s.stamp:
        s.noted_section[section] = s.stamp
        at = s.section_notes_end
        s.section_notes[at] = section
        s.section_notes[at + 1] = s.total[section]
        s.section_notes[at + 2] = s.low[section]
        s.section_notes[at + 3] = s.choice[section]
        s.section_notes[at + 4] = s.ways[section]
        s.section_notes[at + 5] = s.topmost[section]
        s.section_notes_end += SECTION_NOTE
    return 0


def restore_sections(s: SearchTree, start: int) -> int:
    """Sections as they were when the notes ended at `start`."""
    while s.section_notes_end > start:
        s.section_notes_end -= SECTION_NOTE
        at = s.section_notes_end
        section = s.section_notes[at]
        s.total[section] = s.section_notes[at + 1]
        s.low[section] = s.section_notes[at + 2]
        s.choice[section] = s.section_notes[at + 3]
        s.ways[section] = s.section_notes[at + 4]
        s.topmost[section] = s.section_notes[at + 5]
    return 0


def split(s: SearchTree, block: int) -> int:
    """Where placing the block left sections that nothing crosses into, its part falls apart there."""
    for section in range(s.lower[block], s.upper[block]):
        if s.total[section] == 0 or (section > s.parts[s.part + FIRST] and s.bridges[section] == 0):
            return cut(s)
    return 0


def cut(s: SearchTree) -> int:
    """Search the pieces of the part at hand one by one, the fullest first, then what was to follow it."""
    last, following = s.parts[s.part + LAST], s.parts[s.part + NEXT]
    start = s.parts_end
    section = s.parts[s.part + FIRST]
    while section < last:
        if s.total[section] == 0:
            section += 1
        else:
            section = add_piece(s, section, last)
    if s.parts_end - start == PART:
        s.parts[start + NEXT] = following
        s.part = start
        return 0
    piece = emptiest(s, start)
    while piece != NONE:
        s.parts[piece + NEXT] = following
        s.parts[piece + FULLEST] = NEVER
        following = piece
        piece = emptiest(s, start)
    s.part = following
    return 0


def add_piece(s: SearchTree, first: int, last: int) -> int:
    """A part from section `first` to the next that no block crosses into; where that is."""
    section, fullest = first, 0
    while section < last and s.total[section] > 0 and (section == first or s.bridges[section] > 0):
        fullest = max(fullest, s.total[section])
        section += 1
    s.parts[s.parts_end + FIRST] = first
    s.parts[s.parts_end + LAST] = section
    s.parts[s.parts_end + FULLEST] = fullest
    s.parts_end += PART
    return section


def emptiest(s: SearchTree, start: int) -> int:
    """Of the pieces from `start` on that are not in line yet, the one with the fewest bytes; `NONE` for none."""
    best, fewest = NONE, NEVER
    piece = start
    while piece < s.parts_end:
        if s.parts[piece + FULLEST] < fewest:
            best, fewest = piece, s.parts[piece + FULLEST]
        piece += PART
    return best


# ---- what is not


def make_tree(instance: Instance, effort: Effort | None = None) -> SearchTree:
    """The tree of a plain instance; `plant` sets it up for each search. Raises `ExpiredError` at the deadline."""
    count, sections = instance.count, instance.steps
    crossing: list[list[int]] = [[] for _ in range(sections)]
    for i in range(count):
        for section in range(instance.lower[i], instance.upper[i]):
            crossing[section].append(i)
    lives = [upper - lower for lower, upper in zip(instance.lower, instance.upper, strict=True)]
    of_blocks = ("rank", "least", "ground", "left", "offset", "raised", "is_raised", "noted_block")
    of_sections = (
        "many",
        "low",
        "choice",
        "ways",
        "topmost",
        "bridges",
        "changed",
        "is_changed",
        "deaths",
        "noted_section",
    )
    words = count // WORD + 1
    sizes = {
        **dict.fromkeys(of_blocks, count),
        **dict.fromkeys(of_sections, sections + 1),
        "slots": sum(lives),
        "frames": (count + 1) * FRAME,
        "block_notes": 4 * count * (BLOCK_NOTE + words),
        "section_notes": 4 * sections * SECTION_NOTE,
        "parts": 2 * (sections + 1) * PART,
        "why": count * words,
        "conflict": words,
        "level": count,
    }
    cells = {name: array("q", bytes(8 * many)) for name, many in sizes.items()}
    for name in ("lower", "upper", "size", "alignment"):
        cells[name] = array("q", getattr(instance, name))
    cells["total"] = array("q", totals(instance))
    cells["neighbour_from"], cells["neighbours"] = _rows(conflicts(instance, effort))
    cells["crossing_from"], cells["crossing"] = _rows(crossing)
    cells["slots_from"] = array("q", accumulate(lives, initial=0))
    tree = SearchTree(**cells)
    tree.count, tree.sections, tree.words = count, sections, words
    for i in range(count):
        move_bridges(tree, i, 1)
    for section, row in enumerate(crossing):
        tree.many[section] = len(row)
        for place, i in enumerate(row, tree.crossing_from[section]):
            tree.slots[tree.slots_from[i] + section - tree.lower[i]] = place
    _measure(tree)
    return tree


def _rows(rows: Sequence[Sequence[int]]) -> tuple[Cells, Cells]:
    """Where each row begins, and all rows in one."""
    return array("q", accumulate(map(len, rows), initial=0)), array("q", chain.from_iterable(rows))


def _measure(tree: SearchTree) -> None:
    """How many cells the notes have."""
    tree.block_room, tree.section_room = len(tree.block_notes), len(tree.section_notes)
    tree.part_room = len(tree.parts)


def extend(tree: SearchTree) -> None:
    """Twice the room for notes, so that a search that was full can go on where it stopped."""
    for notes in (tree.block_notes, tree.section_notes, tree.parts):
        notes.extend(notes)
    _measure(tree)


def plant(tree: SearchTree, order: Sequence[int], capacity: int) -> None:
    """Set the tree up for a search within `capacity` that prefers blocks early in `order`: nothing is placed."""
    count, sections = tree.count, tree.sections
    for i in tree.frames[BLOCK : tree.depth * FRAME : FRAME]:
        move_bridges(tree, i, 1)
        for section in range(tree.lower[i], tree.upper[i]):
            tree.total[section] += tree.size[i]
            tree.many[section] += 1
    zeros = array("q", bytes(8 * max(count, sections + 1)))
    for column in (tree.least, tree.ground, tree.noted_block):
        column[:] = zeros[:count]
    for column in (tree.low, tree.ways, tree.noted_section):
        column[:] = zeros[: sections + 1]
    tree.left[:] = array("q", [1]) * count
    tree.topmost[:] = tree.choice[:] = array("q", [NONE]) * (sections + 1)
    for place, block in enumerate(order):
        tree.rank[block] = place
    tree.capacity, tree.nodes, tree.alive, tree.stamp, tree.bars = capacity, 0, 1, 1, 0
    tree.depth = tree.block_notes_end = tree.section_notes_end = 0
    tree.why[:] = array("q", bytes(8 * count * tree.words))
    tree.part, tree.parts_end = 0, PART
    tree.parts[:PART] = array("q", (0, sections, NONE, 0))
    for section in range(sections):
        change(tree, section)
