"""What is shown fits on a screen, and nothing in it is markup."""

from __future__ import annotations

from typing import NewType

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.concrete import ConcreteGraph
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.graph import Graph
from nnc.graph.screen import MOST_CHARACTERS, MOST_LINES, fitted, preformatted
from nnc.ops.elementwise.pointwise import exp
from nnc.ops.rules import NoAttrs
from nnc.symbolic import SymbolicGraph

Key = NewType("Key", int)


def typed() -> object:
    graph: Graph[str, str, Key] = Graph(Key)
    for number in range(100):
        graph.add_node(f"<b>{number}")
    return graph


def symbolic() -> object:
    graph = SymbolicGraph("a <b>")
    x = graph.input(spec((2,)))
    for _ in range(100):
        x = nnc.ops.exp(x)
    return graph


def concrete() -> object:
    graph, x = ConcreteGraph(), Tensor.zeros(spec((2,)))
    for _ in range(100):
        graph.add(Command(exp, NoAttrs()), [x], [x])
    return graph


SHOWN = {
    "a tensor": lambda: Tensor.zeros(spec((20,) * 5)),
    "a variable": lambda: nnc.variable(np.zeros((7,) * 5)),
    "a typed graph": typed,
    "a symbolic graph": symbolic,
    "a concrete graph": concrete,
    "a model": lambda: nn.Model(nn.Sequential(*(nn.Dense(4) for _ in range(100))), (4,)),
    "a history": lambda: nn.History([{"epoch": epoch, "loss": 1.0} for epoch in range(500)]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_no_longer_than_a_screen(name: str) -> None:
    value = SHOWN[name]()
    assert len(repr(value).split("\n")) <= MOST_LINES + 1
    assert max(map(len, repr(value).split("\n"))) <= MOST_CHARACTERS
    html = value._repr_html_()
    assert html.startswith("<")
    assert html.count("\n") + html.count("<tr>") <= MOST_LINES + 2
    assert "<b>" not in html


def test_a_step_and_its_program_are_named_in_a_line() -> None:
    step = nn.Model(nn.Sequential(*(nn.Dense(4) for _ in range(9))), (4,)).prediction_step(2)
    assert len(repr(step.compiled)) < 80
    assert "arena" in repr(step.compiled)
    assert len(repr(step)) < 3000


def test_a_text_loses_its_middle_and_its_ends_of_lines() -> None:
    text = "\n".join(["x" * 200, *map(str, range(98)), "<end>"])
    lines = fitted(text).split("\n")
    assert len(lines) == MOST_LINES + 1
    assert lines[0] == "x" * (MOST_CHARACTERS - 1) + "…"
    assert lines[20] == "… 60 more lines …"
    assert preformatted("<end>") == "<pre>&lt;end&gt;</pre>"
