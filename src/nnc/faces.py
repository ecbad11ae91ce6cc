"""Packages whose names come from their modules when one is first asked for, so that importing the package stays quick.

    _HOMES = homes({"nnc.nn.layers.dense": "Dense"})        {"Dense": "nnc.nn.layers.dense"}
    __getattr__, __dir__ = face(_HOMES, globals())          imports the module, and keeps the name in the package

A type checker reads imports under `TYPE_CHECKING` instead; a test holds that both name the same.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from nnc.addresses import within_addresses

Names = Callable[[], list[str]]
# What could not be imported since the last import that succeeded.
_FAILED: list[str] = []
# Objects more than were freed before Python looks for cycles. One more than where `RareCollections` puts it, which must
# not take this for its own.
UNLOOKED = 100_001


def homes(rows: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, of rows MODULE: NAMES.

    >>> homes({"a.b": "X Y", "a.c": "Z"})
    {'X': 'a.b', 'Y': 'a.b', 'Z': 'a.c'}
    """
    return {name: module for module, names in rows.items() for name in names.split()}


def face(
    known: Mapping[str, str],
    namespace: dict[str, object],
    unknown: Callable[[str, Names], AttributeError] | None = None,
) -> tuple[Callable[[str], object], Names]:
    """`__getattr__` and `__dir__` of a package: what is called so in its module, or the module itself where it ends so.

    It is in the `namespace` of the package from then on. `unknown` makes the error for other names, and is told where
    to ask for those that there are. OutOfMemoryError where there is no memory to import a module.
    """

    def names() -> list[str]:
        return sorted({*namespace, *known})

    def fetched(name: str) -> object:
        if name not in known:
            if unknown is not None:
                raise unknown(name, names)
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        module = imported(known[name])
        value = module if known[name].endswith(f".{name}") else getattr(module, name)
        namespace[name] = value
        return value

    return fetched, names


def wire() -> None:
    """Have the modules that ask be handed what they cannot name: backends, drivers of devices, the array API.

    Only once; nothing where NumPy is not installed, without which only `nnc.graph` and `nnc.planning` work.
    """
    if find_spec("numpy") is not None:
        imported("nnc.wiring")


def imported(module: str) -> ModuleType:
    """The module, with rare looks for cycles: all that an import makes stays, and they took a sixth of its time.

    OutOfMemoryError where there is no memory for it. What was interrupted can be imported again.
    """
    before = gc.get_threshold()
    is_often = 0 < before[0] < UNLOOKED - 1
    if is_often:
        gc.set_threshold(UNLOOKED, *before[1:])
    try:
        with within_addresses(f"importing {module}"):
            if _FAILED:
                _import_parents()
            return import_module(module)
    except BaseException:
        _FAILED.append(module)
        raise
    finally:
        if is_often and gc.get_threshold()[0] == UNLOOKED:
            gc.set_threshold(*before)


def _import_parents() -> None:
    """Python forgets a package whose import fails, not the modules that it had imported of itself.

    Who asks for one of these first would import the package from its own middle: it is imported before.
    """
    _FAILED.clear()
    parents = {name.rpartition(".")[0] for name in list(sys.modules) if name.startswith("nnc.")}
    for parent in sorted(parents - sys.modules.keys()):
        import_module(parent)
