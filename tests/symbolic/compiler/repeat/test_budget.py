"""Limits on memory: met by construction, at the same bits, and never at more work for more memory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray
from tests.symbolic.programs import Program, programs, run

from nnc.concrete import CountBelow
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import BF16, I64, DType
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import MemoryLimitError, UsageError
from nnc.nn import (
    SGD,
    BatchNorm,
    Convolution,
    Dense,
    Model,
    ModelMemory,
    ReLU,
    Residual,
    Sequential,
)
from nnc.nn.zoo.language import GPT, lstm_language_model
from nnc.ops import dropout, reduce_sum, sigmoid, tanh
from nnc.ops.composed.custom import custom_operator
from nnc.ops.operand import apply
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, case_of, compile, verify, while_loop
from nnc.symbolic.compiler.place import pipeline
from nnc.symbolic.compiler.place.boundary import Boundary

pytestmark = pytest.mark.usefixtures("debug")

# A campaign tries more: NNC_EXAMPLES=1000 pytest tests/symbolic/compiler/repeat/test_budget.py -k random_programs
COUNT = int(os.environ.get("NNC_EXAMPLES", "6"))
EXAMPLES = settings(max_examples=COUNT, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
# `Any`: elements of any type.
Array = NDArray[Any]


def tower(graph: SymbolicGraph, depth: int = 8, width: int = 32) -> tuple[list[Symbol], list[Symbol]]:
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


def smallest_limit(
    graph: SymbolicGraph, outputs: Sequence[Symbol], given: Mapping[Symbol, Tensor | None] | None = None
) -> int:
    with pytest.raises(MemoryLimitError) as info:
        compile(graph, outputs, given=given, backend="reference", memory_limit=0)
    return info.value.smallest


def repeats(compiled: Compiled, graph: SymbolicGraph, name: str) -> int:
    """How many execs of an operator the program has beyond those of the graph."""
    counts = [
        sum(record.command.op.name == name for _, record in one.execs.items())
        for one in (compiled.planned.graph, graph)
    ]
    return counts[0] - counts[1]


def test_a_search_that_may_take_no_time_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found by then is a plan without repeats; the limit that it misses is met when there is time."""
    graph = SymbolicGraph()
    _, wanted = tower(graph)
    limit = smallest_limit(graph, wanted)
    monkeypatch.setattr(SETTINGS, "repeating_seconds", 0.0)
    with pytest.raises(MemoryLimitError, match="longer") as info:
        compile(graph, wanted, backend="reference", memory_limit=limit)
    assert info.value.smallest > limit


def test_far_below_its_peak_a_program_without_repeats_is_planned_without_a_search() -> None:
    graph = SymbolicGraph()
    _, wanted = tower(graph)
    free = compile(graph, wanted, backend="reference").planned
    bounds = [free.bound // 2 - 1, free.bound // 2 + 1, None]
    execs = graph.needed_for([graph.own(symbol) for symbol in wanted])
    roots = frozenset(graph.root(graph.own(symbol)) for symbol in wanted)
    boundary = Boundary(execs, frozenset(), roots)
    assert [pipeline.plan(graph, boundary, "reference", most=most).searched for most in bounds] == [False, True, True]


def test_limits_are_met_with_the_same_bits_and_ever_more_work() -> None:
    """From the arena without limit down to the smallest that can be met: the work never falls, nor does the limit."""
    graph = SymbolicGraph()
    inputs, outputs = tower(graph, depth=6)
    execs = len(graph.execs)
    free = compile(graph, outputs, backend="reference")
    want = values(free, inputs, outputs)
    limits = range(free.memory().arena - 1, smallest_limit(graph, outputs) - 1, -8000)
    work = 1.0
    for limit in limits:
        compiled = compile(graph, outputs, backend="reference", memory_limit=limit)
        verify(compiled.planned.graph)
        assert compiled.memory().arena <= limit
        assert compiled.budget is not None
        assert compiled.budget.work_ratio >= work
        work = compiled.budget.work_ratio
        assert_same_bits(values(compiled, inputs, outputs), want)
    assert len(limits) > 4
    assert work > 1.5
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
    assert compiled.planned.graph is graph


def test_what_cannot_be_met_names_the_smallest_limit_that_can() -> None:
    graph = SymbolicGraph()
    inputs, outputs = tower(graph, depth=6)
    expected = r"got memory_limit=1000; need at least \d+ bytes: at the peak are %.*test_budget.py:\d+.*smaller batch"
    with pytest.raises(MemoryLimitError, match=expected) as info:
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


@pytest.mark.parametrize("limit", [-1, 1e6, True, "1 GBit"])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4), "f32"), "x")
    with pytest.raises(UsageError, match=r"memory_limit.*; need (bytes, )?an integer"):
        compile(graph, [tanh(x)], memory_limit=limit)


