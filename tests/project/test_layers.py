"""The layer list is told in three places; here they are held together."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nnc"
DIAGRAM_TITLE = "Imports only point down this list:"
# What a package may import besides the standard library and itself, where that is almost nothing.
STANDALONE = {
    "errors": set[str](),
    "arguments": {"nnc.errors"},
    "graph": {"nnc.arguments", "nnc.errors"},
    "planning": {"nnc.arguments", "nnc.errors", "numpy"},
}


def contract_layers() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts = [contract for contract in settings["contracts"] if contract["type"] == "layers"]
    (layers,) = (contract["layers"] for contract in contracts if contract["containers"] == ["nnc"])
    return [str(layer) for layer in layers]


def diagram_layers() -> list[str]:
    docstring = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text())) or ""
    lines = iter(docstring.partition(DIAGRAM_TITLE)[2].splitlines())
    layers = list[str]()
    for line in lines:
        if line.startswith("    "):
            layers.append(line.split()[0])
        elif line.strip() and layers:
            break
    return layers


def imported_modules(file: Path) -> set[str]:
    modules = set[str]()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import hides its layer"
            modules.add(node.module or "")
    return modules


def test_the_diagram_equals_the_contract() -> None:
    contract = [layer.strip("()") for layer in contract_layers()]
    present = [layer for layer in contract if (PACKAGE / layer).is_dir() or (PACKAGE / f"{layer}.py").is_file()]
    assert diagram_layers() in (contract, present)


def test_only_absent_layers_are_optional() -> None:
    optional = [layer.strip("()") for layer in contract_layers() if layer.startswith("(")]
    assert [layer for layer in optional if (PACKAGE / layer).is_dir()] == []


@pytest.mark.parametrize("layer", STANDALONE)
def test_a_standalone_layer_imports_the_standard_library_and_little_else(layer: str) -> None:
    files = sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]
    own = f"nnc.{layer}"
    for file in files:
        for module in imported_modules(file):
            if module == own or module.startswith(f"{own}."):
                continue
            known = module.partition(".")[0] in sys.stdlib_module_names
            allowed = any(module == name or module.startswith(f"{name}.") for name in STANDALONE[layer])
            assert known or allowed, f"{file.relative_to(ROOT)} imports {module}"
