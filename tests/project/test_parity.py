"""docs/parity.md keeps its word: every name can be imported, every test is there, and no row is left out."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "parity.md"
# Subjects of the issues that bring what is not there yet.
SUBJECTS = (
    "L0, L1, L2 whole: typed graph, operator registry, tensors, commands, streams, concrete graphs",
    "L3 whole: SSA symbolic graph, gradients of any order, control flow, passes",
    "The memory compiler: plans at the bound, loops without copies, training within a budget",
    "The LLVM backend: whole graphs as native code, at the speed of the hand-tuned runtimes",
)
FUNCTIONS = [
    "dynamic_evaluate",
    "dynamic_graph_set_no_grad",
    "graph_case_of_new",
    "graph_exec_symbol_for_backward",
    "graph_from_while_exec",
    "graph_set_case_of",
    "graph_set_case_of_expr",
    "graph_set_while_expr",
    "graph_while",
    "minimizer_saved_aux_size",
    "symbolic_graph_backward",
    "symbolic_graph_case_of_new",
    "symbolic_graph_from_while_symbol",
    "symbolic_graph_minimize",
    "symbolic_graph_set_carry_overs",
    "symbolic_graph_set_case_of",
    "symbolic_graph_set_case_of_expr",
    "symbolic_graph_set_while_expr",
    "symbolic_graph_simplify",
    "symbolic_graph_while",
    "tensor_for_while_count",
    "tensor_from_variable",
    "tensor_multiview",
    "tensor_multiview_free",
    "tensor_multiview_synchronize",
    "tensor_symbol_for_backward",
    "tensor_symbol_for_while_count",
    "tensor_synchronize_to_multiview",
    "tensor_tape_free",
    "tensor_tape_io",
    "tensor_tape_new",
    "tensor_tape_numbering",
    "tensor_tape_set_numbering",
    "tensor_variable_free",
]
# Rows per family: NNVM's registry, attributes, graph, passes, symbols and defects; the proposal; NNC's layers.
FAMILIES = {"R": 14, "A": 18, "G": 13, "P": 16, "S": 16, "D": 11, "M": 26}
# What the frameworks of the field have in common.
COMMON = {"N": 62}
LAYERS = {"C1.": 13, "C2.": 9, "C3.": 18, "CA.": 10, "C4.": 9, "C5.": 5}
NOT_YET, REASONED = "not yet: ", ("missing: ", "does not apply: ")
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    id: str
    what: str
    ours: str
    test: str

    @property
    def is_done(self) -> bool:
        """Whether the row claims that we have it."""
        return not self.ours.startswith((NOT_YET, *REASONED))


def rows() -> list[Row]:
    """All lines of all tables but their heads."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [Row(*four) for four in cells if four[0] != "id"]


ROWS = rows()
DONE = [row for row in ROWS if row.is_done]


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def resolve(name: str) -> object:
    """The object of a dotted name: the longest module that there is, then attributes."""
    module, attributes = name, list[str]()
    while True:
        try:
            found: object = import_module(module)
        except ModuleNotFoundError:
            module, _, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
            continue
        for attribute in attributes:
            found = getattr(found, attribute)
        return found


def test_no_row_is_left_out_and_none_is_there_twice() -> None:
    wanted = {*FUNCTIONS}
    for prefix, count in (FAMILIES | LAYERS | COMMON).items():
        wanted.update(f"{prefix}{number}" for number in range(1, count + 1))
    ids = [row.id for row in ROWS]
    assert sorted(ids) == sorted(wanted)


@pytest.mark.parametrize("row", DONE, ids=lambda row: row.id)
def test_what_is_claimed_is_there(row: Row) -> None:
    names = [name for name in CODE.findall(row.ours) if name.startswith("nnc")]
    assert names
    for name in names:
        resolve(name)
    tests = CODE.findall(row.test)
    assert tests
    for one in tests:
        file, _, function = one.partition("::")
        assert function in functions_of(file), one


@pytest.mark.parametrize("row", [row for row in ROWS if not row.is_done], ids=lambda row: row.id)
def test_what_is_not_there_says_why(row: Row) -> None:
    assert row.test == "–"
    if row.ours.startswith(NOT_YET):
        assert row.ours.removeprefix(NOT_YET) in SUBJECTS
    else:
        _, _, reason = row.ours.partition(": ")
        assert len(reason) > 10
        for name in CODE.findall(reason):
            if name.startswith("nnc."):
                resolve(name)


def test_names_are_not_checked_in_vain() -> None:
    with pytest.raises(AttributeError):
        resolve("nnc.symbolic.nothing")
    assert resolve("nnc.symbolic.SymbolicGraph.apply") is not None
    assert "test_nothing" not in functions_of("tests/project/test_parity.py")
    assert len(DONE) > 150
