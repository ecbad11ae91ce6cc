"""Megabytes on disk of what an installation of nnc without extras brings, by distribution; one JSON line.

    python benchmarks/installed_size.py

Counted are the files that each distribution installed, without bytecode, and nnc's own from this checkout.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"


def closure(name: str) -> list[str]:
    """The distributions that `name` needs, directly or not, of those that are installed."""
    found: list[str] = []
    waiting = needs(name)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.append(one)
            waiting += needs(one)
    return sorted(found)


def needs(name: str) -> list[str]:
    """Names without extras and without those for other systems, where they are not installed."""
    lines = [line for line in requires(name) or () if "extra ==" not in line]
    return [one for line in lines if installed(one := re.split(r"[^\w.-]", line.strip())[0].lower())]


def installed(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


def megabytes(name: str) -> float:
    """Of the files of one distribution."""
    files = distribution(name).files or ()
    places = (Path(str(file.locate())) for file in files if file.suffix != ".pyc")
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def main() -> None:
    sizes = {name: round(megabytes(name), 1) for name in closure("nnc")}
    sizes["nnc"] = round(sum(path.stat().st_size for path in SOURCES.rglob("*.py")) / 1e6, 1)
    print(json.dumps({"total": round(sum(sizes.values()), 1), **dict(sorted(sizes.items(), key=lambda row: -row[1]))}))


if __name__ == "__main__":
    main()
