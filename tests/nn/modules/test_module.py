"""Modules: attributes are layers and parameters, in every world that layers are built in."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import keras, nn
from nnc.core.settings import SETTINGS
from nnc.errors import DeviceError, ShapeError, UsageError
from nnc.nn.data import Batches, Examples

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


class Net(nn.Module):
    """Lists, dictionaries, a shared layer, a parameter and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [nn.Dense(4), nn.Sequential(nn.Dense(4), nn.BatchNorm())]
        self.heads = {"left": nn.Dense(3), "right": nn.Dense(3)}
        self.again = self.blocks[0]
        self.scale = nn.Parameter(np.full(3, 2.0, np.float32))
        self.register_buffer("calls", np.zeros((), np.float32))

    def forward(self, x: nnc.Variable) -> nnc.Variable:
        if self.training:
            self.calls = self.calls + 1.0
        for block in self.blocks:
            x = block(x) + x
        x = self.again(x).reshape(-1, 4)
        return (self.heads["left"](x) - self.heads["right"](x)) * self.scale


PATHS = {
    "blocks.0.weight", "blocks.0.bias", "blocks.1.0.weight", "blocks.1.0.bias", "blocks.1.1.weight", "blocks.1.1.bias",
    "heads.left.weight", "heads.left.bias", "heads.right.weight", "heads.right.bias", "scale",
}  # fmt: skip
STATISTICS = {"blocks.1.1.running_mean", "blocks.1.1.running_variance", "calls"}


@pytest.fixture(name="net")
def made() -> Net:
    nnc.seed(1)
    net = Net()
    net(X)
    return net


def test_paths_are_names_of_attributes(net: Net) -> None:
    assert {path for path, _ in net.named_parameters()} == PATHS
    assert {path for path, _ in net.named_buffers()} == STATISTICS
    assert set(net.state_dict()) == PATHS | STATISTICS
    assert nn.Model(net, (4,), loss=nn.MeanSquaredError()).specs.keys() == PATHS | STATISTICS


def test_a_fresh_module_is_in_training_and_eval_ends_that(net: Net) -> None:
    net(X)
    assert net.calls.item() == 2.0
    before = net.eval().state_dict()
    net(X)
    for path, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[path])
    assert not any(layer.training for layer in net.modules())


def test_every_world_gives_the_same(net: Net) -> None:
    wanted = net.eval()(X).numpy()
    model = nn.Model(net, (4,), loss=nn.MeanSquaredError())
    tensors = {path: nnc.tensor(value) for path, value in net.state_dict().items()}
    ways = {
        "list": net(X.tolist()),
        "f64": net(X.astype(np.float64)),
        "variable": net(nnc.variable(X)),
        "compiled": nnc.compile(net)(X),
        "vmap": nnc.vmap(lambda row: net(row.reshape(1, 4))[0])(X),
        "model": nnc.tensor(model.predict(X)),
        "model called": model(X),
        "applied": model.apply(nnc.tensor(X), tensors),
        "within": nn.Sequential(net, nn.Identity()).eval()(X),
    }
    for way, output in ways.items():
        np.testing.assert_allclose(output.numpy(), wanted, rtol=1e-4, atol=1e-5, err_msg=way)


