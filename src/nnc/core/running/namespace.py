"""The array API that arrays hand out: a layer above them, named by whoever wires the layers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

from nnc.errors import UsageError
from nnc.faces import wire

Namespace: TypeAlias = Callable[[str | None], ModuleType]

_NAMESPACE: list[Namespace] = []


def use_namespace(namespace: Namespace) -> None:
    """Let arrays answer `__array_namespace__` with what `namespace` gives for a version of the standard."""
    _NAMESPACE[:] = [namespace]


def array_namespace(version: str | None) -> ModuleType:
    """The module of that version; UsageError where no layer above has one."""
    if not _NAMESPACE:
        wire()
    for namespace in _NAMESPACE:
        return namespace(version)
    raise UsageError("__array_namespace__", got="no namespace", need="one that was wired", fix="import nnc")
