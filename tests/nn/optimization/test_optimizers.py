"""Every optimizer trains a model, keeps the state it says, and refuses options without sense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nnc
from nnc import nn
from nnc.arguments import Share
from nnc.core.values.command import Command
from nnc.dynamic import DynamicGraph
from nnc.errors import ArityError, AttributeValueError, ShapeError, UsageError
from nnc.graph import Registry
from nnc.nn import (
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Dense,
    Lamb,
    Lion,
    MeanSquaredError,
    Model,
    Muon,
    Optimizer,
    PerParameter,
    RMSProp,
    Sequential,
    Tanh,
)
from nnc.nn.data import BatchState
from nnc.nn.optimization.optimizer_base import RowOptimizer
from nnc.nn.optimization.schedules import Constant, RateSchedule
from nnc.ops.composed.custom import Arrays
from nnc.ops.optimizer.update import update

OPTIMIZERS: tuple[tuple[Optimizer, tuple[str, ...]], ...] = (
    (SGD(0.1), ("momentum",)),
    (SGD(0.1, momentum=0.0, decay=1e-4), ()),
    (SGD(0.1, nesterov=True, decay=1e-4), ("momentum",)),
    (Adam(0.02), ("moment", "variance")),
    (Adam(0.02, amsgrad=True), ("moment", "variance", "top")),
    (AdamW(0.02), ("moment", "variance")),
    (AdamW(0.02, amsgrad=True), ("moment", "variance", "top")),
    (Lamb(0.02), ("moment", "variance")),
    (RMSProp(0.01, momentum=0.5), ("moment", "variance")),
    (RMSProp(0.01), ("variance",)),
    (RMSProp(0.01, centered=True), ("moment", "variance", "mean")),
    (nn.Nadam(0.02), ("moment", "variance")),
    (Adagrad(0.1), ("variance",)),
    (Lion(0.01), ("moment",)),
    (Adadelta(10.0), ("variance", "delta")),
    (Adamax(0.05), ("moment", "top")),
    (Adafactor(0.5), ("row", "column")),
)


@pytest.mark.parametrize(("optimizer", "states"), OPTIMIZERS, ids=[repr(row[0]) for row in OPTIMIZERS])
def test_a_model_learns(optimizer: Optimizer, states: tuple[str, ...]) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((32, 4)).astype(np.float32)
    labels = (x[:, 0] > x[:, 1]).astype(np.int32)
    model = Model(Sequential(Dense(8), Tanh(), Dense(2)), (4,), optimizer=optimizer)
    assert optimizer.state_names() == states
    assert set(model.states) == {f"{path}.{state}" for path in model.parameters for state in states}
    first, _ = model.train_on_batch(x, labels)
    for _ in range(40):
        last, _ = model.train_on_batch(x, labels)
    assert last < 0.6 * first


BAD: tuple[Callable[[], Optimizer], ...] = (
    lambda: SGD(momentum=1.0),
    lambda: Adam(beta1=1.0),
    lambda: Adam(epsilon=0.0),
    lambda: AdamW(beta2=-0.1),
    lambda: AdamW(decay=-1.0),
    lambda: Lamb(beta1=1.5),
    lambda: RMSProp(alpha=1.0),
    lambda: RMSProp(epsilon=float("nan")),
    lambda: Adagrad(epsilon=0.0),
    lambda: Lion(decay=-0.1),
)


@pytest.mark.parametrize("make", BAD)
def test_refusals(make: Callable[[], Optimizer]) -> None:
    with pytest.raises(AttributeValueError, match="need"):
        make()


def halves() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((32, 4)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(np.int32)


def test_parameters_have_optimizers_of_their_own() -> None:
    """Biases decay not, the first layer is frozen, and the second layer's weight has a rate of its own."""
    x, labels = halves()
    plain, slow = AdamW(0.01, decay=0.5), SGD(Constant(1e-3), momentum=0.5)
    optimizer = PerParameter(plain, (("0.*", None), ("*.bias", AdamW(0.01, decay=0.0)), ("2.weight", slow)))
    model = Model(Sequential(Dense(8), Tanh(), Dense(2), Dense(2)), (4,), optimizer=optimizer)
    assert optimizer.state_names() == ("moment", "variance")
    assert {name.rpartition(".")[0] for name in model.states} == {"2.weight", "2.bias", "3.weight", "3.bias"}
    assert [name for name in model.states if name.startswith("2.weight")] == ["2.weight.momentum"]
    assert optimizer.scalars(3) == {"rate": 0.01, "step": 3.0, "rate.*.bias": 0.01, "rate.2.weight": 1e-3}
    before = model.state_dict()
    first, _ = model.train_on_batch(x, labels)
    moved = model.state_dict()["2.weight"] - before["2.weight"]
    np.testing.assert_allclose(moved, -1e-3 * model.states["2.weight.momentum"].numpy(), atol=1e-7)
    for _ in range(40):
        last, _ = model.train_on_batch(x, labels)
    assert last < first
    after = model.state_dict()
    assert [path for path in before if np.array_equal(before[path], after[path])] == ["0.weight", "0.bias"]


