"""Nested values: tuples, lists and dictionaries of leaves, taken apart and put together.

    leaves, structure = flatten({"weight": w, "state": (m, v)})      leaves = [w, m, v]
    structure.unflatten(leaves)                                      = {"weight": w, "state": (m, v)}

Everything that is no tuple, list, dictionary or `TreeNode` is a leaf, None included. A structure is a value that can be
hashed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeAlias

from nnc.classes import dataclass
from nnc.core.values.exact import Hashed

# Leaves in containers, or a leaf: what users hand over and get back, of whatever types.
Tree: TypeAlias = Any
# As a tuple, which `isinstance` asks in a third of the time of a union.
SEQUENCES = (tuple, list)


class TreeNode:
    """What stands for a dictionary: it is taken apart as one, and what is put together again is that dictionary."""

    __slots__ = ()

    @abstractmethod
    def opened(self) -> dict[str, Any]:
        """Its parts by name."""


@dataclass(frozen=True, slots=True)
class Structure(Hashed):
    """A container of this `kind` with these parts, under these keys if it is a dictionary; a leaf without a kind."""

    kind: type[Any] | None = None
    keys: tuple[Hashable, ...] = ()
    parts: tuple[Structure, ...] = ()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((self.kind, self.keys, self.parts))
            object.__setattr__(self, "_hash", value)
            return value

    def unflatten(self, leaves: Sequence[Any]) -> Tree:
        """The containers again, with these leaves."""
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Tree:
        if self.kind is None:
            return next(leaves)
        parts = [part._build(leaves) for part in self.parts]
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        return _built(self.kind, parts)

    def paths(self, prefix: str = "") -> Iterator[str]:
        """The name of each leaf: the keys and positions that lead to it, joined by dots."""
        if self.kind is None:
            yield prefix
        names: Sequence[object] = self.keys or getattr(self.kind, "_fields", None) or range(len(self.parts))
        for name, part in zip(names, self.parts, strict=True):
            yield from part.paths(f"{prefix}.{name}" if prefix else str(name))


LEAF = Structure()


def flatten(value: object) -> tuple[list[Any], Structure]:
    """The leaves in order, and how they hang together.

    >>> leaves, structure = flatten({"a": 1, "b": (2, [3])})
    >>> leaves, list(structure.paths())
    ([1, 2, 3], ['a', 'b.0', 'b.1.0'])
    """
    leaves: list[Any] = []
    return leaves, _take_apart(value, leaves)


def map_leaves(function: Callable[[Any], Any], value: object) -> Tree:
    """The same containers with the function of each leaf."""
    if isinstance(value, dict):
        return {key: map_leaves(function, part) for key, part in value.items()}
    if isinstance(value, SEQUENCES):
        return _built(_kind(value), [map_leaves(function, part) for part in value])
    return map_leaves(function, value.opened()) if isinstance(value, TreeNode) else function(value)


def _take_apart(value: object, leaves: list[Any]) -> Structure:
    if isinstance(value, dict):
        return Structure(dict, tuple(value), tuple([_take_apart(part, leaves) for part in value.values()]))
    if isinstance(value, SEQUENCES):
        return Structure(_kind(value), (), tuple([_take_apart(part, leaves) for part in value]))
    if isinstance(value, TreeNode):
        return _take_apart(value.opened(), leaves)
    leaves.append(value)
    return LEAF


def _kind(value: tuple[Any, ...] | list[Any]) -> type[Any]:
    """What its containers are made as again: lists, tuples and named tuples as they are, kinds of them as tuples."""
    return type(value) if type(value) is list or type(value) is tuple or hasattr(value, "_fields") else tuple


def _built(kind: type[Any], parts: list[Any]) -> Tree:
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
