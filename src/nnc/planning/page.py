"""A memory plan as one page to look at: steps to the right, addresses upward, no other file and no network.

What a block is called comes from files that others wrote, so texts are shortened, enter the page as data, and are
shown as text: nothing in them is ever read as HTML.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nnc.arguments import checked
from nnc.errors import PlanningError
from nnc.planning.plan import Plan
from nnc.planning.problem import Problem

LONGEST_TEXT = 300


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
    """What happens from a moment on."""

    moment: int
    text: str


@checked
def memory_map(
    problem: Problem, plan: Plan, title: str = "", blocks: Sequence[BlockText] = (), steps: Sequence[StepText] = ()
) -> str:
    """The page of a plan; `blocks` are texts for the blocks of the problem, in order, and `steps` for its moments."""
    named = tuple(blocks) or tuple(BlockText(block.name) for block in problem.blocks)
    if len(named) != len(problem.blocks) or len(plan.offsets) != len(problem.blocks):
        got = f"{len(problem.blocks)} blocks, {len(plan.offsets)} offsets, {len(named)} texts"
        raise PlanningError("memory_map", got=got, need="as many of each")
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(text[:LONGEST_TEXT], len(numbers))

    begins = _begins(problem, plan)
    rows = [
        [*map(number, (text.name, text.layer, text.operator, text.role, text.line)), block.size, block.lower,
         block.upper, begins[block.memory] + offset]
        for text, block, offset in zip(named, problem.blocks, plan.offsets, strict=True)
    ]  # fmt: skip
    data = {
        "title": title[:LONGEST_TEXT],
        "blocks": rows,
        "steps": [[step.moment, number(step.text)] for step in steps],
        "texts": list(numbers),
        "arena": plan.arena_bytes,
        "bound": plan.lower_bound,
        "optimal": plan.optimal,
        "moment": plan.witness.step,
        "peak": list(plan.witness.blocks),
        "largest": max((block.size for block in problem.blocks), default=0),
        "first": min((block.lower for block in problem.blocks), default=0),
        "last": max((block.upper for block in problem.blocks), default=0),
    }
    page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return page.replace("@DATA@", _json(data))


def _begins(problem: Problem, plan: Plan) -> dict[str, int]:
    """Arenas of several kinds of memory lie above each other."""
    begins, begin = {}, 0
    for memory in problem.memories:
        begins[memory] = begin
        begin += plan.arenas.get(memory, plan.arena_bytes)
    return begins


def _json(data: object) -> str:
    """JSON that neither ends the script it stands in nor begins another, in ASCII: lone surrogates too."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
