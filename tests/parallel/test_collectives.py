from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import parallel
from nnc.core.values.spec import spec
from nnc.errors import NotDifferentiableError, ShapeError
from nnc.symbolic import SymbolicGraph, backward, compile

FUNCTIONS = (
    parallel.allreduce,
    parallel.reduce_scatter,
    parallel.all_gather,
    parallel.all_to_all,
    parallel.broadcast,
    parallel.reduce,
    parallel.shift,
    lambda x: parallel.send(x, 0, 0),
    lambda x: parallel.receive(x, 0),
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_on_one_rank_an_operation_is_a_copy_with_gradients_of_two_orders(function) -> None:
    x = nnc.variable(np.array([1.0, -2.0, 3.0], np.float32))
    cube = lambda x: (function(x) ** 3.0).sum()  # noqa: E731
    assert np.array_equal(function(x).numpy(), x.numpy())
    assert np.allclose(nnc.grad(cube)(x).numpy(), 3 * x.numpy() ** 2)
    assert np.allclose(nnc.grad(lambda x: nnc.grad(cube)(x).sum())(x).numpy(), 6 * x.numpy())


def test_graphs_have_them_and_other_tensors_travel_in_the_same_trip() -> None:
    graph = SymbolicGraph("ranks")
    a, b = graph.input(spec((2,)), "a"), graph.input(spec((3,), nnc.f64), "b")
    first, second = parallel.allreduce_all([a, b])
    (slope,) = backward(graph, [nnc.ops.reduce_sum(nnc.ops.square(first))], [a])
    values = {a: np.array([1.0, 2.0], np.float32), b: np.arange(3.0)}
    got = compile(graph, [first, second, slope])(values, first, second, slope)
    assert [array.tolist() for array in got] == [[1.0, 2.0], [0.0, 1.0, 2.0], [2.0, 4.0]]
    assert parallel.allreduce_all([]) == ()


def test_rules_are_told_by_name() -> None:
    scalar = nnc.tensor(np.float32(1.0))
    with pytest.raises(ShapeError, match="all_gather: got x=f32; need an axis to join|all_gather"):
        parallel.all_gather(scalar)
    with pytest.raises(ShapeError, match="reduce_scatter"):
        parallel.reduce_scatter(nnc.tensor(np.ones((3, 2), np.float32)), parallel.Mesh(data=2).group("data"))
    with pytest.raises(NotDifferentiableError, match="the max of all ranks"):
        nnc.grad(lambda x: parallel.allreduce(x, "max").sum())(nnc.tensor(np.ones(2, np.float32)))
