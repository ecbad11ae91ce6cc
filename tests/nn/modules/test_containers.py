"""PyTorch's containers, arguments that are no arrays, hooks before a layer, single frozen parameters, files."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, UsageError
from nnc.nn import optim

X = np.random.default_rng(7).standard_normal((6, 4)).astype(np.float32)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.heads = nn.ModuleDict({"one": nn.Dense(1), "two": nn.Dense(2)})
        self.scale = nn.Parameter(np.ones(1, np.float32))
        self.register_buffer("calls", np.zeros(1, np.float32))

    def forward(
        self, x: nnc.Variable, head: str = "one", shift: nnc.Variable | None = None, double: bool = False
    ) -> nnc.Variable:
        for block in self.blocks:
            x = nnc.tanh(block(x))
        x = self.heads[head](x) * self.scale
        x = x if shift is None else x + shift
        return x * 2 if double else x


def test_paths_go_through_containers() -> None:
    net = Net()
    net(X, "one")
    net(X, head="two")
    assert {"blocks.1.weight", "heads.one.bias", "heads.two.weight", "scale"} <= net.state_dict().keys()
    with pytest.raises(ArgumentError, match="layers"):
        nn.ModuleList([3])
    with pytest.raises(ArgumentError, match="layers"):
        nn.ModuleDict({"a": "b"})


def test_arguments_that_are_no_arrays_reach_forward_as_they_are() -> None:
    net, shift = Net(), nnc.ones(2)
    plain = net(X, "two")
    np.testing.assert_allclose(net(X, "two", shift, double=True).numpy(), 2 * (plain.numpy() + 1), rtol=1e-5)
    np.testing.assert_allclose(net(X, "two", shift=shift).numpy(), plain.numpy() + 1, rtol=1e-5)
    compiled = nnc.compile(lambda x, shift: net(x, "two", shift=shift))
    np.testing.assert_allclose(compiled(X, shift).numpy(), plain.numpy() + 1, rtol=1e-4, atol=1e-5)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net

        def forward(self, x: nnc.Variable) -> nnc.Variable:
            return self.inner(x, head="two", double=True)

    model = nn.Model(Outer(), (4,))
    np.testing.assert_allclose(model.predict(X), 2 * plain.numpy(), rtol=1e-4, atol=1e-5)


def test_a_single_parameter_is_frozen_everywhere() -> None:
    net = Net()
    net(X)
    net.scale.requires_grad = False
    assert "scale" not in net.trainable_parameters()
    optimizer = optim.SGD(net.parameters(), lr=0.5)

    def step() -> nnc.Variable:
        optimizer.zero_grad()
        loss = (net(X) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = nnc.compile(step)
    step()
    compiled()
    assert net.state_dict()["scale"] == 1.0
    assert "scale" not in nn.Model(net, (4,)).parameters
    assert not pickle.loads(pickle.dumps(net)).scale.requires_grad
    net.scale.requires_grad_()
    compiled()
    assert net.state_dict()["scale"] != 1.0
    assert compiled.recorded == 2
    with pytest.raises(UsageError, match=r"x\.detach\(\)"):
        net(X).requires_grad = False
    with pytest.raises(UsageError, match="astype"):
        nnc.tensor([1]).requires_grad_()


def test_hooks_before_a_layer_change_its_inputs() -> None:
    net = Net()
    plain = net(X * 0)
    handle = net.blocks[0].register_forward_pre_hook(lambda layer, inputs: inputs[0] * 0)
    np.testing.assert_array_equal(net(X).numpy(), plain.numpy())
    handle.remove()
    assert not np.array_equal(net(X).numpy(), plain.numpy())


def test_weights_and_whole_models_come_back_from_files(tmp_path: Path) -> None:
    net = Net()
    wanted = net(X).numpy()
    net.save(tmp_path / "weights")
    nnc.save(tmp_path / "same", net)
    np.testing.assert_array_equal(Net().load(tmp_path / "weights")(X).numpy(), wanted)
    np.testing.assert_array_equal(nnc.load(tmp_path / "same", Net())(X).numpy(), wanted)
    nnc.save({"epoch": 3, "net": net.state_dict()}, tmp_path / "all")
    stored = nnc.load(tmp_path / "all")
    assert stored["epoch"] == 3
    assert stored["net"].keys() == net.state_dict().keys()
    with pytest.raises(KeyError):
        stored["other"]
    net.scale.requires_grad = False
    net.blocks[0].freeze()
    model = nn.Model(net, (4,), loss=nn.MeanSquaredError())
    model.save(tmp_path / "model")
    again = nn.load_model(tmp_path / "model", classes=[Net])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.parameters.keys() == model.parameters.keys()
    model.save_weights(tmp_path / "w")
    assert again.load_weights(tmp_path / "w").complete


def test_a_model_is_differentiated_by_its_parameters() -> None:
    model = nn.Model(nn.Sequential(nn.Dense(8, activation="tanh"), nn.Dense(2)), (4,), loss=nn.MeanSquaredError())
    of = nnc.value_and_grad(model, lambda x: ((model(x) - x[:, :2]) ** 2).mean())
    rule, losses = nn.Adam(0.05), []
    for _ in range(20):
        loss, gradients = of(X)
        rule.update(model, gradients)
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    np.testing.assert_allclose(model.evaluate(X, X[:, :2]).loss, of(X)[0].item(), rtol=1e-5)
    _, compiled = nnc.compile(of)(X)
    np.testing.assert_allclose(compiled["0.weight"].numpy(), of(X)[1]["0.weight"].numpy(), rtol=1e-4, atol=1e-6)
    with pytest.raises(UsageError, match="train_on_batch"):
        nnc.compile(lambda x: rule.update(model, of(x)[1]))(X)


def test_a_compiled_layer_is_asked_for_what_the_layer_has() -> None:
    net = nnc.compile(nn.Linear(4, 2))
    assert len(net.parameters()) == 2
    before = net(X).numpy()
    net.load_state_dict({name: value * 0 for name, value in net.state_dict().items()})
    assert before.any()
    assert not net(X).numpy().any()
    with pytest.raises(AttributeError):
        nnc.compile(np.sin).parameters


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList([np.ones(4, np.float32), nn.Parameter(np.zeros(4, np.float32))])
        self.shifts = nn.ParameterDict({"keys": np.ones(4, np.float32)})
        self.register_buffer("places", np.arange(4, dtype=np.float32), persistent=False)
        self.register_buffer("nothing", None)
        self.register_parameter("bias", None)
        self.add_module("head", nn.Linear(4, 1))

    def forward(self, x: nnc.Variable) -> nnc.Variable:
        for scale in self.scales:
            x = x + x * scale
        assert self.bias is None
        assert self.nothing is None
        result: nnc.Variable = self.head(x + self.shifts["keys"] * self.places)
        return result


def test_parameters_in_lists_and_dictionaries_are_trained_and_kept() -> None:
    net = Scaled()
    assert [path for path, _ in net.named_parameters()] == [
        "scales.0", "scales.1", "shifts.keys", "head.weight", "head.bias",
    ]  # fmt: skip
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    before = net.state_dict()
    (net(nnc.tensor(X)) ** 2).mean().backward()
    optimizer.step()
    after = net.state_dict()
    assert set(before) == {"scales.0", "scales.1", "shifts.keys", "head.weight", "head.bias"}
    assert all((before[path] != after[path]).any() for path in before)
    again = pickle.loads(pickle.dumps(net))
    assert nnc.allclose(again(nnc.tensor(X)), net(nnc.tensor(X)))
    assert set(again.state_dict()) == set(after)
    assert [name for name, _ in net.named_children()] == ["scales", "shifts", "head"]
    assert next(net.parameters()) is net.scales[0] or nnc.equal(next(net.parameters()), net.scales[0])


def test_lists_and_dictionaries_of_parameters_grow_and_refuse() -> None:
    scales = nn.ParameterList().append(np.ones(2, np.float32)).extend([nnc.zeros(3)])
    scales[-1] = np.ones(3, np.float32)
    assert len(scales) == 2
    assert scales[-1].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(UsageError, match=r"\[2\] of 2 parameters"):
        scales[2]
    named = nn.ParameterDict({"a": np.ones(2, np.float32)})
    named.update([("b", np.zeros(1, np.float32))])
    assert (list(named), len(named), "a" in named) == (["a", "b"], 2, True)
    assert [value.shape for value in named.values()] == [(2,), (1,)]
    assert [name for name, _ in named.items()] == ["a", "b"]
    with pytest.raises(ArgumentError, match="need a, b"):
        named["c"]


def test_a_part_of_a_sequence_is_set_by_its_name() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), head=nn.Linear(2, 3))
    for name, layer in list(net.named_children()):
        if isinstance(layer, nn.Linear):
            setattr(net, name, nn.Linear(2, 5))
    assert net[0] is getattr(net, "0")
    assert getattr(net, "0")(nnc.ones((1, 2))).shape == (1, 5)
    with pytest.raises(ArgumentError, match="layers"):
        setattr(net, "1", 3)
    with pytest.raises(AttributeError, match="nope"):
        _ = net.nope


def test_containers_have_a_module_s_words() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2), nn.ModuleDict({"norm": nn.BatchNorm1d(2), "parameters": nn.Linear(2, 1)})])
    paths = ["0.weight", "0.bias", "1.norm.weight", "1.norm.bias", "1.parameters.weight", "1.parameters.bias"]
    assert [path for path, _ in layers.named_parameters()] == paths
    assert [path for path, _ in layers.named_buffers()] == ["1.norm.running_mean", "1.norm.running_var"]
    assert len(layers.modules()) == 3
    optimizer = optim.SGD(layers.parameters(), lr=0.5)
    before = layers[0].weight.numpy().copy()
    layers[1]["parameters"](layers[1].norm(layers[0](nnc.tensor([[1.0, 2.0], [0.0, 3.0]])))).pow(2).sum().backward()
    optimizer.step()
    assert (layers[0].weight.numpy() != before).any()
    layers.zero_grad()
    assert layers[0].weight.grad is None
    twin = copy.deepcopy(layers)
    assert not twin.load_state_dict(layers.state_dict()).missing_keys
    names: list[str] = []
    assert twin.apply(lambda layer: names.append(type(layer).__name__)).eval() is twin
    assert names == ["Linear", "BatchNorm1d", "Linear"]
    assert [layer.training for layer in twin.modules()] == [False] * 3
    assert not twin.requires_grad_(False)[0].trainable_parameters()
    assert twin.to("cpu") is twin


def test_layers_by_a_dictionary_and_parts_that_come_and_go() -> None:
    net = nn.Sequential(OrderedDict([("first", nn.Linear(2, 3)), ("act", nn.ReLU())]))
    assert list(net.state_dict()) == ["first.weight", "first.bias"]
    net.add_module("last", nn.Linear(3, 1))
    assert net(nnc.ones((4, 2))).shape == (4, 1)
    assert net.get_submodule("last") is net.last
    assert net.get_parameter("last.bias").shape == (1,)
    with pytest.raises(ArgumentError, match="get_submodule: got 'lats'.*did you mean 'last'"):
        net.get_submodule("lats")
    numbered = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    first = numbered[0]
    assert numbered.insert(0, nn.Identity()).extend([nn.Tanh()])[1] is first
    assert [name for name, _ in numbered.named_children()] == ["0", "1", "2", "3"]
    assert numbered.pop(1) is first
    assert [name for name, _ in numbered.named_children()] == ["0", "1", "2"]
    wrong: Any = 3
    text: Any = "0"
    for call, need in (
        (lambda: numbered.insert(0, wrong), "a Layer"),
        (lambda: numbered.insert(text, nn.ReLU()), "an integer"),
        (lambda: numbered.add_module("x", wrong), "a Layer"),
        (lambda: nn.Sequential({"a": wrong}), "layers"),
    ):
        with pytest.raises(ArgumentError, match=f"need {need}"):
            call()
    assert list(nn.Sequential({3: nn.Linear(2, 2)}).state_dict()) == ["3.weight", "3.bias"]  # type: ignore[dict-item]  # what is tested


def test_numbers_of_other_types() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Embedding(3, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    net[1](net[0](nnc.ones((3, 2)))).sum().backward()
    optimizer.step()
    weight = net[0].weight
    for convert, dtype in ((net.double, nnc.f64), (net.half, nnc.f16), (net.bfloat16, nnc.bf16), (net.float, nnc.f32)):
        assert convert() is net
        assert {value.dtype for value in net.state_dict().values() if value.dtype.is_float} == {dtype}
        assert net[0].weight is weight
        assert weight.requires_grad
    net.to("cpu", nnc.float64)
    net[1](net[0](nnc.ones((3, 2), dtype=nnc.f64))).pow(2).sum().backward()
    optimizer.step()
    assert weight.dtype is nnc.f64
    with pytest.raises(ArgumentError, match="to: got i32; need a floating-point type"):
        net.to(nnc.i32)
