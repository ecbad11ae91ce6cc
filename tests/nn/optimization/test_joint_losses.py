"""One loss of several outputs: the same numbers as losses side by side, wherever a model is trained or looked at."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc import nn, ops
from nnc.classes import dataclass
from nnc.core.values.dtype import I32
from nnc.core.values.spec import TensorSpec
from nnc.errors import ArgumentError, ArityError, DataError, DTypeError, ShapeError, UsageError
from nnc.nn.files.model_spec import load_model
from nnc.nn.model.model_saving import save_model
from nnc.ops.operand import T

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((24, 4)).astype(np.float32)
REAL, LABELS = X[:, :2] * 2.0, (X[:, 0] > 0).astype(np.int32)


def network() -> nn.Functional:
    x = nn.Input((4,))
    hidden = nn.Tanh()(nn.Dense(8)(x))
    return nn.Functional(x, [nn.Dense(2)(hidden, name="real"), nn.Dense(3)(hidden, name="kind")])


@dataclass(frozen=True, slots=True)
class Both(nn.JointLoss):
    """mse(real) + weight · ce(kind); the score counts right kinds."""

    weight: float = 0.5

    def target_specs(self, outputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        return (outputs[0], TensorSpec(outputs[1].shape[:1], I32))

    def build(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        mean = ops.reduce_mean(ops.square(ops.subtract(outputs[0], targets[0])))
        return ops.add(mean, ops.affine(nn.SoftmaxCrossEntropy().build(outputs[1], targets[1]), self.weight))

    def score(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        return nn.SoftmaxCrossEntropy().score(outputs[1], targets[1])


def squares(outputs: Any, targets: Any) -> Any:
    return ops.reduce_mean(ops.square(outputs[0] - targets[0])) + ops.reduce_mean(ops.square(outputs[1] - targets[1]))


KINDS = np.eye(3, dtype=np.float32)[LABELS]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_training_is_that_of_the_losses_side_by_side(accumulate: int) -> None:
    apart = nn.Model(network(), loss=["mse", "cross_entropy"], loss_weights=[1, 0.5], backend="reference")
    joint = nn.Model(network(), loss=Both(), backend="reference")
    for model in (apart, joint):
        model.fit(X, (REAL, LABELS), 8, 2, accumulate=accumulate, validation_data=(X, (REAL, LABELS)))
    for path, value in apart.state_dict().items():
        np.testing.assert_allclose(joint.state_dict()[path], value, rtol=2e-5, atol=1e-6)
    first, other = (model.evaluate(X, (REAL, LABELS), 10) for model in (apart, joint))
    np.testing.assert_allclose(other.loss, first.loss, rtol=1e-5)
    right = (joint.predict_all(X)[1].argmax(-1) == LABELS).mean()
    np.testing.assert_allclose(other.score, right)


def test_any_function_of_tuples_is_one() -> None:
    model = nn.Model(network(), loss=squares)
    twin = nn.Model(network(), loss="mse")
    targets = (REAL, KINDS)
    losses = [one.train_on_batch(X[:7], tuple(target[:7] for target in targets))[0] for one in (model, twin)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    for path, value in twin.state_dict().items():
        np.testing.assert_allclose(model.state_dict()[path], value, rtol=1e-4, atol=1e-6)
    assert model.memory(7).total == twin.memory(7).total
    assert model.fit(X, targets, 8, 1, metrics=["mean_absolute_error"])["mean_absolute_error"][0] > 0.0
    assert copy.deepcopy(model).evaluate(X, targets) == model.evaluate(X, targets)
    assert model.joint is not None
    loss = float(model.joint(model.predict_all(X), targets).numpy())
    np.testing.assert_allclose(loss, model.evaluate(X, targets).loss, rtol=1e-5)


def test_a_function_of_one_output_takes_no_tuples() -> None:
    model = nn.Model(nn.Dense(1), (4,), loss=nn.MeanSquaredError(), backend="reference")
    twin = copy.deepcopy(model)
    model.compile("sgd", lambda y, target: ops.reduce_mean((y - target) * (y - target)))
    twin.compile("sgd", "mse")
    for _ in range(2):
        np.testing.assert_allclose(model.train_on_batch(X, REAL[:, :1])[0], twin.train_on_batch(X, REAL[:, :1])[0])


def test_losses_and_weights_go_by_the_names_of_outputs() -> None:
    model = nn.Model(network(), loss={"kind": "cross_entropy", "real": "mae"}, loss_weights={"kind": 0.25})
    assert model.losses == (nn.MeanAbsoluteError(), nn.Weighted(nn.SoftmaxCrossEntropy(), 0.25))
    model.compile(loss="mse", loss_weights=[1, 2])
    assert model.losses == (nn.MeanSquaredError(), nn.Weighted(nn.MeanSquaredError(), 2.0))
    model.compile(loss=Both())
    assert (model.joint, model.losses) == (Both(), ())
    with pytest.raises(UsageError, match=r"one loss of all outputs.*model\.joint"):
        _ = model.loss
    model.compile("sgd")
    assert model.joint == Both()
    model.compile(loss=["mae", "mse"])
    assert (model.joint, model.loss) == (None, nn.MeanAbsoluteError())


def test_a_model_of_a_joint_loss_is_kept_in_a_file(tmp_path: Path) -> None:
    model = nn.Model(network(), loss=Both(0.3), backend="reference")
    save_model(tmp_path / "m.nnc", model)
    loaded = load_model(tmp_path / "m.nnc", classes=[Both])
    assert loaded.joint == Both(0.3)
    assert loaded.evaluate(X, (REAL, LABELS)) == model.evaluate(X, (REAL, LABELS))
    with pytest.raises(UsageError, match="the function squares"):
        save_model(tmp_path / "f.nnc", nn.Model(network(), loss=squares))


def test_what_does_not_fit_is_told() -> None:
    model = nn.Model(network(), loss=Both())
    with pytest.raises(ArityError, match="a tuple of 2"):
        model.train_on_batch(X, REAL)
    with pytest.raises(ShapeError, match=r"targets \[24, 1\]; need targets \[24, 2\]"):
        model.train_on_batch(X, (REAL[:, :1], LABELS))
    with pytest.raises(ShapeError, match="24 examples and 23 targets"):
        model.evaluate(X, (REAL[:23], LABELS))
    with pytest.raises(DTypeError, match="whole numbers, as i32"):
        model.train_on_batch(X, (REAL, REAL[:, 0]))
    with pytest.raises(DataError, match="row 3"):
        model.fit(X, (np.where(np.arange(24)[:, None] == 3, np.nan, REAL), LABELS))
    with pytest.raises(ArgumentError, match="weights within it"):
        model.compile(loss=squares, loss_weights=[1, 2])
    with pytest.raises(ArityError, match="1 loss_weights; need 2"):
        model.compile(loss="mse", loss_weights=[1])
    with pytest.raises(ArgumentError, match="loss of real; need loss of real, kind"):
        model.compile(loss={"real": "mse"})
    with pytest.raises(ArgumentError, match="a dictionary for outputs without names"):
        nn.Model(nn.Dense(1), (4,), loss={"0": "mse"})
    with pytest.raises(ShapeError, match=r"loss: got f32\[24, 2\]; need a function that gives one real number"):
        nn.Model(network(), loss=lambda outputs, targets: outputs[0]).train_on_batch(X, (REAL, KINDS))
