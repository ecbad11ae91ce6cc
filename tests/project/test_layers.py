"""The layer list is told in three places; here they are held together."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from fnmatch import fnmatch

import pytest
from tests.project.sources import PACKAGE, ROOT, imported_modules, source_files, tree_of

DIAGRAM_TITLE = "Imports only point down this list:"
# What a package may import besides the standard library and itself, where that is almost nothing.
STANDALONE = {
    "errors": set[str](),
    "classes": {"_typeshed"},
    "addresses": {"nnc.errors"},
    "faces": {"nnc.addresses"},
    "vocabulary": {"nnc.errors"},
    "arguments": {"nnc.classes", "nnc.errors", "nnc.vocabulary.words"},
    "graph": {"nnc.arguments", "nnc.classes", "nnc.errors"},
    "planning": {"nnc.arguments", "nnc.classes", "nnc.errors", "nnc.faces", "numpy"},
}
# The doors of a package beside its face: whatever is deeper is the package's own. In `core` and `ops`, the vocabularies
# of the others, each module is a door.
DOORS = {
    "graph": {"composition", "screen", "structure", "text", "visit"},
    "planning": {"page", "pictures", "problem"},
    "codegen": {"device.*", "frame.*", "ir.*", "kernels.*", "program.*"},
    "concrete": {"body", "control", "graph", "multiview", "profiling", "run", "schedule"},
    "symbolic": {
        "compiler", "compiler.compiled", "compiler.place.memory", "compiler.shared_arena", "compiler.stored_programs",
        "control", "forward", "gradient", "ir", "kept.*", "records", "minimization", "passes",
        "quantization_report", "rewrite",
        "scopes", "sharing.*", "stages", "text.tables",
    },
    "dynamic": {
        "arrays.*", "eager", "graph", "hooks.*", "replay", "state", "traced", "transforms", "transforms.*", "tree",
        "variable",
    },
    "onnx": set[str](),
    "language": {"gguf"},
    "parallel": {
        "block_operators", "buckets", "compression", "launching", "ordering", "pipelining", "places", "splitting",
        "splitting_rules", "tensor_shards",
    },
}  # fmt: skip


def contract_layers() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts = [contract for contract in settings["contracts"] if contract["type"] == "layers"]
    (layers,) = (contract["layers"] for contract in contracts if contract["containers"] == ["nnc"])
    return [str(layer) for layer in layers]


def diagram_layers() -> list[str]:
    docstring = ast.get_docstring(tree_of(PACKAGE / "__init__.py")) or ""
    lines = iter(docstring.partition(DIAGRAM_TITLE)[2].splitlines())
    layers = list[str]()
    for line in lines:
        if line.startswith("    "):
            layers.append(line.split()[0])
        elif line.strip() and layers:
            break
    return layers


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


@pytest.mark.parametrize("layer", ["ops", "planning", "concrete", "symbolic", "dynamic", "nn"])
def test_no_upper_layer_names_a_backend(layer: str) -> None:
    """Neither in its code nor in a text of it; `reference` is a word, so its name counts only as a whole text."""
    for file in sorted((PACKAGE / layer).rglob("*.py")):
        code = file.read_text(encoding="utf-8")
        assert not re.search(r"llvm|onednn|\bblas\b", code, re.IGNORECASE), file.relative_to(ROOT)
        for node in ast.walk(tree_of(file)):
            named = [keyword.value for keyword in node.keywords] if isinstance(node, ast.Call) else []
            assert not any(isinstance(one, ast.Constant) and one.value == "reference" for one in named), file


def test_no_layer_imports_another_by_a_text() -> None:
    """What import-linter does not see: a module of ours named in a call, but by the wiring and by faces of packages."""
    for file in source_files():
        if file == PACKAGE / "__init__.py" or "import_module" not in file.read_text(encoding="utf-8"):
            continue
        package = ".".join(("nnc", *file.relative_to(PACKAGE).parent.parts))
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
                texts = [text.value for text in ast.walk(node) if isinstance(text, ast.Constant)]
                ours = [text for text in texts if str(text).startswith("nnc")]
                assert all(text.startswith(f"{package}.") for text in ours), f"{file}:{node.lineno}"


@pytest.mark.parametrize("package", DOORS)
def test_a_package_is_imported_by_its_face_and_its_doors(package: str) -> None:
    deeper = set[str]()
    for file in source_files():
        if file.is_relative_to(PACKAGE / package) or (file.parent == PACKAGE and file.stem in ("__init__", "wiring")):
            continue
        for module in imported_modules(file):
            door = module.removeprefix(f"nnc.{package}.")
            if door != module and not any(fnmatch(door, pattern) for pattern in DOORS[package]):
                deeper.add(f"{file.relative_to(ROOT)}: {module}")
    assert deeper == set()


def test_one_module_loads_llvmlite() -> None:
    """It says why where that cannot be, and keeps interrupts and forks away from LLVM."""
    loading = [
        file for file in source_files() if "llvmlite" in {module.partition(".")[0] for module in imported_modules(file)}
    ]
    assert loading == [PACKAGE / "core" / "running" / "llvm_library.py"]


def test_every_extra_is_imported_somewhere() -> None:
    """What can be installed has code that uses it: a distribution's module stands in an import or is found by name."""
    modules = {
        "onednn-cpu-gomp": "dnnl",
        "pytest-xdist": "",
        "import-linter": "",
        "ruff": "",
        # Its mpiexec starts the ranks.
        "mpich": "",
        "scikit-learn": "sklearn",
        "mypy": "",
        "myst-parser": "myst_parser",
    }
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    folders = ("src", "tests", "benchmarks", "scripts", "docs")
    code = "".join(file.read_text() for one in folders for file in sorted((ROOT / one).rglob("*.py")))
    for name in (re.split(r"[<>=\[]", one)[0] for packages in extras.values() for one in packages):
        module = modules.get(name, name)
        assert re.search(rf"import {module}|import_module\(\"{module}|from {module}|{module}", code), name
