"""Folders of images: classes, sizes, errors with the file's name, and changes that a generator decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnc.errors import ArgumentError, DataError, FormatError, ShapeError
from nnc.nn.data import Augmentation, Brightness, Crop, DataFrame, Flip, ImageFolder, Normalized, read_image

pillow = pytest.importorskip("PIL.Image", reason="the extra data is not installed")

IMAGE = np.linspace(0, 1, 4 * 6 * 3, dtype=np.float32).reshape(4, 6, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two cats of other sizes and modes, and a dog."""
    for place, (name, mode, size) in enumerate(
        [("cat/a.png", "RGB", (8, 6)), ("cat/b.PNG", "L", (4, 4)), ("dog/c.png", "RGBA", (8, 6))]
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pillow.new(mode, size, 100 * place if mode == "L" else (100 * place,) * len(mode)).save(path)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_is_a_class(folder: Path) -> None:
    images = ImageFolder(folder, (6, 8))
    assert (images.classes, images.labels.tolist()) == (("cat", "dog"), [0, 0, 1])
    (batch,) = DataFrame.from_items(images).batch(3)
    assert (batch["image"].shape, batch["image"].dtype, batch["label"].dtype) == ((3, 6, 8, 3), np.float32, np.int32)
    np.testing.assert_allclose(batch["image"][:, 0, 0, 0], [0, 100 / 255, 200 / 255])
    assert [Path(path).name for path in batch["path"]] == ["a.png", "b.PNG", "c.png"]
    assert ImageFolder(folder, (6, 8)).part([2]).classes == ("cat", "dog")
    assert read_image(folder / "cat" / "a.png", channels=1).shape == (6, 8, 1)


def test_a_part_of_the_images_keeps_labels(folder: Path) -> None:
    part = ImageFolder(folder, (2, 2)).part([2, 0])
    assert [(row["label"], Path(row["path"]).name) for row in DataFrame.from_items(part)] == [
        (1, "c.png"),
        (0, "a.png"),
    ]


def test_an_image_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "dog" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    frame = DataFrame.from_items(ImageFolder(folder, (6, 8))).batch(4)
    with pytest.raises(FormatError, match=r"dog/bad\.png: .*need an image"):
        list(frame)
    (folder / "dog" / "bad.png").unlink()
    with pytest.raises(FormatError, match=r"dog/bad\.png: got no such file"):
        read_image(folder / "dog" / "bad.png")
    whole = (folder / "dog" / "c.png").read_bytes()
    (folder / "dog" / "c.png").write_bytes(whole[:-30])
    with pytest.raises(FormatError, match=r"dog/c\.png"):
        read_image(folder / "dog" / "c.png")


def test_a_folder_without_images_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no images; need a folder of images for each class"):
        ImageFolder(tmp_path, (2, 2))
    with pytest.raises(DataError, match="no such file"):
        ImageFolder(tmp_path / "absent", (2, 2))
    with pytest.raises(DataError, match="2 channels"):
        ImageFolder(tmp_path, (2, 2), channels=2)


def test_changes_are_what_their_generator_says() -> None:
    change = Augmentation(Flip(), Crop(2), Brightness(), Normalized())
    first, again, other = (change(IMAGE, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first.shape, first.dtype) == (IMAGE.shape, np.float32)


def test_each_change_does_what_it_says() -> None:
    random = np.random.default_rng(0)
    np.testing.assert_array_equal(Flip(1.0)(IMAGE, random), IMAGE[:, ::-1])
    np.testing.assert_array_equal(Flip(0.0)(IMAGE, random), IMAGE)
    windows = {Crop(size=(3, 3))(IMAGE, random)[0, 0].tobytes() for _ in range(60)}
    assert windows == {IMAGE[top, left].tobytes() for top in range(2) for left in range(4)}
    np.testing.assert_allclose(Normalized((0.0, 0.5, 1.0), 2.0)(IMAGE), (IMAGE - [0, 0.5, 1]) / 2, rtol=1e-6)
    bright = Brightness(0.5, 0.5)(IMAGE, random)
    assert bright.min() >= 0 <= bright.max() <= 1


def test_changes_refuse_what_they_cannot_do() -> None:
    with pytest.raises(ShapeError, match="got 4 × 6; need an image of at least 5 × 5"):
        Crop(size=(5, 5))(IMAGE, np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="probability"):
        Flip(1.5)


def test_random_changes_are_the_same_with_workers(folder: Path) -> None:
    def frame() -> DataFrame:
        images = DataFrame.from_items(ImageFolder(folder, (6, 8)), seed=5)
        return images.map("image", Augmentation(Flip(), Crop(2)), random=True).shuffle().repeat(4).batch(5)

    alone, together = frame(), frame().prefetch(2, workers=2)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one["image"], other["image"])
    together.close()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits_are_not_cut_off_at_white(tmp_path: Path, channels: int) -> None:
    pillow.fromarray(np.array([[0, 32768, 65535]], np.uint16)).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", channels=channels)[0, :, 0] * 255, [0, 128, 255])


def test_pixels_that_have_no_white_are_refused(tmp_path: Path) -> None:
    for name, pixels in (("f.tiff", np.float32([[0.25, 0.5]])), ("i.tiff", np.int32([[0, 1 << 20]]))):
        pillow.fromarray(pixels).save(tmp_path / name)
        with pytest.raises(FormatError, match=r"pixels of mode [FI] from 0.* to .*need an image of 8 or 16 bits"):
            read_image(tmp_path / name)


def test_few_bytes_of_very_many_pixels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "black.png"
    pillow.new("1", (9000, 9000)).save(path)
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match=r"243,000,000 numbers; need at most 67,[0-9,]+ in an image of its size"):
        read_image(path)
