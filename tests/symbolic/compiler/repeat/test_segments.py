"""Recurrent operators in segments: the same bits, in less memory where a limit asks for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.symbolic.compiler.repeat.test_budget import assert_same_bits, values

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.errors import MemoryLimitError
from nnc.nn import GRU as GRULayer
from nnc.nn import LSTM as LSTMLayer
from nnc.nn import SGD, Dense, MeanSquaredError, Model, Sequential
from nnc.ops import RecurrentWeights, reduce_sum
from nnc.ops.sequence.recurrent import LSTM, RecurrentAttrs, at
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, verify
from nnc.symbolic.compiler.repeat.segments import in_segments, segmented
from nnc.symbolic.compiler.repeat.sequences import parts_of
from nnc.symbolic.compiler.repeat.step_axes import StepAxes
from nnc.symbolic.passes import simplify
from nnc.symbolic.records import TensorKey

pytestmark = pytest.mark.usefixtures("debug")

STEPS, BATCH, FEATURES, UNITS = 16, 32, 3, 4
Layer = Callable[[Symbol, RecurrentWeights[Symbol], bool], Symbol]


def weights(graph: SymbolicGraph, inputs: int, gates: int, state_bias: bool = False) -> RecurrentWeights[Symbol]:
    wide = gates * UNITS
    shapes = [(inputs, wide), (UNITS, wide), (wide,), (wide,)][: 3 + state_bias]
    return RecurrentWeights(*(graph.input(spec(shape, "f32")) for shape in shapes))


def parameters(given: RecurrentWeights[Symbol]) -> list[Symbol]:
    return [part for part in (given.w, given.u, given.bias, given.state_bias) if part is not None]


def lstm(x: Symbol, given: RecurrentWeights[Symbol], reverse: bool) -> Symbol:
    return ops.lstm(x, given, reverse=reverse)[0]


def gru(x: Symbol, given: RecurrentWeights[Symbol], reverse: bool) -> Symbol:
    return ops.gru(x, given, reverse=reverse)[0]


def rnn(x: Symbol, given: RecurrentWeights[Symbol], reverse: bool) -> Symbol:
    return ops.rnn(x, given, reverse=reverse)[0]


CELLS: dict[str, tuple[Layer, int]] = {"lstm": (lstm, 4), "gru": (gru, 3), "rnn": (rnn, 1)}


def last(y: Symbol, reverse: bool) -> Symbol:
    return at(y, 0 if reverse else y.shape[0] - 1)


def program(graph: SymbolicGraph, cell: str, form: str, steps: int = STEPS) -> tuple[list[Symbol], list[Symbol]]:
    """Inputs, and a loss with the gradients of all of them."""
    layer, gates = CELLS[cell]
    x = graph.input(spec((BATCH, steps, FEATURES), "f32"), "x")
    first = weights(graph, FEATURES, gates, state_bias=cell == "gru")
    given = [x, *parameters(first)]
    y = layer(ops.transpose(x, (1, 0, 2)), first, form == "reverse")
    if form in ("stacked", "both"):
        more = weights(graph, UNITS if form == "stacked" else FEATURES, gates)
        given += parameters(more)
        source = y if form == "stacked" else ops.transpose(x, (1, 0, 2))
        other = layer(source, more, form == "both")
        y = ops.tanh(other) if form == "stacked" else ops.concatenate([y, other], 2)
    if form in ("sequence", "both"):
        loss = reduce_sum(y * y)
    else:
        end = last(y, form == "reverse")
        loss = reduce_sum(end * end)
    return given, [loss, *backward(graph, [loss], given)]


def cut(
    graph: SymbolicGraph, outputs: list[Symbol], places: list[int]
) -> tuple[SymbolicGraph, dict[TensorKey, TensorKey]]:
    axes = StepAxes(graph, places[-1], parts_of(places[-1], BATCH))
    assert axes.find()
    copy = in_segments(axes, {graph.root(symbol.key) for symbol in outputs}, places)
    verify(copy.graph)
    return copy.graph, dict(copy.tensors)


FORMS = [(cell, form) for cell in CELLS for form in ("last", "reverse")]
FORMS += [("lstm", form) for form in ("sequence", "stacked", "both")]


@pytest.mark.parametrize(("cell", "form"), FORMS)
def test_segments_give_the_same_bits(cell: str, form: str) -> None:
    """Four parts of four steps, as three segments of which one is longer."""
    graph = SymbolicGraph()
    inputs, outputs = program(graph, cell, form)
    simplify(graph, outputs)
    want = values(compile(graph, outputs, backend="reference"), inputs, outputs)
    copy, moved = cut(graph, outputs, [0, 4, 12, 16])
    names = [record.command.op.name for _, record in copy.execs.items()]
    layers = 2 if form in ("stacked", "both") else 1
    assert names.count(cell) == names.count(f"{cell}_gradient") == layers * 3
    given, asked = ([copy.symbol(moved[symbol.key]) for symbol in part] for part in (inputs, outputs))
    assert_same_bits(values(compile(copy, asked, backend="reference"), given, asked), want)


def test_a_segment_may_be_a_single_step() -> None:
    graph = SymbolicGraph()
    inputs, outputs = program(graph, "lstm", "last", steps=5)
    want = values(compile(graph, outputs, backend="reference"), inputs, outputs)
    copy, moved = cut(graph, outputs, [0, 1, 4, 5])
    given, asked = ([copy.symbol(moved[symbol.key]) for symbol in part] for part in (inputs, outputs))
    assert_same_bits(values(compile(copy, asked, backend="reference"), given, asked), want)


def test_what_a_caller_wants_of_all_steps_stays_whole() -> None:
    graph = SymbolicGraph()
    x, z = graph.input(spec((STEPS, BATCH, FEATURES), "f32"), "x"), weights(graph, FEATURES, 4)
    y = lstm(x, z, reverse=False)
    outputs = [y, *backward(graph, [reduce_sum(y * y)], [z.u])]
    inputs = [x, *parameters(z)]
    want = values(compile(graph, outputs, backend="reference"), inputs, outputs)
    copy, moved = cut(graph, outputs, [0, 8, 16])
    assert copy.tensors[moved[y.key]].spec == y.spec
    given, asked = ([copy.symbol(moved[symbol.key]) for symbol in part] for part in (inputs, outputs))
    assert_same_bits(values(compile(copy, asked, backend="reference"), given, asked), want)


def test_sequences_of_16_bits_and_of_few_rows_are_not_cut() -> None:
    """Carries of 16 bits would be rounded; a sum of fewer rows than a part has is made at once."""
    graph = SymbolicGraph()
    _, outputs = program(graph, "lstm", "last")
    wanted = {graph.root(symbol.key) for symbol in outputs}
    assert [*segmented(graph, wanted)]
    low = SymbolicGraph()
    x, u = low.input(spec((STEPS, BATCH, 4 * UNITS), "bf16")), low.input(spec((UNITS, 4 * UNITS), "bf16"))
    state = low.input(spec((BATCH, UNITS), "bf16"))
    y, *_ = x.apply(Command(LSTM, RecurrentAttrs()), (x, u, state, state))
    assert not [*segmented(low, {low.root(key.key) for key in backward(low, [reduce_sum(y)], [u])})]
    assert parts_of(64, 2) == [0, 64]


@pytest.mark.turns(4)
@pytest.mark.parametrize("kind", [LSTMLayer, GRULayer])
def test_a_model_trains_within_half_of_its_memory(kind: type[LSTMLayer] | type[GRULayer]) -> None:
    """As without a limit, to the last bit; the statement is the plan, and an error names the smallest limit."""

    def model(limit: int | None) -> Model:
        layers = Sequential(memory=kind(16, return_sequences=False), head=Dense(2))
        return Model(layers, (16, 4), loss=MeanSquaredError(), optimizer=SGD(0.1), memory_limit=limit)

    free = model(None).memory(32).step.arena
    with pytest.raises(MemoryLimitError) as info:
        model(free // 100).memory(32)
    assert info.value.smallest < free // 2
    limited, plain = model(free // 2), model(None)
    memory = limited.memory(32)
    assert memory.step.arena <= free // 2
    assert memory.budget is not None
    assert memory.budget.work_ratio < 1.4
    generator = np.random.default_rng(5)
    x, y = (generator.standard_normal(shape).astype(np.float32) for shape in ((32, 16, 4), (32, 2)))
    losses = [[trained.train_on_batch(x, y)[0] for _ in range(3)] for trained in (limited, plain)]
    assert losses[0] == losses[1]
    for name, tensor in limited.tensors().items():
        assert tensor.numpy().tobytes() == plain.tensors()[name].numpy().tobytes(), name
