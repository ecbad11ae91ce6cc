"""What two texts differ in."""

from __future__ import annotations

from nnc.parallel.messages.differences import SHOWN_BEFORE, SHOWN_BEHIND, first_difference


def test_the_first_other_line_is_told_from_a_few_letters_before_what_differs() -> None:
    assert first_difference("Dense(2)\nDropout(0.1)\na", "Dense(2)\nDropout(0.4)\nb") == (
        "Dropout(0.1)",
        "Dropout(0.4)",
    )
    assert first_difference("a", "a\nb") == ("", "b")
    same, long = "x" * 500, "y" * 500
    assert first_difference(f"{same}1{long}", f"{same}2{long}") == tuple(
        "x" * SHOWN_BEFORE + digit + "y" * (SHOWN_BEHIND - 1) for digit in "12"
    )
