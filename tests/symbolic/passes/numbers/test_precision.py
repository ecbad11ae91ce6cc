"""Precision: what runs in 16 bits and what does not, values within the table, gradients before and after, memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.interpreter import Array, interpret
from tests.symbolic.passes.equality import named
from tests.symbolic.programs import Program, programs, run

from nnc import nn, ops
from nnc.core.values.dtype import BF16, F16, F32, I32, TOLERANCE, DType
from nnc.core.values.spec import TensorSpec, spec
from nnc.errors import DTypeError
from nnc.symbolic import Symbol, SymbolicGraph, backward, faults, minimize
from nnc.symbolic.passes import Pass, lower_precision, simplify
from nnc.symbolic.text import dump

EXAMPLES = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
PASSES = {BF16: Pass.BFLOAT16, F16: Pass.FLOAT16}


def perceptron() -> tuple[SymbolicGraph, list[Symbol], Symbol]:
    """A loss of two layers, and its inputs."""
    graph = SymbolicGraph("net")
    x, w, b = graph.input(spec((6, 8)), "x"), graph.input(spec((8, 5)), "w"), graph.input(spec((5,)), "b")
    v = graph.input(spec((5, 3)), "v")
    hidden = ops.relu(ops.gemm(x, w) + b)
    return graph, [x, w, b, v], ops.reduce_mean(ops.square(ops.gemm(hidden, v)))


def lowered(graph: SymbolicGraph, outputs: list[Symbol], inputs: list[Symbol], dtype: DType) -> list[Array]:
    """The values before; the pass leaves a valid graph, the types of the outputs, and values within the table."""
    values = named(inputs)
    before = interpret(graph, outputs, values)
    simplify(graph, outputs, [PASSES[dtype]])
    assert faults(graph) == ()
    row = TOLERANCE[dtype]
    for got, want in zip(interpret(graph, outputs, values), before, strict=True):
        assert got.dtype == want.dtype
        largest = np.abs(want).max(initial=0)
        np.testing.assert_allclose(got, want, 4 * row.relative, max(row.absolute, 4 * row.relative * largest))
    return before


def test_the_text_of_a_small_network() -> None:
    graph, _, loss = perceptron()
    assert lower_precision(graph, [loss]) == {"lowered": 4, "casts": 5}
    assert dump(graph, origins=False).splitlines()[5:] == [
        '  %4: bf16[6, 8] = cast(dtype="bf16") <- %0',
        '  %5: bf16[8, 5] = cast(dtype="bf16") <- %1',
        "  %6: bf16[6, 5] = gemm <- %4, %5, –",
        '  %7: bf16[5] = cast(dtype="bf16") <- %2',
        "  %8: bf16[6, 5] = add <- %6, %7",
        "  %9: bf16[6, 5] = relu <- %8",
        '  %10: bf16[5, 3] = cast(dtype="bf16") <- %3',
        "  %11: bf16[6, 3] = gemm <- %9, %10, –",
        '  %12: f32[6, 3] = cast(dtype="f32") <- %11',
        "  %13: f32[6, 3] = square <- %12",
        "  %14: f32[] = reduce_mean(axes=[0, 1]) <- %13",
    ]


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("first", [True, False], ids=["before gradients", "after gradients"])
def test_gradients_of_both_orders(dtype: DType, first: bool) -> None:
    graph, inputs, loss = perceptron()
    values = named(inputs)
    exact_graph, exact_inputs, exact_loss = perceptron()
    exact = interpret(
        exact_graph,
        [exact_loss, *backward(exact_graph, [exact_loss], exact_inputs)],
        dict(zip(exact_inputs, values.values(), strict=True)),
    )
    if first:
        lower_precision(graph, [loss], dtype)
    outputs = [loss, *backward(graph, [loss], inputs)]
    if not first:
        lower_precision(graph, outputs, dtype)
    assert faults(graph) == ()
    assert all(output.spec.dtype is F32 for output in outputs)
    row = TOLERANCE[dtype]
    for got, want in zip(interpret(graph, outputs, values), exact, strict=True):
        np.testing.assert_allclose(got, want, 4 * row.relative, 4 * row.relative * np.abs(want).max())


def test_a_parameter_is_cast_once_for_all_products() -> None:
    graph, inputs, loss = perceptron()
    gradients = backward(graph, [loss], inputs)
    lower_precision(graph, [loss, *gradients])
    casts = [record for _, record in graph.execs.items() if record.command.op.name == "cast"]
    read = [record.inputs[0] for record in casts]
    assert len(set(read)) == len(read)


def test_each_product_of_a_given_parameter_has_a_cast_of_its_own() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((32, 8)), "x"), graph.input(spec((8, 8)), "w")
    y = ops.gemm(ops.relu(ops.gemm(x, w)), w)
    lower_precision(graph, [y], given=[w])
    simplify(graph, [y])
    assert faults(graph) == ()
    casts = [one for _, one in graph.execs.items() if one.command.op.name == "cast" and one.inputs == (w.key,)]
    assert [len(graph.readers(one.outputs[0])) for one in casts] == [1, 1]


def test_optimizers_and_states_stay_in_full_precision() -> None:
    graph, inputs, loss = perceptron()
    minimized = minimize(graph, nn.Adam().command(), [loss], inputs[1:], clip_norm=1.0)
    updated = [update.updated for update in minimized.updates]
    lower_precision(graph, [loss, *updated])
    assert faults(graph) == ()
    for _, record in graph.execs.items():
        if record.command.op.name in ("adam", "reduce_sum", "multiply", "sqrt"):
            written = {graph.tensors[key].spec.dtype for key in record.outputs}
            read_late = record.command.op.name != "multiply"
            assert not read_late or written == {F32}


def test_what_is_read_in_full_precision_alone_stays_so() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4))), graph.input(spec((4, 4)))
    y = ops.exp(ops.relu(ops.gemm(x, w)))
    lower_precision(graph, [y])
    assert [str(graph.tensors[graph.execs[key].outputs[0]].spec.dtype) for key in graph.execs.toposort()] == [
        "bf16", "bf16", "bf16", "f32", "f32", "f32",
    ]  # fmt: skip


def test_statistics_stay_in_full_precision() -> None:
    graph = SymbolicGraph()
    x, w, scale = graph.input(spec((6, 8))), graph.input(spec((8, 8))), graph.input(spec((8,)))
    y = ops.gemm(ops.layer_norm(ops.gemm(x, w), scale, axes=-1), w)
    lowered(graph, [y, *backward(graph, [y], [x, w, scale])], [x, w, scale], BF16)
    types = {
        tuple(graph.tensors[key].spec.dtype for key in record.outputs)
        for _, record in graph.execs.items()
        if record.command.op.name == "layer_norm"
    }
    assert types == {(BF16, F32, F32)}


def test_a_second_run_changes_nothing() -> None:
    graph, inputs, loss = perceptron()
    gradients = backward(graph, [loss], inputs)
    lower_precision(graph, [loss, *gradients])
    text = dump(graph)
    assert lower_precision(graph, [loss, *gradients])["lowered"] == 0
    assert dump(graph) == text


def test_parts_of_tensors_are_read_in_their_places() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((6, 8))), graph.input(spec((8, 8)))
    h = ops.gemm(x, w)
    y = ops.gemm(ops.gemm(h[2:5], ops.reshape(w, (4, 16))[:, :8], transpose_b=True), ops.reshape(h, (4, 12)))
    lowered(graph, [y, *backward(graph, [y], [x, w])], [x, w], BF16)


def test_other_types_are_refused() -> None:
    graph, _, loss = perceptron()
    with pytest.raises(DTypeError, match="bf16 or f16"):
        lower_precision(graph, [loss], F32)


@EXAMPLES
@given(programs())
def test_random_programs_stay_near(program: Program) -> None:
    graph = SymbolicGraph()
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    _, wanted = run(program, symbols)
    lower_precision(graph, wanted)
    outputs = [*wanted, *backward(graph, wanted, symbols)]
    simplify(graph, outputs)
    simplify(graph, outputs, [Pass.BFLOAT16, Pass.ALGEBRA, Pass.CONSTANTS, Pass.GROUPS])
    assert faults(graph) == ()
    values = interpret(graph, outputs, named(symbols))
    for symbol, value in zip(outputs, values, strict=True):
        assert (value.shape, symbol.spec.dtype) == (symbol.shape, F32)


# ---- models


def small_network() -> nn.Layer:
    """A convolution with its norm, and a product."""
    return nn.Sequential(nn.Convolution(4), nn.BatchNorm(), nn.ReLU(), nn.MaxPool(), nn.Flatten(), nn.Dense(3))


def test_a_training_step_needs_less_memory() -> None:
    models = [nn.Model(small_network(), (6, 6, 1), precision=precision) for precision in (None, BF16)]
    full, low = (model.memory(32).step.arena for model in models)
    assert low < 0.75 * full


def heavy_network() -> nn.Layer:
    """Weights that are larger than what they are applied to, and a result that is wanted in f32."""
    return nn.Sequential(nn.Embedding(50, 24), nn.LSTM(24), nn.Dense(96), nn.ReLU(), nn.Dense(50))


@pytest.mark.parametrize("kind", ["predict", "train"])
@pytest.mark.parametrize("batch", [1, 64])
def test_16_bits_take_no_more_than_32(batch: int, kind: str) -> None:
    full, low = (
        nn.Model(heavy_network(), (6,), input_dtype=I32, precision=one).memory(batch, kind).step for one in (None, BF16)
    )
    # What an exec takes is judged by its neighbours, not by the whole plan.
    assert low.arena <= 1.05 * full.arena


def test_a_scaled_loss_keeps_small_gradients() -> None:
    def gradient(scale: float) -> Array:
        graph = SymbolicGraph()
        x, w = graph.input(spec((4, 4))), graph.input(spec((4, 4)), "w")
        loss = ops.reduce_sum(ops.gemm(x, w)) * 2.0**-20
        (update,) = minimize(graph, nn.Adam().command(), [loss], [w], loss_scale=scale).updates
        lower_precision(graph, [update.gradient], F16)
        (value,) = interpret(graph, [update.gradient], {x: np.full((4, 4), 2.0**-8), w: np.ones((4, 4))})
        return value

    assert not gradient(1.0).any()
    np.testing.assert_array_equal(gradient(1024.0), np.full((4, 4), 2.0**-26, np.float32))


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_a_network_learns_in_16_bits(dtype: DType) -> None:
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((48, 6, 6, 1)).astype(np.float32)
    target = np.abs(inputs[:, :3, :3, 0]).sum((1, 2)).argsort().argsort() // 16

    def train(precision: DType | None) -> tuple[float, float]:
        model = nn.Model(small_network(), (6, 6, 1), optimizer=nn.Adam(0.02), seed=1, precision=precision)
        losses = [model.train_on_batch(inputs, target)[0] for _ in range(40)]
        assert all(tensor.spec.dtype is F32 for tensor in model.tensors().values())
        return losses[0], losses[-1]

    (first, last), (_, exact) = train(dtype), train(None)
    assert last < 0.3 * first
    assert last < exact + 0.15


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_take_about_half_in_16_bits(kind: type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]) -> None:
    """What they keep of all steps is of 16 bits."""

    def arena(precision: DType | None) -> int:
        layers = nn.Sequential(kind(16, return_sequences=False), nn.Dense(2))
        model = nn.Model(layers, (32, 2), loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.1), precision=precision)
        return model.memory(32).step.arena

    assert arena(BF16) < 0.62 * arena(None)
