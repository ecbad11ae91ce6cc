"""The picture of the first page: `python docs/site/memory_map.py` writes docs/pictures/memory.svg.

The plan of a training step, steps to the right and addresses upward, as it is used: a line goes through the steps, what
lives stands out, and below it is what runs. The file moves by itself (SMIL), without a script and without a request;
where nothing moves, the whole plan is seen.
"""

from __future__ import annotations

from colorsys import hls_to_rgb
from html import escape
from pathlib import Path

from nnc import nn
from nnc.nn.zoo import network
from nnc.planning.page import MapView
from nnc.planning.pictures import placed_blocks

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "memory.svg"
WIDTH, HEIGHT, LEFT, TOP = 820, 360, 20, 34
BATCH, SECONDS_A_STEP, REST = 64, 0.35, 2.0


def view() -> MapView:
    """The plan of a step of the digits network."""
    return nn.Model(network("digits").layer, (8, 8, 1)).training_step(BATCH).compiled.view("digits")


def picture(view: MapView) -> str:
    """The plan, its line, what runs, and the bytes that live, in turn."""
    steps = max(block.upper for block in view.problem.blocks)
    total = steps * SECONDS_A_STEP + REST
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 2 * LEFT} {HEIGHT + TOP + 40}" '
        'font-family="sans-serif" font-size="13">',
        f"<title>Memory of a training step: {steps} steps, {view.plan.arena_bytes:,} bytes</title>",
        f'<rect width="{WIDTH + 2 * LEFT}" height="{HEIGHT + TOP + 40}" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" fill="#444">A training step of {BATCH} images: {view.plan.arena_bytes:,} bytes, '
        f"planned before it runs; lower bound {view.plan.lower_bound:,}</text>",
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="#f4f4f4" stroke="#999"/>',
        *_blocks(view, steps, total),
        *_captions(view, steps, total),
        f'<line x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{TOP + HEIGHT}" stroke="#d81b60" stroke-width="2">'
        f'<animateTransform attributeName="transform" type="translate" dur="{total:.2f}s" repeatCount="indefinite" '
        f'values="0 0;{WIDTH} 0;{WIDTH} 0" keyTimes="0;{steps * SECONDS_A_STEP / total:.4f};1"/></line>',
    ]
    return "\n".join([*parts, "</svg>", ""])


def _blocks(view: MapView, steps: int, total: float) -> list[str]:
    """A rectangle for each block: faint before its first step, full while it lives, pale behind."""
    across, up = WIDTH / steps, HEIGHT / view.plan.arena_bytes
    layers = list(dict.fromkeys(text.layer or text.name for _, text, _ in placed_blocks(view)))
    rows = []
    for block, text, address in placed_blocks(view):
        x, y = LEFT + block.lower * across, TOP + HEIGHT - (address + block.size) * up
        shade = layers.index(text.layer or text.name) * 137.508 % 360 / 360
        red, green, blue = (round(255 * part) for part in hls_to_rgb(shade, 0.6, 0.5))
        begin, end = (max(step * SECONDS_A_STEP / total, 0.0001) for step in (block.lower, block.upper))
        rows.append(
            f'<rect x="{x:.1f}" y="{y:.2f}" width="{(block.upper - block.lower) * across:.1f}" '
            f'height="{block.size * up:.2f}" fill="rgb({red},{green},{blue})" stroke="#fff" stroke-width="0.3">'
            f"<title>{escape(text.name)}: {block.size:,} bytes, steps {block.lower} to {block.upper - 1}</title>"
            f'<animate attributeName="fill-opacity" dur="{total:.2f}s" repeatCount="indefinite" calcMode="discrete" '
            f'values="0.15;1;0.45" keyTimes="0;{begin:.4f};{end:.4f}"/></rect>'
        )
        name = text.name.partition(" ")[2] or text.name
        if block.size * up > 16 and (block.upper - block.lower) * across > 8 * len(name):
            rows.append(f'<text x="{x + 6:.1f}" y="{y + block.size * up / 2 + 5:.1f}">{escape(name)}</text>')
    return rows


def _captions(view: MapView, steps: int, total: float) -> list[str]:
    """What runs at each step, and the bytes that live then, one text at a time."""
    # Behind the layer and the operator stands the line of Python, which here is one of this file.
    texts = {step.moment: step.text.rpartition(" · ")[0] for step in view.steps}
    rows = []
    for moment in range(steps):
        live = sum(block.size for block, _, _ in placed_blocks(view) if block.lower <= moment < block.upper)
        begin, end = (max(step * SECONDS_A_STEP / total, 0.0001) for step in (moment, moment + 1))
        if moment == steps - 1:
            end = 0.9999
        shown = "inline" if moment == 0 else "none"
        rows.append(
            f'<text x="{LEFT}" y="{TOP + HEIGHT + 24}" fill="#444" display="{shown}">step {moment}: '
            f"{escape(texts.get(moment, ''))[:70]} — {live:,} bytes live"
            f'<animate attributeName="display" dur="{total:.2f}s" repeatCount="indefinite" calcMode="discrete" '
            f'values="{"inline" if moment == 0 else "none"};inline;none" keyTimes="0;{begin:.4f};{end:.4f}"/></text>'
        )
    return rows


if __name__ == "__main__":
    PICTURE.write_text(picture(view()), encoding="utf-8")
