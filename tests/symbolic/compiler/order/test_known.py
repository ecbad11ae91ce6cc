"""Orders that are known from other sizes."""

from __future__ import annotations

import pytest

from nnc.core.values.spec import spec
from nnc.ops import multiply, relu, tanh
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile
from nnc.symbolic.compiler import KnownOrders
from nnc.symbolic.compiler.order import choose


def chain(rows: int, *, longer: bool = False) -> tuple[SymbolicGraph, Symbol]:
    """Two branches of one value, and their product."""
    graph = SymbolicGraph("chain")
    x = graph.input(spec((rows, 8), "f32"), "x")
    first, second = relu(x), tanh(tanh(x))
    return graph, multiply(first, tanh(second) if longer else second)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many execs the orders had that were looked for."""
    counts: list[int] = []
    found = choose._found

    def counting(execs: list[int], *rest: object) -> object:
        counts.append(len(execs))
        return found(execs, *rest)  # type: ignore[arg-type]  # the same

    monkeypatch.setattr(choose, "_found", counting)
    return counts


def compiled(rows: int, orders: KnownOrders, *, longer: bool = False) -> Compiled:
    graph, result = chain(rows, longer=longer)
    return compile(graph, [result], orders=orders)


def test_sizes_of_one_magnitude_have_one_order(searched: list[int]) -> None:
    orders = KnownOrders()
    plans = [compiled(rows, orders) for rows in (64, 65, 70)]
    assert searched == [4]
    assert len({program.planned.order for program in plans}) == 1
    assert compiled(640, orders).memory().arena == compiled(640, KnownOrders()).memory().arena
    assert searched == [4, 4, 4]


def test_an_order_of_another_graph_is_not_taken(searched: list[int]) -> None:
    orders = KnownOrders()
    for longer in (False, True, False):
        program = compiled(64, orders, longer=longer)
        assert len(program.planned.order) == 4 + longer
    assert searched == [4, 5, 4]
