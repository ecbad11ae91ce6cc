"""The page of a file's memory map in Chromium: bytes, nodes, seconds until it is drawn, requests, lines of the console.

    python benchmarks/map_page.py FILE.onnx [--repeats N]

Prints one JSON line. Needs playwright and a Chromium of the system, as `tests/cli/test_page_in_browser.py` does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from tests.browser import opened_browser

import onnx

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def opened(browser: Browser, place: Path) -> tuple[float, int, list[str]]:
    """Seconds until the page is loaded and a frame was drawn, how many requests it made, and what it said."""
    asked: list[str] = []
    said: list[str] = []
    page = browser.new_page(viewport={"width": 1400, "height": 800})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    begin = perf_counter()
    page.goto(place.as_uri())
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    seconds = perf_counter() - begin
    page.close()
    return seconds, len(asked), said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with TemporaryDirectory() as folder, opened_browser() as browser:
        place = Path(folder) / "map.html"
        subprocess.run([sys.executable, "-m", "nnc", "viz", str(options.file), "-o", str(place)], check=True)
        runs = [opened(browser, place) for _ in range(options.repeats)]
        row = {
            "nodes": len(onnx.load(options.file, load_external_data=False).graph.node),
            "bytes": place.stat().st_size,
            "seconds": round(statistics.median(run[0] for run in runs), 3),
            "slowest": round(max(run[0] for run in runs), 3),
            "requests": [run[1] for run in runs],
            "console": [text for run in runs for text in run[2]],
        }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
