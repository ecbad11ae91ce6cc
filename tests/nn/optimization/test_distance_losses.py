"""Losses of outputs side by side: values of the formulas, slopes where two are equal, and a network that learns."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import nn, ops
from nnc.dynamic import DynamicGraph
from nnc.errors import DataError, ShapeError

OUTPUT = np.random.default_rng(0).normal(size=(5, 6))


def built(loss: nn.Loss, output: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    graph = DynamicGraph(backend="reference")
    operands = graph.constant(output), graph.constant(target)
    return loss.build(*operands).item(), loss.score(*operands).item()


def test_a_triplet_costs_what_its_positive_is_too_far() -> None:
    a, p, n = np.split(OUTPUT, 3, axis=1)
    near, far = np.linalg.norm(a - p, axis=1), np.linalg.norm(a - n, axis=1)
    weight = np.array([1.0, 1, 0, 1, 1])
    loss, score = built(nn.TripletLoss(0.5), OUTPUT, weight)
    assert loss == pytest.approx(np.mean(weight * np.maximum(0, near - far + 0.5)))
    assert score == np.sum(weight * (near < far))


def test_a_pair_costs_its_distance_or_what_it_lacks_of_the_margin() -> None:
    u, v = np.split(OUTPUT, 2, axis=1)
    d, like = np.linalg.norm(u - v, axis=1), np.array([1.0, 0, 1, 0, 0])
    loss, score = built(nn.ContrastiveLoss(3.0), OUTPUT, like)
    assert loss == pytest.approx(np.mean(like * d**2 + (1 - like) * np.maximum(0, 3 - d) ** 2) / 2)
    assert score == np.sum((d < 1.5) == (like == 1))


@pytest.mark.parametrize(("loss", "parts"), [(nn.TripletLoss(), 3), (nn.ContrastiveLoss(), 2)])
def test_equal_outputs_have_no_slope_that_is_no_number(loss: nn.Loss, parts: int) -> None:
    slope = nnc.grad(lambda output: loss.build(output, output[:, 0]))(nnc.tensor(np.ones((2, 2 * parts))))
    assert isinstance(slope, nnc.Variable)
    assert np.isfinite(slope.numpy()).all()
    assert loss.target_shape((7, 2 * parts)) == (7,)
    with pytest.raises(ShapeError, match=rf"got {2 * parts + 1} features; need {parts} outputs of one width"):
        loss.target_shape((7, 2 * parts + 1))


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_one_network_of_three_inputs_learns_what_is_alike(backend: str) -> None:
    encoder = nn.Sequential(nn.Dense(8), nn.Tanh(), nn.Dense(3))
    inputs = [nn.Input((4,)) for _ in range(3)]
    network = nn.Functional(inputs, nn.Lambda(lambda *outputs: ops.concatenate(outputs, -1))(*map(encoder, inputs)))
    model = nn.Model(network, loss=nn.TripletLoss(), optimizer=nn.Adam(0.02), seed=1, backend=backend)
    random, centers = np.random.default_rng(1), np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    place = random.integers(0, 2, 64)
    x = [(centers[one] + random.normal(size=(64, 4)) * 0.3).astype(np.float32) for one in (place, place, 1 - place)]
    before = model.evaluate(tuple(x), np.ones(64, np.float32))
    for _ in range(30):
        model.train_on_batch(tuple(x), np.ones(64, np.float32))
    after = model.evaluate(tuple(x), np.ones(64, np.float32))
    assert after.loss < before.loss / 2
    assert after.score > 0.9
    with pytest.raises(DataError, match="0"):
        model.train_on_batch(tuple(x), np.full(64, 2, np.float32))
