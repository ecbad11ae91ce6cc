"""nnc train cartpole: the physics, the loss, and the same bits after a stop."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from nnc.cli.programs import cartpole
from nnc.cli.programs.cartpole import CARTPOLE, CartPole, PolicyLoss, Rollouts, lasted
from nnc.errors import DataError
from nnc.nn import Identity, Model
from nnc.nn.data import BatchState

OPTIONS = ("--backend", "reference", "--batch-size", "64", "--json")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few carts for a few steps."""
    for name, value in {"CARTS": 2, "STEPS": 32, "PASSES": 2, "LONGEST": 40, "TESTS": 2}.items():
        monkeypatch.setattr(cartpole, name, value)


def test_a_push_moves_the_cart_and_tips_the_pole_the_other_way() -> None:
    carts = CartPole(2, np.random.default_rng(0))
    carts.states = np.zeros((2, 4))
    fell, stood, after = carts.step(np.array([0, 1]))
    # One step of F / M with θ = 0: θ'' = -F / M / (l (4/3 - m / M)), x'' = F / M - m l θ'' / M.
    bend = -10 / 1.1 / (0.5 * (4 / 3 - 0.1 / 1.1))
    np.testing.assert_allclose(after[1], [0, 0.02 * (10 / 1.1 - 0.05 * bend / 1.1), 0, 0.02 * bend])
    np.testing.assert_allclose(after[0], -after[1])
    assert not (fell | stood).any()


def test_a_cart_that_fell_begins_anew() -> None:
    carts = CartPole(2, np.random.default_rng(0))
    carts.states[0, 2] = 1.0
    fell, _, _ = carts.step(np.array([1, 1]))
    assert (fell.tolist(), carts.ages.tolist()) == ([True, False], [0, 1])
    assert np.abs(carts.states[0]).max() <= 0.05


def test_the_loss_is_the_formula() -> None:
    random = np.random.default_rng(1)
    outputs = random.standard_normal((6, 3)).astype(np.float32)
    chosen = np.eye(2)[random.integers(2, size=6)]
    advantage, returned, old = random.standard_normal((3, 6))
    logs = outputs[:, :2] - np.log(np.exp(outputs[:, :2]).sum(1, keepdims=True))
    ratio = np.exp((logs * chosen).sum(1) - old)
    gain = np.minimum(ratio * advantage, ratio.clip(0.8, 1.2) * advantage)
    entropy = -(np.exp(logs) * logs).sum(1)
    wanted = (-gain + (outputs[:, 2] - returned) ** 2 / 2 - 0.01 * entropy).mean()
    targets = np.concatenate([chosen, np.stack([advantage, returned, old], 1)], 1).astype(np.float32)
    model = Model(Identity(), (3,), loss=PolicyLoss(), backend="reference")
    assert model.evaluate(outputs, targets).loss == pytest.approx(wanted, rel=1e-5)


def test_an_epoch_is_taken_up_at_its_beginning_only() -> None:
    model = CARTPOLE.model({}, 128, 64, 0, "reference")
    rollouts = Rollouts(model, 64, 0)
    first = rollouts.next_batch().inputs
    rollouts.advance()
    assert (len(rollouts), rollouts.state()) == (2, BatchState(0, 0, 1))
    with pytest.raises(DataError, match="the beginning of an epoch"):
        rollouts.restore(rollouts.state())
    rollouts.restore(BatchState(0))
    np.testing.assert_array_equal(rollouts.next_batch().inputs, first)


def test_a_stop_waits_for_the_epoch_and_a_resume_changes_nothing(call, monkeypatch) -> None:
    whole = json.loads(call("train", "cartpole", "--epochs", "3", *OPTIONS, "--checkpoint", "whole").out)
    assert (whole["updates"], whole["test_examples"]) == (6, 2)
    assert 0 < whole["test_steps"] <= 40
    original = Model.training_pass

    def training_pass(model: Model, *batch: object, **named: object) -> object:
        if model.updates == 2:
            signal.raise_signal(signal.SIGINT)
        return original(model, *batch, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "training_pass", training_pass)
        stopped = call("train", "cartpole", "--epochs", "3", *OPTIONS)
    assert (stopped.code, json.loads(stopped.out)["updates"]) == (130, 4)
    resumed = json.loads(call("train", "cartpole", "--epochs", "3", *OPTIONS, "--resume").out)
    assert resumed["sha256"] == whole["sha256"]


def test_episodes_are_shown_by_their_numbers(call) -> None:
    call("train", "cartpole", "--epochs", "0", *OPTIONS)
    (row,) = json.loads(call("predict", "cartpole", "--index", "7", "--json").out)["predictions"]
    model = CARTPOLE.model({}, 128, 64, 0, "reference")
    assert (row["index"], [row["steps"]]) == (7, lasted(model, [7]))
    assert call("predict", "cartpole").out.startswith("episode 0: ")
    assert "INPUT for a model of cartpole" in call("predict", "cartpole", "3").complaint()
