"""The text of one graph after each pass; `goldens/before.txt` is the graph, and each pass has a file of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.symbolic import Symbol, SymbolicGraph, case_of, while_loop
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.text import dump, parse

GOLDENS = Path(__file__).parent / "goldens"


def build() -> tuple[SymbolicGraph, Symbol]:
    """A graph with something for each pass, in it and in a loop and a branch of it."""
    graph = SymbolicGraph("golden")
    x, w, f = graph.input(spec((8, 2)), "x"), graph.input(spec((2, 2)), "w"), graph.input(spec((2,)), "f")
    product = ops.gemm(x, w) * f
    ops.exp(product)
    y = ops.contiguous(product) + ops.exp(ops.scalar_like(x, 0.0)) + ops.relu(x * 1.0) + ops.relu(x * 1.0)
    (one,) = graph.apply(Command(FILL, FillAttrs(1.0, spec((), "i64"))), ())
    (chosen,) = case_of(graph, one, [ops.sin, lambda x: ops.log(ops.softmax(x)) + f], [y])
    with while_loop(graph, CountBelow(3)) as loop:
        a, unread = loop.carry(chosen, "a"), loop.carry(x, "unread")
        b = loop.capture(f)
        loop.next(a, ops.tanh(ops.contiguous(a) * ops.exp(b)) + ops.tanh(a * ops.exp(b)) * 1.0)
        loop.next(unread, unread * unread)
    return graph, loop.result(a).named("y")


def read(name: str) -> str:
    """The text of a golden."""
    return (GOLDENS / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def test_the_graph_before() -> None:
    assert dump(build()[0], origins=False) == read("before")


@pytest.mark.parametrize("one", Pass, ids=lambda one: one.name.lower())
def test_a_pass_leaves_this_text_and_it_parses_back(one: Pass) -> None:
    graph, y = build()
    simplify(graph, [y], [one])
    text = dump(graph, origins=False)
    assert dump(parse(text)) == text
    assert text == read(one.name.lower())


def birthplaces(graph: SymbolicGraph) -> set[str]:
    """The origins of execs and symbols, those in bodies too."""
    found = {record.origin for _, record in graph.tensors.items()}
    for _, record in graph.execs.items():
        found.add(record.origin)
        found.update(*(birthplaces(body.graph) for _, body in bodies_of(record.command)))
    return found


@pytest.mark.parametrize("one", Pass, ids=lambda one: one.name.lower())
def test_what_a_pass_makes_has_the_birthplace_of_what_it_stands_for(one: Pass) -> None:
    graph, y = build()
    before = birthplaces(graph)
    simplify(graph, [y], [one])
    assert birthplaces(graph) <= before


def test_there_is_a_golden_for_each_pass_and_no_other() -> None:
    assert {path.stem for path in GOLDENS.iterdir()} == {"before", *(one.name.lower() for one in Pass)}
