"""Modules and losses in PyTorch's words on a device: the same numbers as on the host."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.simulated_device import simulated

import nnc
from nnc import nn
from nnc.core.values.device import Device
from nnc.core.values.dtype import F32, TOLERANCE
from nnc.nn import functional as fn

THERE = Device("cuda")
RNG = np.random.default_rng(3)
X, LABELS = RNG.random((6, 4)).astype(np.float32), np.arange(6) % 3
WEIGHTS = np.array([1.0, 2.0, 0.5], np.float32)
CLOSE = {"rtol": TOLERANCE[F32].relative, "atol": TOLERANCE[F32].absolute}
STATE = {
    "0.weight": RNG.normal(size=(5, 4)),
    "0.bias": np.zeros(5),
    "2.weight": RNG.normal(size=(3, 5)),
    "2.bias": np.zeros(3),
}


def network() -> nn.Sequential:
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    net.load_state_dict({name: value.astype(np.float32) for name, value in STATE.items()})
    return net


def trained(place: Device | str, loss: Callable[[Any, Any], Any], make: Callable[[Any], Any]) -> list[float]:
    """Losses of two updates on a device."""
    net = network().to(place)
    x, labels = (nnc.tensor(values).to(place) for values in (X, LABELS))
    optimizer, losses = make(net.parameters()), []

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(net(x), labels)
        value.backward()
        return value

    for _ in range(2):
        losses.append(float(optimizer.step(closure)))
    assert {parameter.device for parameter in net.parameters()} == {nnc.device(place)}
    return losses


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "function": fn.cross_entropy,
    "module": nn.CrossEntropyLoss(),
    "weights": nn.CrossEntropyLoss(weight=WEIGHTS, label_smoothing=0.1),
    "left out": lambda scores, labels: fn.cross_entropy(scores, labels, WEIGHTS, ignore_index=1),
    "arrays of the host": lambda scores, labels: (
        fn.nll_loss(nnc.log_softmax(scores, axis=-1), LABELS)
        + fn.binary_cross_entropy_with_logits(scores, np.ones((6, 3), np.float32), WEIGHTS)
        + fn.smooth_l1_loss(scores, np.ones((6, 3), np.float32))
    ),
}


RULES: list[Callable[[Any], Any]] = [
    lambda parameters: nnc.optim.SGD(parameters, lr=0.1, momentum=0.9),
    lambda parameters: nnc.optim.LBFGS(parameters, lr=0.1, max_iter=2),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_updates_are_those_of_the_host(name: str) -> None:
    loss, rule = LOSSES[name], RULES[name == "function"]
    with simulated():
        there = trained(THERE, loss, rule)
    np.testing.assert_allclose(there, trained("cpu", loss, rule), **CLOSE)


def test_labels_of_a_device_are_no_reason_to_copy() -> None:
    with simulated() as machine:
        scores, labels = (nnc.tensor(values).to(THERE) for values in (X, LABELS))
        before = machine.driver.counts["download"]
        for loss in (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(ignore_index=1), fn.cross_entropy):
            loss(scores, labels)
        assert machine.driver.counts["download"] == before


def test_layers_of_all_kinds_move(tmp_path: Path) -> None:
    with simulated(server="llvm"):
        ids, steps = nnc.tensor([[0, 2]]).to(THERE), nnc.ones((1, 2, 4), device=THERE)
        table = nn.Embedding(3, 4).to(THERE)
        drops = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(THERE)
        encoder = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).to(THERE)
        for given in (table(ids), drops(steps), encoder(steps), fn.embedding(ids, table.weight)):
            given.sum().backward()
            assert given.device == THERE
        assert fn.scaled_dot_product_attention(steps, steps, steps, is_causal=True).device == THERE
        assert nnc.compile(drops)(steps).device == THERE
        assert nn.Parameter(steps).device == THERE
        # A state says what values are, not where.
        table.load_state_dict({name: value.cpu() for name, value in table.state_dict().items()})
        table.load_state_dict(table.state_dict())
        table.save(tmp_path / "table.safetensors")
        for again in (table, copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
            assert again.load(tmp_path / "table.safetensors").weight.device == THERE


def test_a_model_on_a_device_is_written_as_onnx(tmp_path: Path) -> None:
    with simulated(server="llvm"):
        model = nn.Model(nn.Dense(2), (3,), device=THERE)
        nnc.onnx.save(model, tmp_path / "net.onnx")
        x = np.ones((1, 3), np.float32)
        np.testing.assert_allclose(nnc.onnx.load(tmp_path / "net.onnx").run({"x": x})["y"], model.predict(x), **CLOSE)


def test_labels_out_of_range_are_told_by_the_device() -> None:
    with simulated():
        scores, labels = nnc.tensor(X).to(THERE), nnc.tensor(LABELS + 2).to(THERE)
        with pytest.raises(nnc.errors.NncError):
            fn.cross_entropy(scores, labels).item()
