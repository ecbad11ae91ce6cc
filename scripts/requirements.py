"""The requirements of the package, one a line: `requirements.py lowest|newest PYPROJECT`.

lowest    each dependency at its lower bound, and the tools of the slice as they come
newest    each dependency as it comes
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

TOOLS = ("pytest", "hypothesis", "pytest-xdist", "safetensors", "sympy")


def requirements(which: str, project: str) -> list[str]:
    """The lines; ValueError for a dependency without a lower bound, which could not be tested."""
    if which not in {"lowest", "newest"}:
        raise ValueError(f"got {which!r}; need lowest or newest")
    tables = tomllib.loads(project)["project"]
    tools = [line for line in tables["optional-dependencies"]["test"] if re.split(r"[<>=~]", line)[0] in TOOLS]
    dependencies = tables["dependencies"]
    for line in dependencies:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+>=[0-9.]+", line):
            raise ValueError(f"got the dependency {line!r}; need NAME>=VERSION")
    lowest = which == "lowest"
    return [*(line.replace(">=", "==") if lowest else line for line in dependencies), *tools]


if __name__ == "__main__":
    try:
        print(*requirements(sys.argv[1], Path(sys.argv[2]).read_text()), sep="\n")
    except ValueError as error:
        sys.exit(f"test-versions: {error}")
