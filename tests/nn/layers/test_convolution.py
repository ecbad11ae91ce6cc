"""Convolution and pooling in one dimension."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import nn
from nnc.errors import ArgumentError, ShapeError

X = np.random.default_rng(0).standard_normal((2, 9, 4)).astype(np.float32)


def predicted(layer: nn.Layer) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    model = nn.Model(layer, (9, 4), loss=nn.MeanSquaredError())
    return model.predict(X), model.state_dict()


@pytest.mark.parametrize(
    ("options", "before", "behind"),
    [({}, 1, 1), ({"padding": "causal"}, 2, 0), ({"padding": 0}, 0, 0), ({"dilation": 2, "stride": 2}, 2, 2)],
)
def test_a_filter_is_a_sum_over_steps(options: dict[str, object], before: int, behind: int) -> None:
    y, state = predicted(nn.Convolution1D(5, **options))  # type: ignore[arg-type]
    dilation, stride = int(str(options.get("dilation", 1))), int(str(options.get("stride", 1)))
    padded = np.pad(X, ((0, 0), (before, behind), (0, 0)))
    starts = range(0, padded.shape[1] - 2 * dilation, stride)
    windows = np.stack([padded[:, start : start + 2 * dilation + 1 : dilation] for start in starts], 1)
    wanted = np.einsum("btkc,kcf->btf", windows, state["weight"]) + state["bias"]
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_a_causal_filter_leaves_lengths_open() -> None:
    layer = nn.Sequential(nn.Convolution1D(4, groups=2), nn.ReLU(), nn.MaxPool1D(3), nn.Flatten(), nn.Dense(2))
    assert predicted(layer)[0].shape == (2, 2)
    assert nn.Model(nn.Convolution1D(4, padding="causal"), (9, 4)).padding() == ""


def test_pooling_takes_the_largest_or_the_mean_of_steps() -> None:
    windows = X[:, :8].reshape(2, 4, 2, 4)
    np.testing.assert_allclose(predicted(nn.MaxPool1D())[0], windows.max(2))
    np.testing.assert_allclose(predicted(nn.AveragePool1D())[0], windows.mean(2), rtol=1e-6, atol=1e-6)
    assert predicted(nn.MaxPool1D(3, 2, 1))[0].shape == (2, 5, 4)


def test_pooling_may_go_on_over_the_end() -> None:
    def pooled(size: int, **options: bool | int) -> np.ndarray:
        x = np.arange(size * size, dtype=np.float32).reshape(1, size, size, 1)
        return nn.Model(nn.MaxPool(**options), (size, size, 1)).predict(x)[0, :, :, 0]  # type: ignore[arg-type]

    np.testing.assert_array_equal(pooled(5, kernel=2, ceil=True), [[6, 8, 9], [16, 18, 19], [21, 23, 24]])
    np.testing.assert_array_equal(pooled(4, kernel=2, ceil=True), pooled(4, kernel=2))
    # A last window that would begin in the padding is left out, as in PyTorch.
    assert pooled(2, kernel=2, stride=2, padding=1, ceil=True).shape == (2, 2)
    assert pooled(4, kernel=3, stride=2, ceil=True).shape == (2, 2)


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ShapeError, match="batch, steps, channels"):
        nn.Model(nn.Convolution1D(4), (4,))
    with pytest.raises(ArgumentError, match="padding='valid'"):
        nn.Convolution1D(4, padding="valid")  # type: ignore[arg-type]
