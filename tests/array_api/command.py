"""The command behind scripts/array-api: `nnc.array_api` against array-api-strict, and in data-apis' own suite.

The last line of the output is JSON with the counts. `--suite FOLDER` names a checkout of data-apis/array-api-tests,
which is on no package registry: pytest then runs it, with the skips of `tests/array_api/skips.txt`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
from importlib import import_module
from itertools import chain
from pathlib import Path

import numpy as np
from tests.array_api.checks import FAMILIES
from tests.array_api.comparison import compare
from tests.array_api.random_checks import random_checks

import nnc.array_api

SKIPS = Path(__file__).parent / "skips.txt"


def main() -> int:
    """Compare, print the counts; 0 when nothing differs."""
    parser = argparse.ArgumentParser(prog="scripts/array-api", description=__doc__)
    parser.add_argument("--suite", type=Path, help="a checkout of data-apis/array-api-tests, to be run too")
    parser.add_argument(
        "--examples", type=int, default=100, help="examples per test of the suite (default: %(default)s)"
    )
    parser.add_argument("--random", type=int, default=10_000, help="random calls besides (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random calls (default: %(default)s)")
    options = parser.parse_args()
    strict = import_module("array_api_strict")
    strict.set_array_api_strict_flags(api_version=nnc.array_api.__array_api_version__)
    with np.errstate(all="ignore"):
        random = random_checks(options.seed, options.random)
        report = compare(chain((check for family in FAMILIES for check in family()), random), strict)
    missing = missing_names(strict)
    signatures = other_signatures(strict)
    counts = {**report.counts(), "missing": missing, "other signatures": signatures}
    suite = run_suite(options.suite, options.examples) if options.suite else 0
    print(json.dumps({**counts, "suite": "passed" if options.suite and not suite else suite or "not run"}))
    return int(bool(report.differed or missing or signatures or suite))


def names_of(namespace: object) -> list[str]:
    """The standard's names, those of the extensions with a dot."""
    own = [name for name in getattr(namespace, "__all__", ()) if not name.startswith("_")]
    return [name for name in own if "flags" not in name.lower() and name not in ("Device", "linalg", "fft")]


def missing_names(strict: object) -> list[str]:
    """Names that array-api-strict has and we have not."""
    found = [name for name in names_of(strict) if not hasattr(nnc.array_api, name)]
    for extension in ("linalg", "fft"):
        theirs, ours = getattr(strict, extension), getattr(nnc.array_api, extension)
        found += [f"{extension}.{name}" for name in names_of(theirs) if not hasattr(ours, name)]
    return found


def other_signatures(strict: object) -> list[str]:
    """Functions whose arguments have other names or kinds than in array-api-strict."""
    found = []
    for prefix, theirs, ours in (
        ("", strict, nnc.array_api),
        ("linalg.", getattr(strict, "linalg"), nnc.array_api.linalg),  # noqa: B009  # a module without types
        ("fft.", getattr(strict, "fft"), nnc.array_api.fft),  # noqa: B009  # as above
    ):
        for name in names_of(theirs):
            other = getattr(theirs, name)
            if inspect.isfunction(other) and hasattr(ours, name):
                want = [(one.name, one.kind) for one in inspect.signature(other).parameters.values()]
                got = [(one.name, one.kind) for one in inspect.signature(getattr(ours, name)).parameters.values()]
                if got != want:
                    found.append(f"{prefix}{name}: got {shown(got)}; need {shown(want)}")
    return found


def shown(parameters: list[tuple[str, object]]) -> str:
    """Names, with the kinds that differ from the usual."""
    return ", ".join(f"{name} ({kind})" for name, kind in parameters)


def run_suite(folder: Path, examples: int) -> int:
    """The exit code of pytest on data-apis' suite."""
    environment = {**os.environ, "ARRAY_API_TESTS_MODULE": "nnc.array_api", "ARRAY_API_TESTS_VERSION": "2024.12"}
    arguments = ["-p", "no:cacheprovider", "--skips-file", str(SKIPS), f"--max-examples={examples}", "array_api_tests"]
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "-r", folder / "requirements.txt"], check=True)
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
