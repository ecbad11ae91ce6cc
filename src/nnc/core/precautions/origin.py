"""Where in the user's file a call came from."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
_INHERITED: ContextVar[str | None] = ContextVar("inherited", default=None)


class _Inherited:
    """What `inherited_origin` gives; a class, since layers enter it each call and a generator takes 1 µs more."""

    __slots__ = ("_origin", "_token")

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def __enter__(self) -> None:
        self._token = _INHERITED.set(self._origin)

    def __exit__(self, *error: object) -> None:
        _INHERITED.reset(self._token)


def inherited_origin(origin: str) -> AbstractContextManager[None]:
    """What is made inside, in this thread, stands for something of that origin."""
    return _Inherited(origin)


def caller_origin() -> str:
    """`file.py:12` of the nearest frame outside the package, empty when there is none."""
    inherited = _INHERITED.get()
    if inherited is not None:
        return inherited
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = _NAMES[frame.f_code.co_filename]
        if name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def is_of_package(path: str) -> bool:
    """Whether a frame of this file is ours and not the user's."""
    return not _NAMES[path]


class _Names(dict[str, str]):
    """The name of each file without its folder; empty for those of the package."""

    def __missing__(self, path: str) -> str:
        name = self[path] = "" if path.startswith(_PACKAGE) else os.path.basename(path)
        return name


_NAMES = _Names()
