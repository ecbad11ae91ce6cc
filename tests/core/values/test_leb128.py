from __future__ import annotations

import pytest

from nnc.core.values.leb128 import read_number, read_text


@pytest.mark.parametrize(
    ("code", "number", "end"),
    [(b"\x00", 0, 1), (b"\x7f", 127, 1), (b"\x80\x01", 128, 2), (b"\xe5\x8e\x26\xff", 624_485, 3)],
)
def test_a_number_ends_with_the_first_byte_below_128(code: bytes, number: int, end: int) -> None:
    assert read_number(code, 0) == (number, end)


def test_a_text_stands_behind_its_length() -> None:
    assert read_text(b"..\x03abcd", 2) == ("abc", 6)
