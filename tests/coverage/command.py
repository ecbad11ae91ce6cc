"""The command behind scripts/coverage: how many branches of the core its own tests run; the last line is JSON.

Each area is measured with the tests that mirror it and no others, in processes that they start as well. The exit code
is 1 where an area is below its goal, or where its tests fail.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.coverage.areas import AREAS, Area

ROOT = Path(__file__).resolve().parents[2]
# Lines that only a type checker sees, or that say that they are never reached.
SETTINGS = """[run]
branch = true
parallel = true
patch = subprocess
data_file = {data}
include = {sources}

[report]
exclude_also =
    if TYPE_CHECKING:
    raise NotImplementedError
    ^\\s*\\.\\.\\.$
    assert_never
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What the tests of an area ran."""

    branches: int
    run: int
    lines: int
    lines_run: int
    goal: float
    passed: bool

    @property
    def percent(self) -> float:
        """Of the branches."""
        return 100 * self.run / self.branches if self.branches else 100.0


def missed(facts: Mapping[str, Any]) -> list[str]:
    """`12->14`: line 12 is run, and 14 never after it; `12->exit` leaves the function."""
    return [f"{begin}->{'exit' if end < 0 else end}" for begin, end in facts["missing_branches"]]


def measure(area: Area, arguments: list[str]) -> tuple[Result, Mapping[str, Any]]:
    """Run the tests of an area; the result, and what coverage.py says of each file."""
    with TemporaryDirectory(prefix="nnc-coverage-") as name:
        settings, report = Path(name, "settings"), Path(name, "report.json")
        sources = ",".join(str(ROOT / "src" / "nnc" / one) for one in area.sources)
        settings.write_text(SETTINGS.format(data=Path(name, "data"), sources=sources), encoding="utf-8")
        coverage = [sys.executable, "-P", "-m", "coverage"]
        option = f"--rcfile={settings}"
        tests = [str(ROOT / "tests" / one) for one in area.tests]
        pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, *tests]
        code = subprocess.run([*coverage, "run", option, *pytest], cwd=ROOT, stdout=sys.stderr).returncode
        for last in (["combine", option, "-q"], ["json", option, "-q", "-o", str(report)]):
            subprocess.run([*coverage, *last], cwd=ROOT, stdout=sys.stderr, check=True)
        found = json.loads(report.read_text(encoding="utf-8"))
    whole = found["totals"]
    counts = (whole["num_branches"], whole["covered_branches"], whole["num_statements"], whole["covered_lines"])
    return Result(*counts, area.goal, code == 0), found["files"]


def main() -> int:
    """Measure, print; 0 where all areas reach their goals."""
    parser = argparse.ArgumentParser(prog="scripts/coverage", description=__doc__)
    parser.add_argument("areas", nargs="*", help=f"some of: {', '.join(AREAS)} (default: all)")
    parser.add_argument("--workers", type=int, default=0, help="processes of pytest (default: in this one)")
    options = parser.parse_args()
    if unknown := set(options.areas) - set(AREAS):
        parser.error(f"got {', '.join(sorted(unknown))}; need some of {', '.join(AREAS)}")
    results: dict[str, Result] = {}
    for name in options.areas or AREAS:
        result, files = measure(AREAS[name], ["-n", str(options.workers)] if options.workers else ["-p", "no:xdist"])
        results[name] = result
        print(f"{name}: {result.run} of {result.branches} branches, {result.percent:.1f} % (goal {result.goal:g} %)")
        for path, facts in sorted(files.items()):
            if facts["missing_branches"] or facts["missing_lines"]:
                place = os.path.relpath(ROOT / path, ROOT / "src" / "nnc")
                print(f"  {place}: {' '.join(missed(facts))} lines {facts['missing_lines']}")
    print(json.dumps({name: {**asdict(one), "percent": round(one.percent, 2)} for name, one in results.items()}))
    return 0 if all(one.passed and one.percent >= one.goal for one in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
