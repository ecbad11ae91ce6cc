"""Limits on memory: met by construction, at the same bits, and never at more work for more memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray
from tests.symbolic.programs import Program, programs, run

from nnc.concrete import CountBelow
from nnc.core.dtype import I64
from nnc.core.spec import TensorSpec, spec
from nnc.core.tensor import Tensor
from nnc.errors import MemoryLimitError
from nnc.nn import (
    BatchNorm,
    Convolution,
    Model,
    ReLU,
    Sequential,
    StochasticGradientDescent,
)
from nnc.nn.zoo import digits_network, resnet20
from nnc.nn.zoo.language import GPT, lstm_language_model
from nnc.ops import dropout, reduce_sum, tanh
from nnc.ops.custom import custom_operator
from nnc.ops.operand import apply
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile, verify, while_loop

pytestmark = pytest.mark.usefixtures("debug")

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
# `Any`: elements of any type.
Array = NDArray[Any]


def tower(graph: SymbolicGraph, depth: int = 12, width: int = 32) -> tuple[list[Symbol], list[Symbol]]:
    """A tower of dense layers with tanh: inputs and, as wanted, the loss and its gradients."""
    x = graph.input(spec((64, width), "f32"), "x")
    weights = [graph.input(spec((width, width), "f32"), f"w{layer}") for layer in range(depth)]
    y = x
    for weight in weights:
        y = tanh(y @ weight)
    loss = reduce_sum(y * y)
    return [x, *weights], [loss, *backward(graph, [loss], weights)]


def values(compiled: Compiled, inputs: Sequence[Symbol], outputs: Sequence[Symbol]) -> list[Array]:
    generator = np.random.default_rng(3)
    arrays = {symbol: generator.standard_normal(symbol.shape).astype(np.float32) * 0.3 for symbol in inputs}
    return list(compiled(arrays, *outputs))


def assert_same_bits(got: Sequence[Array], want: Sequence[Array]) -> None:
    for one, other in zip(got, want, strict=True):
        assert one.tobytes() == other.tobytes()


def repeats(compiled: Compiled, graph: SymbolicGraph, name: str) -> int:
    """How many execs of an operator the program has beyond those of the graph."""
    counts = [
        sum(record.command.op.name == name for _, record in one.execs.items()) for one in (compiled.ground.graph, graph)
    ]
    return counts[0] - counts[1]


def test_limits_are_met_with_the_same_bits_and_ever_more_work() -> None:
    graph = SymbolicGraph()
    inputs, outputs = tower(graph)
    execs = len(graph.execs)
    free = compile(graph, outputs, backend="reference")
    want = values(free, inputs, outputs)
    work, arenas = 1.0, [free.memory().arena]
    for share in (0.95, 0.9, 0.85, 0.8):
        limit = int(share * free.memory().arena)
        compiled = compile(graph, outputs, backend="reference", memory_limit=limit)
        verify(compiled.ground.graph)
        assert compiled.budget is not None
        assert compiled.memory().arena <= limit
        assert compiled.memory().arena <= arenas[-1]
        assert compiled.budget.work_ratio >= work
        work, arenas = compiled.budget.work_ratio, [*arenas, compiled.memory().arena]
        assert_same_bits(values(compiled, inputs, outputs), want)
    assert 1.0 < work < 1.34
    assert len(graph.execs) == execs


def test_a_limit_on_several_streams() -> None:
    graph = SymbolicGraph()
    inputs, outputs = tower(graph)
    free = compile(graph, outputs, backend="reference", streams=2)
    limit = int(0.9 * free.memory().arena)
    small = compile(graph, outputs, backend="reference", streams=2, memory_limit=limit)
    assert small.memory().arena <= limit
    assert_same_bits(values(small, inputs, outputs), values(free, inputs, outputs))


def test_a_limit_that_is_no_limit_changes_nothing() -> None:
    graph = SymbolicGraph()
    _, outputs = tower(graph)
    arena = compile(graph, outputs).memory().arena
    compiled = compile(graph, outputs, memory_limit=arena)
    assert compiled.budget is None
    assert compiled.ground.graph is graph


def test_what_cannot_be_met_names_the_smallest_limit_that_can() -> None:
    graph = SymbolicGraph()
    inputs, outputs = tower(graph)
    with pytest.raises(
        MemoryLimitError, match=r"need at least \d+ bytes: at the peak are %.*test_budget.py:\d+"
    ) as info:
        compile(graph, outputs, memory_limit=1000)
    smallest = info.value.smallest
    assert f"at least {smallest} bytes" in str(info.value)
    compiled = compile(graph, outputs, backend="reference", memory_limit=smallest)
    assert compiled.memory().arena <= smallest
    assert_same_bits(
        values(compiled, inputs, outputs), values(compile(graph, outputs, backend="reference"), inputs, outputs)
    )
    with pytest.raises(MemoryLimitError):
        compile(graph, outputs, memory_limit=smallest - 64)


def test_dropout_draws_the_same_numbers_again() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((64, 64), "f32"), "x")
    counter = graph.input(TensorSpec((), I64), "counter")
    weights = [graph.input(spec((64, 64), "f32"), f"w{layer}") for layer in range(8)]
    y = x
    for layer, weight in enumerate(weights):
        y = dropout(tanh(y @ weight), counter, 0.3, seed=layer)
    outputs = [reduce_sum(y * y), *backward(graph, [reduce_sum(y * y)], weights)]
    given = {counter: Tensor.from_numpy(np.array(5))}
    free = compile(graph, outputs, given=given, backend="reference")
    limit = int(0.8 * free.memory().arena)
    small = compile(graph, outputs, given=given, backend="reference", memory_limit=limit)
    assert repeats(small, graph, "dropout")
    assert_same_bits(values(small, [x, *weights], outputs), values(free, [x, *weights], outputs))


def test_a_custom_command_never_runs_twice() -> None:
    calls = []

    def kernel(attrs: NoAttrs, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> None:
        calls.append(1)
        assert inputs[0] is not None
        outputs[0][...] = inputs[0] * 2.0

    double = custom_operator(
        "double_once", infer=lambda attrs, specs: specs, kernel=kernel, gradient=lambda call, gradients: gradients
    )
    graph = SymbolicGraph()
    x = graph.input(spec((64, 64), "f32"), "x")
    weights = [graph.input(spec((64, 64), "f32"), f"w{layer}") for layer in range(8)]
    y = x
    for weight in weights:
        y = tanh(tanh(apply(double, NoAttrs(), y @ weight)))
    outputs = [reduce_sum(y), *backward(graph, [reduce_sum(y)], weights)]
    arena = compile(graph, outputs, backend="reference").memory().arena
    small = compile(graph, outputs, backend="reference", memory_limit=int(0.9 * arena))
    values(small, [x, *weights], outputs)
    assert small.budget is not None
    assert small.budget.repeated
    assert len(calls) == len(weights)


def test_a_loop_runs_once() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((64, 64), "f32"), "x")
    w = graph.input(spec((64, 64), "f32"), "w")
    weights = [graph.input(spec((64, 64), "f32"), f"w{layer}") for layer in range(8)]
    y = x
    for weight in weights:
        y = tanh(y @ weight)
    with while_loop(graph, CountBelow(4)) as loop:
        state = loop.carry(y)
        loop.next(state, tanh(state @ w))
    outputs = [reduce_sum(loop.result(state)), *backward(graph, [reduce_sum(loop.result(state))], [w, *weights])]
    free = compile(graph, outputs, backend="reference")
    small = compile(graph, outputs, backend="reference", memory_limit=free.memory().arena - 16384)
    assert repeats(small, graph, "while") == 0
    assert repeats(small, graph, "tanh")
    assert_same_bits(values(small, [x, w, *weights], outputs), values(free, [x, w, *weights], outputs))


NORMED = Sequential(
    a=Convolution(8, 3), b=BatchNorm(), c=ReLU(), d=Convolution(8, 3), e=BatchNorm(), f=ReLU(), g=Convolution(2, 3)
)
MODELS = {
    "digits": (digits_network(), (8, 8, 1), 0.95),
    "normed": (NORMED, (16, 16, 3), 0.8),
    "resnet20": (resnet20(), (8, 8, 3), 0.6),
    "gpt": (GPT(16, 16, 32, 3, 2), (16,), 0.7),
    "lstm": (lstm_language_model(16, 16, 4), (12,), 0.9),
}


@pytest.mark.parametrize("name", MODELS)
def test_training_below_a_limit_is_the_same_training(name: str) -> None:
    """Parameters and running statistics are renewed in place: whatever runs again still reads what it read first."""
    layer, shape, share = MODELS[name]
    generator = np.random.default_rng(1)
    is_text = name in {"gpt", "lstm"}

    def model(limit: int | None) -> Model:
        optimizer = StochasticGradientDescent(0.1)
        dtype = {"input_dtype": I64} if is_text else {}
        return Model(layer, shape, optimizer=optimizer, backend="reference", memory_limit=limit, **dtype)

    free = model(None)
    limit = int(share * free.memory(4).step.arena)
    small = model(limit)
    memory = small.memory(4)
    assert memory.step.arena <= limit
    assert memory.budget is not None
    assert memory.budget.repeated > 0
    size = (4, *shape)
    inputs = generator.integers(0, 16, size) if is_text else generator.standard_normal(size).astype(np.float32)
    labels = generator.integers(0, 2, free.loss.target_shape((4, *free.output_shape)))
    for _ in range(2):
        assert small.train_on_batch(inputs, labels) == free.train_on_batch(inputs, labels)
    for path, value in free.state_dict().items():
        np.testing.assert_array_equal(small.state_dict()[path], value)


@EXAMPLES
@given(programs(least=6, most=20))
def test_random_programs_at_the_smallest_limit_have_the_same_bits(program: Program) -> None:
    graph, generator = SymbolicGraph(), np.random.default_rng(7)
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    _, wanted = run(program, symbols)
    outputs = [*wanted, *backward(graph, wanted, symbols)]
    given = {
        symbol: Tensor.from_numpy(generator.standard_normal(symbol.shape).astype(np.float32)) for symbol in symbols
    }
    free = compile(graph, outputs, given=given, backend="reference")
    try:
        small = compile(graph, outputs, given=given, backend="reference", memory_limit=0)
    except MemoryLimitError as error:
        limit = min(error.smallest, free.memory().arena)
        small = compile(graph, outputs, given=given, backend="reference", memory_limit=limit)
        assert small.memory().arena <= limit
    verify(small.ground.graph)
    assert_same_bits(list(small({}, *outputs)), list(free({}, *outputs)))
