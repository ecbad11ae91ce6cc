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

from nnc.planning.solvers.search_tree import (
    BARS,
    BLOCK,
    BLOCK_NOTE,
    BLOCKS_FROM,
    FIRST,
    FRAME,
    FULLEST,
    LAST,
    NEXT,
    NONE,
    PART,
    PART_OF,
    PARTS_FROM,
    SECTION_NOTE,
    SECTIONS_FROM,
    WORD,
    SearchTree,
)

FOUND, REFUTED, STOPPED, FULL = range(4)
NEVER = 1 << 62


def grow(s: SearchTree, limit: int) -> int:
    """Go on until a plan is found, all is refuted, `limit` blocks have been placed in all, or the notes are full.

    Behind `most_leans` nothing is refuted any more: the search stops where it is.
    """
    settle(s)
    while True:
        if s.alive == 1 and s.parts.now == NONE:
            return FOUND
        if s.undo.block_room - s.undo.block_notes_end < s.blocks.count * (BLOCK_NOTE + s.blocks.words):
            return FULL
        if s.undo.section_room - s.undo.section_notes_end < s.sections.count * SECTION_NOTE:
            return FULL
        if s.parts.room - s.parts.end < s.sections.count * PART:
            return FULL
        if s.alive == 1:
            block = choose_block(s)
            if is_out_of_order(s, block) == 1:
                blame(s, s.sections.topmost[s.blocks.lower[block]])
                bar(s, block)
            elif s.nodes >= limit:
                return STOPPED
            else:
                s.nodes += 1
                place(s, block)
        elif s.leans >= s.most_leans:
            return STOPPED
        else:
            block = take_back(s)
            if block == NONE:
                return REFUTED
            s.alive = 1
            bar(s, block)


def choose_block(s: SearchTree) -> int:
    """A block that is forced, or else the choice of the lowest section; of these the one with the fewest ways."""
    best, lowest = NONE, NEVER
    for section in range(s.parts.cells[s.parts.now + FIRST], s.parts.cells[s.parts.now + LAST]):
        block = s.sections.choice[section]
        if s.sections.total[section] > 0 and block != NONE:
            if s.sections.ways[section] == 1 and is_clear_below(s, block) == 1:
                return block
            if s.sections.low[section] < lowest:
                best, lowest = section, s.sections.low[section]
            elif s.sections.low[section] == lowest:
                more = s.sections.ways[section] - s.sections.ways[best]
                if more < 0 or (more == 0 and s.blocks.rank[block] < s.blocks.rank[s.sections.choice[best]]):
                    best = section
    return s.sections.choice[best]


def is_clear_below(s: SearchTree, block: int) -> int:
    """1 when nothing that is left can come to lie under the block, which may then be placed before lower ones."""
    for at in range(s.blocks.neighbour_from[block], s.blocks.neighbour_from[block + 1]):
        i = s.blocks.neighbours[at]
        if s.places.left[i] == 1 and s.places.least[i] + s.blocks.size[i] <= s.places.least[block]:
            return 0
    return 1


def is_out_of_order(s: SearchTree, block: int) -> int:
    """1 when the block would lie on one of the same life that has a higher rank: they could change places."""
    lower, upper, size, rank = s.blocks.lower, s.blocks.upper, s.blocks.size, s.blocks.rank
    under = s.sections.topmost[lower[block]]
    if under == NONE or rank[under] < rank[block]:
        return 0
    if lower[under] != lower[block] or upper[under] != upper[block]:
        return 0
    top = s.places.offset[under] + size[under]
    if s.blocks.alignment[under] != s.blocks.alignment[block] or top != s.places.least[block]:
        return 0
    return 1


