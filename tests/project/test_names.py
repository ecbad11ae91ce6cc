"""One word, one thing: public names of classes and modules do not repeat, and no name hides a module."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.project.sources import PACKAGE, source_files, tree_of

import nnc
from nnc.ops import OPERATORS

# Families have one name in every package that serves them: what is computed, how, and as a layer or a pass.
FAMILIES = (
    "ops", "backends", "codegen/kernels", "nn/layers", "symbolic/passes", "cli", "onnx/rows", "onnx/exports",
    "numerics", "keras",
)  # fmt: skip
# What repeats on purpose, with the reason.
CLASSES = {
    "Arena": "of keys in the graph, of bytes in a compiled graph",
    "Exponential": "a schedule of rates, and a distribution",
    "Generator": "of kernels for a device, and PyTorch's source of random numbers",
    "Module": "the text of a program that LLVM reads, and a network written as a class, which PyTorch and MLX call so",
    "Rule": "a rewrite, and what an argument has to be",
}
MODULES = {
    "checkpoint": "of a training, and PyTorch's package of recomputation",
    "digits": "the data and the network",
    "graph": "of each layer",
    "losses": "values that models take, and MLX's functions",
    "lr_scheduler": "schedules, and PyTorch's address of them",
    "module": "a network written as a class, and SPIR-V's word for a program",
    "program": "that a dynamic graph compiles, and that the compiler repeats",
    "schedule": "streams of a concrete graph, and when execs run again",
    "serialize": "tensors, graphs, symbolic graphs",
    "text": "of each layer's graph",
}
CATALOGS = (
    "ops/__init__.py",
    "ops/operators.py",
    "backends/reference/kernels.py",
    "codegen/kernels/table.py",
)


def is_family(path: Path) -> bool:
    return any(path.is_relative_to(PACKAGE / family) for family in FAMILIES)


def repeated(found: Mapping[str, list[Path]]) -> set[str]:
    """Names that stand in two places, where not all but one of them are members of families."""
    several = {name: [path for path in paths if not is_family(path)] for name, paths in found.items()}
    return {name for name, paths in several.items() if len(paths) > 1}


def test_public_classes_do_not_repeat_a_name() -> None:
    found = defaultdict[str, list[Path]](list)
    for file in source_files():
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                # A class is a member of a family only as a kernel, a layer, or Keras': elsewhere its name is its own.
                kernel = any(file.is_relative_to(PACKAGE / one) for one in ("codegen/kernels", "nn/layers", "keras"))
                found[node.name].append(file if kernel else PACKAGE / file.name)
    assert repeated(found) == set(CLASSES)


def test_public_modules_do_not_repeat_a_name() -> None:
    found = defaultdict[str, list[Path]](list)
    for file in source_files():
        if file.stem != "__init__":
            found[file.stem].append(file)
    assert repeated(found) == set(MODULES)


def test_no_package_hides_a_module_behind_its_name() -> None:
    """`import a.b.c` gives the module, whatever a.b imports."""
    for _, name, _ in pkgutil.walk_packages(nnc.__path__, "nnc."):
        module = importlib.import_module(name)
        package, _, leaf = name.rpartition(".")
        assert getattr(importlib.import_module(package), leaf) is module, name


@pytest.mark.parametrize(
    "catalog",
    ["ops/__init__.py", "ops/operators.py", "backends/reference/kernels.py", "codegen/kernels/table.py"],
)
def test_catalogs_name_families_and_no_operator(catalog: str) -> None:
    """What is added to a family is in the catalogs without a line there."""
    text = (PACKAGE / catalog).read_text(encoding="utf-8")
    assert {op.name.upper() for op in OPERATORS}.isdisjoint(re.findall(r"\w+", text))


def families(floor: str) -> set[str]:
    """The folders of a floor that hold modules."""
    return {folder.name for folder in (PACKAGE / floor).iterdir() if (folder / "__init__.py").is_file()}


def test_families_have_one_name_on_every_floor() -> None:
    """What an operator means, how it is computed, how code for it is written, and its rows in ONNX."""
    assert families("backends/reference") == families("codegen/kernels") == families("ops")
    assert families("onnx/rows") - families("ops") == {"control", "learning"}
