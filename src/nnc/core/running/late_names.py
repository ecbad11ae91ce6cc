"""Names of a package whose modules are imported when one is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def late_names(package: str, homes: Mapping[str, str], names: dict[str, object]) -> Callable[[str], object]:
    """The `__getattr__` of `package`: each name from its module there, and then among the package's own `names`."""

    def found_late(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = names[name] = getattr(import_module(f"{package}.{homes[name]}"), name)
        return value

    return found_late
