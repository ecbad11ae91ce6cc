"""Normalization layers: their parameters, their values, their options, and that a model learns through them."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import AttributeValueError, ShapeError
from nnc.nn import Dense, Flatten, GroupNorm, InstanceNorm, Layer, LayerNorm, Model, ReLU, RMSNorm, Sequential

GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.standard_normal((4, 3, 2, 6)).astype(np.float32)
LAYERS: tuple[tuple[Layer, dict[str, tuple[int, ...]], tuple[int, ...]], ...] = (
    (LayerNorm(), {"weight": (6,), "bias": (6,)}, (3,)),
    (LayerNorm(axes=3), {"weight": (3, 2, 6), "bias": (3, 2, 6)}, (1, 2, 3)),
    (LayerNorm(bias=False), {"weight": (6,)}, (3,)),
    (LayerNorm(affine=False), {}, (3,)),
    (GroupNorm(1), {"weight": (6,), "bias": (6,)}, (1, 2, 3)),
    (GroupNorm(6, affine=False), {}, (1, 2)),
    (InstanceNorm(), {"weight": (6,), "bias": (6,)}, (1, 2)),
    (InstanceNorm(affine=False), {}, (1, 2)),
)


@pytest.mark.parametrize(("layer", "parameters", "axes"), LAYERS, ids=[repr(row[0]) for row in LAYERS])
def test_values_and_parameters(layer: Layer, parameters: dict[str, tuple[int, ...]], axes: tuple[int, ...]) -> None:
    model = Model(layer, IMAGES.shape[1:])
    assert {path: tensor.shape for path, tensor in model.parameters.items()} == parameters
    mean, deviation = IMAGES.mean(axes, keepdims=True), np.sqrt(IMAGES.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(model.predict(IMAGES), (IMAGES - mean) / deviation, rtol=1e-4, atol=1e-5)


def test_rms_norm() -> None:
    model = Model(RMSNorm(epsilon=0.5), (6,))
    assert {path: tensor.shape for path, tensor in model.parameters.items()} == {"weight": (6,)}
    x = IMAGES[:, 0, 0]
    want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.5)
    np.testing.assert_allclose(model.predict(x), want, rtol=1e-4, atol=1e-6)
    assert Model(RMSNorm(affine=False), (6,)).parameters == {}


@pytest.mark.parametrize("layer", [LayerNorm(), GroupNorm(2), InstanceNorm(), RMSNorm()], ids=repr)
def test_a_model_learns_through_it(layer: Layer) -> None:
    model = Model(Sequential(layer, ReLU(), Flatten(), Dense(2)), IMAGES.shape[1:])
    labels = np.array([0, 1, 0, 1], np.int32)
    first, _ = model.train_on_batch(IMAGES, labels)
    for _ in range(30):
        last, _ = model.train_on_batch(IMAGES, labels)
    assert last < 0.8 * first


def test_refusals() -> None:
    for make, named in (
        (lambda: LayerNorm(axes=0), "axes=0"),
        (lambda: GroupNorm(0), "groups=0"),
        (lambda: RMSNorm(epsilon=-1.0), "epsilon=-1.0"),
    ):
        with pytest.raises(AttributeValueError, match=named):
            make()
    for layer, shape in ((LayerNorm(axes=2), (6,)), (GroupNorm(4), (2, 6)), (InstanceNorm(), (6,))):
        with pytest.raises(ShapeError):
            Model(layer, shape)
