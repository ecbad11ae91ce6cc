"""Names of a package, and modules, that are imported when one is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnc.faces import imported
from nnc.vocabulary.answers import unknown_name


def late_names(
    package: str, homes: Mapping[str, str], names: dict[str, object], forms: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """The `__getattr__` of `package`: each name from its module there, and then among the package's own `names`.

    `forms` are our forms for names of other projects.
    """

    def found_late(name: str) -> object:
        if name not in homes:
            raise unknown_name(f"module {package!r}", name, forms or {}, lambda: (*names, *homes), f"{package}.")
        value = names[name] = getattr(imported(f"{package}.{homes[name]}"), name)
        return value

    return found_late


class LateModule:
    """A module that is imported when a name of it is first used. A type checker reads an import in its place."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> object:
        return getattr(imported(self._module), name)
