"""Rules for every source file that neither ruff nor mypy holds."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nnc"
FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}
ROOT_ENTRIES = {
    ".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", "README.md", "SECURITY.md",
    "benchmarks", "docs", "examples", "pyproject.toml", "scripts", "src", "tests",
}  # fmt: skip
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}


def imports(tree: ast.Module) -> set[str]:
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def allows_pickle(node: ast.AST) -> bool:
    """Whether a call hands `allow_pickle` anything but False: NumPy's own door to pickle."""
    return isinstance(node, ast.Call) and any(
        keyword.arg == "allow_pickle" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        for keyword in node.keywords
    )


def source_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_no_file_uses_pickle() -> None:
    for file in source_files():
        tree = ast.parse(file.read_text())
        assert imports(tree).isdisjoint(FORBIDDEN_MODULES), file
        assert not any(map(allows_pickle, ast.walk(tree))), file


def test_every_package_has_a_docstring() -> None:
    packages = {file.parent for file in source_files()}
    for package in sorted(packages):
        init = package / "__init__.py"
        assert init.is_file(), f"{package} has no __init__.py"
        assert ast.get_docstring(ast.parse(init.read_text())), f"{init} has no docstring"


def test_no_file_has_an_empty_name() -> None:
    names = {file.stem for file in source_files()} | {file.parent.name for file in source_files()}
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
