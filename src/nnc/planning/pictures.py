"""Pictures and files of a plan: SVG, PNG, comma-separated values, a trace for Perfetto, and text for a terminal.

Steps lie to the right, addresses upward. `WRITERS` is the table of what a plan can be written as, by the file's suffix.
"""

from __future__ import annotations

import csv
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from colorsys import hls_to_rgb
from html import escape
from io import StringIO

import numpy as np

from nnc.planning.page import BlockText, MapView, memory_begins, plain
from nnc.planning.plan import Plan
from nnc.planning.problem import Block, Problem

WIDTH, HEIGHT, MARGIN = 1200, 600, 30
Placed = tuple[Block, BlockText, int]


def placed_blocks(view: MapView) -> Iterator[Placed]:
    """Each block that is alive with its text, and its address in all arenas."""
    begins = memory_begins(view.problem, view.plan)
    texts = view.blocks or [BlockText(block.name) for block in view.problem.blocks]
    for block, text, offset in zip(view.problem.blocks, texts, view.plan.offsets, strict=True):
        if not block.empty:
            yield block, text, begins[block.memory] + offset


def _steps(view: MapView) -> tuple[int, int]:
    """The first moment, and how many there are."""
    first = min((block.lower for block in view.problem.blocks), default=0)
    return first, max(max((block.upper for block in view.problem.blocks), default=0) - first, 1)


def _colours(view: MapView) -> dict[str, tuple[int, int, int]]:
    """A colour for each layer, in order of appearance, each far from the one before."""
    layers = dict.fromkeys(text.layer or text.name for _, text, _ in placed_blocks(view))
    shades = (hls_to_rgb(number * 137.508 % 360 / 360, 0.6, 0.5) for number in range(len(layers)))
    return {
        layer: (round(red * 255), round(green * 255), round(blue * 255))
        for layer, (red, green, blue) in zip(layers, shades, strict=True)
    }


def svg(view: MapView) -> bytes:
    """A drawing with a title for each block."""
    (first, steps), colours = _steps(view), _colours(view)
    across, up = WIDTH / steps, HEIGHT / max(view.plan.arena_bytes, 1)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 2 * MARGIN} {HEIGHT + 2 * MARGIN}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect x="{MARGIN}" y="{MARGIN}" width="{WIDTH}" height="{HEIGHT}" fill="#f4f4f4" stroke="#888"/>',
    ]
    for block, text, address in placed_blocks(view):
        x, wide = MARGIN + (block.lower - first) * across, (block.upper - block.lower) * across
        y, high = MARGIN + HEIGHT - (address + block.size) * up, block.size * up
        name = " · ".join(part for part in map(plain, (text.name, text.operator, text.line)) if part)
        rows.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}" stroke="white" stroke-width="0.3" '
            f'fill="rgb{colours[text.layer or text.name]}"><title>{escape(name)}: {block.size} B, '
            f"steps {block.lower} to {block.upper - 1}</title></rect>"
        )
    plan = view.plan
    peak, bound = MARGIN + (plan.witness.step + 0.5 - first) * across, MARGIN + HEIGHT - plan.lower_bound * up
    proof = "proven smallest" if plan.optimal else f"lower bound {plan.lower_bound:,} B"
    rows += [
        f'<path d="M{peak:.2f} {MARGIN}v{HEIGHT}M{MARGIN} {bound:.2f}h{WIDTH}" stroke="#d81b60" stroke-dasharray="4"/>',
        f'<text x="{MARGIN}" y="{MARGIN - 10}">{escape(plain(view.title))} {steps} steps, arena '
        f"{plan.arena_bytes:,} B, {proof}</text>",
    ]
    return ("\n".join([*rows, "</svg>"]) + "\n").encode()


