from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.symbolic.programs import Program, programs, run

from nnc import ops
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile
from nnc.symbolic.compiler.order.uses import uses_of

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
pytestmark = pytest.mark.usefixtures("debug")


def branches(graph: SymbolicGraph, count: int) -> tuple[Symbol, Symbol]:
    """`count` wide tensors that do not depend on each other."""
    x = graph.input(spec((16,)))
    sums = []
    for branch in range(count):
        wide = ops.broadcast_to(ops.reshape(ops.affine(x, float(branch)), (16, 1)), (16, 64))
        sums.append(ops.reduce_sum(wide))
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    return x, total


def test_more_streams_take_more_memory_and_the_statement_says_so() -> None:
    arenas = []
    for streams in (1, 2, 4):
        graph = SymbolicGraph()
        x, total = branches(graph, 4)
        compiled = compile(graph, [total], backend="reference", streams=streams)
        statement = compiled.memory()
        assert (statement.streams, statement.one_stream) == (streams, arenas[0] if arenas else statement.arena)
        assert compiled({x: np.ones(16)}, total)[0] == 16 * 64 * 6
        arenas.append(statement.arena)
    wide = 16 * 64 * 4
    assert wide < arenas[0] < 2 * wide < arenas[1] < 3 * wide
    assert 4 * wide < arenas[2] < 5 * wide


def test_a_chain_costs_nothing_on_several_streams() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((100,)))
    y = x
    for _ in range(5):
        y = ops.tanh(y)
    statement = compile(graph, [y], backend="reference", streams=4).memory()
    assert statement.arena == statement.one_stream == 448


def test_nobody_is_overwritten_in_place_while_another_stream_reads() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((16,)))
    a = ops.affine(x, 2.0)
    b, c = ops.exp(a), ops.sin(a)
    serial, parallel = (compile(graph, [b, c], backend="reference", streams=streams) for streams in (1, 2))
    assert serial.memory().arena < parallel.memory().arena
    assert len({parallel.tensor(symbol).address for symbol in (a, b, c)}) == 3


def test_the_concrete_graph_is_on_as_many_streams() -> None:
    graph = SymbolicGraph()
    _, total = branches(graph, 4)
    compiled = compile(graph, [total], backend="reference", streams=3)
    table = compiled.allocate().schedule(3).table
    assert len(table.lanes) == 3
    with pytest.raises(UsageError, match="need at least 1"):
        compile(graph, [total], streams=0)


@EXAMPLES
@given(programs(), st.integers(2, 4))
def test_programs_with_gradients_give_the_bits_of_one_stream(program: Program, streams: int) -> None:
    graph = SymbolicGraph()
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    _, wanted = run(program, symbols)
    outputs = [*wanted, *backward(graph, wanted, symbols)]
    generator = np.random.default_rng(7)
    values = {symbol: generator.standard_normal(symbol.shape).astype(np.float32) for symbol in symbols}
    results = []
    for count in (1, streams):
        tensors = {symbol: Tensor.from_numpy(value.copy()) for symbol, value in values.items()}
        results.append(compile(graph, outputs, given=tensors, backend="reference", streams=count)({}, *outputs))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@EXAMPLES
@given(programs(), st.integers(2, 4))
def test_no_block_is_used_before_all_users_of_another_in_its_bytes_have_ended(program: Program, streams: int) -> None:
    """An oracle beside the planner's verifier: from the edges of the streams and the addresses alone."""
    graph = SymbolicGraph()
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    _, wanted = run(program, symbols)
    compiled = compile(graph, [*wanted, *backward(graph, wanted, symbols)], backend="reference", streams=streams)
    ended = _ended_before(compiled)
    uses = uses_of(graph, compiled.planned.order, (), ())
    users: dict[int, set[int]] = {}
    for step, key in enumerate(compiled.planned.order):
        for root in uses.touched(key):
            users.setdefault(root, set()).add(step)
    places = {root: compiled.tensor(graph.symbol(root)) for root in compiled.planned.lives.of}  # type: ignore[arg-type]
    for one, first in places.items():
        for other, second in places.items():
            meet = first.address < second.address + second.spec.nbytes
            meet = meet and second.address < first.address + first.spec.nbytes
            if one < other and meet and users.get(one) and users.get(other):
                assert _follows(users[one], users[other], ended) or _follows(users[other], users[one], ended)


def _ended_before(compiled: Compiled) -> list[set[int]]:
    assert compiled.planned.concurrency is not None
    ended: list[set[int]] = []
    for sources in compiled.planned.concurrency.after:
        ended.append(set(sources).union(*(ended[source] for source in sources)))
    return ended


def _follows(earlier: set[int], later: set[int], ended: list[set[int]]) -> bool:
    """Each later user begins when all earlier ones have ended, but for an exec that reads the old, writes the new."""
    return all(earlier - {step} <= ended[step] for step in later)
