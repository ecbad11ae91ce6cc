"""Seeded interleavings in processes of their own, whose locks are a scheduler's from the start.

python -m tests.fuzz.interleavings.campaign FIRST COUNT    one JSON line for each seed
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PART = 40
SECONDS = 900


@dataclass
class Report:
    """How many interleavings there were of each scenario, in how many turns, and what was wrong."""

    seen: Counter[str] = field(default_factory=Counter)
    switches: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """One line of JSON."""
        counts = {"interleavings": self.seen.total(), "scenarios": dict(self.seen), "switches": self.switches}
        return json.dumps({**counts, "failures": self.failures})


def run_campaign(first: int, count: int, workers: int) -> Report:
    """So many seeds, in parts."""
    report = Report()
    starts = range(first, first + count, PART)
    with ThreadPoolExecutor(workers) as pool:
        for lines in pool.map(lambda start: _run_part(start, min(PART, first + count - start)), starts):
            for line in lines:
                report.seen[line["scenario"]] += 1
                report.switches += line["switches"]
                if line["fault"]:
                    report.failures.append(f"{line['seed']} {line['scenario']}: {line['fault']}")
    return report


def _run_part(first: int, count: int) -> list[dict[str, str | int]]:
    """The lines of a process; of one that ended early, the seed behind the last line failed."""
    command = [sys.executable, "-P", "-m", "tests.fuzz.interleavings.child", str(first), str(count)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if len(lines) < count:
        told = f"exit code {done.returncode}: {done.stderr[-800:]}"
        lines.append({"seed": first + len(lines), "scenario": "process", "switches": 0, "fault": told})
        if len(lines) < count:
            lines.extend(_run_part(first + len(lines), count - len(lines)))
    return lines
