"""Block formats against what the `gguf` package 0.19 reads and writes: digests of its results on made-up bytes."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from nnc.core.values.blocks import FORMATS, BlockFormat, dequantize, format_of, quantize
from nnc.errors import DataError, DTypeError, ShapeError, UnknownNameError

# Elements and bytes of a block, and where the upper bytes of its f16 numbers are.
BLOCKS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "q8_0": (32, 34, (1,)),
    "q4_0": (32, 18, (1,)),
    "q4_1": (32, 20, (1, 3)),
    "q5_0": (32, 22, (1,)),
    "q5_1": (32, 24, (1, 3)),
    "q2_k": (256, 84, (81, 83)),
    "q3_k": (256, 110, (109,)),
    "q4_k": (256, 144, (1, 3)),
    "q5_k": (256, 176, (1, 3)),
    "q6_k": (256, 210, (209,)),
}
READ = {
    "q8_0": "8a956c63f00e3793",
    "q4_0": "3ad0c1dc1d9cd880",
    "q4_1": "a9df51837984c51e",
    "q5_0": "3e9ff5a7fc07c2f0",
    "q5_1": "96d4d227665c7c0f",
    "q2_k": "463323971af928b2",
    "q3_k": "c455c4145bbc7726",
    "q4_k": "298c9bf756f0b0a4",
    "q5_k": "14aee3026f928c6c",
    "q6_k": "fc99e817c1dc3168",
}
WRITTEN = {
    "q8_0": "bc1e44abf9e6e0cb",
    "q4_0": "c74f678e99364549",
    "q4_1": "3d8d68cdec54da68",
    "q5_0": "edc7e6d4cbeadc1c",
    "q5_1": "1b80f343ebea9e68",
}
# The root of the mean squared error of normal numbers, as a part of their deviation: without, and with importance 1.
ERRORS = {
    "q8_0": (0.0054, 0.0054), "q4_0": (0.087, 0.082), "q4_1": (0.079, 0.071), "q5_0": (0.044, 0.041),
    "q5_1": (0.039, 0.035), "q2_k": (0.28, 0.28), "q3_k": (0.155, 0.147), "q4_k": (0.073, 0.073),
    "q5_k": (0.037, 0.037), "q6_k": (0.0179, 0.0176),
}  # fmt: skip


def digest(x: NDArray[np.generic]) -> str:
    return hashlib.sha256(x.tobytes()).hexdigest()[:16]


def made_up_rows(name: str) -> NDArray[np.uint8]:
    """Any bytes, with f16 numbers below 2 in magnitude."""
    _, size, uppers = BLOCKS[name]
    blocks = np.random.default_rng(7).integers(0, 256, (3, 5, size), dtype=np.uint8)
    blocks[..., uppers] &= 0xBF
    return blocks.reshape(3, 5 * size)


def made_up_numbers() -> NDArray[np.float32]:
    """Normal numbers; a block of zeros, two of one number, one without negative numbers."""
    x = np.random.default_rng(8).standard_normal((16, 512)).astype(np.float32) * np.float32(0.05)
    x[1, :256], x[2, :256], x[3, :32] = 0, 0.1, -0.2
    x[4] = np.abs(x[4])
    return x


def test_the_formats_are_those_of_files() -> None:
    assert {name: (form.size, form.bytes) for name, form in FORMATS.items()} == {
        name: row[:2] for name, row in BLOCKS.items()
    }
    assert FORMATS["q4_k"] == BlockFormat("q4_k", 256, 144) == format_of("q4_k")
    assert FORMATS["q4_1"].row_bytes(576) == 360
    assert FORMATS["q4_1"].row_elements(360) == 576


@pytest.mark.parametrize("name", BLOCKS)
def test_rows_are_read_as_the_package_reads_them(name: str) -> None:
    assert digest(dequantize(made_up_rows(name), name)) == READ[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_rows_are_written_as_the_package_writes_them(name: str) -> None:
    assert digest(quantize(made_up_numbers(), name)) == WRITTEN[name]


@pytest.mark.parametrize("name", ERRORS)
def test_the_error_of_normal_numbers_is_small(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    for importance, most in zip((None, np.ones(1024)), ERRORS[name], strict=True):
        error = dequantize(quantize(x, name, importance), name) - x
        assert np.sqrt(np.square(error).mean()) <= most


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "q8_0"])
def test_what_is_important_is_nearer(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    importance = np.where(np.arange(256) % 16 == 3, 100.0, 1.0)
    plain, weighted = (dequantize(quantize(x, name, part), name) for part in (None, importance))
    errors = [np.square((y - x)[:, 3::16]).mean() for y in (plain, weighted)]
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("name", BLOCKS)
def test_what_was_read_is_written_so_that_it_reads_nearly_the_same(name: str) -> None:
    x = made_up_numbers()
    once = dequantize(quantize(x, name), name)
    assert not once[1, :256].any()
    assert np.isfinite(once).all()
    twice = dequantize(quantize(once, name), name)
    # Scales are searched anew: not the same bytes, but no second loss of the size of the first.
    assert np.square(twice - once).mean() <= 0.5 * np.square(once - x).mean() + 1e-12


@pytest.mark.parametrize("shape", [(0, 256), (3, 0), (2, 3, 512), (256,)])
@pytest.mark.parametrize("name", ["q4_0", "q4_k"])
def test_rows_of_any_shape(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float64)
    rows = quantize(x[..., ::-1], name)
    assert rows.shape == (*shape[:-1], FORMATS[name].row_bytes(shape[-1]))
    assert rows.dtype == np.uint8
    assert dequantize(rows, FORMATS[name]).shape == shape


def test_a_matrix_of_more_elements_than_are_computed_at_a_time_is_that_of_its_rows() -> None:
    x = np.random.default_rng(0).standard_normal((1030, 1024)).astype(np.float32)
    rows = quantize(x, "q4_1")
    assert np.array_equal(rows[-3:], quantize(x[-3:], "q4_1"))
    assert np.array_equal(dequantize(rows, "q4_1")[-3:], dequantize(rows[-3:], "q4_1"))


def test_what_is_no_row_is_told() -> None:
    with pytest.raises(ShapeError, match="q4_k: got rows of 576 elements; need a multiple of 256"):
        quantize(np.zeros((2, 576)), "q4_k")
    with pytest.raises(ShapeError, match="rows of 19 bytes; need a multiple of 18"):
        dequantize(np.zeros((2, 19), np.uint8), "q4_0")
    with pytest.raises(DTypeError, match="need u8"):
        dequantize(np.zeros((2, 18), np.int8), "q4_0")
    with pytest.raises(UnknownNameError, match="q9.*one of q8_0"):
        format_of("q9")
    with pytest.raises(ShapeError, match="a scalar"):
        quantize(np.array(1.0), "q4_0")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e9, 1e30])
@pytest.mark.parametrize("name", ["q8_0", "q4_1", "q4_k", "q6_k"])
def test_scales_beyond_f16_are_an_error(name: str, bad: float) -> None:
    x = np.zeros((1, 256), np.float32)
    x[0, 5] = bad
    with pytest.raises(DataError, match="finite"):
        quantize(x, name)
