from __future__ import annotations

import pytest

from nnc.core.values.leb128 import read_number, read_text, written_number


@pytest.mark.parametrize(
    ("code", "number", "end"),
    [(b"\x00", 0, 1), (b"\x7f", 127, 1), (b"\x80\x01", 128, 2), (b"\xe5\x8e\x26\xff", 624_485, 3)],
)
def test_a_number_ends_with_the_first_byte_below_128(code: bytes, number: int, end: int) -> None:
    assert read_number(code, 0) == (number, end)


def test_a_text_stands_behind_its_length() -> None:
    assert read_text(b"..\x03abcd", 2) == ("abc", 6)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 624_485, 2**32 - 1, 2**63])
def test_what_is_written_is_read(number: int) -> None:
    content = written_number(number)
    assert read_number(b"?" + content + b"\xff", 1) == (number, 1 + len(content))
