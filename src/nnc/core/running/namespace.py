"""The array API that arrays hand out, and functions that are also their methods: layers above, named by who wires."""

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


_FUNCTIONS: list[Callable[[], ModuleType]] = []


def use_functions(functions: Callable[[], ModuleType]) -> None:
    """Let methods of arrays that are functions of the layer above find them in what `functions` gives."""
    _FUNCTIONS[:] = [functions]


def array_functions() -> ModuleType:
    """The module of those functions; UsageError where no layer above has one."""
    if not _FUNCTIONS:
        wire()
    for functions in _FUNCTIONS:
        return functions()
    raise UsageError("x.method()", got="no functions of arrays", need="those that were wired", fix="import nnc")