def test_the_function_may_have_the_names_of_other_libraries() -> None:
    class Called(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Dense(2)

        def __call__(self, x: nnc.Variable) -> nnc.Variable:
            return self.layer(x) * 2.0

    class Call(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Called()

        def call(self, x: nnc.Variable) -> nnc.Variable:
            return self.inner(x)

    net = Call()
    assert net(X).shape == (6, 2)
    assert list(net.state_dict()) == ["inner.layer.weight", "inner.layer.bias"]
    assert nn.Model(net, (4,)).output_shape == (2,)


def test_copies_and_pickles_have_weights_of_their_own(net: Net) -> None:
    wanted = net.eval()(X).numpy()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(other(X).numpy(), wanted)
        assert other.again is other.blocks[0]
        other.scale = other.scale * 0.0
        assert net.scale.numpy()[0] == 2.0


def test_a_state_may_come_before_the_first_call(net: Net) -> None:
    other = Net()
    other.load_state_dict(net.state_dict())
    model = nn.Model(other, (4,), loss=nn.MeanSquaredError())
    np.testing.assert_array_equal(other.eval()(X).numpy(), net.eval()(X).numpy())
    np.testing.assert_allclose(model.predict(X), net(X).numpy(), rtol=1e-4, atol=1e-5)


def test_a_model_trains_copies_and_its_state_comes_back(net: Net, tmp_path: Path) -> None:
    model = nn.Model(net, (4,), loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.01))
    targets = np.zeros((6, 3), np.float32)
    before = net.state_dict()
    assert model.memory(6).weights == sum(value.nbytes for value in before.values())
    model.fit(X, targets, epochs=2, batch_size=6)
    np.testing.assert_array_equal(net.state_dict()["scale"], before["scale"])
    assert model.statistics["calls"].numpy() == before["calls"] + 2
    position = nn.position_of(model, Batches(Examples("six", X, targets), 6))
    nn.save_checkpoint(tmp_path / "net", model, position)
    again = nn.Model(Net(), (4,), loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.01))
    nn.load_checkpoint(tmp_path / "net", again)
    net.load_state_dict(model.state_dict())
    np.testing.assert_allclose(again.predict(X), net.eval()(X).numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_frozen_is_trained_nowhere(net: Net) -> None:
    net.blocks[0].freeze()
    rest = PATHS - {"blocks.0.weight", "blocks.0.bias"}
    assert net.trainable_parameters().keys() == rest
    assert nn.Model(net, (4,), loss=nn.MeanSquaredError()).parameters.keys() == rest
    (net(X) ** 2).sum().backward()
    assert {path for path, variable in net.named_parameters() if variable.grad is not None} == rest
    assert net.unfreeze().trainable_parameters().keys() == PATHS


def test_hooks_see_each_application_until_they_are_removed(net: Net) -> None:
    seen: list[tuple[int, ...]] = []
    handle = net.again.register_forward_hook(lambda layer, x, y: seen.append(y.shape))
    net.eval()(X)
    assert seen == [(6, 4), (6, 4)]
    handle.remove()
    net.register_forward_hook(lambda layer, x, y: y * 0.0)
    assert not net(X).numpy().any()
    assert len(seen) == 2


def test_pytorch_s_words_for_frozen_layers_and_devices(net: Net) -> None:
    net(X)
    assert net.to("cpu") is net
    assert not net.requires_grad_(False).trainable_parameters()
    assert net.requires_grad_().trainable_parameters().keys() == PATHS
    with pytest.raises(DeviceError, match="got cuda:999; need one of cpu:0"):
        net.to("cuda:999")


def test_a_function_is_applied_to_all_layers_from_below(net: Net) -> None:
    kinds: list[str] = []
    assert net.apply(lambda layer: kinds.append(type(layer).__name__)) is net
    assert kinds[-1] == "Net"
    assert sorted(kinds) == ["BatchNorm", "Dense", "Dense", "Dense", "Dense", "Net", "Sequential"]


def test_what_a_function_raises_on_a_layer_is_its_own_error_with_a_note(net: Net) -> None:
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        net.apply(lambda layer: layer + 1)
    assert "as in PyTorch. For one of arrays, as in MLX. Fix: net.apply(f, lambda" in caught.value.__notes__[0]


def test_parameters_are_chosen_by_filters(net: Net) -> None:
    filters = nn.Module.valid_parameter_filter, nn.Module.trainable_parameter_filter
    assert [net.filter_and_map(rule).keys() == PATHS for rule in filters] == [True, True]
    with pytest.raises(UsageError, match="trainable_parameter_filter: got str and Variable; need a layer, a name"):
        nn.Module.trainable_parameter_filter("nearest", "edge", nnc.tensor(X))
    with pytest.raises(UsageError, match=r"filter_and_map: got an array of shape \(3,\) for"):
        net.filter_and_map(lambda layer, name, parameter: np.ones(3))
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(loss="mse")
    assert [value.shape for value in model.filter_and_map(nn.Module.valid_parameter_filter).values()] == [(4, 2), (2,)]


def test_layers_of_a_model_are_attributes() -> None:
    class Loose(nn.Module):
        def forward(self, x: nnc.Variable) -> nnc.Variable:
            return nn.Dense(2)(x)

    with pytest.raises(UsageError, match="no attribute"):
        nn.Model(Loose(), (4,))
    with pytest.raises(UsageError, match="def forward"):
        nn.Module()(X)


def test_arrays_of_forward_stand_among_the_statistics_of_a_model() -> None:
    class Shifted(nn.Module):
        def forward(self, x: nnc.Variable) -> nnc.Variable:
            return x + np.arange(4, dtype=np.float32)

    model = nn.Model(Shifted(), (4,), loss=nn.MeanSquaredError())
    np.testing.assert_array_equal(model.predict(X), X + np.arange(4, dtype=np.float32))


def test_other_modules_are_held_no_longer_than_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "kept_programs", 2)

    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(2)

        def forward(self, x: nnc.Variable) -> nnc.Variable:
            return self.dense(x)

    @nnc.compile
    def applied(net: Held, x: np.ndarray) -> nnc.Variable:
        return net(x)

    x = np.ones((1, 2), np.float32)
    nets = [Held() for _ in range(5)]
    for net in nets:
        np.testing.assert_allclose(applied(net, x).numpy(), net(x).numpy(), rtol=1e-6)
    assert len(applied._modes) == 2
    seen = [weakref.ref(net) for net in nets]
    del nets, net
    gc.collect()
    assert sum(ref() is not None for ref in seen) == 2


