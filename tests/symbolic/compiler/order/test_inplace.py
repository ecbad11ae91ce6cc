from __future__ import annotations

from nnc import ops
from nnc.core.values.spec import spec
from nnc.symbolic import Symbol, SymbolicGraph, TensorKey
from nnc.symbolic.compiler.order.inplace import choose_pairs, shareable


def pairs_of(graph: SymbolicGraph, symbol: Symbol) -> tuple[tuple[TensorKey, TensorKey], ...]:
    return shareable(graph, graph.execs[graph.writers(symbol.key)[0]])


def test_inputs_of_equal_shape_may_be_written_over() -> None:
    graph = SymbolicGraph()
    a, b, row = graph.input(spec((3, 4))), graph.input(spec((3, 4))), graph.input(spec((4,)))
    both, one = ops.add(a, b), ops.add(a, row)
    assert pairs_of(graph, both) == ((a.key, both.key), (b.key, both.key))
    assert pairs_of(graph, one) == ((a.key, one.key),)


def test_another_shape_of_all_of_a_tensor_counts_and_a_part_or_a_transpose_does_not() -> None:
    graph = SymbolicGraph()
    x, square = graph.input(spec((3, 4))), graph.input(spec((3, 3)))
    flat = ops.exp(ops.reshape(x, (12,)))
    part, turned = ops.exp(x[:2]), ops.exp(square.alias(square.spec, 0, (1, 3)))
    assert pairs_of(graph, flat) == ((x.key, flat.key),)
    assert pairs_of(graph, part) == pairs_of(graph, turned) == ()


def test_a_second_read_in_step_is_no_obstacle() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3, 4)))
    twice, aside = ops.add(x, x), ops.add(x, ops.reshape(x, (12,))[:4])
    assert pairs_of(graph, twice) == ((x.key, twice.key),)
    assert pairs_of(graph, aside) == ()


def test_as_many_bytes_as_possible_are_shared() -> None:
    a, b, c, d = (TensorKey(key) for key in range(4))
    nbytes = {c: 10, d: 30}

    def size(pair: tuple[TensorKey, TensorKey]) -> int:
        return nbytes[pair[1]]

    assert choose_pairs([(a, c), (a, d)], size) == ((a, d),)
    assert choose_pairs([(a, c), (b, c), (a, d)], size) == ((b, c), (a, d))
    assert choose_pairs([(a, c), (b, c)], size) == ((a, c),)
    assert choose_pairs([], size) == ()
