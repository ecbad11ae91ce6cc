"""Images and series as data sets under Keras' names: `image_dataset_from_directory`, `load_img` and their like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Probability, Seed, Size, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.reading import opened
from nnc.core.precautions.replacement import reason_of
from nnc.core.values.dtype import AnyDType, dtype_of
from nnc.errors import ArgumentError, DataError, FormatError
from nnc.keras.metric_states import plain, real
from nnc.keras.utils.batched_data import Dataset
from nnc.nn.data.arrow import extra_module
from nnc.nn.data.images import read_image

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")
CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
Filter = Literal["nearest", "bilinear", "bicubic", "lanczos", "hamming", "box"]
Mode = Literal["grayscale", "rgb", "rgba"]


@checked
def img_to_array(img: Any, data_format: str | None = None, dtype: AnyDType = "float32") -> NDArray[Any]:
    """The pixels [height, width, channels] of a picture of Pillow's, or of an array."""
    with np.errstate(over="ignore", invalid="ignore"):
        pixels = real(img).astype(dtype_of(dtype).numpy)
    return pixels[..., None] if pixels.ndim == 2 else pixels


@checked
def array_to_img(x: Any, data_format: str | None = None, scale: bool = True, dtype: str | None = None) -> Any:
    """A picture of Pillow's; with `scale` from the least to the largest number."""
    pixels = real(x).astype(np.float64)
    if pixels.ndim != 3 or pixels.shape[-1] not in (1, 3, 4) or not pixels.size:
        raise DataError("array_to_img", got=f"shape {pixels.shape}", need="[height, width, 1, 3 or 4 channels]")
    with np.errstate(all="ignore"):
        if scale:
            pixels = pixels - pixels.min()
            pixels = pixels * (255 / (pixels.max() or 1.0))
        whole = pixels.astype(np.uint8)
    return extra_module("PIL.Image").fromarray(whole[..., 0] if whole.shape[-1] == 1 else whole)


