"""Names of programs that ranks run together."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import lax, parallel
from nnc.dynamic.transforms.recording import record
from nnc.dynamic.tree import flatten
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.sharing.rank_programs import MOST_TEXTS, TEXTS, ProgramText, name_program


def programs_of(function, rows: int, *others: object) -> list[str]:
    """The names that operations among ranks have, those in loops too."""
    leaves, structure = flatten(((nnc.variable(np.ones((rows, 2), np.float32)), *others), {}))
    graph = record(function, leaves, structure, ["x", *map(str, others)]).graph
    inner = [body.graph for _, command in commands(graph) for _, body in bodies_of(command)]
    every = [command for part in (graph, *inner) for _, command in commands(part)]
    return [command.attrs.group.program for command in every if command.op.registry.name == "nnc.parallel"]


def commands(graph):
    return [(key, record.command) for key, record in graph.execs.items()]


def test_a_program_has_one_name_at_all_sizes_and_another_one_with_another_operator() -> None:
    first, again = (programs_of(lambda x: parallel.shift(parallel.allreduce(x * 2.0)), rows) for rows in (3, 4))
    (other,) = programs_of(lambda x: parallel.allreduce(nnc.exp(x)), 3)
    (looped,) = programs_of(lambda x: lax.fori_loop(0, 2, lambda _, y: parallel.allreduce(y), x), 3)
    assert first == again
    assert len(set(first)) == 1
    assert len({*first, other, looped}) == 3
    assert "affine(scale=2.0)" in TEXTS[first[0]].graph
    assert programs_of(nnc.exp, 3) == []


def test_a_program_has_another_name_where_the_function_is_called_with_another_number_or_word() -> None:
    names = [programs_of(lambda x, factor: parallel.allreduce(x * factor), 3, factor) for factor in (2.0, 2.5, 2, 3)]
    assert len({*map(tuple, names)}) == 3
    assert names[2] == names[3]  # it may be a size
    assert TEXTS[names[1][0]].operators.endswith("2.5")


def test_texts_of_the_last_programs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST_TEXTS):
        monkeypatch.setitem(TEXTS, f"program {number}", ProgramText("", "", ""))
    (name,) = programs_of(parallel.allreduce, 3)
    assert name in TEXTS
    assert len(TEXTS) == MOST_TEXTS
    name_program(nnc.symbolic.SymbolicGraph("nothing among ranks"))
    assert len(TEXTS) == MOST_TEXTS
