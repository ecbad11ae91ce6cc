"""Sequences of tokens as rows of one length, several in a row where they fit: what a step of training reads.

    tokens[r, t], starts[r, t]   the token, and where its sequence begins in the row: none sees another
    labels[r, t]                 the token that follows in its sequence, UNCOUNTED where none is learned

A place without a token holds 0 and is a sequence of its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.errors import DataError
from nnc.language.tuning.training_text import Preference, TokenSequence

UNCOUNTED = -100
Integers = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class PackedSequences:
    """Rows to train on; of how many sequences the end was `cut` off, and how many had nothing to learn left."""

    tokens: Integers
    starts: Integers
    labels: Integers
    cut: int = 0
    empty: int = 0

    @property
    def counted(self) -> int:
        """Tokens that are learned."""
        return int((self.labels >= 0).sum())


@dataclass(frozen=True, slots=True, eq=False)
class PairedAnswers:
    """tokens[n, 2, t] and labels[n, 2, t] of answers, the preferred one first, filled up behind."""

    tokens: Integers
    labels: Integers
    cut: int = 0


def packed_rows(sequences: Sequence[TokenSequence], length: int, *, whole: bool = False) -> PackedSequences:
    """Rows of `length` places, in few of which nothing lies: the longest first, each where it leaves the least room.

    What is longer is cut off behind; or, of `whole` texts, goes on in further sequences.
    """
    parts: list[TokenSequence] = []
    cut = empty = 0
    for sequence in sequences:
        # The last token is read by nobody: it is the label of the one before.
        begins = range(0, max(len(sequence) - 1, 1), length) if whole else range(1)
        pieces = [_part(sequence, begin, length) for begin in begins]
        cut += not whole and len(sequence) > length + 1
        kept = [piece for piece in pieces if piece.learned[1:].any()]
        empty += not kept
        parts += kept
    if not parts:
        got = f"{len(sequences)} examples of which nothing is learned within {length} tokens"
        raise DataError("finetune", got=got, need="tokens to learn", fix="a larger context")
    rows = _fitted([len(part) - 1 for part in parts], length)
    tokens = np.zeros((len(rows), length), np.int32)
    starts = np.tile(np.arange(length, dtype=np.int32), (len(rows), 1))
    labels = np.full((len(rows), length), UNCOUNTED, np.int32)
    for number, row in enumerate(rows):
        place = 0
        for part in (parts[index] for index in row):
            stop = place + len(part) - 1
            tokens[number, place:stop], starts[number, place:stop] = part.tokens[:-1], place
            labels[number, place:stop] = np.where(part.learned[1:], part.tokens[1:], UNCOUNTED)
            place = stop
    return PackedSequences(tokens, starts, labels, cut, empty)


def _part(sequence: TokenSequence, start: int, length: int) -> TokenSequence:
    stop = start + length + 1
    return TokenSequence(sequence.tokens[start:stop], sequence.learned[start:stop])


def _fitted(sizes: Sequence[int], length: int) -> list[list[int]]:
    """Numbers of sequences by row: best fit decreasing."""
    rows: list[list[int]] = []
    # Rows by the room that they have left, and by number.
    rooms: list[tuple[int, int]] = []
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        place = bisect_left(rooms, (sizes[index], 0))
        if place < len(rooms):
            room, row = rooms.pop(place)
        else:
            room, row = length, len(rows)
            rows.append([])
        rows[row].append(index)
        insort(rooms, (room - sizes[index], row))
    return rows


def paired_answers(preferences: Sequence[Preference], length: int) -> PairedAnswers:
    """Both answers of each, cut to `length` places; DataError where nothing of one is left to learn."""
    tokens = np.zeros((len(preferences), 2, length), np.int32)
    labels = np.full((len(preferences), 2, length), UNCOUNTED, np.int32)
    cut = 0
    for number, preference in enumerate(preferences):
        for side, answer in enumerate((preference.chosen, preference.rejected)):
            part = _part(answer, 0, length)
            if not part.learned[1:].any():
                got = f"preference {number + 1}, of which no answer lies within {length} tokens"
                raise DataError("finetune", got=got, need="an answer", fix="a larger context")
            cut += len(answer) > length + 1
            stop = len(part) - 1
            tokens[number, side, :stop] = part.tokens[:-1]
            labels[number, side, :stop] = np.where(part.learned[1:], part.tokens[1:], UNCOUNTED)
    return PairedAnswers(tokens, labels, cut)
