"""Compiled programs equal eager ones bit for bit, in memory where whatever is freed becomes not-a-number."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.programs import Program, programs, run

from nnc.core.settings import SETTINGS
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph
from nnc.ops.rules import INPLACE
from nnc.symbolic import Compiled, ExecSymbol, Symbol, SymbolicGraph, TensorKey, backward, compile, verify

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def poisoned() -> Iterator[None]:
    before, SETTINGS.debug = SETTINGS.debug, True
    yield
    SETTINGS.debug = before


def inputs_for(program: Program) -> list[np.ndarray]:
    generator = np.random.default_rng(7)
    return [generator.standard_normal(shape).astype(np.float32) for shape in program.shapes]


def symbols_for(program: Program, graph: SymbolicGraph) -> list[Symbol]:
    return [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]


def eager(program: Program) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The wanted values, and the gradients of their sum by the inputs, computed one command at a time."""
    graph = DynamicGraph(backend="reference")
    inputs = [graph.variable(array) for array in inputs_for(program)]
    _, wanted = run(program, inputs)
    gradients = graph.backward(wanted, inputs)
    return [np.array(one.numpy()) for one in wanted], [np.array(one.numpy()) for one in gradients]


def assert_same_bits(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@EXAMPLES
@given(programs())
def test_gradients_beside_values_from_bound_inputs(program: Program) -> None:
    graph = SymbolicGraph()
    symbols = symbols_for(program, graph)
    _, wanted = run(program, symbols)
    gradients = backward(graph, wanted, symbols)
    verify(graph)
    arrays = inputs_for(program)
    given_inputs = {symbol: Tensor.from_numpy(array) for symbol, array in zip(symbols, arrays, strict=True)}
    compiled = compile(graph, [*wanted, *gradients], given=given_inputs, backend="reference")
    values, slopes = eager(program)
    got = list(compiled({}, *wanted, *gradients))
    assert_same_bits(got[: len(wanted)], values)
    for one, other in zip(got[len(wanted) :], slopes, strict=True):
        # Parts of a tensor that is written in parts are summed in another order than those of a concatenated one.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(other).max(initial=0)))
    for tensor, array in zip(given_inputs.values(), inputs_for(program), strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


@EXAMPLES
@given(programs())
def test_a_carried_value_is_that_of_the_next_run(program: Program) -> None:
    """x ← f(x), three times over: in place where that is allowed, through a copy where it is not."""
    graph = SymbolicGraph()
    symbols = symbols_for(program, graph)
    operands, wanted = run(program, symbols)
    computed = [symbol for symbol in operands if graph.writers(symbol.key) and graph.root(symbol.key) == symbol.key]
    carry: dict[Symbol, Symbol] = {}
    for symbol in symbols:
        new = next((one for one in reversed(computed) if one.spec == symbol.spec and one not in carry), None)
        if new is not None:
            carry[new] = symbol
    values = inputs_for(program)
    tensors = {symbol: Tensor.from_numpy(array) for symbol, array in zip(symbols, values, strict=True)}
    compiled = compile(graph, wanted, given=tensors, carry=carry, backend="reference")
    plain = compile(graph, [*carry], given=dict.fromkeys(symbols), backend="reference")
    state = inputs_for(program)
    for _ in range(3):
        compiled.run()
        bound = {symbol: Tensor.from_numpy(array) for symbol, array in zip(symbols, state, strict=True)}
        following = dict(zip(carry.values(), plain.rebind(bound)({}, *carry), strict=True))
        state = [following.get(symbol, array) for symbol, array in zip(symbols, state, strict=True)]
        for symbol, array in zip(symbols, state, strict=True):
            np.testing.assert_array_equal(tensors[symbol].numpy(), array)


@EXAMPLES
@given(programs())
def test_no_two_values_that_are_needed_at_once_share_bytes(program: Program) -> None:
    """An oracle beside the planner's verifier: from the order and the addresses alone."""
    graph = SymbolicGraph()
    symbols = symbols_for(program, graph)
    _, wanted = run(program, symbols)
    compiled = compile(graph, [*wanted, *backward(graph, wanted, symbols)], backend="reference")
    order, statement = compiled.planned.order, compiled.memory()
    assert statement.any_order_bound <= statement.lower_bound
    assert statement.lower_bound <= statement.arena <= statement.without_reuse + 64 * len(compiled.planned.lives.of)
    records = [graph.execs[key] for key in order]
    born: dict[TensorKey, int] = {}
    dies: dict[TensorKey, int] = {}
    for step, record in enumerate(records):
        for key in record.inputs:
            if key is not None:
                born.setdefault(graph.root(key), -1)
                dies[graph.root(key)] = step
        for key in record.outputs:
            born.setdefault(graph.root(key), step)
            dies.setdefault(graph.root(key), step)
    for key in compiled.planned.kept:
        born.setdefault(key, -1)
        dies[key] = len(order)
    places = {root: compiled.tensor(graph.symbol(root)) for root in born}
    for one, first in places.items():
        for other, second in places.items():
            if one >= other or dies[one] < born[other] or dies[other] < born[one]:
                continue
            apart = (
                first.address + first.spec.nbytes <= second.address
                or second.address + second.spec.nbytes <= first.address
            )
            if not apart and not _is_part(compiled, graph, one, other) and not _is_part(compiled, graph, other, one):
                old, new = (one, other) if dies[one] == born[other] else (other, one)
                assert dies[old] == born[new] < len(records)
                assert _may_take_over(graph, records[born[new]], old, new)


def _is_part(compiled: Compiled, graph: SymbolicGraph, part: TensorKey, whole: TensorKey) -> bool:
    """True when `part` lies where a concatenation into `whole` wants it."""
    parts, place = compiled.planned.lives.parts, compiled.tensor(graph.symbol(part)).address
    while part in parts:
        above = parts[part]
        record = graph.execs[graph.writers(above)[0]]
        sizes = [graph.tensors[key].spec.nbytes for key in record.inputs if key is not None]
        start = compiled.tensor(graph.symbol(above)).address + sum(sizes[: record.inputs.index(part)])
        if start != compiled.tensor(graph.symbol(part)).address:
            return False
        part = above
        if part == whole:
            return place >= compiled.tensor(graph.symbol(whole)).address
    return False


def _may_take_over(graph: SymbolicGraph, record: ExecSymbol, old: TensorKey, new: TensorKey) -> bool:
    """True when the operator may write `new` over `old`: it reads all of `old`, and only where that is allowed."""
    allowed = INPLACE[record.command.op](record.command.attrs).allowed
    target = record.outputs.index(new)
    read = [(position, key) for position, key in enumerate(record.inputs) if key is not None and graph.root(key) == old]
    shape, whole = graph.tensors[new].spec.shape, graph.tensors[old].spec.elements
    places = [(graph.region(key), position) for position, key in read]
    return bool(read) and all(
        region.shape == shape
        and region.offset == 0
        and region.strides == contiguous_strides(shape)
        and math.prod(shape) == whole
        and (position, target) in allowed
        for region, position in places
    )
