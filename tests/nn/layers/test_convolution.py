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


V = np.random.default_rng(1).standard_normal((2, 5, 6, 4, 3)).astype(np.float32)


def of_volumes(layer: nn.Layer, backend: str = "") -> tuple[np.ndarray, dict[str, np.ndarray]]:
    model = nn.Model(layer, V.shape[1:], loss=nn.MeanSquaredError(), backend=backend)
    return model.predict(V), model.state_dict()


def windows_of(x: np.ndarray, kernel: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """[batch, z, y, x, channels, kernel…]"""
    views = np.lib.stride_tricks.sliding_window_view(x, kernel, (1, 2, 3))
    return views[:, :: strides[0], :: strides[1], :: strides[2]]


@pytest.mark.parametrize("backend", ["", "reference"])
def test_a_filter_of_a_volume_is_a_sum_over_three_axes(backend: str) -> None:
    for layer, border, kernel, strides in (
        (nn.Convolution3D(4), (1, 1, 1), (3, 3, 3), (1, 1, 1)),
        (nn.Convolution3D(4, (1, 3, 2), (1, 2, 1), (0, 1, 1)), (0, 1, 1), (1, 3, 2), (1, 2, 1)),
    ):
        y, state = of_volumes(layer, backend)
        padded = np.pad(V, ((0, 0), *((one, one) for one in border), (0, 0)))
        wanted = np.einsum("bzyxcijk,ijkcf->bzyxf", windows_of(padded, kernel, strides), state["weight"])
        np.testing.assert_allclose(y, wanted + state["bias"], rtol=1e-4, atol=1e-5)
    assert of_volumes(nn.Convolution3D(6, dilation=(2, 1, 1), groups=3))[0].shape == (2, 5, 6, 4, 6)


def test_pooling_of_volumes_takes_the_largest_or_the_mean() -> None:
    windows = windows_of(V, (2, 3, 1), (2, 3, 1))
    np.testing.assert_array_equal(of_volumes(nn.MaxPool3D((2, 3, 1)))[0], windows.max((5, 6, 7)))
    np.testing.assert_allclose(of_volumes(nn.AveragePool3D((2, 3, 1)))[0], windows.mean((5, 6, 7)), atol=1e-6)
    assert of_volumes(nn.MaxPool3D(2, ceil=True))[0].shape == (2, 3, 3, 2, 3)
    assert of_volumes(nn.AveragePool3D(3, (1, 2, 1), 1))[0].shape == (2, 5, 3, 4, 3)


def test_a_network_of_volumes_is_trained_and_states_its_memory() -> None:
    def model(backend: str) -> nn.Model:
        down = nn.Sequential(nn.Convolution3D(4), nn.BatchNorm(), nn.ReLU(), nn.MaxPool3D((1, 2, 2)))
        net = nn.Sequential(
            down, nn.ConvolutionTranspose3D(2, (1, 2, 2), (1, 2, 2)), nn.GlobalAveragePool(), nn.Dense(2)
        )
        return nn.Model(net, V.shape[1:], backend=backend, optimizer=nn.SGD(0.5))

    fast, exact = model(""), model("reference")
    labels = np.array([0, 1])
    losses = [[one.train_on_batch(V, labels)[0] for one in (fast, exact)] for _ in range(3)]
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-4)
    assert losses[-1][0] < losses[0][0]
    assert fast.memory(2).arena > 0


def test_what_does_not_fit_three_axes_is_told() -> None:
    with pytest.raises(ShapeError, match="batch, depth, height, width, channels"):
        nn.Model(nn.Convolution3D(4), (6, 4, 3))
    with pytest.raises(ArgumentError, match="kernel"):
        nn.MaxPool3D((2, 2))  # type: ignore[arg-type]