def test_an_update_follows_no_longer_gradient_than_allowed() -> None:
    x, labels = halves()
    optimizer = SGD(1.0, momentum=0.0)
    steps = []
    for limit in (None, 0.01):
        model = Model(Sequential(Dense(8), Tanh(), Dense(2)), (4,), optimizer=optimizer, clip_norm=limit)
        before = model.state_dict()
        model.train_on_batch(x, labels)
        after = model.state_dict()
        steps.append(np.concatenate([(after[path] - before[path]).ravel() for path in before]))
    free, clipped = steps
    assert np.linalg.norm(free) > 0.1
    np.testing.assert_allclose(clipped, free * 0.01 / np.linalg.norm(free), rtol=1e-3, atol=1e-6)


# ---- eager and compiled functions

EAGER = [
    nn.SGD(0.125, momentum=0.5),
    nn.SGD(0.125, momentum=0.0, decay=0.25),
    nn.Adam(0.125),
    nn.Adam(0.125, amsgrad=True),
    nn.AdamW(0.125),
    nn.Lamb(0.125),
    nn.RMSProp(0.125, momentum=0.5),
    nn.Adagrad(0.125),
    nn.Lion(0.125),
    nn.Adafactor(0.125),
    nn.Adam(nn.Cosine(0.25, 4)),
    nn.PerParameter(nn.Adam(0.125), (("*bias", nn.SGD(0.5)), ("1.weight", None))),
]


def small_model(optimizer: nn.Optimizer) -> nn.Model:
    """Two layers without a nonlinearity: with small whole numbers their first gradients are exact in any order."""
    layer = nn.Sequential(nn.Dense(4), nn.Dense(2))
    model = nn.Model(layer, (3,), optimizer=optimizer, loss=nn.MeanSquaredError())
    generator = np.random.default_rng(0)
    values = {path: generator.integers(-2, 3, tensor.shape) * 0.5 for path, tensor in model.tensors().items()}
    model.load_state_dict(values)
    return model


@pytest.mark.parametrize("optimizer", EAGER, ids=repr)
def test_eager_updates_have_the_bits_of_a_model(optimizer: nn.Optimizer) -> None:
    """Gradients are the model's here; they go by the same commands through the same states."""
    model = small_model(optimizer)
    inputs, target = np.float32([[1, 2, -1], [0, 1, 1]]), np.zeros((2, 2), np.float32)
    parameters = {path: nnc.variable(tensor) for path, tensor in model.parameters.items()}
    state = optimizer.init(parameters)
    graph = DynamicGraph()
    for _ in range(4):
        leaves = {path: graph.variable(tensor) for path, tensor in model.parameters.items()}
        loss = model.loss.build(model.apply(graph.constant(inputs), leaves), graph.constant(target))
        gradients = dict(zip(leaves, graph.backward([loss], list(leaves.values())), strict=True))
        held = {path: np.array(one) for path, one in parameters.items()}
        parameters, state = optimizer.update(parameters, {path: one.detach() for path, one in gradients.items()}, state)
        model.train_on_batch(inputs, target)
        for path, tensor in model.parameters.items():
            np.testing.assert_allclose(parameters[path], tensor.numpy(), rtol=1e-6, atol=1e-7)
            assert parameters[path].key is not None
            assert np.array_equal(held[path], parameters[path]) == (optimizer.at(path) is None)


