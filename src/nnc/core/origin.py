"""Where in the user's file a call came from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
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
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{_base_name(frame.f_code.co_filename)}:{frame.f_lineno}"


@cache
def _base_name(path: str) -> str:
    return os.path.basename(path)
