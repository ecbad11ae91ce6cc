"""Where in the user's file a call came from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
_INHERITED: ContextVar[str | None] = ContextVar("inherited", default=None)


@contextmanager
def inherited_origin(origin: str) -> Iterator[None]:
    """What is made inside, in this thread, stands for something of that origin."""
    token = _INHERITED.set(origin)
    try:
        yield
    finally:
        _INHERITED.reset(token)


def caller_origin() -> str:
    """`file.py:12` of the nearest frame outside the package, empty when there is none."""
    inherited = _INHERITED.get()
    if inherited is not None:
        return inherited
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = _outside(frame.f_code.co_filename)
        if name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@cache
def _outside(path: str) -> str:
    """The name of a file without its folder; empty for those of the package."""
    return "" if path.startswith(_PACKAGE) else os.path.basename(path)
