"""Packages whose names come from their modules when one is first asked for, so that importing the package stays quick.

    _HOMES = homes({"nnc.nn.layers.dense": "Dense"})        {"Dense": "nnc.nn.layers.dense"}
    fetched("Dense", _HOMES, globals())                     imports the module, and keeps the name in the package

A type checker reads imports under `TYPE_CHECKING` instead; a test holds that both name the same.
"""

from collections.abc import Mapping
from importlib import import_module

from nnc.addresses import within_addresses


def homes(rows: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, of rows MODULE: NAMES.

    >>> homes({"a.b": "X Y", "a.c": "Z"})
    {'X': 'a.b', 'Y': 'a.b', 'Z': 'a.c'}
    """
    return {name: module for module, names in rows.items() for name in names.split()}


def fetched(name: str, known: Mapping[str, str], namespace: dict[str, object]) -> object:
    """What is called `name` in its module, or the module itself where it ends so; from now on in `namespace` too.

    OutOfMemoryError where there is no memory to import it.
    """
    with within_addresses(f"importing {known[name]}"):
        module = import_module(known[name])
    value = module if known[name].endswith(f".{name}") else getattr(module, name)
    namespace[name] = value
    return value
