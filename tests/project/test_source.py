"""Rules for every source file that neither ruff nor mypy holds."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections import Counter

import pytest
from tests.project.sources import PACKAGE, ROOT, imported_modules, source_files, tree_of

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}
ROOT_ENTRIES = {
    ".ci", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "NOTICE", "README.md",
    "SECURITY.md", "benchmarks", "docs", "examples", "pyproject.toml", "scripts", "src", "tests",
}  # fmt: skip
# Names that could hold anything: STYLE asks for what a variable holds.
EMPTY_VARIABLES = {"found", "one"}
MOST_LINES, MOST_BODY, MOST_FILES = 450, 40, 20
# Longer files, with the reason why they are one.
LONG_FILES = {
    "planning/solvers/branch_and_bound.py": "the exact search, which is translated to native code as one",
}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}


def allows_pickle(node: ast.AST) -> bool:
    """Whether a call hands `allow_pickle` anything but False: NumPy's own door to pickle."""
    return isinstance(node, ast.Call) and any(
        keyword.arg == "allow_pickle" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        for keyword in node.keywords
    )


def test_no_file_uses_pickle() -> None:
    for file in source_files():
        assert {name.partition(".")[0] for name in imported_modules(file)}.isdisjoint(FORBIDDEN_MODULES), file
        assert not any(map(allows_pickle, ast.walk(tree_of(file)))), file


def test_every_package_has_a_docstring() -> None:
    packages = {file.parent for file in source_files()}
    for package in sorted(packages):
        init = package / "__init__.py"
        assert init.is_file(), f"{package} has no __init__.py"
        assert ast.get_docstring(tree_of(init)), f"{init} has no docstring"


def test_no_file_has_an_empty_name() -> None:
    # PyTorch's, MLX's and Keras' own names of packages, by which their users import them.
    theirs = {PACKAGE / "utils", PACKAGE / "nn" / "utils", PACKAGE / "keras" / "utils"}
    names = {file.stem for file in source_files()}
    names |= {file.parent.name for file in source_files() if file.parent not in theirs}
    assert names.isdisjoint(FORBIDDEN_NAMES)


@pytest.mark.parametrize("name", ["py.typed", "nn/data/digits.csv.gz", "nn/data/digits.md"])
def test_what_is_not_python_ships_too(name: str) -> None:
    assert (PACKAGE / name).is_file()


def test_the_root_holds_what_is_listed() -> None:
    """What runs leave behind is not committed; a new file at the root is a decision."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    files = subprocess.run([git, "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    assert {file.partition("/")[0] for file in files if file} == ROOT_ENTRIES


def bindings(tree: ast.Module) -> set[str]:
    """The names that assignments, loops and parameters bind."""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def test_variables_say_what_they_hold() -> None:
    """In f-strings of Python 3.11 as everywhere else."""
    empty = {str(file): names for file in source_files() if (names := bindings(tree_of(file)) & EMPTY_VARIABLES)}
    assert empty == {}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function behind its signature and its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_files_functions_and_folders_fit_in_the_head() -> None:
    lengths = {str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in source_files()}
    assert {name for name, length in lengths.items() if length > MOST_LINES} <= LONG_FILES.keys()
    functions = {
        f"{file.relative_to(PACKAGE)}: {node.name}": body_lines(node)
        for file in source_files()
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: length for name, length in functions.items() if length > MOST_BODY} == {}
    folders = Counter(file.parent for file in source_files())
    assert {str(folder): count for folder, count in folders.items() if count > MOST_FILES} == {}