def png(view: MapView) -> bytes:
    """The same blocks as pixels."""
    (first, steps), colours = _steps(view), _colours(view)
    pixels = np.full((HEIGHT, WIDTH, 3), 244, dtype=np.uint8)
    high = max(view.plan.arena_bytes, 1)
    for block, text, address in placed_blocks(view):
        left, right = ((edge - first) * WIDTH // steps for edge in (block.lower, block.upper))
        top, bottom = (HEIGHT - edge * HEIGHT // high for edge in (address + block.size, address))
        pixels[max(top, 0) : max(bottom - 1, top + 1), left : max(right - 1, left + 1)] = colours[
            text.layer or text.name
        ]
    peak = (2 * (view.plan.witness.step - first) + 1) * WIDTH // (2 * steps)
    pixels[::2, min(max(peak, 0), WIDTH - 1)] = 216, 27, 96
    pixels[min(max(HEIGHT - view.plan.lower_bound * HEIGHT // high, 0), HEIGHT - 1), ::3] = 216, 27, 96
    rows = np.concatenate([np.zeros((HEIGHT, 1), np.uint8), pixels.reshape(HEIGHT, -1)], axis=1)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def comma_separated(view: MapView) -> bytes:
    """A line per block, which `nnc memplan` reads, with its place and texts behind."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        ("id", "lower", "upper", "size", "alignment", "memory", "address", "layer", "operator", "role", "line")
    )
    for block, text, address in placed_blocks(view):
        life = block.lower, block.upper, block.size, block.alignment, block.memory, address
        writer.writerow((plain(text.name), *life, *map(plain, (text.layer, text.operator, text.role, text.line))))
    return file.getvalue().encode()


def chrome_trace(view: MapView) -> bytes:
    """A step is a microsecond: execs in one lane, blocks in lanes by address, and a curve of the bytes in use."""
    events: list[dict[str, object]] = []
    used: dict[int, int] = {}

    def add(name: str, lane: int, begin: int, end: int, **facts: object) -> None:
        place = {"ph": "X", "pid": 1, "tid": lane, "ts": begin, "dur": end - begin}
        events.append({"name": plain(name), **place, "args": facts})

    ends = [step.moment for step in view.steps[1:]] + [_steps(view)[1]]
    for step, end in zip(view.steps, ends, strict=False):
        add(step.text, 0, step.moment, end, again=step.again)
    lanes: list[int] = []
    for block, text, address in sorted(placed_blocks(view), key=lambda placed: (placed[0].lower, placed[2])):
        lane = next((number for number, free in enumerate(lanes) if free <= block.lower), len(lanes))
        lanes[lane : lane + 1] = [block.upper]
        add(text.name, lane + 1, block.lower, block.upper, bytes=block.size, address=address, layer=plain(text.layer))
        used[block.lower] = used.get(block.lower, 0) + block.size
        used[block.upper] = used.get(block.upper, 0) - block.size
    total = 0
    for moment in sorted(used):
        total += used[moment]
        events.append({"name": "bytes in use", "ph": "C", "pid": 1, "ts": moment, "args": {"bytes": total}})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}).encode()


def text_map(problem: Problem, plan: Plan, memory: str, width: int, height: int, ink: str) -> list[str]:
    """The arena of `memory`, `width` columns wide, from the bottom up: ink where bytes are used, a mark at the peak."""
    members = [(b, at) for b, at in zip(problem.blocks, plan.offsets) if b.memory == memory and not b.empty]
    if not members:
        return []
    first = min(block.lower for block, _ in members)
    steps = max(block.upper for block, _ in members) - first
    high, columns = max(plan.arenas[memory], 1), max(width - 1, 1)
    grid = np.zeros((height, columns), dtype=np.bool_)
    for block, at in members:
        left, right = ((edge - first) * columns for edge in (block.lower, block.upper))
        bottom, top = at * height, (at + block.size) * height
        grid[bottom // high : -(-top // high), left // steps : -(-right // steps)] = True
    lines = ["".join(ink if used else " " for used in row).rstrip() for row in grid[::-1].tolist()]
    peak = min(max((2 * (plan.witness.step - first) + 1) * columns // (2 * steps), 0), columns - 1)
    mark = f"{'peak ^':>{peak + 2}}" if peak + 6 > columns else " " * (peak + 1) + "^ peak"
    return [f"{memory}: {high:,} B over {steps:,} steps", *(f"│{line}" for line in lines), mark]


WRITERS: Mapping[str, Callable[[MapView], bytes]] = {
    ".svg": svg,
    ".png": png,
    ".csv": comma_separated,
    ".json": chrome_trace,
}
