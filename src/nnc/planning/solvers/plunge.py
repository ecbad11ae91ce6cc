"""The dive of `search` on flat arrays of integers, so that it can be translated to native code as it stands.

The same tree is searched in the same order; only the memory of refuted rests differs: a rest is known by the blocks
that are left and their places, whatever part it is in. A `Board` is all its state: `plunge` goes on where it stopped.

A part is a row of `PART` cells, a frame a row of `FRAME`: the part, the block taken, and where its choices, undo
entries, member lists and waiting parts begin. What a frame added on these stacks goes when its block is given back.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TypeAlias

from nnc.planning.solvers.tables import Tables, ranked

Cells: TypeAlias = "array[int]"

FOUND, REFUTED, STOPPED = 0, 1, 2
NONE = -1
NEVER = 1 << 62
START, MANY, LEFT, FIRST, LAST, CHANGED, UNCHANGED, FLOOR, OWNER, FOLLOWING = range(10)
PART = 10
BLOCK, CHOICE_FROM, CHOICE_TO, UNDO_FROM, MEMBER_FROM, WAITING_FROM = range(10, 16)
FRAME = 16
NEXT, HASH, REST, LENGTH, LEAST = range(5)
ENTRY = 5
BUCKETS = 1 << 16
PLACES = 1 << 40
MASK = (1 << 62) - 1
FACTOR = 0x1E3779B97F4A7C15
LETTERS = {"T": 1, "W": 2, "A": 3}
BY_TOTAL, BY_WIDTH, BY_AREA = 1, 2, 3


@dataclass(slots=True)
class Board:
    """The instance, the columns that the dive changes, its stacks and its memory."""

    lower: Cells
    upper: Cells
    size: Cells
    alignment: Cells
    kind: Cells
    neighbour_from: Cells
    neighbours: Cells
    span_first: Cells
    span_last: Cells
    crossing_from: Cells
    crossing: Cells
    offset: Cells
    taken: Cells
    total: Cells
    bridges: Cells
    watch: Cells
    part: Cells
    frames: Cells
    waiting: Cells
    choices: Cells
    undo: Cells
    members: Cells
    seen: Cells
    ranks: Cells
    run_of: Cells
    runs: Cells
    heads: Cells
    memory: Cells
    rests: Cells
    count: int = field(default=0, init=False)
    capacity: int = field(default=0, init=False)
    first_key: int = field(default=0, init=False)
    second_key: int = field(default=0, init=False)
    third_key: int = field(default=0, init=False)
    top: int = field(default=0, init=False)
    alive: int = field(default=0, init=False)
    nodes: int = field(default=0, init=False)
    choice_end: int = field(default=0, init=False)
    undo_end: int = field(default=0, init=False)
    member_end: int = field(default=0, init=False)
    waiting_end: int = field(default=0, init=False)
    entries: int = field(default=0, init=False)
    rest_end: int = field(default=0, init=False)
    full: int = field(default=0, init=False)
    stack_room: int = field(default=0, init=False)
    rest_room: int = field(default=0, init=False)
    entry_room: int = field(default=0, init=False)


# ---- what is translated


def plunge(s: Board, limit: int) -> int:
    """Go on until a plan is found, all is refuted, or `limit` blocks have been taken in all."""
    while True:
        if s.alive == 1:
            if s.part[MANY] == 0:
                return FOUND
            open_frame(s)
            s.alive = 0
        if s.full == 1:
            return STOPPED
        if retreat(s) == 0:
            return REFUTED
        if s.nodes >= limit:
            return STOPPED
        s.nodes += 1
        take(s)


def open_frame(s: Board) -> int:
    """A frame for the part at hand, with its choices; none when the part is hopeless."""
    s.top += 1
    frame = s.top * FRAME
    for cell in range(PART):
        s.frames[frame + cell] = s.part[cell]
    s.frames[frame + BLOCK] = NONE
    s.frames[frame + CHOICE_FROM] = s.choice_end
    s.frames[frame + UNDO_FROM] = s.undo_end
    s.frames[frame + MEMBER_FROM] = s.member_end
    s.frames[frame + WAITING_FROM] = s.waiting_end
    ceiling = s.capacity - highest(s.total, s.part[FIRST], s.part[LAST])
    if promising(s, ceiling) == 1:
        gather(s, ceiling)
    s.frames[frame + CHOICE_TO] = s.choice_end
    return 0


def highest(values: Cells, first: int, last: int) -> int:
    """`max(values[first:last])` of what is not negative."""
    best = 0
    for i in range(first, last):
        best = max(best, values[i])
    return best


def promising(s: Board, ceiling: int) -> int:
    """1 unless the part cannot be completed."""
    floor = s.part[FLOOR]
    if floor > ceiling:
        return 0
    start = s.part[START]
    lowest = NEVER
    for at in range(start, start + s.part[MANY]):
        lowest = min(lowest, s.offset[s.members[at]])
    if lowest > ceiling:
        return 0
    entry = recall(s, start, s.part[MANY], digest(s, start, s.part[MANY]))
    if entry != NONE and s.memory[entry + LEAST] <= floor:
        return 0
    for section in range(s.part[CHANGED], s.part[UNCHANGED]):
        spare = s.capacity - s.total[section]
        if s.total[section] > 0 and s.offset[s.watch[section]] > spare and look(s, section, spare) == 0:
            return 0
    return 1


def look(s: Board, section: int, spare: int) -> int:
    """Find a block left in `section` that is at most at `spare`, and watch it."""
    for at in range(s.crossing_from[section], s.crossing_from[section + 1]):
        if s.offset[s.crossing[at]] <= spare:
            s.watch[section] = s.crossing[at]
            return 1
    return 0


def gather(s: Board, ceiling: int) -> int:
    """The choices of the part, the lowest place and the first rank last; one of each kind."""
    start, floor = s.part[START], s.part[FLOOR]
    most = ceiling
    for at in range(start, start + s.part[MANY]):
        most = min(most, s.offset[s.members[at]] + s.size[s.members[at]] - 1)
    bottom = s.choice_end
    end = bottom
    if bottom + s.part[MANY] > s.stack_room:
        s.full = 1
        return 0
    at = start + s.part[MANY]
    while at > start:
        at -= 1
        block = s.members[at]
        place = s.offset[block]
        if floor <= place and place <= most:
            if s.seen[s.kind[block]] == s.nodes:
                end = forget_kind(s, bottom, end, s.kind[block], place)
            if s.seen[s.kind[block]] != s.nodes:
                s.seen[s.kind[block]] = s.nodes
                spot = end
                while spot > bottom and s.offset[s.choices[spot - 1]] < place:
                    s.choices[spot] = s.choices[spot - 1]
                    spot -= 1
                s.choices[spot] = block
                end += 1
    s.choice_end = end
    for at in range(bottom, end):
        s.seen[s.kind[s.choices[at]]] = NONE
    return 0


def forget_kind(s: Board, bottom: int, end: int, kind: int, place: int) -> int:
    """Take the choice of this kind out if its place is not below `place`; the end of the choices."""
    for at in range(bottom, end):
        if s.kind[s.choices[at]] == kind:
            if s.offset[s.choices[at]] < place:
                return end
            for after in range(at + 1, end):
                s.choices[after - 1] = s.choices[after]
            s.seen[kind] = NONE
            return end - 1
    return end


def retreat(s: Board) -> int:
    """Back to the last frame with a choice left; 0 when there is none."""
    keep = s.top
    while True:
        frame = s.top * FRAME
        if s.frames[frame + BLOCK] != NONE:
            give_back(s, frame)
        if s.top > keep:
            s.top -= 1
        elif s.frames[frame + CHOICE_TO] > s.frames[frame + CHOICE_FROM]:
            return 1
        else:
            remember(s, s.frames[frame + START], s.frames[frame + MANY], s.frames[frame + FLOOR])
            keep = s.frames[frame + OWNER]
            if keep == NONE:
                return 0


def give_back(s: Board, frame: int) -> int:
    """Undo what the block of `frame` changed."""
    block = s.frames[frame + BLOCK]
    at = s.undo_end
    while at > s.frames[frame + UNDO_FROM]:
        at -= 2
        s.offset[s.undo[at]] = s.undo[at + 1]
    move_sections(s, block, 1)
    s.frames[frame + BLOCK] = NONE
    s.undo_end = s.frames[frame + UNDO_FROM]
    s.member_end = s.frames[frame + MEMBER_FROM]
    s.waiting_end = s.frames[frame + WAITING_FROM]
    return 0


def move_sections(s: Board, block: int, sign: int) -> int:
    """Count the block in its sections, or out of them."""
    change = sign * s.size[block]
    for section in range(s.lower[block], s.upper[block]):
        s.total[section] += change
    for section in range(s.lower[block] + 1, s.upper[block]):
        s.bridges[section] += sign
    return 0


def take(s: Board) -> int:
    """Put the next choice of the top frame at its place, and lift those that meet it."""
    frame = s.top * FRAME
    s.frames[frame + CHOICE_TO] -= 1
    s.choice_end = s.frames[frame + CHOICE_TO]
    block = s.choices[s.choice_end]
    bottom = s.offset[block]
    height = bottom + s.size[block]
    s.alive = 1
    if s.undo_end + 2 * s.count > s.stack_room:
        s.full, s.alive = 1, 0
    s.taken[block] = bottom
    s.frames[frame + BLOCK] = block
    set_offset(s, block, NEVER)
    for at in range(s.neighbour_from[block], s.neighbour_from[block + 1]):
        i = s.neighbours[at]
        if s.offset[i] < height:
            place = (height + s.alignment[i] - 1) // s.alignment[i] * s.alignment[i]
            set_offset(s, i, place)
            if place + s.size[i] > s.capacity:
                s.alive = 0
    move_sections(s, block, -1)
    if s.alive == 1:
        narrow(s, frame, block, bottom)
    return 0


def set_offset(s: Board, block: int, place: int) -> int:
    """Note the old place and set the new one."""
    s.undo[s.undo_end] = block
    s.undo[s.undo_end + 1] = s.offset[block]
    s.undo_end += 2
    s.offset[block] = place
    return 0


def narrow(s: Board, frame: int, block: int, bottom: int) -> int:
    """The part that is searched next: the next one waiting, a piece of this one, or this one without the block."""
    if s.frames[frame + LEFT] == 1:
        return load_waiting(s, s.frames[frame + FOLLOWING])
    for section in range(s.lower[block] + 1, s.upper[block]):
        if s.bridges[section] == 0:
            return cut(s, frame, bottom)
    for cell in range(PART):
        s.part[cell] = s.frames[frame + cell]
    s.part[LEFT] -= 1
    s.part[CHANGED] = max(s.span_first[block], s.part[FIRST])
    s.part[UNCHANGED] = min(s.span_last[block], s.part[LAST])
    s.part[FLOOR] = bottom
    s.part[OWNER] = s.top
    return 0


def load_waiting(s: Board, row: int) -> int:
    """Make the waiting part at `row` the one at hand."""
    s.part[MANY] = 0
    if row != NONE:
        for cell in range(PART):
            s.part[cell] = s.waiting[row + cell]
    return 0


RUN_MANY, RUN_START, RUN_FILL, RUN_FIRST, RUN_LAST, RUN_TOTAL = range(6)
RUN = 6


def cut(s: Board, frame: int, bottom: int) -> int:
    """Search what no life crosses one by one, the fullest first; a block alone takes the place it has."""
    count = number_runs(s, frame)
    fill_runs(s, frame, count)
    following = s.frames[frame + FOLLOWING]
    emptiest = next_run(s, count)
    while emptiest != NONE:
        following = wait(s, emptiest, following, bottom)
        s.runs[emptiest + RUN_MANY] = 0
        emptiest = next_run(s, count)
    return load_waiting(s, following)


def number_runs(s: Board, frame: int) -> int:
    """Say of each section of the part which run it is in; the number of runs."""
    first, last = s.frames[frame + FIRST], s.frames[frame + LAST]
    count = 0
    for section in range(first, last):
        if section > first and s.bridges[section] == 0:
            count += 1
        s.run_of[section] = count * RUN
    for run in range(count + 1):
        s.runs[run * RUN + RUN_MANY] = 0
        s.runs[run * RUN + RUN_FIRST] = NEVER
        s.runs[run * RUN + RUN_LAST] = 0
    return count + 1


def fill_runs(s: Board, frame: int, count: int) -> int:
    """The blocks left of the part as member lists of their runs."""
    start = s.frames[frame + START]
    end = start + s.frames[frame + MANY]
    for at in range(start, end):
        block = s.members[at]
        if s.offset[block] != NEVER:
            run = s.run_of[s.lower[block]]
            s.runs[run + RUN_MANY] += 1
            s.runs[run + RUN_FIRST] = min(s.runs[run + RUN_FIRST], s.lower[block])
            s.runs[run + RUN_LAST] = max(s.runs[run + RUN_LAST], s.upper[block])
    for turn in range(count):
        run = turn * RUN
        s.runs[run + RUN_START] = s.member_end
        s.runs[run + RUN_FILL] = s.member_end
        if s.runs[run + RUN_MANY] > 1:
            s.member_end += s.runs[run + RUN_MANY]
            s.runs[run + RUN_TOTAL] = highest(s.total, s.runs[run + RUN_FIRST], s.runs[run + RUN_LAST])
    if s.member_end + s.count > s.stack_room:
        s.full = 1
    for at in range(start, end):
        block = s.members[at]
        if s.offset[block] != NEVER:
            run = s.run_of[s.lower[block]]
            if s.runs[run + RUN_MANY] == 1:
                s.taken[block] = s.offset[block]
                s.runs[run + RUN_MANY] = 0
            else:
                s.members[s.runs[run + RUN_FILL]] = block
                s.runs[run + RUN_FILL] += 1
    return 0


def next_run(s: Board, count: int) -> int:
    """The run with the fewest bytes in its fullest section, the earliest of these; `NONE` when none is left."""
    best = NONE
    for turn in range(count):
        run = turn * RUN
        if s.runs[run + RUN_MANY] > 0 and (best == NONE or s.runs[run + RUN_TOTAL] < s.runs[best + RUN_TOTAL]):
            best = run
    return best


def wait(s: Board, run: int, following: int, bottom: int) -> int:
    """A waiting part for a run; its row."""
    row = s.waiting_end
    s.waiting_end += PART
    s.waiting[row + START] = s.runs[run + RUN_START]
    s.waiting[row + MANY] = s.runs[run + RUN_MANY]
    s.waiting[row + LEFT] = s.runs[run + RUN_MANY]
    s.waiting[row + FIRST] = s.runs[run + RUN_FIRST]
    s.waiting[row + LAST] = s.runs[run + RUN_LAST]
    s.waiting[row + CHANGED] = s.runs[run + RUN_FIRST]
    s.waiting[row + UNCHANGED] = s.runs[run + RUN_LAST]
    s.waiting[row + FLOOR] = bottom
    s.waiting[row + OWNER] = s.top
    s.waiting[row + FOLLOWING] = following
    order_members(s, s.runs[run + RUN_START], s.runs[run + RUN_MANY])
    return row


def order_members(s: Board, start: int, many: int) -> int:
    """Sort members by their ranks, then by birth and number: a shell sort."""
    for at in range(start, start + many):
        block = s.members[at]
        s.ranks[3 * block] = rank_of(s, block, s.first_key)
        s.ranks[3 * block + 1] = rank_of(s, block, s.second_key)
        s.ranks[3 * block + 2] = rank_of(s, block, s.third_key)
    gap = many // 2
    while gap > 0:
        for at in range(start + gap, start + many):
            block = s.members[at]
            spot = at
            while spot - gap >= start and precedes(s, block, s.members[spot - gap]) == 1:
                s.members[spot] = s.members[spot - gap]
                spot -= gap
            s.members[spot] = block
        gap = gap // 2
    return 0


def rank_of(s: Board, block: int, key: int) -> int:
    """The rank of a block by one key, small first."""
    if key == BY_TOTAL:
        return -highest(s.total, s.lower[block], s.upper[block])
    if key == BY_WIDTH:
        return s.lower[block] - s.upper[block]
    if key == BY_AREA:
        return (s.lower[block] - s.upper[block]) * s.size[block]
    return 0


def precedes(s: Board, one: int, other: int) -> int:
    """1 when `one` comes before `other`."""
    for place in range(3):
        if s.ranks[3 * one + place] != s.ranks[3 * other + place]:
            if s.ranks[3 * one + place] < s.ranks[3 * other + place]:
                return 1
            return 0
    if s.lower[one] != s.lower[other]:
        if s.lower[one] < s.lower[other]:
            return 1
        return 0
    if one < other:
        return 1
    return 0


def digest(s: Board, start: int, many: int) -> int:
    """A number for the blocks left among these members, and their places."""
    value = 17
    for at in range(start, start + many):
        block = s.members[at]
        if s.offset[block] != NEVER:
            value = ((value ^ (block * PLACES + s.offset[block])) * FACTOR) & MASK
            value = value ^ (value >> 29)
    return value


def recall(s: Board, start: int, many: int, value: int) -> int:
    """The entry of this rest, or `NONE`."""
    entry = s.heads[value % BUCKETS]
    while entry != NONE:
        if s.memory[entry + HASH] == value and is_same(s, entry, start, many) == 1:
            return entry
        entry = s.memory[entry + NEXT]
    return NONE


def is_same(s: Board, entry: int, start: int, many: int) -> int:
    """1 when the entry holds exactly this rest."""
    at = s.memory[entry + REST]
    end = at + s.memory[entry + LENGTH]
    for place in range(start, start + many):
        block = s.members[place]
        if s.offset[block] != NEVER:
            if at == end or s.rests[at] != block * PLACES + s.offset[block]:
                return 0
            at += 1
    if at == end:
        return 1
    return 0


def remember(s: Board, start: int, many: int, floor: int) -> int:
    """Note that this rest cannot be completed from `floor` on."""
    value = digest(s, start, many)
    entry = recall(s, start, many, value)
    if entry != NONE:
        s.memory[entry + LEAST] = min(s.memory[entry + LEAST], floor)
        return 0
    if s.rest_end + many > s.rest_room or s.entries == s.entry_room:
        return 0
    entry = s.entries * ENTRY
    s.entries += 1
    s.memory[entry + NEXT] = s.heads[value % BUCKETS]
    s.memory[entry + HASH] = value
    s.memory[entry + REST] = s.rest_end
    s.memory[entry + LEAST] = floor
    s.heads[value % BUCKETS] = entry
    for place in range(start, start + many):
        block = s.members[place]
        if s.offset[block] != NEVER:
            s.rests[s.rest_end] = block * PLACES + s.offset[block]
            s.rest_end += 1
    s.memory[entry + LENGTH] = s.rest_end - s.memory[entry + REST]
    return 0


# ---- what is not


def make_board(tables: Tables, stack_room: int, rest_room: int) -> Board:
    """A board for dives into one instance; `prepare` sets it up for each."""
    count, sections = len(tables.size), len(tables.totals)
    sizes = {
        **dict.fromkeys(("offset", "taken", "seen"), count),
        **dict.fromkeys(("total", "bridges", "watch", "run_of"), sections + 1),
        "part": PART,
        "frames": (count + 2) * FRAME,
        "waiting": 2 * (count + 1) * PART,
        **dict.fromkeys(("choices", "undo", "members"), stack_room + 4 * count),
        "ranks": 3 * count,
        "runs": (sections + 1) * RUN,
        "heads": BUCKETS,
        "rests": rest_room + count,
        "memory": (rest_room // 4 + 1) * ENTRY,
    }
    cells: dict[str, array[int]] = {name: array("q", bytes(8 * many)) for name, many in sizes.items()}
    for name in ("lower", "upper", "size", "alignment", "kind"):
        cells[name] = array("q", getattr(tables, name))
    for name, starts, rows in (
        ("neighbours", "neighbour_from", tables.neighbours),
        ("crossing", "crossing_from", tables.crossing),
    ):
        cells[starts] = array("q", accumulate(map(len, rows), initial=0))
        cells[name] = array("q", chain.from_iterable(rows))
    cells["span_first"] = array("q", (first for first, _ in tables.spans))
    cells["span_last"] = array("q", (last for _, last in tables.spans))
    board = Board(**cells)
    board.count, board.stack_room = count, stack_room
    board.rest_room, board.entry_room = rest_room, rest_room // 4
    return board


def prepare(board: Board, tables: Tables, keys: str, capacity: int) -> None:
    """Set the board up for a dive: nothing taken, nothing refuted, the whole instance as the part at hand."""
    count, sections = board.count, len(tables.totals)
    codes = [LETTERS[key] for key in keys]
    board.first_key, board.second_key, board.third_key = (*codes, 0, 0, 0)[:3]
    board.capacity, board.top, board.alive, board.full, board.nodes = capacity, NONE, 1, 0, 0
    board.choice_end = board.undo_end = board.waiting_end = board.entries = board.rest_end = 0
    board.member_end = count
    board.offset[:] = board.taken[:] = array("q", bytes(8 * count))
    board.seen[:] = array("q", [NONE]) * count
    board.heads[:] = array("q", [NONE]) * BUCKETS
    board.total[:sections] = array("q", tables.totals)
    board.bridges[:] = array("q", bytes(8 * (sections + 1)))
    for i in range(count):
        for section in range(tables.lower[i] + 1, tables.upper[i]):
            board.bridges[section] += 1
    board.watch[:sections] = array("q", (row[0] for row in tables.crossing))
    board.members[:count] = array("q", ranked(range(count), keys, tables, tables.totals))
    board.part[:] = array("q", (0, count, count, 0, sections, 0, sections, 0, NONE, NONE))


def fits_cells(tables: Tables, capacity: int) -> bool:
    """Whether places and block numbers are small enough to be kept together in 62 bits."""
    return capacity < PLACES and len(tables.size) < 1 << 20
