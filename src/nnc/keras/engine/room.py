"""How much layers may make while a file is read: no more numbers than it has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nnc.errors import FormatError

# How many more numbers weights may have, in all, where a file is read that has no more.
_ROOM: ContextVar[list[int] | None] = ContextVar("room", default=None)


@contextmanager
def weights_within(elements: int) -> Iterator[None]:
    """Inside, layers make no more than so many numbers in all; FormatError for a file whose layers want more."""
    token = _ROOM.set([elements])
    try:
        yield
    finally:
        _ROOM.reset(token)


def take_room(shape: tuple[int, ...]) -> None:
    """FormatError where a weight of this shape is more than is left."""
    room = _ROOM.get()
    if room is not None:
        room[0] -= math.prod(shape)
        if room[0] < 0:
            got, need = f"a weight of shape {shape}", "no more numbers than the file has"
            raise FormatError("load_model", got=got, need=need)
