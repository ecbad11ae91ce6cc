"""Draw the memory plan of a training step of the digits network as SVG: steps to the right, addresses upward.

python docs/pictures/draw_arena.py docs/pictures/arena.svg
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from nnc import nn
from nnc.nn.zoo import digits_network

WIDTH, HEIGHT, MARGIN = 960, 360, 40
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")


def draw(batch: int = 64) -> str:
    """One rectangle per block of memory."""
    model = nn.Model(digits_network(), (8, 8, 1))
    problem, plan = model.training_step(batch).compiled.plan()
    steps = max(block.upper for block in problem.blocks)
    across, up = WIDTH / steps, HEIGHT / plan.arena_bytes
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 2 * MARGIN} {HEIGHT + 2 * MARGIN}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect x="{MARGIN}" y="{MARGIN}" width="{WIDTH}" height="{HEIGHT}" fill="#f4f4f4" stroke="#888"/>',
    ]
    for index, (block, offset) in enumerate(zip(problem.blocks, plan.offsets, strict=True)):
        x, width = MARGIN + block.lower * across, (block.upper - block.lower) * across
        y, height = MARGIN + HEIGHT - (offset + block.size) * up, block.size * up
        rows.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{COLOURS[index % len(COLOURS)]}" fill-opacity="0.8" stroke="white" stroke-width="0.5">'
            f"<title>{escape(block.name)}: {block.size} B, steps {block.lower} to {block.upper}</title></rect>"
        )
    title = f"A training step of the digits network, batch {batch}: {steps} steps, arena {plan.arena_bytes:,} B"
    bound = f"lower bound {plan.lower_bound:,} B" + (", proven optimal" if plan.optimal else "")
    rows.append(f'<text x="{MARGIN}" y="{MARGIN - 14}">{title}, {bound}</text>')
    rows.append(f'<text x="{MARGIN}" y="{HEIGHT + MARGIN + 18}">step</text>')
    return "\n".join([*rows, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
