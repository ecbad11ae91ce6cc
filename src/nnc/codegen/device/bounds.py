"""Accesses that say where they leave an operand: what kernels do under NNC_DEBUG=1.

    %safe = call ptr @nnc.bounded(ptr %args, ptr %place, i64 %pair, i64 %code, i64 %bytes)

In front of a table of operands is the address of their record; where an access of `bytes` from `place` on leaves its
operand, a word goes there, and the access goes to the spare words instead:

    record = [word] [unused] [two spare words] [begin and end of operand 0] [of operand 1] ...
    word   = bytes from the operand's begin << 20 | operand << 8 | bytes of the access << 2 | is written << 1 | 1

Phases check what they read and write themselves. What they have others do is not checked: functions that they call with
a table of their own, copies to the memory of a group, and instructions that load matrices.
"""

from __future__ import annotations

import re

from nnc.classes import dataclass

HEAD_WORDS, WORD_BYTES = 4, 8
PLACE_BITS, OPERAND_BITS = 20, 8
BOUNDED = "nnc.bounded"
BOUNDED_TEXT = """define internal ptr @nnc.bounded(ptr %args, ptr %place, i64 %pair, i64 %code, i64 %bytes) #0 {
entry:
%slot = getelementptr i64, ptr %args, i64 -1
%record = call ptr @nnc.pointer(ptr %slot)
%low_place = getelementptr i64, ptr %record, i64 %pair
%low = load i64, ptr %low_place, align 8
%high_place = getelementptr i64, ptr %low_place, i64 1
%high = load i64, ptr %high_place, align 8
%spare = getelementptr i64, ptr %record, i64 2
%first = ptrtoint ptr %place to i64
%last = add i64 %first, %bytes
%before = icmp ult i64 %first, %low
%behind = icmp ugt i64 %last, %high
%outside = or i1 %before, %behind
%some = icmp ne i64 %bytes, 0
%left = and i1 %outside, %some
br i1 %left, label %said, label %done
said:
%away = sub i64 %first, %low
%moved = shl i64 %away, 20
%word = or i64 %moved, %code
store i64 %word, ptr %record, align 8
br label %done
done:
%safe = select i1 %left, ptr %spare, ptr %place
ret ptr %safe
}"""
# Roots of pointers that were loaded from the table of operands: `*%args` of the first one, `*%args[2]` of the third.
_OPERAND = re.compile(r"\*%args(?:\[(\d+)\])?")


@dataclass(frozen=True, slots=True)
class OutOfBounds:
    """An access that left its operand: which operand, how many bytes from its begin on, and how many it touched."""

    operand: int
    place: int
    nbytes: int
    written: bool

    @classmethod
    def of(cls, word: int) -> OutOfBounds:
        """What the word of a record says, which has a sign."""
        operand = word >> OPERAND_BITS & (1 << PLACE_BITS - OPERAND_BITS) - 1
        return cls(operand, word >> PLACE_BITS, word >> 2 & 63, bool(word & 2))


def operand_of_root(root: str) -> int | None:
    """The number of the operand that pointers with a root go to; None of other memory."""
    match = _OPERAND.fullmatch(root)
    return None if match is None else int(match[1] or 0)


def code_of(operand: int, nbytes: int, *, written: bool) -> int:
    """What a word says of an access wherever it goes."""
    return operand << OPERAND_BITS | nbytes << 2 | written << 1 | 1
