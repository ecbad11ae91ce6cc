"""Pooling, borders and sizes of images under Keras' names, over [batch, spatial…, channels]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from nnc import numerics as n
from nnc.arguments import Count, Size
from nnc.errors import ArgumentError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float
from nnc.keras.layers.spatial import Sizes, SpatialLayer, check_format, in_rows, per_axis, window_over
from nnc.keras.named import refused
from nnc.ops import average_pool, max_pool, upsample

__all__ = [
    "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "Cropping1D", "Cropping2D", "Cropping3D",
    "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalMaxPooling1D",
    "GlobalMaxPooling2D", "GlobalMaxPooling3D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "UpSampling1D",
    "UpSampling2D", "UpSampling3D", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D",
]  # fmt: skip

Border: TypeAlias = Size | Sequence[Size | Sequence[Size]]


class _Pooling(SpatialLayer):
    pool: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Literal["valid", "same", "VALID", "SAME"] = "valid",
        data_format: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        kind = type(self).__name__
        check_format(kind, data_format)
        self.pool_size = per_axis(kind, "pool_size", pool_size, self.rank)
        self.strides = self.pool_size if strides is None else per_axis(kind, "strides", strides, self.rank)
        self.padding = padding.lower()

    def call(self, inputs: Any) -> Any:
        """Pool each window."""
        if self.rank > 1:
            return self._over(as_float(inputs), self.pool_size, self.strides)
        return in_rows(as_float(inputs), lambda x: self._over(x, (1, *self.pool_size), (1, *self.strides)))

    def _over(self, x: Any, extents: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        window = window_over(x.shape[1:-1], extents, strides, self.padding)
        return type(self).pool(x, extents, window)


class _MaxPooling(_Pooling):
    pool = staticmethod(max_pool)


class _AveragePooling(_Pooling):
    pool = staticmethod(average_pool)


class MaxPooling1D(_MaxPooling, rank=1):
    """The largest of `pool_size` steps."""


class MaxPooling2D(_MaxPooling, rank=2):
    """The largest element of each window.

    >>> from nnc import keras
    >>> keras.layers.MaxPooling2D((2, 2))(n.ones((2, 8, 8, 3))).shape
    (2, 4, 4, 3)
    """


class MaxPooling3D(_MaxPooling, rank=3):
    """The largest element of each window over depth, height and width."""


class AveragePooling1D(_AveragePooling, rank=1):
    """The mean of `pool_size` steps."""


class AveragePooling2D(_AveragePooling, rank=2):
    """The mean of each window; a border does not count."""


class AveragePooling3D(_AveragePooling, rank=3):
    """The mean of each window over depth, height and width."""


class _GlobalPooling(SpatialLayer):
    def __init__(self, data_format: str | None = None, keepdims: bool = False, **options: Any) -> None:
        super().__init__(**options)
        check_format(type(self).__name__, data_format)
        self.keepdims = keepdims

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes."""
        return tuple(range(1, 1 + self.rank))


class GlobalAveragePooling1D(_GlobalPooling, rank=1):
    """The mean over all steps, over those that are real where there is a mask."""

    def call(self, inputs: Any, mask: Any = None) -> Any:
        x = as_float(inputs)
        if mask is None:
            return n.mean(x, axis=self.axes, keepdims=self.keepdims)
        real = n.expand_dims(mask.astype(x.dtype), -1)
        return n.sum(x * real, axis=1, keepdims=self.keepdims) / n.sum(real, axis=1, keepdims=self.keepdims)


class GlobalAveragePooling2D(_GlobalPooling, rank=2):
    """The mean over height and width."""

    def call(self, inputs: Any) -> Any:
        return n.mean(as_float(inputs), axis=self.axes, keepdims=self.keepdims)


class GlobalAveragePooling3D(GlobalAveragePooling2D, rank=3):
    """The mean over depth, height and width."""


