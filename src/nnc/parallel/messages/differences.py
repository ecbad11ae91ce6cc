"""The names of what ranks do together, and what two texts differ in."""

from __future__ import annotations

from enum import IntEnum
from itertools import takewhile, zip_longest

# Kinds of operations that a tag can tell apart.
KINDS = 16
# Of texts that differ, so many letters in front of the first other one and behind it are told.
SHOWN_BEFORE, SHOWN_BEHIND = 50, 60


class RankOperation(IntEnum):
    """What ranks do together: a part of the tag that their messages carry."""

    ALLREDUCE = 1
    ALL_GATHER = 2
    REDUCE_SCATTER = 3
    ALL_TO_ALL = 4
    BROADCAST = 5
    REDUCE = 6
    SHIFT = 7
    BARRIER = 8
    AGREE = 9
    HAND_OVER = 10
    # Not an operation: what a rank does, in words, for one that does something else.
    WORDS = 11
    SEND = 12


def name_of(tag: int) -> str:
    """What ranks do by messages of this tag."""
    kind = tag % KINDS
    return RankOperation(kind).name.lower() if kind in RankOperation._value2member_map_ else "something else"


def first_difference(first: str, other: str) -> tuple[str, str]:
    """The parts of two texts from a few letters before the first that is another one, in that line alone.

    >>> first_difference("Dense(2)\\nDropout(0.1)", "Dense(2)\\nDropout(0.4)")
    ('Dropout(0.1)', 'Dropout(0.4)')
    """
    pairs = zip_longest(first.splitlines(), other.splitlines(), fillvalue="")
    lines = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*lines, strict=False)))
    begin = max(same - SHOWN_BEFORE, 0)
    return lines[0][begin : same + SHOWN_BEHIND].strip(), lines[1][begin : same + SHOWN_BEHIND].strip()