def test_layers_that_are_equal_have_programs_and_weights_of_their_own() -> None:
    applied = nnc.compile(lambda net, x: net(x))
    x = np.ones((1, 2), np.float32)
    first, second = nn.Dense(2), nn.Dense(2)
    for net in (first, second, first):
        np.testing.assert_allclose(applied(net, x).numpy(), net(x).numpy(), rtol=1e-6)
    assert applied.recorded == 2
    assert not np.array_equal(applied(first, x).numpy(), applied(second, x).numpy())


def test_leaves_are_updated_in_place_where_nothing_is_recorded() -> None:
    net = nn.Dense(2)
    x = nnc.tensor(np.ones((3, 4), np.float32))
    net(x).sum().backward()
    before = {path: value.copy() for path, value in net.state_dict().items()}
    with nnc.no_grad():
        for parameter in net.parameters():
            parameter -= 0.5 * parameter.grad  # as PyTorch's users write it
    for path, value in net.state_dict().items():
        np.testing.assert_allclose(value, before[path] - 0.5 * 3.0, rtol=1e-6)
    with nnc.no_grad(), pytest.raises(ShapeError, match="-="):
        parameter -= nnc.tensor(np.ones((5, 2), np.float32))
    total = nnc.variable([1.0, 2.0])
    kept = total
    total += 1.0
    np.testing.assert_array_equal(kept.numpy(), [1.0, 2.0])


def test_a_parameter_is_given_numbers_or_nothing() -> None:
    layer = nn.Linear(2, 1)
    layer.weight = [[1.0, 2.0]]
    assert layer([[3.0, 4.0]]).numpy()[0, 0] == 11.0 + layer.bias.numpy()[0]
    for value in ("abc", object(), {"a": 1}):
        with pytest.raises(UsageError):
            layer.weight = value
    assert layer.weight.tolist() == [[1.0, 2.0]]
    assert layer.weight.requires_grad


class Knotted(nn.Module):
    """A layer that knows the module it is in."""

    def __init__(self) -> None:
        self.inner = nn.Dense(3)
        self.homes = [{"home": self}]

    def forward(self, x: Any) -> Any:
        return self.inner(x)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_module_that_refers_to_itself_is_copied(copied: Callable[[Any], Any]) -> None:
    net, x = Knotted(), nnc.ones((2, 4))
    y = net.inner(x)
    twin = copied(net)
    assert vars(twin)["homes"][0]["home"] is twin
    assert np.array_equal(twin.inner(x), y)
