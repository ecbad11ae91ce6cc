from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from nnc.errors import DataError
from nnc.nn.data import load_digits
from nnc.nn.data.digits import FILE, decode_digits

PACKED = resources.files("nnc.nn.data").joinpath(FILE).read_bytes()


def test_shapes_types_and_scale() -> None:
    for part, count in ((load_digits().train, 1437), (load_digits().test, 360)):
        assert part.inputs.shape == (count, 8, 8, 1)
        assert part.inputs.dtype == np.float32
        assert (part.inputs.min(), part.inputs.max()) == (0.0, 1.0)
        assert part.labels.shape == (count,)
        assert part.labels.dtype == np.int32
        assert part.classes == tuple("0123456789")


def test_pixels_are_sixteenths() -> None:
    sixteenths = load_digits().train.inputs * 16
    assert np.array_equal(sixteenths, np.rint(sixteenths))


def test_every_fifth_image_is_for_test() -> None:
    whole, split = decode_digits(PACKED), load_digits()
    assert np.array_equal(split.test.inputs, whole.inputs[::5])
    assert np.array_equal(split.test.labels, whole.labels[::5])
    rest = [index for index in range(1797) if index % 5]
    assert np.array_equal(split.train.inputs, whole.inputs[rest])
    assert np.array_equal(split.train.labels, whole.labels[rest])


def test_classes_are_as_counted_in_the_source() -> None:
    counts = np.bincount(decode_digits(PACKED).labels)
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_first_image_is_a_zero() -> None:
    whole = decode_digits(PACKED)
    assert whole.labels[0] == 0
    assert (whole.inputs[0, 0, :, 0] * 16).tolist() == [0, 0, 5, 13, 9, 1, 0, 0]


@pytest.mark.parametrize(
    "damaged",
    [b"", PACKED[:-1], PACKED[:1000], PACKED + b"\0", PACKED[:500] + bytes([PACKED[500] ^ 1]) + PACKED[501:]],
    ids=["empty", "cut", "short", "longer", "bit"],
)
def test_damaged_file(damaged: bytes) -> None:
    with pytest.raises(DataError, match=r"digits\.csv\.gz is damaged: got \d+ bytes .* install nnc again"):
        decode_digits(damaged)
