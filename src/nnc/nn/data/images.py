"""Folders of images, a class per folder, and what is done to an image at random while a model learns.

    folder = ImageFolder("pets", (64, 64))
    frame = DataFrame.from_items(folder).map("image", Augmentation(Flip(), Crop(4)), random=True)

Images are float32[height, width, channels] in 0..1. Pillow (the extra `data`) reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Positive, Probability, Rate, Size, checked, explained
from nnc.classes import dataclass
from nnc.core.precautions.reading import opened
from nnc.core.precautions.replacement import reason_of
from nnc.errors import DataError, FormatError, ShapeError
from nnc.nn.data.arrow import extra_module

Image: TypeAlias = NDArray[np.float32]
Change = Callable[[Image, np.random.Generator], Image]
SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
MOST = 2**16 - 1  # of pixels of 16 bits


@checked
class ImageFolder:
    """Items {image, label, path}: the images in `path`/CLASS/…, in order of class and name, scaled to `size`.

    Images are read when they are asked for; those that cannot be read are a DataError with the file's name.
    """

    def __init__(self, path: Path | str, size: tuple[Count, Count], *, channels: Count = 3) -> None:
        if channels not in MODES:
            raise DataError("images", got=f"{channels} channels", need="1, 3 or 4")
        self.folder, self.size, self.channels = Path(path), size, channels
        try:
            folders = [value for value in sorted(self.folder.iterdir()) if value.is_dir()]
        except (OSError, ValueError) as error:
            got = reason_of(error) if isinstance(error, OSError) else "a zero byte in the name"
            raise DataError(str(path), got=got, need="a folder with a folder per class") from None
        files = [
            (file, value.name)
            for value in folders
            for file in sorted(value.rglob("*"))
            if file.suffix.lower() in SUFFIXES
        ]
        self.classes = tuple(sorted({name for _, name in files}))
        if not files:
            raise DataError(str(path), got="no images", need="a folder of images for each class")
        places = {name: place for place, name in enumerate(self.classes)}
        self.paths = tuple(file for file, _ in files)
        self.labels = np.array([places[name] for _, name in files], np.int32)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> dict[str, Any]:
        path = self.paths[place]
        image = read_image(path, self.size, channels=self.channels)
        return {"image": image, "label": self.labels[place], "path": str(path)}

    def __repr__(self) -> str:
        return f"ImageFolder({str(self.folder)!r}: {len(self)} images of {len(self.classes)} classes)"

    def part(self, places: Sequence[int]) -> ImageFolder:
        """Some of the images, with all the classes."""
        chosen = ImageFolder.__new__(ImageFolder)
        vars(chosen).update(vars(self))
        chosen.paths = tuple(self.paths[place] for place in places)
        chosen.labels = self.labels[list(places)]
        return chosen


# Numbers of an image: 22 megapixels in three channels, and more where a file has as many bytes.
MOST_VALUES, VALUES_A_BYTE = 1 << 26, 32


@checked
def read_image(path: Path | str, size: tuple[Count, Count] | None = None, *, channels: Count = 3) -> Image:
    """[height, width, channels] in 0..1, scaled to `size` (height, width); DataError where it cannot be read."""
    pillow = extra_module("PIL.Image")
    try:
        with opened(path, "an image"), pillow.open(path) as file:
            _check_pixels(Path(path), file.width * file.height * channels)
            wide = file.mode[0] in "IF"
            picture = pillow.fromarray(_upper_bytes(file.mode, np.asarray(file))) if wide else file
            picture = picture.convert(MODES[channels])
            if size is not None and picture.size != size[::-1]:
                picture = picture.resize(size[::-1], pillow.Resampling.BILINEAR)
            pixels = np.asarray(picture, np.float32)
    except pillow.DecompressionBombError as error:
        raise DataError(str(path), got=str(error), need="an image of a usual size") from None
    except (OSError, SyntaxError, ValueError) as error:
        got = reason_of(error) if isinstance(error, OSError) and error.strerror else str(error)
        raise FormatError(str(path), got=got, need="an image of 8 or 16 bits that Pillow reads") from None
    pixels /= np.float32(255)
    return pixels.reshape(*pixels.shape[:2], channels)


def _check_pixels(path: Path, values: int) -> None:
    """DataError for a file that repeats few bytes: 0.5 MB may be 13,000 × 13,000 black pixels."""
    most = MOST_VALUES + VALUES_A_BYTE * path.stat().st_size
    if values > most:
        raise DataError(str(path), got=f"{values:,} numbers", need=f"at most {most:,} in an image of its size")


def _upper_bytes(mode: str, pixels: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Of 16 bits; Pillow's own conversion takes whatever is above 255 for white."""
    values = pixels.astype(np.float64)
    if mode == "F" or values.min() < 0 or values.max() > MOST:
        raise ValueError(f"pixels of mode {mode} from {values.min():g} to {values.max():g}")
    return (values // 256).astype(np.uint8)


@checked
@dataclass(frozen=True, slots=True)
class Flip:
    """Left and right change places, with this probability."""

    probability: Probability = 0.5

    @explained
    def __call__(self, image: Image, random: np.random.Generator) -> Image:
        return image[:, ::-1] if random.random() < self.probability else image


@checked
@dataclass(frozen=True, slots=True)
class Crop:
    """A window of the image's size, or of `size`, at a random place of the image with `padding` zeros around it."""

    padding: Size = 0
    size: tuple[Count, Count] | None = None

    @explained
    def __call__(self, image: Image, random: np.random.Generator) -> Image:
        height, width = self.size or image.shape[:2]
        wide = np.pad(image, ((self.padding,) * 2, (self.padding,) * 2, (0, 0)))
        room = wide.shape[0] - height, wide.shape[1] - width
        if min(room) < 0:
            need = f"an image of at least {height} × {width}"
            raise ShapeError("Crop", got=f"{wide.shape[0]} × {wide.shape[1]}", need=need)
        top, left = (int(random.integers(value + 1)) for value in room)
        return wide[top : top + height, left : left + width]


@checked
@dataclass(frozen=True, slots=True)
class Brightness:
    """Times 1 ± `contrast` around the mean, plus ± `brightness`, inside 0..1."""

    brightness: Rate = 0.1
    contrast: Rate = 0.1

    @explained
    def __call__(self, image: Image, random: np.random.Generator) -> Image:
        factor = np.float32(1 + random.uniform(-self.contrast, self.contrast))
        shift = np.float32(random.uniform(-self.brightness, self.brightness))
        middle = image.mean(dtype=np.float32)
        changed: Image = (image - middle) * factor + middle + shift
        return changed.clip(0, 1)


@checked
@dataclass(frozen=True, slots=True)
class Normalized:
    """(image - mean) / deviation, for each channel or for all alike. Nothing of it is random."""

    mean: float | tuple[float, ...] = 0.5
    deviation: Positive | tuple[Positive, ...] = 0.5

    @explained
    def __call__(self, image: Image, random: np.random.Generator | None = None) -> Image:
        mean, deviation = (np.asarray(value).astype(np.float32) for value in (self.mean, self.deviation))
        result: Image = (image - mean) / deviation
        return result


@checked
class Augmentation:
    """Changes one after the other, each by the generator of the image: `map("image", Augmentation(…), random=True)`."""

    def __init__(self, *changes: Change) -> None:
        self.changes = changes

    @explained
    def __call__(self, image: Image, random: np.random.Generator) -> Image:
        """The image after all of them."""
        for change in self.changes:
            image = change(image, random)
        return image