@pytest.mark.parametrize("optimizer", EAGER, ids=repr)
def test_one_eager_update_has_the_very_bits_of_a_model(optimizer: nn.Optimizer) -> None:
    model = small_model(optimizer)
    inputs, target = np.float32([[1, 2, -1], [0, 1, 1]]), np.zeros((2, 2), np.float32)

    def loss(parameters: dict[str, nnc.Variable]) -> nnc.Variable:
        return model.loss.build(model.apply(nnc.tensor(inputs), parameters), nnc.tensor(target))

    parameters = {path: nnc.tensor(tensor) for path, tensor in model.parameters.items()}
    state = optimizer.init(parameters)
    parameters, state = optimizer.update(parameters, nnc.grad(loss)(parameters), state)
    model.train_on_batch(inputs, target)
    for path, tensor in model.parameters.items():
        np.testing.assert_array_equal(parameters[path], tensor.numpy())
    for name, tensor in model.states.items():
        np.testing.assert_array_equal(state[name], tensor.numpy())
    assert state["step"].item() == 1.0


def test_parameters_may_be_nested_or_one_array() -> None:
    optimizer, one = nn.SGD(0.5, momentum=0.0), np.float32([1.0, 2.0])
    new, state = optimizer.update(one, one, optimizer.init(one))
    np.testing.assert_array_equal(new, one / 2)
    nested = {"a": [one, (one,)]}
    new, state = optimizer.update(nested, nested, optimizer.init(nested))
    np.testing.assert_array_equal(new["a"][1][0], one / 2)
    assert list(nn.Adam().init(nested)) == ["step", "a.0.moment", "a.0.variance", "a.1.0.moment", "a.1.0.variance"]
    assert optimizer.update({}, {}, optimizer.init({})) == ({}, {})
    assert isinstance(state["step"], nnc.Variable)


def test_what_is_missing_for_an_update_is_named() -> None:
    optimizer, one = nn.Adam(), np.float32([1.0])
    with pytest.raises(ArityError, match=r"no 'b'.*init\(\)"):
        optimizer.update({"a": one}, {"a": one, "b": one}, optimizer.init({"a": one}))
    with pytest.raises(ArityError, match="no 'b.moment'"):
        optimizer.update({"a": one, "b": one}, {"a": one, "b": one}, optimizer.init({"a": one}))


SCHEDULES = (
    nn.Constant(0.25),
    nn.Cosine(0.5, 5, 0.1),
    nn.Exponential(0.5, 5, 0.01),
    nn.LinearSchedule(0.5, 5, 0.1),
    nn.Polynomial(0.5, 5, 0.1, 1.5),
    nn.StepDecay(0.5, 3, 0.3),
    nn.Milestones(0.5, (2, 2, 5, 2**62), 0.3),
    nn.Milestones(0.5, ()),
    nn.CosineRestarts(0.5, 3, 0.1),
    nn.CosineRestarts(0.5, 1, growth=2),
    nn.Warmup(3, nn.Cosine(0.5, 5), 0.25),
    nn.Joined(((2, nn.LinearSchedule(0.1, 2, 0.5)), (3, nn.StepDecay(0.5, 1, 0.5))), nn.CosineRestarts(0.25, 2)),
    nn.Joined((), nn.Warmup(2**62, nn.Constant(0.5), 0.5)),
)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_one_compiled_program_serves_all_steps_of_a_schedule(schedule: nn.RateSchedule) -> None:
    optimizer, slope = nn.SGD(schedule, momentum=0.0), np.float32([1.0, -3.0])
    step = nnc.compile(optimizer.update)
    eager, compiled = (slope, optimizer.init(slope)), (slope, optimizer.init(slope))
    for _ in range(14):
        eager = optimizer.update(eager[0], slope, eager[1])
        compiled = step(compiled[0], slope, compiled[1])
        np.testing.assert_array_equal(compiled[0], eager[0])
    assert step.recorded == 1


class Thirds(nn.RateSchedule):
    def rate(self, step: int) -> float:
        return 1.0 / 3.0 if step % 2 else 0.0


def test_a_schedule_of_another_class_gives_its_rate_from_outside_or_says_it_of_an_array() -> None:
    one = np.float32([1.0])
    optimizer = nn.SGD(Thirds(), momentum=0.0)
    state = optimizer.init(one)
    with pytest.raises(AttributeValueError, match="the schedule Thirds, which has no rate_array.*rate="):
        nnc.compile(optimizer.update)(one, one, state)
    step = nnc.compile(lambda *given, rate: optimizer.update(*given, rate=rate))
    new, state = step(one, one, state, rate=np.float32(0.5))
    assert new.item() == 0.5
    assert step.recorded == 1