class GlobalMaxPooling1D(_GlobalPooling, rank=1):
    """The largest element over all steps."""

    def call(self, inputs: Any) -> Any:
        return n.max(inputs, axis=self.axes, keepdims=self.keepdims)


class GlobalMaxPooling2D(GlobalMaxPooling1D, rank=2):
    """The largest element over height and width."""


class GlobalMaxPooling3D(GlobalMaxPooling1D, rank=3):
    """The largest element over depth, height and width."""


def _borders(subject: str, given: Border, rank: int) -> tuple[tuple[int, int], ...]:
    """(before, behind) of each axis: of one number for all, of one for each, or of pairs."""
    parts: Any = given if hasattr(given, "__len__") else (given,) * rank
    if rank == 1 and len(parts) == 2 and not any(hasattr(part, "__len__") for part in parts):
        parts = (parts,)
    pairs = [tuple(part) if hasattr(part, "__len__") else (part, part) for part in parts]
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ArgumentError(subject, got=f"{given!r}", need=f"a number, or {rank} numbers or pairs")
    return tuple((int(before), int(behind)) for before, behind in pairs)


class _ZeroPadding(SpatialLayer):
    def __init__(self, padding: Border = 1, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        check_format(type(self).__name__, data_format)
        self.padding = _borders(type(self).__name__, padding, self.rank)

    def call(self, inputs: Any) -> Any:
        return n.pad(inputs, ((0, 0), *self.padding, (0, 0)))


class ZeroPadding1D(_ZeroPadding, rank=1):
    """Zeros before and behind the steps."""


class ZeroPadding2D(_ZeroPadding, rank=2):
    """Zeros around images: a number, (height, width), or ((top, bottom), (left, right))."""


class ZeroPadding3D(_ZeroPadding, rank=3):
    """Zeros around depth, height and width."""


class _Cropping(SpatialLayer):
    def __init__(self, cropping: Border = 1, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        check_format(type(self).__name__, data_format)
        self.cropping = _borders(type(self).__name__, cropping, self.rank)

    def call(self, inputs: Any) -> Any:
        places = [slice(before, size - behind) for (before, behind), size in zip(self.cropping, inputs.shape[1:])]
        return inputs[(slice(None), *places)]


class Cropping1D(_Cropping, rank=1):
    """Steps without the first and last ones."""


class Cropping2D(_Cropping, rank=2):
    """Images without their borders."""


class Cropping3D(_Cropping, rank=3):
    """Volumes without their borders."""


class UpSampling3D(Layer):
    """Depth, height and width, each element `size` times."""

    dimensions = 5

    def __init__(self, size: Sizes = 2, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        check_format("UpSampling3D", data_format)
        self.size = per_axis("UpSampling3D", "size", size, 3)

    def call(self, inputs: Any) -> Any:
        for axis, times in enumerate(self.size, 1):
            inputs = n.repeat(inputs, times, axis=axis)
        return inputs


class UpSampling1D(Layer):
    """Each step `size` times."""

    dimensions = 3

    def __init__(self, size: Count = 2, **options: Any) -> None:
        super().__init__(**options)
        self.size = size

    def call(self, inputs: Any) -> Any:
        return n.repeat(inputs, self.size, axis=1)


class UpSampling2D(Layer):
    """`size` times the height and width, by "nearest" or "bilinear" interpolation."""

    dimensions = 4

    def __init__(
        self, size: Sizes = 2, data_format: str | None = None, interpolation: str = "nearest", **options: Any
    ) -> None:
        super().__init__(**options)
        check_format("UpSampling2D", data_format)
        if interpolation not in ("nearest", "bilinear"):
            raise refused("UpSampling2D", "interpolation", interpolation, 'interpolation="bilinear" or "nearest"')
        self.size, self.interpolation = per_axis("UpSampling2D", "size", size, 2), interpolation

    def call(self, inputs: Any) -> Any:
        x = as_float(inputs)
        return upsample(x, (x.shape[1] * self.size[0], x.shape[2] * self.size[1]), self.interpolation)