def blame(s: SearchTree, block: int) -> int:
    """The conflict is with where the block was placed, alone."""
    for word in range(s.blocks.words):
        s.conflict[word] = 0
    s.conflict[s.places.level[block] // WORD] = 1 << s.places.level[block] % WORD
    return 0


def place(s: SearchTree, block: int) -> int:
    """Put the block on its ground, for good."""
    frame = s.undo.depth * FRAME
    s.undo.frames[frame + BLOCK] = block
    s.undo.frames[frame + PART_OF] = s.parts.now
    s.undo.frames[frame + BLOCKS_FROM] = s.undo.block_notes_end
    s.undo.frames[frame + SECTIONS_FROM] = s.undo.section_notes_end
    s.undo.frames[frame + PARTS_FROM] = s.parts.end
    s.undo.frames[frame + BARS] = s.bars
    s.places.level[block] = s.undo.depth
    s.undo.depth += 1
    s.undo.stamp += 1
    s.places.left[block] = 0
    s.places.offset[block] = s.places.least[block]
    for section in range(s.blocks.lower[block], s.blocks.upper[block]):
        note_section(s, section)
        s.sections.total[section] -= s.blocks.size[block]
        s.sections.topmost[section] = block
        change(s, section)
        leave(s, section, block)
    move_bridges(s, block, -1)
    lift_neighbours(s, block, s.places.least[block] + s.blocks.size[block])
    settle(s)
    if s.alive == 1:
        split(s, block)
    return 0


def leave(s: SearchTree, section: int, block: int) -> int:
    """The block is not left in the section: the last that is takes its slot."""
    s.rows.many[section] -= 1
    end = s.rows.crossing_from[section] + s.rows.many[section]
    last = s.rows.crossing[end]
    own = s.rows.slots_from[block] + section - s.blocks.lower[block]
    at = s.rows.slots[own]
    s.rows.crossing[at], s.rows.crossing[end] = last, block
    s.rows.slots[s.rows.slots_from[last] + section - s.blocks.lower[last]], s.rows.slots[own] = at, end
    return 0


def move_bridges(s: SearchTree, block: int, sign: int) -> int:
    """Count the block where it bridges the start of a section, or no longer."""
    for section in range(s.blocks.lower[block] + 1, s.blocks.upper[block]):
        s.sections.bridges[section] += sign
    return 0


def lift_neighbours(s: SearchTree, block: int, top: int) -> int:
    """Those that meet the block stand on it or higher; those that leaned on it look for another support."""
    for at in range(s.blocks.neighbour_from[block], s.blocks.neighbour_from[block + 1]):
        i = s.blocks.neighbours[at]
        if s.places.left[i] == 1:
            ground = align(s, i, top)
            if s.places.ground[i] < ground:
                note_block(s, i)
                s.places.ground[i] = ground
                if s.places.least[i] < ground:
                    stand_on(s, i, block)
                    rise(s, i, ground)
                elif s.places.least[i] == ground:
                    change_lowest(s, i)
            if s.bars > 0 and s.places.least[i] > s.places.ground[i] and is_borne(s, i, s.places.least[i]) == 0:
                lean(s, i, support(s, i))
    return 0


def stand_on(s: SearchTree, block: int, under: int) -> int:
    """The reasons why the block is above the placed one: where that is, and why there is no room under it."""
    why = block * s.blocks.words
    if s.blocks.size[block] > s.places.offset[under]:
        for word in range(s.blocks.words):
            s.places.why[why + word] = 0
    s.places.why[why + s.places.level[under] // WORD] |= 1 << s.places.level[under] % WORD
    return 0


def lean(s: SearchTree, block: int, place: int) -> int:
    """The block rests on one that is left, at `place` or higher, for the reasons of all that it could rest on lower."""
    if place <= s.places.least[block]:
        return 0
    s.leans += 1
    note_block(s, block)
    for at in range(s.blocks.neighbour_from[block], s.blocks.neighbour_from[block + 1]):
        i = s.blocks.neighbours[at]
        if s.blocks.size[i] < place:  # those that are not smaller cannot be lower
            if s.places.left[i] == 1:
                merge(s, block, i)
            else:
                s.places.why[block * s.blocks.words + s.places.level[i] // WORD] |= 1 << s.places.level[i] % WORD
    rise(s, block, place)
    return 0


def merge(s: SearchTree, block: int, other: int) -> int:
    """Add the reasons of the other block: no words beyond the depth have any."""
    why, to, of = s.places.why, block * s.blocks.words, other * s.blocks.words
    for word in range(s.undo.depth // WORD + 1):
        why[to + word] |= why[of + word]
    return 0


def align(s: SearchTree, block: int, place: int) -> int:
    """`place` rounded up to the alignment of the block."""
    return (place + s.blocks.alignment[block] - 1) // s.blocks.alignment[block] * s.blocks.alignment[block]


def support(s: SearchTree, block: int) -> int:
    """The lowest place on a block that is left: `min(least[j] + size[j])`, aligned; `NEVER` when there is none."""
    neighbours, left, least, size = s.blocks.neighbours, s.places.left, s.places.least, s.blocks.size
    lowest = NEVER
    for at in range(s.blocks.neighbour_from[block], s.blocks.neighbour_from[block + 1]):
        i = neighbours[at]
        if left[i] == 1 and least[i] + size[i] < lowest:
            lowest = least[i] + size[i]
    if lowest == NEVER:
        return NEVER
    return align(s, block, lowest)


def is_borne(s: SearchTree, block: int, place: int) -> int:
    """1 when one that is left ends at `place` or lower; the one that did so last is asked first.

    In a training step each of 1,256 blocks meets 715, and a node asks 1,650 times: that was four fifths of its time.
    """
    neighbours, left, least, size = s.blocks.neighbours, s.places.left, s.places.least, s.blocks.size
    bearer = s.places.bearer[block]
    if bearer != NONE and left[bearer] == 1 and least[bearer] + size[bearer] <= place:
        return 1
    for at in range(s.blocks.neighbour_from[block], s.blocks.neighbour_from[block + 1]):
        i = neighbours[at]
        if left[i] == 1 and least[i] + size[i] <= place:
            s.places.bearer[block] = i
            return 1
    return 0


def rise(s: SearchTree, block: int, place: int) -> int:
    """The block cannot be below `place`; the node is dead when that is too high."""
    if place <= s.places.least[block]:
        return 0
    if place > s.capacity - s.blocks.size[block]:
        s.alive = 0
        for word in range(s.blocks.words):
            s.conflict[word] = s.places.why[block * s.blocks.words + word]
        return 0
    note_block(s, block)
    change_lowest(s, block)
    s.places.least[block] = place
    if s.places.is_raised[block] == 0:
        s.places.is_raised[block] = 1
        s.places.raised[s.places.raised_end] = block
        s.places.raised_end += 1
    return 0


def change_lowest(s: SearchTree, block: int) -> int:
    """Look again at the sections in which the block is among the lowest."""
    low, place = s.sections.low, s.places.least[block]
    for section in range(s.blocks.lower[block], s.blocks.upper[block]):
        if low[section] == place:
            change(s, section)
    return 0


def change(s: SearchTree, section: int) -> int:
    """Look again at the section."""
    if s.sections.is_changed[section] == 0:
        s.sections.is_changed[section] = 1
        s.sections.changed[s.sections.changed_end] = section
        s.sections.changed_end += 1
    return 0


def settle(s: SearchTree) -> int:
    """Let those rise that lean on what rose, then look at all sections that changed.

    Only a block that was barred, and what came to lean on it, is without support: no bar, nothing to look for.
    """
    neighbours, left, least, ground = s.blocks.neighbours, s.places.left, s.places.least, s.places.ground
    while s.places.raised_end > 0:
        s.places.raised_end -= 1
        block = s.places.raised[s.places.raised_end]
        s.places.is_raised[block] = 0
        if s.leans >= s.most_leans:
            s.alive = 0
        if s.alive == 1 and s.bars > 0:
            top = s.places.least[block] + s.blocks.size[block]
            for at in range(s.blocks.neighbour_from[block], s.blocks.neighbour_from[block + 1]):
                i = neighbours[at]
                if ground[i] < least[i] and least[i] < top and left[i] == 1 and is_borne(s, i, least[i]) == 0:
                    lean(s, i, support(s, i))
    while s.sections.changed_end > 0:
        s.sections.changed_end -= 1
        section = s.sections.changed[s.sections.changed_end]
        s.sections.is_changed[section] = 0
        if s.alive == 1 and s.sections.total[section] > 0:
            look(s, section)
    return 0


def look(s: SearchTree, section: int) -> int:
    """Bring `low`, `choice` and `ways` of the section up to date; the node is dead if its bytes no longer fit."""
    crossing, least, ground, rank = s.rows.crossing, s.places.least, s.places.ground, s.blocks.rank
    low, second, count, leaning, best = NEVER, NEVER, 0, 0, NONE
    start = s.rows.crossing_from[section]
    for at in range(start, start + s.rows.many[section]):
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
    highest = s.capacity - s.sections.total[section]
    if low > highest:
        s.sections.deaths[section] += 1
        return die_of_all(s, start, start + s.rows.many[section])
    note_section(s, section)
    s.sections.low[section] = low
    s.sections.choice[section] = best
    s.sections.ways[section] = count + 1
    if leaning == 0 and second > highest and is_spent(s, section, low, highest) == 1:
        s.sections.ways[section] = count
    return 0


def die_of_all(s: SearchTree, start: int, end: int) -> int:
    """The node is dead, for the reasons of all blocks in these slots."""
    conflict, why, used = s.conflict, s.places.why, s.undo.depth // WORD + 1
    s.alive = 0
    for word in range(s.blocks.words):
        conflict[word] = 0
    for at in range(start, end):
        of = s.rows.crossing[at] * s.blocks.words
        for word in range(used):
            conflict[word] |= why[of + word]
    return 0


def is_spent(s: SearchTree, section: int, low: int, highest: int) -> int:
    """1 when none of the blocks at `low` may rise: each would have to go higher than the section can bear."""
    if low == highest:
        return 1
    start = s.rows.crossing_from[section]
    for at in range(start, start + s.rows.many[section]):
        i = s.rows.crossing[at]
        if s.places.least[i] == low and is_borne(s, i, highest // s.blocks.alignment[i] * s.blocks.alignment[i]) == 1:
            return 0
    return 1


def bar(s: SearchTree, block: int) -> int:
    """The block does not stand where it could: it and its equals beside it will rest on a block that is left."""
    neighbours, left, least, ground = s.blocks.neighbours, s.places.left, s.places.least, s.places.ground
    s.undo.stamp += 1
    s.bars += 1
    place = least[block]
    raise_off(s, block)
    for at in range(s.blocks.neighbour_from[block], s.blocks.neighbour_from[block + 1]):
        i = neighbours[at]
        if left[i] == 1 and least[i] == place and ground[i] == place and is_equal(s, block, i) == 1:
            note_block(s, i)
            merge(s, i, block)
            raise_off(s, i)
    settle(s)
    return 0


def raise_off(s: SearchTree, block: int) -> int:
    """The block rises from its ground onto one that is left."""
    note_block(s, block)
    for word in range(s.blocks.words):
        s.places.why[block * s.blocks.words + word] |= s.conflict[word]
    lean(s, block, max(support(s, block), align(s, block, s.places.least[block] + 1)))
    return 0


def is_equal(s: SearchTree, first: int, second: int) -> int:
    """1 when the blocks could stand for each other."""
    if s.blocks.lower[first] != s.blocks.lower[second] or s.blocks.upper[first] != s.blocks.upper[second]:
        return 0
    if s.blocks.size[first] != s.blocks.size[second] or s.blocks.alignment[first] != s.blocks.alignment[second]:
        return 0
    return 1


def take_back(s: SearchTree) -> int:
    """Undo the last decision among the reasons and all after it; the block that it had placed, `NONE` for none."""
    level = last_reason(s)
    if level == NONE:
        return NONE
    s.conflict[level // WORD] ^= 1 << level % WORD
    block = NONE
    while s.undo.depth > level:
        s.undo.depth -= 1
        frame = s.undo.depth * FRAME
        block = s.undo.frames[frame + BLOCK]
        s.places.left[block] = 1
        move_bridges(s, block, 1)
        for section in range(s.blocks.lower[block], s.blocks.upper[block]):
            s.rows.many[section] += 1
    frame = s.undo.depth * FRAME
    restore_blocks(s, s.undo.frames[frame + BLOCKS_FROM])
    restore_sections(s, s.undo.frames[frame + SECTIONS_FROM])
    s.parts.end = s.undo.frames[frame + PARTS_FROM]
    s.bars = s.undo.frames[frame + BARS]
    s.parts.now = s.undo.frames[frame + PART_OF]
    return block


def last_reason(s: SearchTree) -> int:
    """The latest decision in the conflict."""
    word = s.blocks.words - 1
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
    if s.undo.noted_block[block] != s.undo.stamp:
        s.undo.noted_block[block] = s.undo.stamp
        notes, why, of, at = s.undo.block_notes, s.places.why, block * s.blocks.words, s.undo.block_notes_end
        notes[at] = block
        notes[at + 1] = s.places.least[block]
        notes[at + 2] = s.places.ground[block]
        for word in range(s.blocks.words):
            notes[at + BLOCK_NOTE + word] = why[of + word]
        s.undo.block_notes_end += BLOCK_NOTE + s.blocks.words
    return 0


def restore_blocks(s: SearchTree, start: int) -> int:
    """Blocks as they were when the notes ended at `start`."""
    notes, why = s.undo.block_notes, s.places.why
    while s.undo.block_notes_end > start:
        s.undo.block_notes_end -= BLOCK_NOTE + s.blocks.words
        at = s.undo.block_notes_end
        block = notes[at]
        of = block * s.blocks.words
        for word in range(s.blocks.words):
            why[of + word] = notes[at + BLOCK_NOTE + word]
        s.places.least[block] = notes[at + 1]
        s.places.ground[block] = notes[at + 2]
    return 0


def note_section(s: SearchTree, section: int) -> int:
    """Keep what the section was before this decision."""
    if s.undo.noted_section[section] != s.undo.stamp:
        s.undo.noted_section[section] = s.undo.stamp
        at = s.undo.section_notes_end
        s.undo.section_notes[at] = section
        s.undo.section_notes[at + 1] = s.sections.total[section]
        s.undo.section_notes[at + 2] = s.sections.low[section]
        s.undo.section_notes[at + 3] = s.sections.choice[section]
        s.undo.section_notes[at + 4] = s.sections.ways[section]
        s.undo.section_notes[at + 5] = s.sections.topmost[section]
        s.undo.section_notes_end += SECTION_NOTE
    return 0


def restore_sections(s: SearchTree, start: int) -> int:
    """Sections as they were when the notes ended at `start`."""
    while s.undo.section_notes_end > start:
        s.undo.section_notes_end -= SECTION_NOTE
        at = s.undo.section_notes_end
        section = s.undo.section_notes[at]
        s.sections.total[section] = s.undo.section_notes[at + 1]
        s.sections.low[section] = s.undo.section_notes[at + 2]
        s.sections.choice[section] = s.undo.section_notes[at + 3]
        s.sections.ways[section] = s.undo.section_notes[at + 4]
        s.sections.topmost[section] = s.undo.section_notes[at + 5]
    return 0


def split(s: SearchTree, block: int) -> int:
    """Where placing the block left sections that nothing crosses into, its part falls apart there."""
    first, total, bridges = s.parts.cells[s.parts.now + FIRST], s.sections.total, s.sections.bridges
    for section in range(s.blocks.lower[block], s.blocks.upper[block]):
        if total[section] == 0 or (section > first and bridges[section] == 0):
            return cut(s)
    return 0


def cut(s: SearchTree) -> int:
    """Search the pieces of the part at hand one by one, the fullest first, then what was to follow it."""
    last, following = s.parts.cells[s.parts.now + LAST], s.parts.cells[s.parts.now + NEXT]
    start = s.parts.end
    section = s.parts.cells[s.parts.now + FIRST]
    while section < last:
        if s.sections.total[section] == 0:
            section += 1
        else:
            section = add_piece(s, section, last)
    if s.parts.end - start == PART:
        s.parts.cells[start + NEXT] = following
        s.parts.now = start
        return 0
    piece = emptiest(s, start)
    while piece != NONE:
        s.parts.cells[piece + NEXT] = following
        s.parts.cells[piece + FULLEST] = NEVER
        following = piece
        piece = emptiest(s, start)
    s.parts.now = following
    return 0


def add_piece(s: SearchTree, first: int, last: int) -> int:
    """A part from section `first` to the next that no block crosses into; where that is."""
    section, fullest = first, 0
    while section < last and s.sections.total[section] > 0 and (section == first or s.sections.bridges[section] > 0):
        fullest = max(fullest, s.sections.total[section])
        section += 1
    s.parts.cells[s.parts.end + FIRST] = first
    s.parts.cells[s.parts.end + LAST] = section
    s.parts.cells[s.parts.end + FULLEST] = fullest
    s.parts.end += PART
    return section


def emptiest(s: SearchTree, start: int) -> int:
    """Of the pieces from `start` on that are not in line yet, the one with the fewest bytes; `NONE` for none."""
    best, fewest = NONE, NEVER
    piece = start
    while piece < s.parts.end:
        if s.parts.cells[piece + FULLEST] < fewest:
            best, fewest = piece, s.parts.cells[piece + FULLEST]
        piece += PART
    return best
