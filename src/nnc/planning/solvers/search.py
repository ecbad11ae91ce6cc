"""Exact search: is there a plan within a capacity, and then, by bisection, within how little.

A plan is canonical if no block can sink: taken by ascending offset, each stands on the ground or on one taken before.
Every plan sinks into a canonical one, so only these are searched, depth first and the lowest place first:

    offset[i] = max(top[j] for taken j that meet i),  and the offsets of the blocks taken never descend

A branch dies when a section cannot hold what is still to come, when a block that was passed over would fit below the
one taken (it would sink), or when the same rest was refuted before. Where no block that is left crosses, the rest falls
into parts, searched one by one, each ranked anew; if one fails, the search returns to the block that cut it off.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import gcd
from operator import add
from time import perf_counter
from typing import NamedTuple

from nnc.planning.instance import Effort, Instance, Layout
from nnc.planning.native import compiled
from nnc.planning.solvers import plunge
from nnc.planning.solvers.skyline import skyline
from nnc.planning.solvers.tables import Tables, ranked

ORDERS = ("TWA", "TAW", "TW", "WA")
ROUNDS = 12
NATIVE_ROUNDS = 20
NEVER = 1 << 62
REMEMBERED = 4_000_000
RESTS = 16  # cells for the rests that one node refutes
SMALL = 24  # so few blocks are searched before a loop is compiled
STRIDE = 20_000  # nodes of a native dive between looks at the clock


class Outcome(Enum):
    """How a dive ended: with a plan, with the proof that there is none, or at its limit of nodes or time."""

    FOUND = "found"
    REFUTED = "refuted"
    STOPPED = "stopped"


CODES = {plunge.FOUND: Outcome.FOUND, plunge.REFUTED: Outcome.REFUTED, plunge.STOPPED: Outcome.STOPPED}


@dataclass(frozen=True, slots=True)
class Dive:
    """The end of a dive: its outcome, the offsets if it found any, and the nodes that it tried."""

    outcome: Outcome
    offsets: list[int]
    nodes: int


class Part(NamedTuple):
    """A rest that is searched alone: `left` of `members`, in rank order, within the sections `[first, last)`.

    Only the sections `[changed, unchanged)` need a new look. No offset below `floor` may be taken. `owner` is the
    frame whose block cut the part off, `name` stands for the tuple of the members, `following` is the next part.
    """

    members: list[int]
    sizes: list[int]
    name: int
    left: int
    first: int
    last: int
    changed: int
    unchanged: int
    floor: int
    owner: int
    following: Part | None


def search(instance: Instance, effort: Effort) -> Layout:
    """The smallest arena that dives with growing limits of nodes find; `proven` is the bound that they have proven."""
    known = effort.known
    if not known:
        found = skyline("TWA")(instance, Effort()).offsets or []
        known, best = instance.arena(found), found
    tables = Tables.of(instance)
    unit = gcd(*instance.size, *instance.alignment)
    hunt = Hunt(tables, effort, unit, max(tables.totals, default=0), known, None if effort.known else best)
    if instance.count <= SMALL and not hunt.over:
        _round(hunt, 2 * instance.count)
    if not hunt.over and plunge.fits_cells(tables, hunt.ceiling):
        hunt.loop = compiled(plunge.plunge)
    for turn in range(NATIVE_ROUNDS if hunt.loop else ROUNDS):
        if hunt.over:
            break
        _round(hunt, 2 * instance.count << turn)
    return Layout(hunt.best, hunt.fence)


@dataclass(slots=True)
class Hunt:
    """The range that is left: no plan is below `fence`, the best one known takes `ceiling`; all in steps of `unit`.

    `loop` is the native dive, where there is one, and `board` what it works on.
    """

    tables: Tables
    effort: Effort
    unit: int
    fence: int
    ceiling: int
    best: list[int] | None
    loop: Callable[..., int] | None = None
    board: plunge.Board | None = None
    nodes: int = 0

    @property
    def left(self) -> int:
        """How many nodes may still be tried."""
        return NEVER if self.effort.places is None else max(self.effort.places - self.nodes, 0)

    @property
    def spent(self) -> bool:
        """Whether the effort is at its end."""
        return self.left == 0 or self.effort.expired

    @property
    def over(self) -> bool:
        """Whether nothing smaller is wanted, possible or affordable."""
        return self.ceiling <= max(self.fence, self.effort.target) or self.spent


def _round(hunt: Hunt, limit: int) -> None:
    """Try the target, then the least that is not refuted, then three steps from half way up to the best known.

    No capacity is easier for being larger, so each is a chance of its own, and the ladder moves with every find.
    """
    for capacity in dict.fromkeys((max(hunt.effort.target, hunt.fence), hunt.fence)):
        _attempt(hunt, capacity, limit)
        if hunt.over:
            return
    for rung in (1, 2, 3):
        down = (hunt.ceiling - hunt.fence) * rung // 6
        _attempt(hunt, (hunt.ceiling - max(down, 1)) // hunt.unit * hunt.unit, limit)
        if hunt.over:
            return


def _attempt(hunt: Hunt, capacity: int, limit: int) -> bool:
    """Whether one of the orders finds a plan within `capacity` and `limit` nodes."""
    for keys in ORDERS:
        result = _dive(hunt, keys, capacity, min(limit, hunt.left))
        hunt.nodes += result.nodes
        if result.outcome is Outcome.FOUND:
            hunt.best = result.offsets
            hunt.ceiling = max(map(add, result.offsets, hunt.tables.size))
            return True
        if result.outcome is Outcome.REFUTED:
            hunt.fence = max(hunt.fence, capacity + hunt.unit)
            return False
        if hunt.spent:
            return False
    return False


def _dive(hunt: Hunt, keys: str, capacity: int, limit: int) -> Dive:
    """One dive: native, in strides between looks at the clock, or in Python."""
    tables, loop = hunt.tables, hunt.loop
    if loop is None:
        return dive(tables, keys, capacity, limit, hunt.effort.deadline)
    if max(tables.totals) > capacity:
        return Dive(Outcome.REFUTED, [], 0)
    board = hunt.board = hunt.board or _make_board(hunt)
    plunge.prepare(board, tables, keys, capacity)
    code = plunge.STOPPED
    while code == plunge.STOPPED and not board.full and board.nodes < limit and not hunt.effort.expired:
        code = loop(board, min(board.nodes + STRIDE, limit))
    return Dive(CODES[code], list(board.taken) if code == plunge.FOUND else [], board.nodes)


def _make_board(hunt: Hunt) -> plunge.Board:
    """Room for all choices of the deepest dive, and for the rests that the nodes left can refute, up to a limit."""
    stack, rests = min(REMEMBERED // 4, len(hunt.tables.size) ** 2), min(REMEMBERED // 2, RESTS * hunt.left)
    return plunge.make_board(hunt.tables, stack, rests)


def _runs(members: list[int], tables: Tables) -> list[list[int]]:
    """`members` in groups that no life crosses between, in order of time."""
    runs: list[list[int]] = []
    reach = -1
    for i in sorted(members, key=tables.lower.__getitem__):
        if tables.lower[i] >= reach:
            runs.append([])
        runs[-1].append(i)
        reach = max(reach, tables.upper[i])
    return runs


def dive(  # noqa: C901  (one flat loop without calls, so that it can be compiled as it stands)
    tables: Tables, keys: str, capacity: int, limit: int, deadline: float | None = None
) -> Dive:
    """Look for offsets that keep every block within `capacity`; equal places are tried in the order `keys`.

    The state is the columns `offset`, `total`, `bridges` and the stack of frames: a part, the choices that are left
    in it, the block taken and the offsets that this changed. It stops after `limit` blocks taken, or at the deadline.
    `plunge` is the same on arrays, for native code.
    """
    lower, upper, size, alignment, kind = tables.lower, tables.upper, tables.size, tables.alignment, tables.kind
    neighbours, spans, crossing = tables.neighbours, tables.spans, tables.crossing
    count, total = len(size), list(tables.totals)
    if not count or max(total) > capacity:
        return Dive(Outcome.REFUTED if count else Outcome.FOUND, [], 0)
    offset = [0] * count  # the lowest place that is left for a block, NEVER for one that is taken
    taken = [0] * count
    bridges = [0] * len(total)  # bridges[s]: blocks left that are alive on both sides of the start of section s
    for i in range(count):
        for section in range(lower[i] + 1, upper[i]):
            bridges[section] += 1
    watch = [row[0] for row in crossing]  # a block left, low enough for all that is left in its section to fit
    refuted: dict[tuple[int, tuple[int, ...]], int] = {}  # rests without a plan: name, places -> least floor
    names: dict[tuple[int, ...], int] = {}
    room = REMEMBERED
    members = ranked(range(count), keys, tables, total)
    sizes = [size[i] for i in members]
    part: Part | None = Part(members, sizes, 0, count, 0, len(total), 0, len(total), 0, -1, None)
    parts: list[Part] = []
    rests: list[tuple[int, tuple[int, ...]]] = []
    choices: list[list[int]] = []
    blocks: list[int] = []
    undos: list[list[tuple[int, int]]] = []
    nodes = 0
    alive = True
    while True:
        if alive:
            if part is None:
                # Fresh numbers: those found on the way lie between what the dive has left, and would keep its memory.
                return Dive(Outcome.FOUND, list(array("q", taken)), nodes)
            members, first, last, floor = part.members, part.first, part.last, part.floor
            places = tuple(map(offset.__getitem__, members))
            rest = (part.name, places)
            ceiling = capacity - max(total[first:last])
            alive = floor <= ceiling and min(places) <= ceiling and refuted.get(rest, NEVER) > floor
            changed, unchanged = part.changed, part.unchanged
            if (
                alive
                and max(map(add, map(offset.__getitem__, watch[changed:unchanged]), total[changed:unchanged]))
                > capacity
            ):
                for section in range(changed, unchanged):
                    spare = capacity - total[section]
                    if offset[watch[section]] > spare and spare < capacity:
                        for i in crossing[section]:
                            if offset[i] <= spare:
                                watch[section] = i
                                break
                        else:
                            alive = False
                            break
            open_choices: list[int] = []
            if alive:
                ceiling = min(ceiling, min(map(add, places, part.sizes)) - 1)
                candidates = [(place, i) for i, place in enumerate(places) if floor <= place <= ceiling]
                candidates.sort(reverse=True)
                if len(candidates) > 1:
                    firsts = {kind[members[i]]: i for _, i in candidates}
                    open_choices = [members[i] for _, i in candidates if firsts[kind[members[i]]] == i]
                elif candidates:
                    open_choices = [members[candidates[0][1]]]
            parts.append(part)
            rests.append(rest)
            choices.append(open_choices)
            blocks.append(-1)
            undos.append([])
        frame = len(parts) - 1
        while True:  # give back what the frames above `frame` and itself have taken
            top = len(parts) - 1
            block = blocks[top]
            if block >= 0:
                for i, place in undos[top]:
                    offset[i] = place
                start, stop, bytes_ = lower[block], upper[block], size[block]
                total[start:stop] = [held + bytes_ for held in total[start:stop]]
                bridges[start + 1 : stop] = [crossed + 1 for crossed in bridges[start + 1 : stop]]
                blocks[top] = -1
            if top > frame:
                parts.pop()
                rests.pop()
                choices.pop()
                blocks.pop()
                undos.pop()
                continue
            if choices[top]:
                break
            if room > 0:
                rest = rests[top]
                refuted[rest] = min(refuted.get(rest, NEVER), parts[top].floor)
                room -= len(rest[1])
            frame = parts[top].owner
            if frame < 0:
                return Dive(Outcome.REFUTED, [], nodes)
        nodes += 1
        if nodes > limit or (deadline is not None and nodes & 63 == 0 and perf_counter() > deadline):
            return Dive(Outcome.STOPPED, [], nodes)
        block = choices[frame].pop()
        part = parts[frame]
        bottom = offset[block]
        top = bottom + size[block]
        undo = [(block, bottom)]
        offset[block] = NEVER
        taken[block] = bottom
        alive = True
        for i in neighbours[block]:
            place = offset[i]
            if place < top:
                undo.append((i, place))
                place = top + -top % alignment[i]
                offset[i] = place
                if place + size[i] > capacity:
                    alive = False
        start, stop, bytes_ = lower[block], upper[block], size[block]
        total[start:stop] = [held - bytes_ for held in total[start:stop]]
        bridges[start + 1 : stop] = [crossed - 1 for crossed in bridges[start + 1 : stop]]
        blocks[frame] = block
        undos[frame] = undo
        if not alive:
            continue
        if part.left == 1:
            part = part.following
        elif 0 in bridges[start + 1 : stop]:
            following = part.following
            runs = _runs([i for i in part.members if offset[i] != NEVER], tables)
            cuts = []
            for run in runs:
                if len(run) == 1:
                    taken[run[0]] = offset[run[0]]
                else:
                    first, last = lower[run[0]], max(map(upper.__getitem__, run))
                    cuts.append((max(total[first:last]), first, last, run))
            for _, first, last, run in sorted(cuts):
                members = ranked(run, keys, tables, total)
                sizes = [size[i] for i in members]
                name = names.setdefault(tuple(members), len(names) + 1)
                following = Part(members, sizes, name, len(run), first, last, first, last, bottom, frame, following)
            part = following
        else:
            changed, unchanged = max(spans[block][0], part.first), min(spans[block][1], part.last)
            part = part._replace(left=part.left - 1, changed=changed, unchanged=unchanged, floor=bottom, owner=frame)