def test_a_limit_may_be_any_integer() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4), "f32"), "x")
    assert compile(graph, [tanh(x)], memory_limit=cast("int", np.int64(4096))).memory().arena <= 4096


def test_dropout_draws_the_same_numbers_again() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((64, 64), "f32"), "x")
    counter = graph.input(TensorSpec((), I64), "counter")
    weights = [graph.input(spec((64, 64), "f32"), f"w{layer}") for layer in range(5)]
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


def loops(graph: SymbolicGraph, *, in_python: bool) -> tuple[list[Symbol], list[Symbol]]:
    """Four loops of five iterations, one behind the other; a count ends each, or a function of the user's."""
    x = graph.input(spec((32, 32), "f32"), "x")
    weights = [graph.input(spec((32, 32), "f32"), f"w{layer}") for layer in range(4)]
    y = x
    for weight in weights:
        with while_loop(graph, None if in_python else CountBelow(5), at_most=5) as loop:
            state = loop.carry(y)
            if in_python:
                loop.go_on_while(lambda count: count.numpy() < 5, loop.count)
            loop.next(state, tanh(state @ weight) + state)
        y = loop.result(state)
    loss = reduce_sum(y * y)
    return [x, *weights], [loss, *backward(graph, [loss], weights)]


def test_a_loop_runs_again_with_all_its_iterations() -> None:
    """What the backward passes of the first loops need is made again when they begin, and not kept until then."""
    graph = SymbolicGraph()
    inputs, outputs = loops(graph, in_python=False)
    free = compile(graph, outputs, backend="reference")
    small = compile(graph, outputs, backend="reference", memory_limit=int(0.7 * free.memory().arena))
    verify(small.planned.graph)
    assert repeats(small, graph, "while")
    assert_same_bits(values(small, inputs, outputs), values(free, inputs, outputs))
    assert small.budget is not None
    assert 1.1 < small.budget.work_ratio < 1.4


def test_a_loop_that_a_function_ends_runs_once() -> None:
    graph = SymbolicGraph()
    _, outputs = loops(graph, in_python=True)
    smallest = smallest_limit(graph, outputs)
    small = compile(graph, outputs, backend="reference", memory_limit=smallest)
    assert repeats(small, graph, "while") == 0


def test_a_branch_runs_again() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((32, 32), "f32"), "x")
    choice = graph.input(TensorSpec((), I64), "choice")
    weights = [graph.input(spec((32, 32), "f32"), f"w{layer}") for layer in range(8)]
    y = x
    for weight in weights:
        (y,) = case_of(graph, choice, [lambda x, w: tanh(x @ w), lambda x, w: sigmoid(x @ w)], [y, weight])
    outputs = [reduce_sum(y), *backward(graph, [reduce_sum(y)], weights)]
    given = {choice: Tensor.from_numpy(np.array(1))}
    free = compile(graph, outputs, given=given, backend="reference")
    small = compile(graph, outputs, given=given, backend="reference", memory_limit=int(0.9 * free.memory().arena))
    assert repeats(small, graph, "case_of")
    assert_same_bits(values(small, [x, *weights], outputs), values(free, [x, *weights], outputs))


