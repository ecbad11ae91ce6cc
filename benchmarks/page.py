"""Pages of memory maps in a browser: how large they are and how soon they are painted; a JSON line each.

    python benchmarks/page.py [--only TEXT]       digits, resnet50 (steps of training), 100,000 blocks

`paint_ms` is from the beginning of the navigation to the end of the first frame with the map on it, the least of three;
`requests` are those beside the page itself, `errors` what the console says. It needs the extra `test` and the
system's chromium: `scripts/docs --install-browser`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from nnc.nn.zoo import network
from nnc.planning import Block, Plan, Problem, Witness, memory_map

ROUNDS = 3
# The second frame begins when the first, with the map on it, was handed to the screen.
PAINTED = (
    """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"""
)


def step_of(name: str, batch: int) -> tuple[str, int]:
    """The page of a step of training, and its blocks."""
    compiled = network(name).training_step(batch).compiled
    return compiled.page(f"{name}, a step with {batch} examples"), len(compiled.plan()[0].blocks)


def many(count: int) -> tuple[str, int]:
    """Blocks that begin a hundred at a step and live for three."""
    blocks = tuple(Block(f"b{index}", 64, index // 100, index // 100 + 3) for index in range(count))
    offsets = tuple(index % 300 * 64 for index in range(count))
    plan = Plan(offsets, 19_200, 19_200, "", True, 0.0, Witness(0, tuple(range(100))))
    return memory_map(Problem(blocks), plan, f"{count} blocks"), count


CASES: Mapping[str, Callable[[], tuple[str, int]]] = {
    "digits": lambda: step_of("digits", 64),
    "resnet50": lambda: step_of("resnet50", 8),
    "many": lambda: many(100_000),
}


def looked_at(api: ModuleType, program: str, place: Path) -> dict[str, float | int]:
    """One navigation of a fresh browser."""
    asked: list[str] = []
    said: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda message: said.append(message.text))
        page.goto(place.as_uri())
        painted = page.evaluate(PAINTED)
        browser.close()
    return {"paint_ms": round(painted, 1), "requests": len(asked) - 1, "errors": len(said)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the name of a case")
    options = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        sys.exit("page.py: no chromium on this machine. Fix: scripts/docs --install-browser says how to get it")
    api = import_module("playwright.sync_api")
    with TemporaryDirectory() as folder:
        for name, make in CASES.items():
            if options.only in name:
                text, blocks = make()
                place = Path(folder, f"{name}.html")
                place.write_text(text, encoding="utf-8")
                found = min((looked_at(api, program, place) for _ in range(ROUNDS)), key=lambda one: one["paint_ms"])
                print(json.dumps({"page": name, "blocks": blocks, "bytes": place.stat().st_size, **found}), flush=True)


if __name__ == "__main__":
    main()
