"""Scopes of names: what is made inside is named after them.

    with scope("encoder"), scope("block1"):
        x = graph.input(spec((4, 8)), "x")      encoder.block1.x
        y = tanh(x @ w)                         execs encoder.block1.gemm and encoder.block1.tanh

Names are labels for texts and messages, never identity, so nothing numbers them. A scope is that of its thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.errors import AttributeValueError

_SCOPE: ContextVar[str] = ContextVar("scope", default="")
_PURPOSE: ContextVar[str] = ContextVar("purpose", default="")


@checked
def scope(name: str) -> AbstractContextManager[str]:
    """Names given inside stand behind `name` and a dot, and execs without one get that of their operator."""
    if not name:
        raise AttributeValueError("scope", got="an empty name", need="a name", origin=caller_origin())
    return _opened(name)


@contextmanager
def _opened(name: str) -> Iterator[str]:
    token = _SCOPE.set(f"{_SCOPE.get()}{name}.")
    try:
        yield _SCOPE.get().removesuffix(".")
    finally:
        _SCOPE.reset(token)


def opened_scopes() -> str:
    """The names of the scopes that are open, with a dot behind each."""
    return _SCOPE.get()


class _Reopened:
    """What `reopened` gives; a class, since layers enter it several times a call and a generator takes 1 µs more."""

    __slots__ = ("_purpose", "_scopes", "_tokens")

    def __init__(self, scopes: str, purpose: str) -> None:
        self._scopes, self._purpose = scopes, purpose

    def __enter__(self) -> None:
        self._tokens = _SCOPE.set(self._scopes), _PURPOSE.set(self._purpose)

    def __exit__(self, *error: object) -> None:
        _SCOPE.reset(self._tokens[0])
        _PURPOSE.reset(self._tokens[1])


def reopened(scopes: str, purpose: str = "") -> AbstractContextManager[None]:
    """These scopes and no others, as `opened_scopes` tells them; execs without a name are called by their `purpose`."""
    return _Reopened(scopes, purpose)


def scoped(name: str, otherwise: str = "") -> str:
    """`name`, or `otherwise` (or its purpose) inside a scope, behind the scopes that are open; nothing for nothing."""
    opened = _SCOPE.get()
    chosen = name or (otherwise and _PURPOSE.get()) or (otherwise if opened else "")
    return opened + chosen if chosen else ""
