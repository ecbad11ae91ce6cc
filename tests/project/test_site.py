"""The site's reference pages: every public name of every public package stands there once."""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from nnc.planning import Block, Problem, solve
from nnc.planning.page import BlockText, MapView, StepText

ROOT = Path(__file__).parents[2]


def made(name: str) -> ModuleType:
    """A script of the site, as a module."""
    specification = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs" / "site" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


REFERENCE, MEMORY_MAP = made("reference"), made("memory_map")
# How many names of a package have an example in their docstring, at least.
EXAMPLES = {"nnc": 290, "nnc.nn": 91, "nnc.numerics": 275, "nnc.onnx": 3}

# Rooms inside, and those whose names the package above hands on.
NOT_PUBLIC = {
    "nnc.arguments", "nnc.backends", "nnc.cli", "nnc.core", "nnc.nn.layers", "nnc.onnx.exports",
    "nnc.symbolic.compiler", "nnc.symbolic.control",
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE.PACKAGES)
def test_every_public_name_has_an_entry(name: str) -> None:
    page = REFERENCE.page(name)
    titles = [title.replace("\\", "") for title in re.findall(r"^## (.*)$", page, re.MULTILINE)]
    assert titles == REFERENCE.public_names(import_module(name))
    assert " at 0x" not in page


def test_every_public_package_has_a_page() -> None:
    source = ROOT / "src"
    packages = {
        ".".join(path.parent.relative_to(source).parts)
        for path in (source / "nnc").rglob("__init__.py")
        if "__all__" in path.read_text()
    }
    hidden = {name for name in packages if any(name == one or name.startswith(f"{one}.") for one in NOT_PUBLIC)}
    assert packages - hidden - set(REFERENCE.PACKAGES) == set()


def test_names_in_code_lead_to_their_entry() -> None:
    text = (
        "`Dense` and `nn.stream(x)`, `VARIADIC`, `no_name`\n\n```python\n`Dense`\n```\n\n# `Dense`\n\n[`Dense`](a.md)\n"
    )
    assert REFERENCE.linked(text) == (
        "[`Dense`](#nnc.nn.type.Dense) and [`nn.stream(x)`](#nnc.nn.name.stream), "
        "[`VARIADIC`](#nnc.graph.constant.VARIADIC), `no_name`\n\n"
        "```python\n`Dense`\n```\n\n# `Dense`\n\n[`Dense`](a.md)\n"
    )
    assert REFERENCE.linked("`backward`", "nnc.symbolic") == "[`backward`](#nnc.symbolic.name.backward)"


def test_anchors_are_as_many_as_entries_whatever_the_case() -> None:
    anchors = re.findall(r"^\((.*)\)=$", "\n".join(map(REFERENCE.page, REFERENCE.PACKAGES)), re.MULTILINE)
    assert len({anchor.lower() for anchor in anchors}) == len(anchors) > 500
    assert set(REFERENCE.entries().values()) == set(anchors)


def test_what_two_packages_hand_on_is_told_once() -> None:
    assert "`nnc.Variable`" in REFERENCE.page("nnc.dynamic")
    text = REFERENCE.page("nnc.dynamic").partition("## Variable\n")[2].partition("\n## ")[0]
    assert len(text.splitlines()) < 6


def test_docstrings_become_markdown() -> None:
    text = "f: a*b_c and `x*y`\n\n    z = a*b\n\n>>> f(1)\n[2]\n\nAfter <it>."
    assert REFERENCE.markdown(text) == (
        "f: a\\*b\\_c and `x*y`\n\n    z = a*b\n\n```python\n>>> f(1)\n[2]\n```\n\nAfter \\<it\\>."
    )


def test_a_module_without_a_list_of_names_shows_what_it_defines() -> None:
    module = ModuleType("made")
    exec("def shown(): ...\ndef _hidden(): ...\nimport re\n", vars(module))
    assert REFERENCE.public_names(module) == ["shown"]


@pytest.mark.parametrize("package", EXAMPLES)
def test_names_have_examples_that_run_as_doctests(package: str) -> None:
    module = import_module(package)
    docs = {name: getdoc(getattr(module, name)) or "" for name in REFERENCE.public_names(module)}
    assert sum(">>>" in doc for doc in docs.values()) >= EXAMPLES[package]


def test_the_picture_of_the_first_page_moves_by_itself() -> None:
    problem = Problem((Block("a", 64, 0, 2), Block("b", 32, 1, 3)))
    texts = [BlockText("%1 first: f32[16]", "dense"), BlockText("%2 second: f32[8]", "relu")]
    steps = [StepText(0, "dense · gemm · x.py:1"), StepText(1, "relu · relu · x.py:2")]
    drawn = MEMORY_MAP.picture(MapView(problem, solve(problem), blocks=texts, steps=steps))
    kept = MEMORY_MAP.PICTURE.read_text(encoding="utf-8")
    for text, blocks, moments in ((drawn, 2, 3), (kept, 20, 30)):
        root = ElementTree.fromstring(text)
        animated = [element.get("attributeName") for element in root.iter("{http://www.w3.org/2000/svg}animate")]
        assert animated.count("fill-opacity") >= blocks
        assert animated.count("display") >= moments
        assert "<script" not in text
        assert "href" not in text
    assert "step 1: relu · relu — 96 bytes live" in drawn
