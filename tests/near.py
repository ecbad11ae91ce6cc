"""The tests near a change, for `scripts/test --near [REVISION]`: a line of pytest's arguments each.

A changed test is near itself. A changed module is near the tests that mirror it (src/nnc/a/b.py has tests/a/test_b.py),
those that import it directly (where there are none, those of its folder), and its own doctests; a changed file of a
family of operators is near one conformance row of each operator of the family. A changed page is near its own code.
What changed is what differs from REVISION, by default from the last commit, or in the last commit where nothing does.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = PurePosixPath("src/nnc")
FLOORS = ("ops", "codegen/kernels", "backends/reference")
CONFORMANCE = "tests/conformance/test_conformance.py::test_backends_agree_with_the_reference"
PAGES = "tests/project/test_documentation.py::test_the_code_of_a_page_runs_and_prints_what_the_page_shows"


def changed_files(revision: str | None) -> list[PurePosixPath]:
    """What differs from `revision` in the working tree, and files that git does not know yet."""

    def lines(*arguments: str) -> list[PurePosixPath]:
        done = subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True)
        return [PurePosixPath(line) for line in done.stdout.splitlines()]

    own = lines("diff", "--name-only", revision or "HEAD") + lines("ls-files", "--others", "--exclude-standard")
    return own if own or revision else lines("diff", "--name-only", "HEAD~1")


def near(changed: Iterable[PurePosixPath]) -> list[str]:
    """Pytest's arguments for these files, in order and each once."""
    chosen = dict.fromkeys(argument for path in changed for argument in _near(path))
    files = {argument for argument in chosen if "::" not in argument}
    return [argument for argument in chosen if "::" not in argument or argument.partition("::")[0] not in files]


def _near(path: PurePosixPath) -> Iterator[str]:
    exists = (ROOT / path).is_file()
    if path.suffix == ".md" and path.parts[0] == "docs":
        if exists and "```python" in (ROOT / path).read_text(encoding="utf-8"):
            yield f"{PAGES}[{path.relative_to('docs')}]"
    elif path.match("tests/**/test_*.py") and exists:
        yield str(path)
    elif path.suffix == ".py" and path.is_relative_to(PACKAGE):
        if exists and ">>>" in (ROOT / path).read_text(encoding="utf-8"):
            yield str(path)
        yield from _tests_of(path.relative_to(PACKAGE))
        yield from conformance_of(path.relative_to(PACKAGE))


def _tests_of(module: PurePosixPath) -> list[str]:
    """Tests that mirror the module, and those that import it by its own name."""
    mirror = f"tests/{module.parent}/test_{module.stem}".replace("/./", "/")
    name = ".".join(("nnc", *module.with_suffix("").parts)).removesuffix(".__init__")
    tests = [
        test
        for test, imported in imports_of_tests().items()
        if test.removesuffix(".py") == mirror or test.startswith(f"{mirror}_") or name in imported
    ]
    # What tests reach through the face of its package has no nearer tests than those of the package.
    return tests or [test for test in imports_of_tests() if PurePosixPath(test).parent == PurePosixPath(mirror).parent]


@cache
def imports_of_tests() -> dict[str, frozenset[str]]:
    """The modules that each test imports, by its path."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return {str(test.relative_to(ROOT)): frozenset(_imports(test)) for test in tests}


def _imports(test: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def conformance_of(module: PurePosixPath) -> Iterator[str]:
    """A conformance row of each operator that is named in the family of the module."""
    for floor in FLOORS:
        if module.is_relative_to(floor) and len(parts := module.relative_to(floor).parts) > 1:
            sources = sorted((ROOT / PACKAGE / "ops" / parts[0]).glob("*.py"))
            text = "".join(source.read_text(encoding="utf-8") for source in sources)
            yield from (f"{CONFORMANCE}[{row}]" for name, row in first_rows() if f'"{name}"' in text)


@cache
def first_rows() -> tuple[tuple[str, str], ...]:
    """The operator and the name of the first conformance row of each operator."""
    from tests.conformance.case import names_of  # noqa: PLC0415  # as below
    from tests.conformance.cases import CASES  # noqa: PLC0415  # it makes all rows, for a second

    rows: dict[str, str] = {}
    for case, name in names_of(CASES).items():
        rows.setdefault(case.op.name, name)
    return tuple(rows.items())


def main(arguments: list[str]) -> int:
    """Print pytest's arguments; 1 and a line on standard error where no test is near."""
    chosen = near(changed_files(arguments[0] if arguments else None))
    print("\n".join(chosen))
    if not chosen:
        print("test: no test is near what changed. Fix: name a revision, or run all: scripts/test", file=sys.stderr)
    return 0 if chosen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
