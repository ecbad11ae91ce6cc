"""What the exact search (branch_and_bound.py) knows at the node that it is at, and how it is set up.

Blocks have numbers, and so have the sections that their lives are made of. All is integers and flat arrays of them: a
row of a table is a range of cells, whose begin stands in `*_from`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.normalize import conflicts, totals

Cells: TypeAlias = "array[int]"

NONE = -1
BLOCK, PART_OF, BLOCKS_FROM, SECTIONS_FROM, PARTS_FROM, BARS = range(6)
FRAME = 6  # cells of a frame: a block placed, where what it changed begins, the bars before it
FIRST, LAST, NEXT, FULLEST = range(4)
PART = 4  # cells of a part: its sections, the part to search after it, its most bytes
BLOCK_NOTE = 3  # block, least, ground; then the words of its reasons
WORD = 62  # bits of a set of decisions in one cell
SECTION_NOTE = 6  # section, total, low, choice, ways, topmost


@dataclass(slots=True)
class SearchBlocks:
    """The blocks, and which meet which; a block of a low `rank` is preferred. A set of decisions has `words` cells."""

    count: int
    words: int
    lower: Cells
    upper: Cells
    size: Cells
    alignment: Cells
    neighbour_from: Cells
    neighbours: Cells
    rank: Cells


@dataclass(slots=True)
class SearchPlaces:
    """Of each block whether it is left, what is known of its place, where it was put and by which decision (`level`).

    `why` has a row of words per block, the reasons for `least`. `bearer` is one that a block could rest on when that
    was asked last, `NONE` for none. `raised` are blocks whose neighbours are to be looked at, up to `raised_end`.
    """

    left: Cells
    least: Cells
    ground: Cells
    offset: Cells
    level: Cells
    why: Cells
    bearer: Cells
    raised: Cells
    is_raised: Cells
    raised_end: int = 0


@dataclass(slots=True)
class SectionRows:
    """The first `many[s]` cells of a section's row of `crossing` are the blocks that are left in it.

    `slots` says where in these rows a block is, one cell per section of its life. What is placed changes places with
    the last one left, so that taking it back is no more than counting it again.
    """

    crossing_from: Cells
    crossing: Cells
    slots_from: Cells
    slots: Cells
    many: Cells


@dataclass(slots=True)
class SearchSections:
    """Of each section what is left in it: `total` bytes, of which the lowest lie at `low`.

    `choice[s]` is the first supported block at `low[s]` by rank, `ways[s]` how many there are, plus one where the
    section can do without; `topmost[s]` was placed last; `bridges[s]` blocks left live on both sides of its start.
    `deaths[s]` counts, over all searches of the tree, the nodes that died in the section. `changed` are sections to be
    looked at, up to `changed_end`.
    """

    count: int
    total: Cells
    low: Cells
    choice: Cells
    ways: Cells
    topmost: Cells
    bridges: Cells
    deaths: Cells
    changed: Cells
    is_changed: Cells
    changed_end: int = 0


@dataclass(slots=True)
class SearchNotes:
    """The way back: a frame per decision up to `depth`, and what blocks and sections were before it.

    A block that was noted since the decision has its number, the `stamp`. Notes go to `*_end` and have `*_room`.
    """

    frames: Cells
    noted_block: Cells
    noted_section: Cells
    block_notes: Cells
    section_notes: Cells
    block_room: int
    section_room: int
    depth: int = 0
    stamp: int = 0
    block_notes_end: int = 0
    section_notes_end: int = 0


@dataclass(slots=True)
class SearchParts:
    """The parts that the rest fell into, a row of `cells` each; the search is at the part that begins at `now`."""

    cells: Cells
    room: int
    now: int = 0
    end: int = 0


@dataclass(slots=True)
class SearchTree:
    """An instance, what is known at the node that the search is at, and the way back from there.

    A node that is not `alive` died for the reasons in `conflict`; `bars` blocks are barred from their ground. So many
    `leans` were found so far: what rests on a block that is left rises with it, often by little each time. The search
    ends behind `most_leans`.
    """

    blocks: SearchBlocks
    places: SearchPlaces
    rows: SectionRows
    sections: SearchSections
    undo: SearchNotes
    parts: SearchParts
    conflict: Cells
    capacity: int = 0
    nodes: int = 0
    alive: int = 0
    bars: int = 0
    leans: int = 0
    most_leans: int = 1 << 62


def make_tree(instance: Instance, effort: Effort | None = None) -> SearchTree:
    """The tree of a plain instance; `plant` sets it up for each search. Raises `ExpiredError` at the deadline."""
    count, sections = instance.count, instance.steps
    words = count // WORD + 1
    tree = SearchTree(
        blocks=_blocks(instance, words, effort),
        places=_places(count, words),
        rows=_rows_of_sections(instance),
        sections=_sections(instance),
        undo=_notes(count, sections, words),
        parts=SearchParts(_zeros(2 * (sections + 1) * PART), room=0),
        conflict=_zeros(words),
    )
    for i in range(count):
        _count_bridges(tree, i)
    _measure(tree)
    return tree


def _zeros(count: int) -> Cells:
    return array("q", bytes(8 * count))


def _blocks(instance: Instance, words: int, effort: Effort | None) -> SearchBlocks:
    neighbour_from, neighbours = _table(conflicts(instance, effort))
    return SearchBlocks(
        count=instance.count,
        words=words,
        lower=array("q", instance.lower),
        upper=array("q", instance.upper),
        size=array("q", instance.size),
        alignment=array("q", instance.alignment),
        neighbour_from=neighbour_from,
        neighbours=neighbours,
        rank=_zeros(instance.count),
    )


def _places(count: int, words: int) -> SearchPlaces:
    return SearchPlaces(
        left=_zeros(count),
        least=_zeros(count),
        ground=_zeros(count),
        offset=_zeros(count),
        level=_zeros(count),
        why=_zeros(count * words),
        bearer=array("q", [NONE]) * count,
        raised=_zeros(count),
        is_raised=_zeros(count),
    )


def _sections(instance: Instance) -> SearchSections:
    many = instance.steps + 1
    return SearchSections(
        count=instance.steps,
        total=array("q", totals(instance)),
        low=_zeros(many),
        choice=_zeros(many),
        ways=_zeros(many),
        topmost=_zeros(many),
        bridges=_zeros(many),
        deaths=_zeros(many),
        changed=_zeros(many),
        is_changed=_zeros(many),
    )


def _rows_of_sections(instance: Instance) -> SectionRows:
    """All blocks are left in the sections of their lives."""
    crossing: list[list[int]] = [[] for _ in range(instance.steps)]
    for i in range(instance.count):
        for section in range(instance.lower[i], instance.upper[i]):
            crossing[section].append(i)
    lives = [upper - lower for lower, upper in zip(instance.lower, instance.upper, strict=True)]
    rows = SectionRows(
        *_table(crossing), array("q", accumulate(lives, initial=0)), _zeros(sum(lives)), _zeros(instance.steps + 1)
    )
    for section, row in enumerate(crossing):
        rows.many[section] = len(row)
        for place, i in enumerate(row, rows.crossing_from[section]):
            rows.slots[rows.slots_from[i] + section - instance.lower[i]] = place
    return rows


def _notes(count: int, sections: int, words: int) -> SearchNotes:
    """Room for four notes of each block and section; `extend` makes more."""
    return SearchNotes(
        frames=_zeros((count + 1) * FRAME),
        noted_block=_zeros(count),
        noted_section=_zeros(sections + 1),
        block_notes=_zeros(4 * count * (BLOCK_NOTE + words)),
        section_notes=_zeros(4 * sections * SECTION_NOTE),
        block_room=0,
        section_room=0,
    )


def _table(rows: Sequence[Sequence[int]]) -> tuple[Cells, Cells]:
    """Where each row begins, and all rows in one."""
    return array("q", accumulate(map(len, rows), initial=0)), array("q", chain.from_iterable(rows))


def _count_bridges(tree: SearchTree, block: int) -> None:
    """The block bridges the start of each section of its life but the first."""
    for section in range(tree.blocks.lower[block] + 1, tree.blocks.upper[block]):
        tree.sections.bridges[section] += 1


def _measure(tree: SearchTree) -> None:
    """How many cells the notes have."""
    undo, parts = tree.undo, tree.parts
    undo.block_room, undo.section_room, parts.room = len(undo.block_notes), len(undo.section_notes), len(parts.cells)


def extend(tree: SearchTree) -> None:
    """Twice the room for notes, so that a search that was full can go on where it stopped."""
    for notes in (tree.undo.block_notes, tree.undo.section_notes, tree.parts.cells):
        notes.extend(notes)
    _measure(tree)


def plant(tree: SearchTree, order: Sequence[int], capacity: int) -> None:
    """Set the tree up for a search within `capacity` that prefers blocks early in `order`: nothing is placed."""
    blocks, places, sections, undo, parts = tree.blocks, tree.places, tree.sections, tree.undo, tree.parts
    for i in undo.frames[BLOCK : undo.depth * FRAME : FRAME]:
        _count_bridges(tree, i)
        for section in range(blocks.lower[i], blocks.upper[i]):
            sections.total[section] += blocks.size[i]
            tree.rows.many[section] += 1
    for column in (places.least, places.ground, places.why, undo.noted_block):
        column[:] = _zeros(len(column))
    for column in (sections.low, sections.ways, undo.noted_section):
        column[:] = _zeros(len(column))
    places.left[:] = array("q", [1]) * blocks.count
    sections.topmost[:] = sections.choice[:] = array("q", [NONE]) * (sections.count + 1)
    for place, block in enumerate(order):
        blocks.rank[block] = place
    tree.capacity, tree.nodes, tree.alive, tree.bars, tree.leans = capacity, 0, 1, 0, 0
    undo.depth = undo.block_notes_end = undo.section_notes_end = 0
    undo.stamp = 1
    parts.now, parts.end = 0, PART
    parts.cells[:PART] = array("q", (0, sections.count, NONE, 0))
    sections.changed[: sections.count] = array("q", range(sections.count))
    sections.is_changed[: sections.count] = array("q", [1]) * sections.count
    sections.changed_end = sections.count
