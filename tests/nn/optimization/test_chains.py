"""Chains: clipping, decay and scales around an optimizer, in every world that has optimizers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, ArityError
from nnc.nn.data import Batches, Examples
from nnc.nn.optimization.schedules import RateSchedule

RNG = np.random.default_rng(3)
PARAMETERS = {"w": RNG.standard_normal((3, 2)).astype(np.float32), "b": RNG.standard_normal(2).astype(np.float32)}
GRADIENTS = {"w": RNG.standard_normal((3, 2)).astype(np.float32) * 4, "b": RNG.standard_normal(2).astype(np.float32)}
X = RNG.standard_normal((16, 4)).astype(np.float32)
Y = X[:, :2] * 2.0 - 1.0

SCHEDULES: list[RateSchedule] = [
    nn.Cosine(0.1, 4),
    nn.StepDecay(0.1, 2),
    nn.Milestones(0.1, (1, 3)),
    nn.CosineRestarts(0.1, 2, growth=2),
    nn.Polynomial(0.1, 4, 0.01, 2.0),
    nn.Warmup(2, nn.Cosine(0.1, 4)),
    nn.OneCycle(0.1, 6),
    nn.Exponential(0.1, 4, 0.01),
    nn.Joined(((2, nn.Constant(0.1)),), nn.LinearSchedule(0.1, 3)),
]


def test_parts_are_their_formulas() -> None:
    rule = nn.chain(nn.AddDecay(0.1), nn.ClipValue(2.0), nn.ClipNorm(1.0), nn.SGD(0.5, momentum=0.0), nn.Scale(0.25))
    new, state = rule.update(PARAMETERS, GRADIENTS, rule.init(PARAMETERS))
    decayed = {name: np.clip(GRADIENTS[name] + 0.1 * PARAMETERS[name], -2.0, 2.0) for name in PARAMETERS}
    norm = math.sqrt(sum(float((slope.astype(np.float64) ** 2).sum()) for slope in decayed.values()))
    assert norm > 1.0
    for name, old in PARAMETERS.items():
        np.testing.assert_allclose(new[name].numpy(), old - 0.25 * 0.5 * decayed[name] / norm, rtol=2e-6)
    assert float(state["step"]) == 1.0


def test_a_norm_of_zero_changes_nothing() -> None:
    rule = nn.chain(nn.ClipNorm(1.0), nn.SGD(0.5))
    zeros = {name: np.zeros_like(slope) for name, slope in GRADIENTS.items()}
    new, _ = rule.update(PARAMETERS, zeros, rule.init(PARAMETERS))
    np.testing.assert_array_equal(new["w"].numpy(), PARAMETERS["w"])


def test_without_an_optimizer_what_the_parts_make_is_added() -> None:
    rule = nn.chain(nn.Scale(-0.1))
    new, _ = rule.update(PARAMETERS, GRADIENTS, rule.init(PARAMETERS))
    np.testing.assert_allclose(new["b"].numpy(), PARAMETERS["b"] - 0.1 * GRADIENTS["b"], rtol=1e-6)


def test_a_schedule_behind_the_optimizer_is_its_rate_and_elsewhere_a_factor() -> None:
    schedule = nn.Cosine(0.1, 4)
    assert nn.chain(nn.Adam(), schedule).rate is schedule
    assert nn.chain(schedule, nn.Adam()).before == (nn.ScaleBySchedule(schedule),)
    assert nn.chain(nn.ClipNorm(1.0), nn.chain(nn.ClipValue(1.0), nn.SGD())).before == (
        nn.ClipNorm(1.0),
        nn.ClipValue(1.0),
    )


def test_leaves_follow_leaves() -> None:
    leaf = nnc.variable(PARAMETERS["w"])
    rule = nn.chain(nn.AddDecay(0.1), nn.Adam(), nn.Scale(0.5))
    new, _ = rule.update({"w": leaf}, {"w": GRADIENTS["w"]}, rule.init({"w": leaf}))
    assert new["w"].graph.is_leaf(new["w"])
    assert new["w"].requires_grad


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_compiled_module_steps_have_the_rates_of_eager_ones(schedule: RateSchedule) -> None:
    rule = nn.chain(nn.ClipNorm(0.5), nn.SGD(momentum=0.5), schedule)
    weights = []
    for compiled in (False, True):
        nnc.seed(1)
        net = nn.Dense(2)
        net(X)
        of = nnc.value_and_grad(net, lambda net=net: ((net(X) - Y) ** 2).mean())

        def step(net: nn.Layer = net, of: object = of) -> nnc.Variable:
            loss, gradients = of()
            rule.update(net, gradients)
            return loss

        run = nnc.compile(step) if compiled else step
        for _ in range(7):
            run()
        weights.append(net.state_dict()["weight"])
    np.testing.assert_allclose(weights[1], weights[0], rtol=2e-6, atol=2e-7)


def test_one_cycle_is_pytorch_s() -> None:
    # torch 2.13: OneCycleLR(SGD([w], 0.1), 0.1, total_steps=6), get_last_lr() before each of six steps.
    theirs = [0.004, 0.09944154354509119, 0.0811745653949763, 0.046263710266697504, 0.01334775301888306, 4e-07]
    np.testing.assert_allclose([nn.OneCycle(0.1, 6)(count) for count in range(6)], theirs, rtol=1e-9)


def test_a_model_takes_clips_and_an_optimizer_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    rule = nn.chain(nn.ClipValue(0.5), nn.ClipNorm(0.25), nn.Adam(), nn.Cosine(0.05, 8))

    def made() -> nn.Model:
        return nn.Model(nn.Dense(2), (4,), loss=nn.MeanSquaredError(), optimizer=rule)

    model, plain = made(), nn.Model(nn.Dense(2), (4,), loss=nn.MeanSquaredError())
    plain.optimizer = rule
    assert (model.clip_norm, model.clip_value, plain.clip_norm, plain.clip_value) == (0.25, 0.5, 0.25, 0.5)
    for _ in range(3):
        model.train_on_batch(X, Y)
    batches = Batches(Examples("sixteen", X, Y), 16)
    nn.save_checkpoint(tmp_path / "c.safetensors", model, nn.position_of(model, batches))
    other = made()
    nn.load_checkpoint(tmp_path / "c.safetensors", other)
    assert model.train_on_batch(X, Y) == other.train_on_batch(X, Y)
    with pytest.raises(ArgumentError, match=r"optimizer\.update\(net, gradients\)"):
        nn.Model(nn.Dense(2), (4,), optimizer=nn.chain(nn.Adam(), nn.Scale(0.5)))


def test_two_optimizers_are_none() -> None:
    with pytest.raises(ArityError, match="PerParameter"):
        nn.chain(nn.Adam(), nn.SGD())
