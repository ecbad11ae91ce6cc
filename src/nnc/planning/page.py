"""Memory plans as one page to look at: steps to the right, addresses upward, no other file and no network.

    maps        arenas of one or several plans, such as without a limit and with it
    stages      the graph before and behind each pass, linked to the first map by the moments of execs
    bars        what ran when, on which thread or worker, linked by moments too
    curves      figures over epochs
    tables      such as the time of each layer

What a block is called comes from files that others wrote, so texts are shortened, enter the page as data, and are
shown as text: nothing in them is ever read as HTML.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import PlanningError
from nnc.planning.plan import Plan
from nnc.planning.problem import Problem

LONGEST_TEXT = 300
# The most that are shown; the page says where there were more: it must open at once and travel by mail.
MOST_BARS = 20_000
MOST_ROWS = 500


@checked
@dataclass(frozen=True, slots=True)
class BlockText:
    """What a page says of a block: its name, the layer and operator that write it, its role, the line that made it."""

    name: str
    layer: str = ""
    operator: str = ""
    role: str = ""
    line: str = ""


@checked
@dataclass(frozen=True, slots=True)
class StepText:
    """What happens from a moment on; `again` where it was computed before and not kept."""

    moment: int
    text: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """Moments [lower, upper) that belong together: a loop, which is one iteration that all others repeat, a branch."""

    lower: int
    upper: int
    text: str


@dataclass(frozen=True, slots=True)
class MapView:
    """A plan with texts for its blocks, in order, and for its moments."""

    problem: Problem
    plan: Plan
    title: str = ""
    blocks: Sequence[BlockText] = ()
    steps: Sequence[StepText] = ()
    bands: Sequence[Band] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An exec: a `key` that it keeps through all stages, the keys of those it reads from, its moment if it has one."""

    key: int
    title: str
    layer: str
    operator: str
    line: str
    reads: tuple[int, ...] = ()
    moment: int = -1


@dataclass(frozen=True, slots=True)
class GraphStage:
    """A graph behind a pass, and how often each rule of the pass fired."""

    name: str
    nodes: Sequence[GraphNode]
    fired: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """What ran in a lane, in microseconds; at a moment of the first map, or -1."""

    lane: str
    begin: float
    duration: float
    text: str
    moment: int = -1


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure, epoch by epoch."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows of cells below a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@checked
def memory_map(
    problem: Problem, plan: Plan, title: str = "", blocks: Sequence[BlockText] = (), steps: Sequence[StepText] = ()
) -> str:
    """The page of a plan; `blocks` are texts for the blocks of the problem, in order, and `steps` for its moments."""
    return page_of_views(title, [MapView(problem, plan, title, blocks, steps)])


@checked
def page_of_views(
    title: str,
    maps: Sequence[MapView] = (),
    stages: Sequence[GraphStage] = (),
    bars: Sequence[TimelineBar] = (),
    curves: Sequence[Curve] = (),
    tables: Sequence[PageTable] = (),
) -> str:
    """The page of all that is there."""
    texts = _Texts()
    lanes = list(dict.fromkeys(bar.lane for bar in bars))
    data = {
        "title": title[:LONGEST_TEXT],
        "maps": [_map(view, texts) for view in maps],
        **_stages(stages, texts),
        "lanes": [lane[:LONGEST_TEXT] for lane in lanes],
        "bars": [
            [lanes.index(bar.lane), round(bar.begin, 2), round(bar.duration, 2), texts.number(bar.text), bar.moment]
            for bar in bars[:MOST_BARS]
        ],
        "left": max(len(bars) - MOST_BARS, 0),
        "curves": [[curve.name[:LONGEST_TEXT], [_finite(value) for value in curve.values]] for curve in curves],
        "tables": [
            [
                table.title,
                list(table.columns),
                [[cell[:LONGEST_TEXT] for cell in row] for row in table.rows[:MOST_ROWS]],
            ]
            for table in tables
        ],
        "texts": texts.all,
    }
    page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return page.replace("@DATA@", _json(data))


class _Texts:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text[:LONGEST_TEXT], len(self._numbers))

    @property
    def all(self) -> list[str]:
        return list(self._numbers)


def _map(view: MapView, texts: _Texts) -> dict[str, object]:
    problem, plan = view.problem, view.plan
    named = tuple(view.blocks) or tuple(BlockText(block.name) for block in problem.blocks)
    if len(named) != len(problem.blocks) or len(plan.offsets) != len(problem.blocks):
        got = f"{len(problem.blocks)} blocks, {len(plan.offsets)} offsets, {len(named)} texts"
        raise PlanningError("memory_map", got=got, need="as many of each")
    begins, number = memory_begins(problem, plan), texts.number
    rows = [
        [*map(number, (text.name, text.layer, text.operator, text.role, text.line)), block.size, block.lower,
         block.upper, begins[block.memory] + offset]
        for text, block, offset in zip(named, problem.blocks, plan.offsets, strict=True)
    ]  # fmt: skip
    return {
        "title": view.title[:LONGEST_TEXT],
        "blocks": rows,
        "steps": [[step.moment, number(step.text), int(step.again)] for step in view.steps],
        "bands": [
            [
                band.lower,
                band.upper,
                number(band.text),
                sum(earlier.lower <= band.lower < earlier.upper for earlier in view.bands[:at]),
            ]
            for at, band in enumerate(view.bands[:MOST_ROWS])
        ],
        "arena": plan.arena_bytes,
        "bound": plan.lower_bound,
        "optimal": plan.optimal,
        "moment": plan.witness.step,
        "peak": list(plan.witness.blocks),
        "largest": max((block.size for block in problem.blocks), default=0),
        "first": min((block.lower for block in problem.blocks), default=0),
        "last": max((block.upper for block in problem.blocks), default=0),
    }


def _stages(stages: Sequence[GraphStage], texts: _Texts) -> dict[str, object]:
    """Nodes with the stages [first, last) in which they are the same, and the moment that they have in the last."""
    rows: list[list[object]] = []
    open_rows: dict[GraphNode, list[object]] = {}
    for number, stage in enumerate(stages):
        following: dict[GraphNode, list[object]] = {}
        for node in stage.nodes:
            same = replace(node, moment=-1)
            row = open_rows.get(same)
            if row is None:
                parts = map(texts.number, (node.title, node.layer, node.operator, node.line))
                row = [node.key, *parts, node.moment, number, number, list(node.reads)]
                rows.append(row)
            row[5], row[7] = node.moment, number + 1
            following[same] = row
        open_rows = following
    return {
        "nodes": rows,
        "stages": [
            [stage.name[:LONGEST_TEXT], [f"{rule} × {times}" for rule, times in stage.fired.items()]]
            for stage in stages
        ],
    }


def plain(text: str) -> str:
    """What files and terminals may hold, as long as a page shows; without marks that turn the direction of writing."""
    return "".join(character for character in text[:LONGEST_TEXT] if character.isprintable())


@checked
def memory_begins(problem: Problem, plan: Plan) -> dict[str, int]:
    """Arenas of several kinds of memory lie above each other."""
    begins, begin = {}, 0
    for memory in problem.memories:
        begins[memory] = begin
        begin += plan.arenas.get(memory, plan.arena_bytes)
    return begins


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _json(data: object) -> str:
    """JSON that neither ends the script it stands in nor begins another, in ASCII: lone surrogates too."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
