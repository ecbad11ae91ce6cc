"""Text comes in whole characters, and ends before what stops it wherever its tokens end."""

from __future__ import annotations

import pytest

from nnc.language.text.pieces import TextPieces, stopped


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")


@pytest.mark.parametrize("text", ["abc", "aé", "日本", "🎉x", "e\u0301", "\ufffd"])
def test_characters_come_when_they_are_whole(text: str) -> None:
    pieces = TextPieces(Bytes())
    parts = [pieces.push(byte) for byte in text.encode()]
    assert "".join(parts) + pieces.end() == text
    assert all("\ufffd" not in part for part in parts) or text == "\ufffd"


def test_bytes_that_never_become_a_character_come_at_the_end() -> None:
    pieces = TextPieces(Bytes())
    assert pieces.push(0xE6) == ""
    assert pieces.push(0x97) == ""
    assert pieces.end() == "\ufffd"
    assert pieces.end() == ""


@pytest.mark.parametrize(
    ("parts", "stops", "text"),
    [
        (["ab", "cd"], (), "abcd"),
        (["ab", "cd"], ("bc",), "a"),
        (["a", "b", "c"], ("abc",), ""),
        (["a", "b", "x"], ("abc",), "abx"),
        (["aab", "aac"], ("aac", "zz"), "aab"),
        (["xyz"], ("z", "y"), "x"),
        (["x", "e", "n"], ("end",), "xen"),
    ],
)
def test_a_text_that_stops_may_lie_across_pieces(parts: list[str], stops: tuple[str, ...], text: str) -> None:
    assert "".join(stopped(parts, stops)) == text


def test_what_cannot_be_a_stop_does_not_wait() -> None:
    assert list(stopped(["ab", "c"], ("zz",))) == ["ab", "c"]
