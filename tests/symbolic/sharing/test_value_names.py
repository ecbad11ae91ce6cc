from __future__ import annotations

from nnc.core.values.dtype import F32
from nnc.core.values.spec import TensorSpec
from nnc.ops import add, exp, transpose
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.sharing.value_names import value_names


def names(*, spare: bool, name: str = "w") -> tuple[str, ...]:
    """Of exp(w), w + w and w^T, in a graph with or without other work in front."""
    graph = SymbolicGraph("names")
    w: Symbol = graph.input(TensorSpec((2, 2), F32), name)
    if spare:
        exp(graph.input(TensorSpec((3,), F32), "x"))
    made = [exp(w), add(w, w), transpose(w, (1, 0))]
    found = value_names(graph, {w.key: name})
    return tuple(found[graph.root(one.key)] for one in made)


def test_values_that_two_graphs_compute_alike_have_one_name() -> None:
    assert names(spare=False) == names(spare=True)


def test_values_of_other_commands_or_other_inputs_have_other_names() -> None:
    assert len({*names(spare=False), *names(spare=False, name="v")}) == 6
