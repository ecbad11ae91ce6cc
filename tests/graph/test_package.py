"""The package as a whole: what it imports, what it calls things, what its types refuse."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path
from types import FunctionType

import pytest

import nnc.graph

PACKAGE = Path(nnc.graph.__file__).parent
SOURCES = sorted(PACKAGE.glob("*.py"))
TREES = {path.stem: ast.parse(path.read_text()) for path in SOURCES}


def imported_roots(tree: ast.Module) -> set[str]:
    """The modules that a file imports: ours in full, others by their first name."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module or "")
    return {".".join(name.split(".")[:2]) if name.startswith("nnc") else name.split(".")[0] for name in names}


def test_M1_only_the_standard_library_and_our_errors_are_imported() -> None:
    for tree in TREES.values():
        ours = {"nnc.graph", "nnc.arguments", "nnc.classes", "nnc.errors"}
        foreign = imported_roots(tree) - set(sys.stdlib_module_names) - ours
        assert not foreign


def test_M1_the_package_imports_without_numpy() -> None:
    code = "import sys; sys.modules['numpy'] = None; import nnc.graph; nnc.graph.Graph(int).add_node('works')"
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


def environment() -> dict[str, str]:
    """This process's environment with our sources first on the path."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE.parents[1])}


def test_M2_D9_there_is_no_cast_and_no_any() -> None:
    for name, tree in TREES.items():
        words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        words |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not words & {"cast", "Any"}, name


def test_M3_there_is_one_node_record_per_graph() -> None:
    for name in nnc.graph.__all__:
        assert not re.search("Node$|NodePtr|NodeEntry|Indexed", name)
    records = {name for name in nnc.graph.__all__ if is_dataclass(getattr(nnc.graph, name))}
    assert "Edge" in records


def test_M8_there_is_one_place_that_refuses_a_key() -> None:
    raises = [
        (name, node.lineno)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) == "KeyOverflowError"
    ]
    assert [name for name, _ in raises] == ["arena"]


def test_M22_no_function_of_the_graph_calls_itself() -> None:
    for name in ("visit", "structure", "compare", "text", "graph", "undirected", "passes"):
        for function in ast.walk(TREES[name]):
            if isinstance(function, ast.FunctionDef):
                calls = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
                assert not calls & {function.name, f"self.{function.name}"}, function.name


@pytest.mark.parametrize("name", nnc.graph.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(nnc.graph, name)
    if isinstance(value, type | FunctionType):
        assert value.__doc__


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says about `must_fail.txt`, by line."""
    folder = tmp_path_factory.mktemp("typing")
    # The package stands there with what it imports: the face of `nnc` imports all, which mypy read for 8 of 11 s.
    face = folder / "sources" / "nnc" / "__init__.py"
    face.parent.mkdir(parents=True)
    face.touch()
    for name in ("arguments", "classes.py", "errors.py", "graph", "vocabulary"):
        (face.parent / name).symlink_to(PACKAGE.parent / name)
    program = folder / "must_fail.py"
    program.write_text(lines_of_program())
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-codes",
        "--config-file",
        "",
    ]
    result = subprocess.run(
        [*command, "--cache-dir", os.devnull, str(program)],
        env={**environment(), "MYPYPATH": str(face.parents[1])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[int, str] = {}
    for path, line, message in re.findall(r"^(.*?):(\d+): error: (.*)$", result.stdout, re.MULTILINE):
        assert path == program.name, f"{path}: {message}"
        found[int(line)] = found.get(int(line), "") + message
    assert found, result.stdout + result.stderr
    return found


def lines_of_program() -> str:
    return (Path(__file__).parent / "must_fail.txt").read_text()


def test_M2_M5_M9_M10_M19_M24_wrong_uses_do_not_pass_the_type_checker(verdict: dict[int, str]) -> None:
    expected = {
        number: line.partition("# error: ")[2]
        for number, line in enumerate(lines_of_program().splitlines(), 1)
        if "  # error: " in line
    }
    assert len(expected) > 40
    assert sorted(verdict) == sorted(expected), verdict
    missed = {number: verdict[number] for number, words in expected.items() if words not in verdict[number]}
    assert not missed