@checked
def load_img(
    path: Path | str, color_mode: Mode = "rgb", target_size: Sequence[Count] | None = None,
    interpolation: Filter = "nearest", keep_aspect_ratio: bool = False,
) -> Any:  # fmt: skip
    """A picture of Pillow's from a file, of `target_size` (height, width); FormatError where there is none."""
    pillow = extra_module("PIL.Image")
    size = None if target_size is None else _sides("load_img", target_size)
    with opened(path, "an image"), _read(path), pillow.open(path) as file:
        img = file.convert({"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}[color_mode])
        return img if size is None else img.resize(size[::-1], pillow.Resampling[interpolation.upper()])


def _sides(subject: str, size: Sequence[int]) -> tuple[int, int]:
    """(height, width)"""
    if len(size) != 2:
        raise ArgumentError(subject, got=f"{len(size)} sizes", need="(height, width)", origin=caller_origin())
    return int(size[0]), int(size[1])


@contextmanager
def _read(path: Path | str) -> Iterator[None]:
    """FormatError for what Pillow does not read or write."""
    try:
        yield
    except (OSError, SyntaxError, ValueError, OverflowError, MemoryError) as error:
        got = reason_of(error) if isinstance(error, OSError) and error.strerror else str(error)
        raise FormatError(str(path), got=got, need="an image that Pillow reads") from None


@checked
def save_img(path: Path | str, x: Any, scale: bool = True, **unused: Any) -> None:
    """Write an array as a picture."""
    img = array_to_img(x, scale=scale)
    with _read(path):
        img.save(path)


@checked
def image_dataset_from_directory(
    directory: Path | str,
    labels: Any = "inferred",
    label_mode: Literal["int", "categorical", "binary"] | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: Mode = "rgb",
    batch_size: Count | None = 32,
    image_size: Sequence[Count] = (256, 256),
    shuffle: bool = True,
    seed: Seed | None = None,
    validation_split: Probability | None = None,
    subset: Literal["training", "validation", "both"] | None = None,
    interpolation: str = "bilinear",
    **unused: Any,
) -> Any:
    """Batches (images, labels) of a folder that has a folder for each class; images are f32, 0 to 255.

    Files are shuffled by `seed` before `validation_split` parts them, so that both subsets are those of one order.
    """
    folder = Path(directory)
    names = sorted(part.name for part in folder.iterdir() if part.is_dir()) if folder.is_dir() else []
    names = list(class_names) if class_names is not None else names
    if labels is None:
        names = [""]
    rows = [
        (path, place)
        for place, name in enumerate(names)
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in ENDINGS
    ]
    if not rows:
        raise DataError("image_dataset_from_directory", got=f"{folder}", need="folders of images, one for each class")
    if (validation_split is None) != (subset is None):
        need = "validation_split and subset both, or neither"
        raise ArgumentError("image_dataset_from_directory", got="one", need=need, origin=caller_origin())
    if isinstance(labels, list | tuple):
        if len(labels) != len(rows):
            got, need = f"{len(labels)} labels", f"one for each of {len(rows)} images"
            raise DataError("image_dataset_from_directory", got=got, need=need, origin=caller_origin())
        rows = [(path, own) for (path, _), own in zip(rows, labels, strict=True)]
    if shuffle:
        order = np.random.default_rng(0 if seed is None else seed).permutation(len(rows))
        rows = [rows[place] for place in order]
    made = [
        _images(part, names, None if labels is None else label_mode, color_mode, batch_size, image_size, part_shuffled)
        for part, part_shuffled in _parts(rows, validation_split, subset, shuffle)
    ]
    return made[0] if len(made) == 1 else tuple(made)


def _parts(rows: list[Any], share: float | None, subset: str | None, shuffle: bool) -> list[tuple[list[Any], bool]]:
    if share is None:
        return [(rows, shuffle)]
    cut = len(rows) - int(share * len(rows))
    both = [(rows[:cut], shuffle), (rows[cut:], False)]
    return both if subset == "both" else [both[subset == "validation"]]


def _images(
    rows: list[Any], names: list[str], label_mode: str | None, color_mode: Mode, batch_size: int | None,
    image_size: Sequence[int], shuffle: bool,
) -> Dataset:  # fmt: skip
    size = _sides("image_dataset_from_directory", image_size)

    def row(path: Path, place: int) -> Any:
        pixels = plain(read_image(path, size, channels=CHANNELS[color_mode])).astype(np.float32)
        if label_mode is None:
            return pixels
        if label_mode == "categorical":
            return pixels, np.eye(len(names), dtype=np.float32)[place]
        return pixels, np.array([place], np.float32) if label_mode == "binary" else np.int32(place)

    data = Dataset(lambda: iter(rows), len(rows), names if label_mode else None)
    data = data.shuffle(len(rows)) if shuffle else data
    data = data.map(row)
    return data if batch_size is None else data.batch(batch_size)


@checked
def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: Count,
    sequence_stride: Count = 1,
    sampling_rate: Count = 1,
    batch_size: Count | None = 128,
    shuffle: bool = False,
    seed: Seed | None = None,
    start_index: Size | None = None,
    end_index: Size | None = None,
) -> Dataset:
    """Batches of windows data[i], data[i + rate], …, with the target at i, for i = 0, stride, 2 · stride, …

    >>> from nnc import keras
    >>> batches = keras.utils.timeseries_dataset_from_array(np.arange(6), np.arange(6) * 10, sequence_length=3)
    >>> [(x.tolist(), y.tolist()) for x, y in batches]
    [([[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]], [0, 10, 20, 30])]
    """
    series, wanted = np.atleast_1d(plain(data)), None if targets is None else np.atleast_1d(plain(targets))
    first = start_index or 0
    last = len(series) if end_index is None else min(end_index, len(series))
    reach = (sequence_length - 1) * sampling_rate
    count = last - first - reach
    if wanted is not None:
        count = min(count, len(wanted))
    if count < 1:
        got = f"{len(series)} rows, sequence_length={sequence_length}"
        raise DataError("timeseries_dataset_from_array", got=got, need="one window at least", origin=caller_origin())
    starts = np.arange(first, first + count, min(sequence_stride, count))
    rows = series[starts[:, None] + np.arange(0, reach + 1, sampling_rate)]
    made = Dataset.from_tensor_slices(rows if wanted is None else (rows, wanted[starts - first]))
    made = made.shuffle(len(rows), seed) if shuffle else made
    return made if batch_size is None else made.batch(batch_size)
