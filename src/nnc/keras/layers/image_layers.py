"""Layers that prepare images under Keras' names: sizes, and random changes that are made in training alone.

Images are [batch, height, width, channels], or [height, width, channels]. A random layer that is called by itself,
outside of any training or use of a model, changes them, as in Keras. Each image has draws of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from nnc import numerics as n
from nnc.arguments import Count, Finite, checked
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.traced import active_trace
from nnc.dynamic.transforms.randomness import uniform
from nnc.errors import ArgumentError, ShapeError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float
from nnc.keras.layers.spatial import check_format
from nnc.keras.named import refused

__all__ = [
    "CenterCrop", "RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation",
    "RandomTranslation", "RandomZoom", "Resizing",
]  # fmt: skip

Factor: TypeAlias = Finite | Sequence[Finite]
Fill: TypeAlias = Literal["reflect", "constant", "wrap", "nearest"]
Interpolation: TypeAlias = Literal["bilinear", "nearest"]


def batched(inputs: Any, function: Callable[[Any], Any]) -> Any:
    """A function of images [batch, height, width, channels] for such ones, or for one image."""
    x = as_float(inputs)
    if x.ndim == 3:
        return function(n.expand_dims(x, 0))[0]
    if x.ndim != 4:
        raise ShapeError("images", got=f"{x.shape}", need="[batch, height, width, channels], or one image")
    return function(x)


def resized(x: Any, sizes: Sequence[int], interpolation: Interpolation = "bilinear") -> Any:
    """x[batch, height, width, channels] with other sizes; points lie in the middle of their pixels."""
    for axis, new in zip((1, 2), sizes, strict=True):
        old = x.shape[axis]
        if old == new:
            continue
        places = (np.arange(new) + 0.5) * old / new
        if interpolation == "nearest":
            x = n.take(x, np.minimum(places.astype(np.int32), old - 1), axis=axis)
            continue
        places = np.clip(places - 0.5, 0, old - 1)
        low = np.floor(places).astype(np.int32)
        shape = (1, new, 1, 1) if axis == 1 else (1, 1, new, 1)
        share = (places - low).astype(np.float32).reshape(shape)
        below, above = n.take(x, low, axis=axis), n.take(x, np.minimum(low + 1, old - 1), axis=axis)
        x = below + (above - below) * share
    return x


class Resizing(Layer):
    """Images of another height and width, by "bilinear" or "nearest" interpolation.

    >>> from nnc import keras
    >>> keras.layers.Resizing(4, 6)(n.ones((2, 8, 8, 3))).shape
    (2, 4, 6, 3)
    """

    def __init__(
        self,
        height: Count,
        width: Count,
        interpolation: str = "bilinear",
        crop_to_aspect_ratio: bool = False,
        data_format: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_format("Resizing", data_format)
        if interpolation not in ("bilinear", "nearest"):
            raise refused("Resizing", "interpolation", interpolation, 'interpolation="bilinear" or "nearest"')
        self.height, self.width, self.interpolation = height, width, interpolation
        self.crop_to_aspect_ratio = crop_to_aspect_ratio

    def call(self, inputs: Any) -> Any:
        return batched(inputs, self._resized)

    def _resized(self, x: Any) -> Any:
        if self.crop_to_aspect_ratio:
            height, width = x.shape[1:3]
            wanted = int(width * self.height / self.width), int(height * self.width / self.height)
            x = _middle(x, min(height, wanted[0]), min(width, wanted[1]))
        way: Any = self.interpolation
        return resized(x, (self.height, self.width), way)


def _middle(x: Any, height: int, width: int) -> Any:
    top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
    return x[:, top : top + height, left : left + width, :]


class CenterCrop(Layer):
    """The middle of images; smaller ones are made larger first."""

    def __init__(self, height: Count, width: Count, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        check_format("CenterCrop", data_format)
        self.height, self.width = height, width

    def call(self, inputs: Any) -> Any:
        return batched(inputs, lambda x: _middle(self._large(x), self.height, self.width))

    def _large(self, x: Any) -> Any:
        height, width = x.shape[1:3]
        if height >= self.height and width >= self.width:
            return x
        fit = Resizing(self.height, self.width, crop_to_aspect_ratio=True)
        return fit(x)


class _Random(Layer):
    """A change of images in training."""

    def __init__(self, seed: int | None = None, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        check_format(type(self).__name__, data_format)

    def _run_call(self, *inputs: Any, **options: Any) -> Any:
        if self.is_alone(options):
            options["training"] = True
        return super()._run_call(*inputs, **options)

    forward = _run_call

    def is_alone(self, options: Any) -> bool:
        """Whether nobody said whether this is training."""
        return "training" not in options and self.training_of_calls is None and active_trace() is None

    def call(self, inputs: Any, training: bool = True) -> Any:
        """Change images in training."""
        return batched(inputs, self.changed) if training else self.kept(inputs)

    def kept(self, inputs: Any) -> Any:
        """What images are in use."""
        return inputs

    def changed(self, x: Any) -> Any:
        """The images changed."""
        raise NotImplementedError


def _range(subject: str, name: str, factor: Any) -> tuple[float, float]:
    """(least, most) of a number, which stands for both signs, or of a pair."""
    ends = (-abs(factor), abs(factor)) if not hasattr(factor, "__len__") else tuple(map(float, factor))
    if len(ends) != 2 or not ends[0] <= ends[1]:
        raise ArgumentError(subject, got=f"{name}={factor!r}", need="a number, or (least, most)")
    return ends[0], ends[1]


def _pair(subject: str, name: str, ends: Sequence[float]) -> tuple[float, float]:
    """(least, most)"""
    if len(ends) != 2:
        raise ArgumentError(subject, got=f"{name} of {len(ends)} numbers", need="two", origin=caller_origin())
    return float(ends[0]), float(ends[1])


def drawn(shape: tuple[int, ...], ends: tuple[float, float]) -> Any:
    """Numbers between the ends, which may be one."""
    return ends[0] + uniform(shape) * (ends[1] - ends[0])


class RandomFlip(_Random):
    """Half of the images mirrored: "horizontal", "vertical", or each by itself."""

    def __init__(
        self,
        mode: Literal["horizontal", "vertical", "horizontal_and_vertical"] = "horizontal_and_vertical",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.mode = mode

    def changed(self, x: Any) -> Any:
        for way, axis in (("vertical", 1), ("horizontal", 2)):
            if way in self.mode:
                x = n.where(uniform((x.shape[0], 1, 1, 1)) < 0.5, n.flip(x, axis=axis), x)
        return x


class RandomContrast(_Random):
    """mean + f · (x - mean) of each channel, f in 1 - factor … 1 + factor, within `value_range`."""

    def __init__(self, factor: Factor, value_range: Sequence[Finite] = (0, 255), **options: Any) -> None:
        super().__init__(**options)
        ends: Any = factor if np.ndim(factor) else (factor, factor)
        less, more = _pair("RandomContrast", "factor", ends)
        self.ends = _range("RandomContrast", "factor", (-less, more))
        self.value_range = _pair("RandomContrast", "value_range", value_range)

    def changed(self, x: Any) -> Any:
        factor = 1.0 + drawn((x.shape[0], 1, 1, 1), self.ends)
        mean = n.mean(x, axis=(1, 2), keepdims=True)
        return n.clip(mean + factor * (x - mean), *self.value_range)


class RandomBrightness(_Random):
    """x + f · (most - least) of `value_range`, f in -factor … factor, within that range."""

    def __init__(self, factor: Factor, value_range: Sequence[Finite] = (0, 255), **options: Any) -> None:
        super().__init__(**options)
        self.ends = _range("RandomBrightness", "factor", factor)
        self.value_range = _pair("RandomBrightness", "value_range", value_range)

    def changed(self, x: Any) -> Any:
        least, most = self.value_range
        return n.clip(x + drawn((x.shape[0], 1, 1, 1), self.ends) * (most - least), least, most)


class RandomCrop(_Random):
    """A part of this height and width, another place for each batch; in use the middle."""

    def __init__(self, height: Count, width: Count, **options: Any) -> None:
        super().__init__(**options)
        self.height, self.width = height, width

    def kept(self, inputs: Any) -> Any:
        return CenterCrop(self.height, self.width)(inputs)

    def changed(self, x: Any) -> Any:
        for axis, size in ((1, self.height), (2, self.width)):
            rest = x.shape[axis] - size
            if rest < 0:
                got, need = f"images {x.shape[1:3]}", f"at least {(self.height, self.width)}"
                raise ShapeError("RandomCrop", got=got, need=need, fix="layers.Resizing(height, width) before it")
            first = n.floor(uniform((), 0.0, rest + 1.0)).astype("int32")
            x = n.take(x, n.minimum(first, rest) + np.arange(size, dtype=np.int32), axis=axis)
        return x


def _mirrored(places: Any, size: int) -> Any:
    """… 2 1 0 | 0 1 2 … | size-1 size-2 …"""
    turn = places - 2 * size * n.floor(places / (2.0 * size))
    return n.minimum(turn, 2 * size - 1 - turn)


BEYOND: dict[str, Callable[[Any, int], Any]] = {
    "reflect": _mirrored,
    "wrap": lambda places, size: places - size * n.floor(places / size),
    "nearest": lambda places, size: n.clip(places, 0, size - 1),
    "constant": lambda places, size: n.clip(places, 0, size - 1),
}


def sampled(x: Any, rows: Any, columns: Any, fill_mode: str, fill_value: float, interpolation: str) -> Any:
    """x[b, row, column, c] at rows[b, h, w] and columns[b, h, w], which are no whole numbers."""
    batch, height, width, channels = x.shape
    flat = n.reshape(x, (batch * height * width, channels))
    base = np.arange(batch, dtype=np.float32).reshape(batch, 1, 1) * (height * width)

    def pixels(row: Any, column: Any) -> Any:
        places = base + BEYOND[fill_mode](row, height) * width + BEYOND[fill_mode](column, width)
        taken = n.take(flat, places.astype("int32"), axis=0)
        if fill_mode != "constant":
            return taken
        inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
        return n.where(n.expand_dims(inside, -1), taken, fill_value)

    if interpolation == "nearest":
        return pixels(n.floor(rows + 0.5), n.floor(columns + 0.5))
    top, left = n.floor(rows), n.floor(columns)
    down, right = n.expand_dims(rows - top, -1), n.expand_dims(columns - left, -1)
    upper = pixels(top, left) * (1 - right) + pixels(top, left + 1) * right
    lower = pixels(top + 1, left) * (1 - right) + pixels(top + 1, left + 1) * right
    return upper * (1 - down) + lower * down


@checked
class _Moved(_Random):
    """Images whose pixels come from elsewhere."""

    def __init__(
        self, fill_mode: Fill = "reflect", interpolation: Interpolation = "bilinear", seed: int | None = None,
        fill_value: Finite = 0.0, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(seed=seed, **options)
        self.fill_mode, self.interpolation, self.fill_value = fill_mode, interpolation, fill_value

    def changed(self, x: Any) -> Any:
        batch, height, width, _ = x.shape
        middle = (height - 1) / 2, (width - 1) / 2
        down = np.arange(height, dtype=np.float32).reshape(1, height, 1) - np.float32(middle[0])
        right = np.arange(width, dtype=np.float32).reshape(1, 1, width) - np.float32(middle[1])
        rows, columns = self.sources(batch, (height, width), down, right)
        whole = n.zeros((batch, height, width))
        rows, columns = whole + rows + middle[0], whole + columns + middle[1]
        return sampled(x, rows, columns, self.fill_mode, self.fill_value, self.interpolation)

    def sources(self, batch: int, sizes: tuple[int, int], down: Any, right: Any) -> tuple[Any, Any]:
        """Where the pixels `down` and `right` of the middle come from, from there too."""
        raise NotImplementedError


class RandomRotation(_Moved):
    """Images turned about their middle, by up to `factor` of a whole turn either way.

    >>> from nnc import keras
    >>> keras.layers.RandomRotation(0.1)(n.ones((2, 8, 8, 3)), training=True).shape
    (2, 8, 8, 3)
    """

    def __init__(self, factor: Factor, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ends = _range("RandomRotation", "factor", factor)

    def sources(self, batch: int, sizes: tuple[int, int], down: Any, right: Any) -> tuple[Any, Any]:
        angle = drawn((batch, 1, 1), self.ends) * (2 * math.pi)
        sine, cosine = n.sin(angle), n.cos(angle)
        return sine * right + cosine * down, cosine * right - sine * down


class RandomZoom(_Moved):
    """Images smaller (a positive factor) or larger about their middle; without `width_factor` both sides alike."""

    def __init__(self, height_factor: Factor, width_factor: Factor | None = None, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rows = _range("RandomZoom", "height_factor", height_factor)
        self.columns = None if width_factor is None else _range("RandomZoom", "width_factor", width_factor)

    def sources(self, batch: int, sizes: tuple[int, int], down: Any, right: Any) -> tuple[Any, Any]:
        tall = 1.0 + drawn((batch, 1, 1), self.rows)
        wide = tall if self.columns is None else 1.0 + drawn((batch, 1, 1), self.columns)
        return tall * down, wide * right


class RandomTranslation(_Moved):
    """Images moved by up to these shares of their height and width, down and right where positive."""

    def __init__(self, height_factor: Factor, width_factor: Factor, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rows = _range("RandomTranslation", "height_factor", height_factor)
        self.columns = _range("RandomTranslation", "width_factor", width_factor)

    def sources(self, batch: int, sizes: tuple[int, int], down: Any, right: Any) -> tuple[Any, Any]:
        rows, columns = drawn((batch, 1, 1), self.rows), drawn((batch, 1, 1), self.columns)
        return down - rows * sizes[0], right - columns * sizes[1]