def residual() -> Residual:
    return Residual(Sequential(a=Convolution(8, 3, padding=1), b=BatchNorm(), c=ReLU(), d=Convolution(8, 3, padding=1)))


RESIDUAL = Sequential(a=Convolution(8, 3), b=BatchNorm(), c=ReLU(), d=residual(), e=residual(), f=residual())
MODELS = {
    "residual": (RESIDUAL, (10, 10, 3), 0.8),
    "gpt": (GPT(16, 16, 32, 2, 2), (16,), 0.8),
    "lstm": (lstm_language_model(16, 16, 4), (12,), 0.9),
}


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", MODELS)
def test_training_below_a_limit_is_the_same_training(name: str) -> None:
    """Parameters and running statistics are renewed in place: whatever runs again still reads what it read first."""
    layer, shape, share = MODELS[name]
    generator = np.random.default_rng(1)
    is_text = name in {"gpt", "lstm"}

    def model(limit: int | None) -> Model:
        optimizer = SGD(0.1)
        dtype = {"input_dtype": I64} if is_text else {}
        return Model(layer, shape, optimizer=optimizer, backend="reference", memory_limit=limit, **dtype)

    free = model(None)
    small = model(int(share * free.memory(4).step.arena))
    memory = small.memory(4)
    assert memory.budget is not None
    assert memory.step.arena <= memory.budget.limit
    assert memory.budget.repeated > 0
    size = (4, *shape)
    inputs = generator.integers(0, 16, size) if is_text else generator.standard_normal(size).astype(np.float32)
    labels = generator.integers(0, 2, free.loss.target_shape((4, *free.output_shape)))
    for _ in range(2):
        assert small.train_on_batch(inputs, labels) == free.train_on_batch(inputs, labels)
    for path, value in free.state_dict().items():
        np.testing.assert_array_equal(small.state_dict()[path], value)


def test_precision_is_lowered_only_where_that_is_allowed_and_needed() -> None:
    def memory(limit: int | None, allowed: DType | None) -> ModelMemory:
        layer = Sequential(a=Dense(32), b=ReLU(), c=Dense(32), d=ReLU(), e=Dense(4))
        return Model(layer, (32,), memory_limit=limit, allowed_precision=allowed).memory(256)

    assert memory(None, BF16).precision is None
    with pytest.raises(MemoryLimitError) as info:
        memory(0, None)
    smallest = info.value.smallest
    assert memory(smallest, BF16).precision is None
    lowered = memory(smallest - 64, BF16)
    assert lowered.precision is BF16
    assert lowered.step.arena < smallest
    with pytest.raises(MemoryLimitError) as info:
        memory(0, BF16)
    assert info.value.smallest < smallest
    assert "16 bits" not in info.value.fix


@pytest.mark.parametrize("batch", [1, 256])
def test_16_bits_are_advised_only_where_they_suffice(batch: int) -> None:
    layer = Sequential(a=Dense(32), b=ReLU(), c=Dense(32), d=ReLU(), e=Dense(4))
    with pytest.raises(MemoryLimitError) as info:
        Model(layer, (32,), memory_limit=0).memory(batch)
    advised = re.search(r"16 bits .*where (\d+) bytes suffice", info.value.fix)
    assert (advised is not None) == (batch == 256)
    assert info.value.unlimited >= Model(layer, (32,)).memory(batch).step.arena >= info.value.smallest
    if advised is not None:
        enough = int(advised[1])
        assert enough < info.value.smallest
        assert Model(layer, (32,), memory_limit=enough, allowed_precision=BF16).memory(batch).step.arena <= enough


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
    smallest = smallest_limit(graph, outputs, given) if free.memory().arena else 0
    assert free.memory().any_order_bound <= smallest <= free.memory().arena
    small = compile(graph, outputs, given=given, backend="reference", memory_limit=smallest)
    assert small.memory().arena <= smallest
    verify(small.planned.graph)
    assert_same_bits(list(small({}, *outputs)), list(free({}, *outputs)))