def test_muon_has_the_matrices_and_another_optimizer_the_rest() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((32, 6)).astype(np.float32)
    y = x @ random.standard_normal((6, 4)).astype(np.float32)
    optimizer = PerParameter(AdamW(0.01), (("*.weight", Muon(0.05, decay=0.0)),))
    model = Model(Sequential(Dense(16), Tanh(), Dense(4)), (6,), loss=MeanSquaredError(), optimizer=optimizer)
    losses = [model.train_on_batch(x, y)[0] for _ in range(40)]
    assert losses[-1] < 0.2 * losses[0]
    with pytest.raises(ShapeError, match="a matrix.*PerParameter"):
        Model(Dense(4), (6,), loss=MeanSquaredError(), optimizer=Muon()).train_on_batch(x, y)


def test_adafactor_keeps_rows_and_columns_in_memory_and_files(tmp_path: Path) -> None:
    x, y = np.ones((4, 30), np.float32), np.ones((4, 20), np.float32)

    def model() -> Model:
        return Model(Dense(20), (30,), loss=MeanSquaredError(), optimizer=Adafactor(nn.Cosine(0.1, 9)))

    one, other = model(), model()
    assert one.memory(4).optimizer_state == 4 * (30 + 20 + 20 + 1)
    assert {name: tensor.shape for name, tensor in one.states.items()} == {
        "weight.row": (30,),
        "weight.column": (20,),
        "bias.row": (20,),
        "bias.column": (),
    }
    one.train_on_batch(x, y)
    position = nn.Position(1, BatchState(0), 4)
    nn.save_checkpoint(tmp_path / "one.safetensors", one, position)
    nn.load_checkpoint(tmp_path / "one.safetensors", other)
    assert one.train_on_batch(x, y) == other.train_on_batch(x, y)
    for path, tensor in one.states.items():
        np.testing.assert_array_equal(other.states[path].numpy(), tensor.numpy())


def test_parameters_are_frozen_and_thawed_between_sums_of_gradients() -> None:
    x = np.ones((4, 3), np.float32)
    net = nn.Sequential(body=nn.Dense(2), head=nn.Dense(1))
    model = nn.Model(net, (3,), loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.1).without("body.*"))
    before = model.state_dict()
    model.backward(x, x[:, 0])
    model.apply_gradients()
    assert (model.state_dict()["body.weight"] == before["body.weight"]).all()
    model.backward(x, x[:, 0])
    model.optimizer = nn.SGD(0.1)
    with pytest.raises(UsageError, match="a call of backward before"):
        model.apply_gradients()
    model.backward(x, x[:, 0])
    model.apply_gradients()
    assert (model.state_dict()["body.weight"] != before["body.weight"]).any()


# ---- an optimizer of another package: the row, what it computes, and the class that derives from it


@dataclass(frozen=True, slots=True)
class SignDescentAttrs:
    """Weight of the old moment."""

    beta: Share = 0.9


def sign_descent(attrs: SignDescentAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
    """m' = β m + (1 - β) g; w' = w - rate · sign(m')."""
    g, w, m, rate = (array for array in inputs if array is not None)
    moment = attrs.beta * m + (1 - attrs.beta) * g
    outputs[0][...], outputs[1][...] = w - rate * np.sign(moment), moment


SIGN_DESCENT = update(
    "sign_descent",
    SignDescentAttrs,
    {"m": "moment"},
    work=4,
    doc="m' = β m + (1 - β) g; w' = w - rate · sign(m')",
    kernel=sign_descent,
    registry=Registry("of these tests"),
)


@dataclass(frozen=True, slots=True)
class SignDescent(SignDescentAttrs, RowOptimizer):
    """w' = w - rate · sign(m'), as signSGD with momentum has it."""

    row = SIGN_DESCENT
    rate: float | RateSchedule = 0.01


def test_a_row_of_ones_own_is_a_command_and_trains_a_model() -> None:
    assert SignDescent(0.05).command() == Command(SIGN_DESCENT, SignDescentAttrs(0.9))
    assert repr(SignDescent()) == "SignDescent(rate=0.01, beta=0.9)"
    test_a_model_learns(SignDescent(0.02), ("moment",))


def test_a_row_of_ones_own_updates_eagerly() -> None:
    optimizer = SignDescent(0.5, beta=0.0)
    weights, slopes = {"w": nnc.variable([1.0, -1.0])}, {"w": nnc.variable([2.0, -3.0])}
    moved, state = optimizer.update(weights, slopes, optimizer.init(weights))
    np.testing.assert_allclose(moved["w"], [0.5, -0.5])
    np.testing.assert_allclose(state["w.moment"], [2.0, -3.0])
