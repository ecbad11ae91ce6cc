"""Rows of packed sequences hold each token that is learned once, in few rows."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import DataError
from nnc.language.tuning.row_packing import UNCOUNTED, packed_rows, paired_answers
from nnc.language.tuning.training_text import Preference, TokenSequence


def sequence(size: int, first: int = 0, learned_from: int = 0) -> TokenSequence:
    tokens = np.arange(first, first + size, dtype=np.int32)
    return TokenSequence(tokens, np.arange(size) >= learned_from)


def test_each_sequence_lies_whole_in_a_row_and_labels_are_what_follows() -> None:
    sizes = [9, 3, 5, 2, 7, 3]
    made = packed_rows([sequence(size, 100 * number) for number, size in enumerate(sizes)], 8)
    assert made.tokens.shape == (3, 8)
    counted = made.labels != UNCOUNTED
    assert (made.labels[counted] == made.tokens[counted] + 1).all()
    assert made.counted == sum(sizes) - len(sizes)
    for row in range(len(made.tokens)):
        for start in np.unique(made.starts[row][counted[row]]):
            own = made.tokens[row][(made.starts[row] == start) & counted[row]]
            assert own[0] % 100 == 0
            assert (np.diff(own) == 1).all()
    # Places that hold nothing are sequences of their own.
    columns = np.broadcast_to(np.arange(8), made.starts.shape)
    assert (made.starts[~counted] == columns[~counted]).all()


def test_what_is_longer_is_cut_or_goes_on() -> None:
    cut = packed_rows([sequence(20), sequence(4, learned_from=4)], 8)
    assert (cut.cut, cut.empty, len(cut.tokens)) == (1, 1, 1)
    whole = packed_rows([sequence(20)], 8, whole=True)
    assert sorted(whole.labels[whole.labels >= 0].tolist()) == list(range(1, 20))


def test_labels_of_what_is_not_learned_do_not_count() -> None:
    made = packed_rows([sequence(6, learned_from=4)], 8)
    assert made.labels[0].tolist() == [UNCOUNTED] * 3 + [4, 5] + [UNCOUNTED] * 3


def test_nothing_to_learn_is_an_error() -> None:
    with pytest.raises(DataError, match="1 examples of which nothing is learned within 8 tokens"):
        packed_rows([sequence(20, learned_from=12)], 8)
    with pytest.raises(DataError, match="preference 2, of which no answer"):
        paired_answers(
            [Preference(sequence(4), sequence(5)), Preference(sequence(4), sequence(20, learned_from=12))], 8
        )


def test_pairs_are_filled_up_behind() -> None:
    made = paired_answers([Preference(sequence(4), sequence(12, 20, learned_from=3))], 8)
    assert made.tokens[0].tolist() == [[0, 1, 2, 0, 0, 0, 0, 0], [20, 21, 22, 23, 24, 25, 26, 27]]
    assert made.labels[0, 1].tolist() == [UNCOUNTED] * 2 + [23, 24, 25, 26, 27, 28]
    assert made.cut == 1


def test_many_sequences_leave_little_room() -> None:
    sizes = np.random.default_rng(0).integers(2, 40, 3000)
    made = packed_rows([sequence(int(size)) for size in sizes], 64)
    assert made.counted / made.labels.size > 0.98
