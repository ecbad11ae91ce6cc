"""Memory that is named twice: refused where a run would write it, whoever names it."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.concrete import ConcreteGraph, CountBelow
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.ops.elementwise.pointwise import relu
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph, compile, while_loop


def zeros(*shape: int) -> Tensor:
    return Tensor.zeros(spec(shape))


def pair() -> tuple[SymbolicGraph, Symbol, Symbol]:
    graph = SymbolicGraph()
    return graph, graph.input(spec([4]), "a"), graph.input(spec([4]), "b")


REFUSED = r"bind: got .* in one memory, which a run writes; need a tensor for each"


def test_two_given_symbols_may_be_read_from_one_tensor() -> None:
    graph, a, b = pair()
    memory = Tensor.from_numpy(np.arange(4, dtype=np.float32))
    compiled = compile(graph, [total := a + b], given={a: memory, b: memory})
    assert compiled({}, total)[0].tolist() == [0, 2, 4, 6]


def test_two_bound_results_over_one_tensor_are_refused() -> None:
    graph, a, b = pair()
    x, y = ops.exp(a), ops.exp(b)
    memory = zeros(4)
    with pytest.raises(UsageError, match=REFUSED):
        compile(graph, [x, y], bind={x: memory, y: memory})
    compiled = compile(graph, [x, y], bind={x: zeros(4), y: None})
    with pytest.raises(UsageError, match=REFUSED):
        compiled.rebind({x: memory, y: memory})


def test_a_result_over_what_is_given_is_refused_whole_or_in_part() -> None:
    graph, a, b = pair()
    x = ops.exp(a) + b
    memory = zeros(6)
    first, second = memory.view(spec([4]), 0, (1,)), memory.view(spec([4]), 2, (1,))
    for place in (first, second):
        with pytest.raises(UsageError, match=REFUSED):
            compile(graph, [x], given={a: first, b: zeros(4)}, bind={x: place})


def test_parts_of_one_tensor_that_do_not_meet_are_bound() -> None:
    graph, a, b = pair()
    x, y = ops.exp(a), b * 2.0
    memory = zeros(4, 2)
    left, right = memory.view(spec([4]), 0, (2,)), memory.view(spec([4]), 1, (2,))
    compiled = compile(graph, [x, y], bind={x: left, y: right}, backend="reference")
    compiled({a: [0] * 4, b: [3] * 4})
    assert memory.numpy().tolist() == [[1, 6]] * 4


def test_two_carried_symbols_over_one_tensor_are_refused() -> None:
    graph, a, b = pair()
    x, y = a + 1.0, b * 2.0
    memory = zeros(4)
    with pytest.raises(UsageError, match=REFUSED):
        compile(graph, [], given={a: memory, b: memory}, carry={x: a, y: b})
    with pytest.raises(UsageError, match=REFUSED):
        compile(graph, [x + y], given={a: memory, b: memory}, carry={x: a})
    own = compile(graph, [], given={a: memory, b: zeros(4)}, carry={x: a, y: b})
    own.run()
    assert memory.numpy().tolist() == [1, 1, 1, 1]


# ---- nodes of concrete graphs


def test_an_output_over_a_part_of_an_input_is_refused() -> None:
    graph = ConcreteGraph(backend="reference")
    memory = zeros(8)
    left, right = memory.view(spec([5]), 0, (1,)), memory.view(spec([5]), 3, (1,))
    command = Command(relu, NoAttrs())
    with pytest.raises(UsageError, match=r"relu: got output 0 over a part of input 0's memory.*Fix: write to another"):
        graph.add(command, [left], [right])
    key = graph.add(command, [left], [left])
    with pytest.raises(UsageError, match="over a part of input 0"):
        graph.set_io(key, [left], [right])
    even, odd = memory.view(spec([4]), 0, (2,)), memory.view(spec([4]), 1, (2,))
    graph.add(command, [even], [odd])


def test_a_copy_into_its_own_transposition_is_refused() -> None:
    graph = ConcreteGraph(backend="reference")
    memory = Tensor.from_numpy(np.arange(9, dtype=np.float32).reshape(3, 3))
    turned = memory.view(spec([3, 3]), 0, (1, 3))
    with pytest.raises(UsageError, match="over a part of input 0"):
        graph.add(Command(contiguous, NoAttrs()), [turned], [memory])


def test_a_product_over_its_operand_is_refused() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec([3, 3]))
    product = next(record.command for _, record in (x @ x).graph.execs.items())
    memory = zeros(3, 3)
    with pytest.raises(UsageError, match="over a part of input 1"):
        ConcreteGraph(backend="reference").add(product, [zeros(3, 3), memory, None], [memory])


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_two_carried_symbols_may_begin_in_one_tensor(backend: str, trips: int) -> None:
    """p, q = q, p · w + q: the tensor is read as both, and stays as it is."""
    graph = SymbolicGraph()
    a, b, w = (graph.input(spec([2, 2]), name) for name in "abw")
    with while_loop(graph, CountBelow(trips)) as loop:
        p, q = loop.carry(a), loop.carry(b)
        loop.next(p, q)
        loop.next(q, p @ loop.capture(w) + q)
    results = [loop.result(p), loop.result(q)]
    begun, factor = np.float32([[0.5, 1], [-1, 2]]), np.float32([[0.5, 0.25], [0, 1]])
    memory = Tensor.from_numpy(begun.copy())
    found = compile(graph, results, given={a: memory, b: memory}, backend=backend)({w: factor}, *results)
    one, other = begun, begun
    for _ in range(trips):
        one, other = other, one @ factor + other
    np.testing.assert_allclose(found, [one, other], rtol=1e-6)
    np.testing.assert_array_equal(memory.numpy(), begun)
