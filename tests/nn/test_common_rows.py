"""What PyTorch, Keras and MLX have in common: each row by its closed form (`benchmarks/torch_parity.py`: by torch)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from nnc import nn
from nnc.core.values.dtype import F64
from nnc.dynamic import DynamicGraph
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers import initializers

Array = NDArray[np.float64]
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((6, 4)), RANDOM.standard_normal((6, 4))
SIGMOID = 1 / (1 + np.exp(-X))
SOFT = np.log1p(np.exp(X))
LABELS = RANDOM.integers(0, 4, 6)
LOGITS = X - np.log(np.exp(X).sum(1, keepdims=True))
SHARES = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
D = X - Y
SIGNS = np.sign(Y)

ACTIVATIONS: tuple[tuple[nn.Layer, Array], ...] = (
    (nn.LeakyReLU(0.2), np.where(X > 0, X, 0.2 * X)),
    (nn.PReLU(0.25), np.where(X > 0, X, 0.25 * X)),
    (nn.ELU(0.5), np.where(X > 0, X, 0.5 * np.expm1(X))),
    (nn.SELU(), 1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X))),
    (nn.SiLU(), X * SIGMOID),
    (nn.Softplus(), SOFT),
    (nn.LogSigmoid(), -np.log1p(np.exp(-X))),
    (nn.Mish(), X * np.tanh(SOFT)),
    (nn.Hardswish(), X * np.clip(X + 3, 0, 6) / 6),
    (nn.Hardsigmoid(), np.clip(X + 3, 0, 6) / 6),
    (nn.Softsign(), X / (1 + np.abs(X))),
    (nn.LogSoftmax(), LOGITS),
    (nn.GLU(), X[:, :2] * SIGMOID[:, 2:]),
)
LOSSES: tuple[tuple[nn.PointwiseLoss, Array, float], ...] = (
    (nn.MeanAbsoluteError(), Y, np.abs(D).mean()),
    (nn.Huber(0.7), Y, np.where(np.abs(D) <= 0.7, D**2 / 2, 0.7 * (np.abs(D) - 0.35)).mean()),
    (nn.LogCosh(), Y, np.log(np.cosh(D)).mean()),
    (nn.BinaryCrossEntropy(), SHARES, (-SHARES * np.log(SIGMOID) - (1 - SHARES) * np.log(1 - SIGMOID)).mean()),
    (nn.PoissonLoss(), SHARES, (np.exp(X) - SHARES * X).mean()),
    (nn.KLDivergence(), SHARES, (SHARES * (np.log(SHARES) - LOGITS)).sum(1).mean()),
    (nn.Hinge(), SIGNS, np.maximum(0, 1 - SIGNS * X).mean()),
    (nn.CosineLoss(), Y, (1 - (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)).mean()),
    (
        nn.SmoothedCrossEntropy(0.1),
        LABELS.astype(np.int32),
        -(0.9 * LOGITS[np.arange(6), LABELS] + 0.1 * LOGITS.mean(1)).mean(),
    ),
    (nn.Weighted(nn.MeanSquaredError(), 0.25), Y, 0.25 * (D**2).mean()),
)


def applied(layer: nn.Layer, x: Array) -> Array:
    model = nn.Model(layer, x.shape[1:], dtype=F64, backend="reference", loss=nn.MeanSquaredError())
    return model.predict(x).astype(np.float64)


@pytest.mark.parametrize(("layer", "wanted"), ACTIVATIONS, ids=lambda value: type(value).__name__)
def test_an_activation_is_its_formula(layer: nn.Layer, wanted: Array) -> None:
    np.testing.assert_allclose(applied(layer, X), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("loss", "target", "wanted"), LOSSES, ids=lambda value: type(value).__name__)
def test_a_loss_is_its_formula_and_padding_changes_nothing(
    loss: nn.PointwiseLoss, target: Array, wanted: float
) -> None:
    graph = DynamicGraph("reference")
    x, t = graph.constant(X), graph.constant(target)
    assert loss.build(x, t).item() == pytest.approx(wanted, rel=1e-9)
    more = graph.constant(np.vstack([X, X[:2]])), graph.constant(np.concatenate([target, target[:2]]))
    real, share = graph.constant(np.arange(8) < 6), graph.constant(np.float64(1 / 6))
    padded, score = loss.build_padded(*more, real, share)
    assert padded.item() == pytest.approx(wanted, rel=1e-9)
    assert score.item() == pytest.approx(loss.score(x, t).item(), rel=1e-9)


@pytest.mark.parametrize("loss", [row[0] for row in LOSSES], ids=lambda value: type(value).__name__)
def test_a_model_learns_by_each_loss(loss: nn.PointwiseLoss) -> None:
    target = next(row[1] for row in LOSSES if row[0] is loss)
    model = nn.Model(nn.Dense(4), (4,), loss=loss, optimizer=nn.Adam(0.05), backend="reference")
    first = model.evaluate(X, target).loss
    for _ in range(30):
        model.train_on_batch(X, target)
    assert model.evaluate(X, target).loss < first


def test_signs_that_are_right_are_counted() -> None:
    model = nn.Model(nn.Identity(), (1,), loss=nn.BinaryCrossEntropy())
    assert model.evaluate(np.array([[2.0], [-1.0], [3.0], [0.5]]), np.array([1.0, 0, 0, 1])).score == 0.75


def test_halves_are_of_an_even_number() -> None:
    with pytest.raises(ShapeError, match="an even number of features"):
        nn.Model(nn.GLU(), (3,))


SCHEDULES: tuple[tuple[nn.RateSchedule, Callable[[int], float]], ...] = (
    (nn.LinearSchedule(1.0, 10, 0.5), lambda step: 1.0 - 0.05 * min(step, 10)),
    (nn.Polynomial(1.0, 10, 0.1, 2.0), lambda step: 0.1 + 0.9 * (1 - min(step, 10) / 10) ** 2),
    (nn.Exponential(1.0, 10, 0.01), lambda step: 0.01 ** (min(step, 10) / 10)),
    (nn.StepDecay(1.0, 4, 0.5), lambda step: 0.5 ** (step // 4)),
    (nn.Milestones(1.0, (3, 8), 0.1), lambda step: 1.0 if step < 3 else 0.1 if step < 8 else 0.01),
    (nn.CosineRestarts(1.0, 5), lambda step: (1 + math.cos(math.pi * (step % 5) / 5)) / 2),
    (
        nn.Joined(((3, nn.Constant(1.0)), (2, nn.LinearSchedule(1.0, 2))), nn.Constant(0.1)),
        lambda step: [1, 1, 1, 1, 0.5][step] if step < 5 else 0.1,
    ),
    (nn.Warmup(4, nn.Constant(2.0)), lambda step: 2.0 * min(step / 4, 1)),
)


@pytest.mark.parametrize(("schedule", "wanted"), SCHEDULES, ids=lambda value: type(value).__name__)
def test_a_schedule_is_its_formula(schedule: nn.RateSchedule, wanted: Callable[[int], float]) -> None:
    found = [schedule.rate(step + 1) for step in range(20)]
    assert found == pytest.approx([wanted(step) for step in range(20)])


def test_restarts_may_grow() -> None:
    schedule = nn.CosineRestarts(1.0, 2, growth=2)
    assert [step for step in range(1, 20) if schedule.rate(step) == 1.0] == [1, 3, 7, 15]


def test_a_warmup_goes_before_another_schedule() -> None:
    schedule = nn.Warmup(2, nn.Cosine(1.0, 10), first=0.5)
    assert [schedule.rate(step) for step in (1, 2, 3)] == [0.5, 0.75, 1.0]
    assert schedule.rate(13) == 0.0


@pytest.mark.parametrize(
    ("initializer", "deviation"),
    [
        (initializers.he_normal, math.sqrt(2 / 400)),
        (initializers.glorot_normal, math.sqrt(2 / 500)),
        (initializers.lecun_normal, math.sqrt(1 / 400)),
    ],
)
def test_a_normal_initializer_has_its_deviation(initializer: initializers.Initializer, deviation: float) -> None:
    values = np.empty((400, 100), np.float32)
    initializer(initializers.generator_for(0, "w"), values)
    assert values.std() == pytest.approx(deviation, rel=0.02)
    assert abs(values.mean()) < deviation / 50


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (3, 2, 5)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]) -> None:
    values = np.empty(shape)
    initializers.orthogonal(initializers.generator_for(0, "w"), values)
    matrix = values.reshape(-1, shape[-1])
    product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-12)


def test_a_constant_is_everywhere() -> None:
    values = np.empty((2, 3))
    initializers.constant(0.5)(initializers.generator_for(0, "w"), values)
    assert (values == 0.5).all()


REFUSED: tuple[Callable[[], object], ...] = (
    lambda: nn.Huber(0.0),
    lambda: nn.SmoothedCrossEntropy(1.0),
    lambda: nn.Weighted(nn.MeanSquaredError(), -1.0),
    lambda: nn.LeakyReLU(math.nan),
    lambda: nn.Warmup(0, nn.Constant(1.0)),
    lambda: nn.Milestones(1.0, (0,)),
    lambda: nn.Dropout(1.0),
    lambda: nn.GaussianNoise(-1.0),
    lambda: nn.UpTo(0),
)


@pytest.mark.parametrize("make", REFUSED)
def test_values_without_sense_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError):
        make()
