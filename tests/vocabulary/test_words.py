"""Arguments under another project's name."""

from __future__ import annotations

import pytest

from nnc.vocabulary.words import ARGUMENTS, WORDS, parameters_of, translated, unknown_argument


def test_words_stand_for_ours_where_the_function_has_them() -> None:
    assert translated({"dim": 1, "keepdim": True}, ("axis", "keepdims")) == {"axis": 1, "keepdims": True}
    assert translated({"dim": 1}, ("dim", "axis")) is None
    assert translated({"dim": 1, "axis": 2}, ("axis",)) is None
    assert translated({"axis": 1}, ("axis",)) is None
    assert translated({"nothing": 1}, ("axis",)) is None


@pytest.mark.parametrize("word", sorted({*ARGUMENTS, *WORDS}))
def test_each_word_is_answered(word: str) -> None:
    ours = WORDS.get(word, ("axis",))[0]
    error = unknown_argument("f", {word: 1}, (ours,))
    assert error is not None
    assert str(error).startswith(f"f: got {word}=; need {ours}. Fix: ")


def test_what_is_like_one_of_ours_is_named() -> None:
    error = unknown_argument("f", {"axes": 1}, ("self", "axis"))
    assert str(error) == "f: got axes=; need axis. Fix: axis="
    assert str(unknown_argument("f", {"q": 1}, ())) == "f: got q=; need no arguments"
    assert unknown_argument("f", {"axis": 1}, ("axis",)) is None


def test_parameters_are_read_of_plain_functions() -> None:
    def function(a: int, /, b: int, *, c: int) -> int:
        twice = c * 2
        return a + b + twice

    assert parameters_of(function) == ("b", "c")
    assert parameters_of(len) == ()


def test_idle_words_are_left_out() -> None:
    assert translated({"static_argnums": 1, "dim": 2}, ("axis",), "compile") == {"axis": 2}
    assert translated({"static_argnums": 1}, ("axis",), "other") is None
    assert translated({"inplace": True}, ("inplace",), "relu") is None
