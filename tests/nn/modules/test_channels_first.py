"""Layers with channels first: those with channels last between two transposes, and no transposes in compiled steps."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnc
import nnc.nn.functional as F
from nnc import nn
from nnc.errors import ArgumentError, ShapeError, UsageError

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.standard_normal((3, 4, 9, 8)).astype(np.float32)
LABELS = np.array([0, 1, 2])


def plain_convolution(
    x: np.ndarray,
    w: np.ndarray,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> np.ndarray:
    """By the formula, of x[n, c, i, j] and w[f, c / groups, k, l]."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *((border, border) for border in padding)))
    sizes = [
        (size - step * (extent - 1) - 1) // move + 1
        for size, extent, move, step in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    inner, outer = w.shape[1], w.shape[0] // groups
    for f, i, j in np.ndindex(w.shape[0], *sizes):
        first = f // outer * inner
        rows, columns = (
            place * move + step * np.arange(extent)
            for place, move, step, extent in zip((i, j), stride, dilation, w.shape[2:], strict=True)
        )
        y[:, f, i, j] = (x[:, first : first + inner][:, :, rows][:, :, :, columns] * w[f]).sum((1, 2, 3))
    return y


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups"),
    [((3, 3), (1, 1), (1, 1), (1, 1), 1), ((3, 2), (2, 1), (1, 0), (1, 2), 2), ((1, 1), (2, 2), (0, 0), (1, 1), 4)],
)
def test_convolutions_are_those_of_the_formula(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> None:
    weight = RANDOM.standard_normal((8, 4 // groups, *kernel)).astype(np.float32)
    wanted = plain_convolution(IMAGES, weight, stride, padding, dilation, groups)
    got = F.conv2d(IMAGES, weight, None, stride, padding, dilation, groups)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-4)
    layer = nn.Conv2d(4, 8, kernel, stride, padding, dilation, groups, bias=False)
    layer.weight = np.ascontiguousarray(weight.transpose(2, 3, 1, 0))
    np.testing.assert_array_equal(layer(IMAGES).numpy(), got.numpy())
    alone = layer(IMAGES[0]).numpy()
    np.testing.assert_allclose(alone, got.numpy()[0], rtol=1e-5, atol=1e-5)


LAST = (0, 2, 3, 1)
PAIRS: dict[str, tuple[nn.Layer, nn.Layer]] = {
    "max": (nn.MaxPool2d(3, 2, 1), nn.MaxPool(3, 2, 1)),
    "max over the end": (nn.MaxPool2d(2, 3, ceil_mode=True), nn.MaxPool(2, 3, ceil=True)),
    "mean": (nn.AvgPool2d(2), nn.AveragePool(2)),
    "mean without a border": (nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.AveragePool(3, 1, 1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pools_are_those_with_channels_last(name: str) -> None:
    first, last = PAIRS[name]
    wanted = last(IMAGES.transpose(LAST)).numpy().transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(first(IMAGES).numpy(), wanted)
    np.testing.assert_array_equal(first(IMAGES[1]).numpy(), wanted[1])


def test_adaptive_pools_and_functions() -> None:
    parts = IMAGES.reshape(3, 4, 3, 3, 2, 4).mean((3, 5))
    np.testing.assert_allclose(nn.AdaptiveAvgPool2d((3, 2))(IMAGES).numpy(), parts, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(F.adaptive_avg_pool2d(IMAGES, 1).numpy()[..., 0, 0], IMAGES.mean((2, 3)), atol=1e-6)
    np.testing.assert_array_equal(F.max_pool2d(IMAGES, 2).numpy(), nn.MaxPool2d(2)(IMAGES).numpy())
    np.testing.assert_array_equal(F.avg_pool2d(IMAGES, 2).numpy(), nn.AvgPool2d(2)(IMAGES).numpy())
    padded = F.pad(IMAGES, (1, 2, 0, 3), value=5.0).numpy()
    np.testing.assert_array_equal(padded, np.pad(IMAGES, ((0, 0), (0, 0), (0, 3), (1, 2)), constant_values=5))
    np.testing.assert_array_equal(
        F.pad(IMAGES, (1, 2), "replicate").numpy(), np.pad(IMAGES, [(0, 0)] * 3 + [(1, 2)], "edge")
    )
    np.testing.assert_array_equal(
        F.interpolate(IMAGES, scale_factor=2).numpy(), IMAGES.repeat(2, axis=2).repeat(2, axis=3)
    )
    weight = RANDOM.standard_normal((5, 8)).astype(np.float32)
    np.testing.assert_allclose(F.linear(IMAGES, weight).numpy(), IMAGES @ weight.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(F.embedding([[1, 3]], weight).numpy(), weight[[[1, 3]]])
    mean, variance = IMAGES.mean(-1, keepdims=True), IMAGES.var(-1, keepdims=True)
    np.testing.assert_allclose(F.layer_norm(IMAGES, 8).numpy(), (IMAGES - mean) / np.sqrt(variance + 1e-5), atol=1e-5)


def test_attention_with_masks() -> None:
    q, k, v = (RANDOM.standard_normal((2, 3, rows, 4)).astype(np.float32) for rows in (5, 5, 5))
    scores = q @ k.swapaxes(-1, -2) / 2
    seen = np.tril(np.ones((5, 5), bool))
    masked = np.where(seen, scores, -np.inf)
    shares = np.exp(masked - masked.max(-1, keepdims=True))
    wanted = shares / shares.sum(-1, keepdims=True) @ v
    for options in (
        {"is_causal": True},
        {"attn_mask": seen},
        {"attn_mask": np.where(seen, 0, -np.inf).astype(np.float32)},
    ):
        np.testing.assert_allclose(F.scaled_dot_product_attention(q, k, v, **options).numpy(), wanted, atol=1e-5)


def test_running_statistics_are_those_of_a_sample() -> None:
    norm = nn.BatchNorm2d(4, momentum=0.25)
    norm(IMAGES)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.25 * IMAGES.mean((0, 2, 3)), atol=1e-6)
    variance = 0.75 + 0.25 * IMAGES.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(norm.running_var.numpy(), variance, rtol=1e-5)
    model = nn.Model(
        nn.Sequential(norm, nn.AdaptiveAvgPool2d(1), nn.Flatten()), (4, 9, 8), loss=nn.SoftmaxCrossEntropy()
    )
    for rows in (1, 2, 3):
        model.train_on_batch(IMAGES[:rows], LABELS[:rows])
        variance = 0.75 * variance + 0.25 * IMAGES[:rows].var((0, 2, 3), ddof=1)
        np.testing.assert_allclose(model.state_dict()["0.running_var"], variance, rtol=1e-5)


class Net(nn.Module):
    """What a first network in PyTorch looks like."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.norm, self.pool, self.drop = nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Dropout2d(0.1)
        self.up, self.head = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Linear(8, 3)

    def forward(self, x):  # type: ignore[no-untyped-def]  # as its users write it
        x = self.pool(F.relu(self.norm(self.conv1(x))))
        x = self.drop(F.relu(self.up(F.relu(self.conv2(x)))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def transposes(step: nn.model.model.ModelStep) -> int:
    graph = step.compiled.planned.graph
    return sum(graph.execs[key].command.op.name == "transpose" for key in graph.execs.toposort())


def test_compiled_steps_convert_at_the_border_alone() -> None:
    model = nn.Model(Net(), (4, 9, 8))
    step, prediction = model.training_step(3), model.prediction_step(3)
    # Images as they come in, and those of the gradient of the first weight.
    assert transposes(step) <= 2
    assert transposes(prediction) <= 1
    first = [model.train_on_batch(IMAGES, LABELS)[0] for _ in range(3)]
    reference = nn.Model(Net(), (4, 9, 8), backend="reference")
    reference.load_state_dict(nn.Model(Net(), (4, 9, 8)).state_dict())
    assert len(set(first)) == 3
    assert reference.train_on_batch(IMAGES, LABELS)[0] > 0


def test_names_and_shapes_are_those_of_pytorch() -> None:
    model = nn.Model(Net(), (4, 9, 8))
    theirs = nn.torch_state_dict(model)
    shapes = {name: array.shape for name, array in theirs.items() if array.ndim > 1 or "norm" in name}
    assert shapes == {
        "conv1.weight": (8, 4, 3, 3),
        "conv2.weight": (8, 4, 3, 3),
        "up.weight": (8, 8, 2, 2),
        "head.weight": (3, 8),
        **{f"norm.{name}": (8,) for name in ("weight", "bias", "running_mean", "running_var")},
    }
    other = nn.Model(Net(), (4, 9, 8))
    nn.load_torch_state_dict(other, theirs)
    np.testing.assert_array_equal(other.predict(IMAGES), model.predict(IMAGES))
    (weight,) = (theirs["conv1.weight"],)
    bias = theirs["conv1.bias"]
    own = model.layer.conv1(IMAGES).numpy()  # type: ignore[attr-defined]  # of Net
    np.testing.assert_allclose(F.conv2d(IMAGES, weight, bias, padding=1).numpy(), own, atol=1e-5)


def test_they_are_copied_pickled_and_saved(tmp_path: Path) -> None:
    layer = nn.Sequential(nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3))
    layer.eval()
    wanted = layer(IMAGES).numpy()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(other.eval()(IMAGES).numpy(), wanted)
    model = nn.Model(layer, (4, 9, 8))
    model.save(tmp_path / "model.safetensors")
    again = nn.load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(IMAGES), model.predict(IMAGES))


def test_onnx_files_of_them_run_elsewhere(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = nn.Model(Net(), (4, 9, 8))
    nnc.onnx.save(model, tmp_path / "net.onnx")
    session = runtime.InferenceSession(tmp_path / "net.onnx")
    (got,) = session.run(None, {session.get_inputs()[0].name: IMAGES})
    np.testing.assert_allclose(got, model.predict(IMAGES), rtol=1e-4, atol=1e-5)


REFUSED: dict[str, tuple[Callable[[], object], type[UsageError], str]] = {
    "channels last": (lambda: nn.Conv2d(4, 2, 3)(IMAGES.transpose(LAST)), ShapeError, "9 channels on axis 1; need 4"),
    "no image": (lambda: nn.Conv2d(4, 2, 3)(IMAGES[0, 0]), ShapeError, "channels, height, width"),
    "groups": (lambda: nn.Conv2d(3, 4, 3, groups=2), ArgumentError, "groups that divide both"),
    "three numbers": (lambda: nn.Conv2d(3, 4, (3, 3, 3)), ArgumentError, "one number, or 2"),
    "same with a stride": (lambda: nn.Conv2d(3, 4, 3, 2, "same"), ArgumentError, "stride 1"),
    "no part": (lambda: nn.AdaptiveAvgPool2d(5)(IMAGES), ShapeError, "that 5 and 5 divide"),
    "another number of channels": (lambda: nn.BatchNorm2d(3)(IMAGES), ShapeError, "3 channels on axis 1 of 4 axes"),
    "half a pair": (lambda: F.pad(IMAGES, (1,)), ArgumentError, "pairs"),
    "no size": (lambda: F.interpolate(IMAGES), ArgumentError, "size= or scale_factor="),
    "a flat weight": (lambda: F.conv2d(IMAGES, np.ones((2, 4), np.float32)), ShapeError, "out, in / groups"),
    "other sizes": (lambda: F.layer_norm(IMAGES, 4), ShapeError, "as its last sizes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    call, error, match = REFUSED[name]
    with pytest.raises(error, match=match):
        call()
