"""The functions of normalization against their formulas, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, check_gradients

from nnc.core.values.command import Command
from nnc.core.values.dtype import F16, F32, F64
from nnc.core.values.spec import Layout, spec
from nnc.errors import ArityError, AttributeValueError, DTypeError, LayoutError, ShapeError, UsageError
from nnc.ops.elementwise.pointwise import affine, square
from nnc.ops.normalization.normalization import (
    BATCH_NORM,
    LAYER_NORM,
    LAYER_NORM_GRADIENT,
    BatchNormAttrs,
    NormalizationAttrs,
)
from nnc.ops.normalization.norms import (
    batch_norm,
    batch_norm_inference,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from nnc.ops.rules import INPLACE, infer

GENERATOR = np.random.default_rng(3)
X = GENERATOR.standard_normal((2, 3, 4, 6))
SCALE, BIAS = GENERATOR.standard_normal(6), GENERATOR.standard_normal(6)


def normalized(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_layer_norm() -> None:
    y = layer_norm(Eager(X), Eager(SCALE), Eager(BIAS))
    np.testing.assert_allclose(y.array, normalized(X, (3,)) * SCALE + BIAS, atol=1e-12)
    np.testing.assert_allclose(layer_norm(Eager(X), axes=(1, -1)).array, normalized(X, (1, 3)), atol=1e-12)
    scale = GENERATOR.standard_normal((3, 6))
    y = layer_norm(Eager(X), Eager(scale), axes=(1, 3), epsilon=0.1)
    np.testing.assert_allclose(y.array, normalized(X, (1, 3), 0.1) * scale[:, None], atol=1e-12)


def test_rms_norm() -> None:
    want = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(rms_norm(Eager(X)).array, want, atol=1e-12)
    np.testing.assert_allclose(rms_norm(Eager(X), Eager(SCALE)).array, want * SCALE, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm(groups: int) -> None:
    parts = [normalized(part, (1, 2, 3)) for part in np.split(X, groups, axis=-1)]
    want = np.concatenate(parts, axis=-1)
    np.testing.assert_allclose(group_norm(Eager(X), groups).array, want, atol=1e-12)
    y = group_norm(Eager(X), groups, Eager(SCALE), Eager(BIAS))
    np.testing.assert_allclose(y.array, want * SCALE + BIAS, atol=1e-12)


def test_instance_norm_has_a_group_per_channel() -> None:
    y = instance_norm(Eager(X), Eager(SCALE), Eager(BIAS))
    np.testing.assert_allclose(y.array, normalized(X, (1, 2)) * SCALE + BIAS, atol=1e-12)
    np.testing.assert_allclose(y.array, group_norm(Eager(X), 6, Eager(SCALE), Eager(BIAS)).array, atol=1e-12)


def test_batch_norm_and_its_running_statistics() -> None:
    mean, variance = GENERATOR.standard_normal(6), GENERATOR.uniform(0.5, 2, 6)
    y, next_mean, next_variance = batch_norm(*map(Eager, (X, SCALE, BIAS, mean, variance)), momentum=0.7)
    np.testing.assert_allclose(y.array, normalized(X, (0, 1, 2)) * SCALE + BIAS, atol=1e-12)
    np.testing.assert_allclose(next_mean.array, 0.7 * mean + 0.3 * X.mean((0, 1, 2)))
    np.testing.assert_allclose(next_variance.array, 0.7 * variance + 0.3 * X.var((0, 1, 2)))


def test_batch_norm_for_inference_uses_what_it_is_given() -> None:
    mean, variance = GENERATOR.standard_normal(6), GENERATOR.uniform(0.5, 2, 6)
    y = batch_norm_inference(*map(Eager, (X, SCALE, BIAS, mean, variance)), epsilon=0.01)
    np.testing.assert_allclose(y.array, (X - mean) / np.sqrt(variance + 0.01) * SCALE + BIAS, atol=1e-12)


def test_running_statistics_must_stay_where_they_are() -> None:
    rule = INPLACE[BATCH_NORM](BatchNormAttrs())
    assert rule.enforced == ((3, 1), (4, 2))
    assert set(rule.enforced) <= set(rule.allowed)


def test_statistics_of_narrow_floats_are_f32() -> None:
    attrs = NormalizationAttrs((1,), (1,))
    assert [part.dtype for part in infer(LAYER_NORM, attrs, (spec((2, 3), F16), None, None))] == [F16, F32, F32]
    assert [part.dtype for part in infer(LAYER_NORM, attrs, (spec((2, 3), F64), None, None))] == [F64] * 3
    channel, wide = spec((3,), F16), spec((3,), F32)
    found = infer(BATCH_NORM, BatchNormAttrs(), (spec((2, 3), F16), channel, channel, wide, wide))
    assert found == (spec((2, 3), F16), wide, wide, wide, wide)


def test_a_constant_row_becomes_the_bias() -> None:
    flat = Eager(np.full((2, 6), 7.0))
    np.testing.assert_array_equal(layer_norm(flat, Eager(SCALE), Eager(BIAS)).array, np.tile(BIAS, (2, 1)))


FUNCTIONS: tuple[Callable[..., Eager], ...] = (
    lambda x, a, b: square(layer_norm(x, a, b)),
    lambda x, a, b: square(group_norm(x, 3, a, b)),
    lambda x, a, b: square(instance_norm(x, a, b)),
    lambda x, a, b: square(batch_norm(x, a, b, b, square(a))[0]),
    lambda x, a, b: square(batch_norm(x, a, b, b, square(a))[1]),
    lambda x, a, b: square(batch_norm(x, a, b, b, square(a))[2]),
    lambda x, a, b: square(batch_norm_inference(x, a, b, b, affine(square(a), 1.0, 0.5))),
)


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_gradients_of_the_functions(number: int) -> None:
    check_gradients(lambda variables: [FUNCTIONS[number](*variables)], [X[:, :2, :2], SCALE, BIAS])


BAD: tuple[tuple[str, type[UsageError], Callable[[], object]], ...] = (
    ("integers", DTypeError, lambda: layer_norm(Eager(np.ones((2, 3), np.int32)))),
    ("bias without scale", ArityError, lambda: layer_norm(Eager(X), None, Eager(BIAS))),
    ("wide scale", ShapeError, lambda: layer_norm(Eager(X), Eager(np.ones(5)))),
    ("wide bias", ShapeError, lambda: layer_norm(Eager(X), Eager(SCALE), Eager(np.ones(5)))),
    ("mixed types", DTypeError, lambda: rms_norm(Eager(X), Eager(SCALE.astype(np.float32)))),
    ("negative epsilon", AttributeValueError, lambda: layer_norm(Eager(X), epsilon=-1.0)),
    ("nan epsilon", AttributeValueError, lambda: rms_norm(Eager(X), epsilon=float("nan"))),
    ("axis", AttributeValueError, lambda: layer_norm(Eager(X), axes=4)),
    ("axes out of order", AttributeValueError, lambda: _layer(NormalizationAttrs((1, 0), ()))),
    ("nothing to average", ShapeError, lambda: layer_norm(Eager(np.ones((2, 0))))),
    ("groups", ShapeError, lambda: group_norm(Eager(X), 4)),
    ("no groups", ShapeError, lambda: group_norm(Eager(X), 0)),
    ("no spatial axes", ShapeError, lambda: instance_norm(Eager(X[0, 0]))),
    ("no batch", ShapeError, lambda: batch_norm(*map(Eager, (SCALE, SCALE, SCALE, SCALE, SCALE)))),
    ("momentum", AttributeValueError, lambda: batch_norm(*map(Eager, (X, SCALE, SCALE, SCALE, SCALE)), momentum=2.0)),
    ("running", ShapeError, lambda: batch_norm(*map(Eager, (X, SCALE, SCALE, SCALE[:2], SCALE)))),
    ("inference", ShapeError, lambda: batch_norm_inference(*map(Eager, (X, SCALE, SCALE, SCALE, SCALE[:2])))),
    ("statistics", ShapeError, lambda: _gradient(np.ones((2, 2)))),
    ("gradient", ShapeError, lambda: _gradient(np.ones((2, 1)), np.ones((3, 4)))),
)


def _layer(attrs: NormalizationAttrs) -> object:
    return Eager(X).apply(Command(LAYER_NORM, attrs), (Eager(X), None, None))


def _gradient(mean: Array, g: Array | None = None) -> object:
    x = np.ones((2, 4))
    operands = [Eager(array) for array in (x if g is None else g, x, mean, np.ones((2, 1)))]
    return operands[0].apply(Command(LAYER_NORM_GRADIENT, NormalizationAttrs((1,), ())), (*operands, None))


def test_channels_must_be_last() -> None:
    x = Eager(X, spec=spec(X.shape, F64, Layout.NCHW))
    for call in (lambda: group_norm(x, 2), lambda: instance_norm(x), lambda: batch_norm(x, *[Eager(SCALE)] * 4)):
        with pytest.raises(LayoutError, match="NHWC"):
            call()


@pytest.mark.parametrize(("error", "call"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_refusals(error: type[UsageError], call: Callable[[], object]) -> None:
    with pytest.raises(error, match="need"):
        call()
