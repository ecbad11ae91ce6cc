"""Mutations of the bytes of a file: what a bad disk, a bad copy or a bad author makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Mutation = Callable[[Random, bytes], bytes]
# Numbers and signs that readers stumble over.
TOKENS: Sequence[bytes] = (
    b"-1", b"0", b"9" * 30, b"1e999", b"NaN", b"null", b"true", b"{}", b"[]", b'""', b"[" * 2000, b"{", b"}", b'"',
    b"\x00", b"\xff\xfe", b",", b":", b"\n", b"%0", b"f32", b"2147483648", b"18446744073709551615", b"1.5", b"\\u0000",
)  # fmt: skip


def _place(random: Random, data: bytes) -> int:
    return random.randint(0, len(data))


def flip(random: Random, data: bytes) -> bytes:
    """A few bytes become others."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def cut(random: Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: _place(random, data)]


def drop(random: Random, data: bytes) -> bytes:
    """A piece from the middle is missing."""
    start = _place(random, data)
    return data[:start] + data[start + random.choice((1, 2, 10, 100)) :]


def repeat(random: Random, data: bytes) -> bytes:
    """A piece stands there twice."""
    start = _place(random, data)
    end = start + random.choice((1, 5, 50))
    return data[:end] + data[start:]


def insert(random: Random, data: bytes) -> bytes:
    """Something stands where nothing was."""
    place = _place(random, data)
    return data[:place] + random.choice(TOKENS) + data[place:]


def replace_number(random: Random, data: bytes) -> bytes:
    """A run of digits becomes another token."""
    digits = [data[place : place + 1].isdigit() for place in range(len(data))]
    starts = [place for place, is_digit in enumerate(digits) if is_digit and not (place and digits[place - 1])]
    if not starts:
        return flip(random, data)
    start = end = random.choice(starts)
    while data[end : end + 1].isdigit():
        end += 1
    return data[:start] + random.choice(TOKENS) + data[end:]


def swap(random: Random, data: bytes) -> bytes:
    """Two lines, or two parts between commas, change places."""
    separator = random.choice((b"\n", b","))
    parts = data.split(separator)
    one, other = random.randrange(len(parts)), random.randrange(len(parts))
    parts[one], parts[other] = parts[other], parts[one]
    return separator.join(parts)


MUTATIONS: tuple[Mutation, ...] = (flip, cut, drop, repeat, insert, replace_number, swap)


def mutated(random: Random, data: bytes) -> bytes:
    """One to four mutations; seldom none, for what is whole must be read."""
    for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
        data = random.choice(MUTATIONS)(random, data)
    return data
