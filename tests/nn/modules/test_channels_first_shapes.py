"""Windows, shuffles, borders and norms of images in PyTorch's words: NumPy's formulas, adjoints, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nnc
import nnc.nn.functional as F
from nnc import nn
from nnc.errors import ArgumentError, NncError, ShapeError

IMAGES = np.random.default_rng(0).standard_normal((2, 4, 6, 7)).astype(np.float32)


def columns(
    x: NDArray[Any],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    stride: tuple[int, int],
) -> NDArray[Any]:
    """y[n, c · |kernel| + place, l], one element after the other."""
    x = np.pad(x, [(0, 0), (0, 0), *((side, side) for side in padding)])
    counts = [
        (size - step * (extent - 1) - 1) // move + 1
        for size, extent, step, move in zip(x.shape[2:], kernel, dilation, stride, strict=True)
    ]
    y = np.zeros((*x.shape[:2], kernel[0] * kernel[1], counts[0] * counts[1]), x.dtype)
    for place, (i, j) in enumerate(product(*map(range, kernel))):
        for window, (h, w) in enumerate(product(*map(range, counts))):
            y[:, :, place, window] = x[:, :, h * stride[0] + i * dilation[0], w * stride[1] + j * dilation[1]]
    return y.reshape(x.shape[0], -1, y.shape[-1])


WINDOWS = [
    ((3, 3), (1, 1), (0, 0), (1, 1)),
    ((2, 3), (2, 1), (1, 2), (2, 1)),
    ((2, 2), (1, 1), (0, 0), (2, 3)),
    ((1, 2), (1, 3), (0, 1), (4, 2)),
]


@pytest.mark.parametrize(("kernel", "dilation", "padding", "stride"), WINDOWS)
def test_windows_and_what_they_are_differentiated_to(
    kernel: tuple[int, int], dilation: tuple[int, int], padding: tuple[int, int], stride: tuple[int, int]
) -> None:
    options = {"dilation": dilation, "padding": padding, "stride": stride}
    x = nnc.tensor(IMAGES, requires_grad=True)
    y = F.unfold(x, kernel, **options)
    np.testing.assert_array_equal(y.numpy(), columns(IMAGES, kernel, dilation, padding, stride))
    slopes = nnc.tensor(np.random.default_rng(1).standard_normal(y.shape).astype(np.float32))
    (y * slopes).sum().backward()
    together = nn.Fold((6, 7), kernel, **options)(slopes)
    assert x.grad is not None
    np.testing.assert_allclose(together.numpy(), x.grad.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(F.fold(slopes[0], (6, 7), kernel, **options).numpy(), together[0].numpy())
    np.testing.assert_array_equal(nn.Unfold(kernel, **options)(IMAGES[0]).numpy(), y[0].numpy())


def test_channels_become_places_and_back() -> None:
    y = nn.PixelShuffle(2)(IMAGES).numpy()
    for channel, row, column in product(range(1), range(12), range(14)):
        source = IMAGES[:, channel * 4 + row % 2 * 2 + column % 2, row // 2, column // 2]
        np.testing.assert_array_equal(y[:, channel, row, column], source)
    np.testing.assert_array_equal(nn.PixelUnshuffle(2)(y).numpy(), IMAGES)
    np.testing.assert_array_equal(F.pixel_unshuffle(F.pixel_shuffle(IMAGES[0], 2), 2).numpy(), IMAGES[0])


@pytest.mark.parametrize(
    ("layer", "sides", "options"),
    [
        (nn.ZeroPad2d((1, 0, 2, 3)), ((2, 3), (1, 0)), {}),
        (nn.ConstantPad2d(1, 3.5), ((1, 1), (1, 1)), {"constant_values": 3.5}),
        (nn.ReflectionPad2d((1, 2, 3, 0)), ((3, 0), (1, 2)), {"mode": "reflect"}),
        (nn.ReplicationPad2d(2), ((2, 2), (2, 2)), {"mode": "edge"}),
    ],
)
def test_borders(layer: nn.Layer, sides: tuple[tuple[int, int], ...], options: dict[str, Any]) -> None:
    np.testing.assert_array_equal(layer(IMAGES).numpy(), np.pad(IMAGES, ((0, 0), (0, 0), *sides), **options))
    np.testing.assert_array_equal(layer(IMAGES[0]).numpy(), np.pad(IMAGES[0], ((0, 0), *sides), **options))


def normalized(x: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def test_norms_of_instances_and_groups() -> None:
    weight, bias = np.linspace(1, 2, 4, dtype=np.float32), np.linspace(-1, 1, 4, dtype=np.float32)
    scale, shift = weight[:, None, None], bias[:, None, None]
    layer = nn.InstanceNorm2d(4, affine=True)
    layer(IMAGES)
    layer.load_state_dict({"weight": weight, "bias": bias})
    wanted = normalized(IMAGES, (2, 3)) * scale + shift
    for y in (layer(IMAGES), F.instance_norm(IMAGES, weight=weight, bias=bias), nnc.compile(layer)(IMAGES)):
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert not [*nn.InstanceNorm2d(4).parameters()]
    np.testing.assert_allclose(nn.InstanceNorm1d(6)(IMAGES[0]).numpy(), normalized(IMAGES[0], (2,)), atol=1e-5)
    grouped = normalized(IMAGES.reshape(2, 2, 2, 6, 7), (2, 3, 4)).reshape(IMAGES.shape)
    np.testing.assert_allclose(F.group_norm(IMAGES, 2, weight, bias).numpy(), grouped * scale + shift, atol=1e-5)
    squares = IMAGES / np.sqrt((IMAGES**2).mean((2, 3), keepdims=True) + np.finfo(np.float32).eps)
    np.testing.assert_allclose(F.rms_norm(IMAGES, (6, 7)).numpy(), squares, rtol=1e-5)


def test_batches_are_normalized_by_themselves_or_by_what_was_kept() -> None:
    layer, mean, variance = nn.BatchNorm2d(4), nnc.zeros(4), nnc.ones(4)
    y = F.batch_norm(IMAGES, mean, variance, training=True)
    np.testing.assert_allclose(y.numpy(), layer(nnc.tensor(IMAGES)).numpy(), atol=1e-5)
    np.testing.assert_allclose(mean.numpy(), layer.running_mean.numpy(), atol=1e-6)
    np.testing.assert_allclose(variance.numpy(), layer.running_var.numpy(), rtol=1e-5)
    kept = F.batch_norm(IMAGES, mean, variance, nnc.ones(4) * 2.0, nnc.ones(4))
    np.testing.assert_allclose(kept.numpy(), layer.eval()(nnc.tensor(IMAGES)).numpy() * 2.0 + 1.0, atol=1e-5)
    np.testing.assert_allclose(F.batch_norm(IMAGES, None, None, training=True).numpy(), y.numpy())


def test_transposed_convolutions_are_adjoint() -> None:
    random = np.random.default_rng(2)
    weight, x = (random.standard_normal(shape).astype(np.float32) for shape in ((4, 2, 3, 2), (2, 4, 13, 14)))
    options = {"stride": (2, 2), "padding": 1, "groups": 2}
    there = F.conv2d(x, weight, **options)
    y = nnc.tensor(random.standard_normal(there.shape).astype(np.float32))
    back = F.conv_transpose2d(y, weight, output_padding=0, **options)
    pairs = (there * y).sum().item(), (back * nnc.tensor(x)[:, :, : back.shape[2], : back.shape[3]]).sum().item()
    assert back.shape == (2, 4, 13, 14)
    assert pairs[0] == pytest.approx(pairs[1], rel=1e-4)
    assert F.conv_transpose2d(y, weight, nnc.ones(4), **options)[0, 1, 0, 0].item() == pytest.approx(
        back[0, 1, 0, 0].item() + 1.0, rel=1e-5
    )


def test_images_at_moved_places() -> None:
    turned = nnc.tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2)
    for corners in (False, True):
        same = F.affine_grid(turned * nnc.tensor([[-1.0], [1.0]]), (2, 4, 6, 7), align_corners=corners)
        for mode in ("bilinear", "nearest"):
            for grid, wanted in (
                (same, IMAGES),
                (F.affine_grid(turned, (2, 4, 6, 7), align_corners=corners), IMAGES[..., ::-1]),
            ):
                y = F.grid_sample(IMAGES, grid, mode, align_corners=corners)  # type: ignore[arg-type]  # one of the two
                np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_functions_without_layers() -> None:
    x = nnc.tensor(IMAGES, requires_grad=True)
    np.testing.assert_allclose(F.softmin(x, 1).numpy(), F.softmax(-x, 1).numpy())
    np.testing.assert_allclose(F.glu(x, 1).numpy(), IMAGES[:, :2] / (1.0 + np.exp(-IMAGES[:, 2:])), rtol=1e-5)
    np.testing.assert_array_equal(F.hardtanh(x, -0.5, 0.25).numpy(), np.clip(IMAGES, -0.5, 0.25))
    np.testing.assert_array_equal(nn.ReLU6()(IMAGES * 9).numpy(), np.clip(IMAGES * 9, 0.0, 6.0))
    np.testing.assert_array_equal(nn.Hardtanh()(IMAGES).numpy(), np.clip(IMAGES, -1.0, 1.0))
    np.testing.assert_array_equal(nn.Unflatten(-3, (2, -1))(IMAGES).numpy(), IMAGES.reshape(2, 2, 2, 6, 7))
    np.testing.assert_array_equal(F.max_pool1d(IMAGES[0], 2).numpy(), nn.MaxPool1d(2)(IMAGES[0]).numpy())
    np.testing.assert_array_equal(F.avg_pool1d(IMAGES[0], 3, 2).numpy(), nn.AvgPool1d(3, 2)(IMAGES[0]).numpy())
    hard, soft = (F.gumbel_softmax(x, tau=0.5, hard=hard, dim=1) for hard in (True, False))
    assert set(np.unique(hard.detach().numpy().round(6))) == {0.0, 1.0}
    for y in (hard, soft):
        np.testing.assert_allclose(y.detach().numpy().sum(1), 1.0, rtol=1e-5)
    (hard * hard).sum().backward()
    assert x.grad is not None
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: F.unfold(IMAGES, 8), ShapeError, "unfold: got windows of 8 x 8 on 6 x 7"),
        (lambda: F.fold(IMAGES[0], (6, 7), 5), ShapeError, "fold: got f32.*need .batch, channels · 25"),
        (lambda: F.unfold(IMAGES[0, 0], 2), ShapeError, "unfold"),
        (lambda: nn.PixelShuffle(3)(IMAGES), ShapeError, "channels that 9 divides"),
        (lambda: nn.PixelUnshuffle(4)(IMAGES), ShapeError, "sizes that 4 divides"),
        (lambda: nn.ZeroPad2d((1, 2))(IMAGES), ArgumentError, "one width, or 4"),
        (lambda: nn.ReflectionPad2d(9)(IMAGES), NncError, "reflect"),
        (lambda: nn.InstanceNorm2d(3)(IMAGES), ShapeError, "3 channels"),
        (lambda: nn.InstanceNorm2d(4, track_running_stats=True), ArgumentError, "nn.BatchNorm2d"),
        (lambda: nn.Unflatten(1, (3, -1))(IMAGES), ShapeError, "whose product is 4"),
        (lambda: nn.Unflatten(9, (2, 2))(IMAGES), ShapeError, "an axis 9"),
        (lambda: F.group_norm(IMAGES, 3), ShapeError, "channels that 3 divides"),
        (lambda: F.batch_norm(IMAGES, None, None), ArgumentError, "training=True, or running_mean="),
        (lambda: F.rms_norm(IMAGES, (3,)), ShapeError, "as its last sizes"),
        (lambda: F.glu(IMAGES), ShapeError, "an axis of an even size"),
        (lambda: F.affine_grid(IMAGES, (2, 4, 6, 7)), ShapeError, "theta.batch, 2, 3."),
        (lambda: F.conv_transpose2d(IMAGES, IMAGES[0]), ShapeError, "weight.in, out / groups"),
        (lambda: F.grid_sample(IMAGES, IMAGES), NncError, "grid_sample"),
    ],
)
def test_what_does_not_fit_is_told(call: Callable[[], object], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
