"""Nested values under the names of `jax.tree` and `mlx.utils`: tuples, lists and dictionaries of arrays.

    nnc.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

What is no tuple, list or dictionary is a leaf, None too; dictionaries go in their own order. `net.parameters()` is a
dictionary by path.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any

from nnc.arguments import checked
from nnc.dynamic import tree
from nnc.dynamic.tree import Structure, Tree
from nnc.errors import ArgumentError

__all__ = [
    "all", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce", "structure",
    "transpose", "unflatten",
]  # fmt: skip


@checked
def map(function: Callable[..., Any], value: Tree, *others: Tree) -> Tree:
    """The same containers with the function of each leaf, and of those at its place in the others.

    >>> map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"y": (20, 30), "x": 10})
    {'x': 11, 'y': (22, 33)}
    """
    first, shape = tree.flatten(value)
    rows = [first, *(_arranged(shape, other) for other in others)]
    return shape.unflatten([function(*row) for row in zip(*rows, strict=True)])


def _arranged(shape: Structure, other: Tree) -> list[Any]:
    """The leaves of another value in the order of this structure."""
    flat, given = tree.flatten(other)
    if given == shape:
        return flat
    by_path, paths = dict(zip(given.paths(), flat, strict=True)), list(shape.paths())
    odd = sorted(set(paths) ^ set(by_path))
    if odd or len(by_path) < len(flat):
        need = "containers as those of the first"
        raise ArgumentError("tree.map", got=f"leaves at {', '.join(odd) or 'other places'} of one value", need=need)
    return [by_path[path] for path in paths]


def leaves(value: Tree) -> list[Any]:
    """The leaves in order."""
    return tree.flatten(value)[0]


def flatten(value: Tree) -> tuple[list[Any], Structure]:
    """The leaves in order, and how they hang together."""
    return tree.flatten(value)


def structure(value: Tree) -> Structure:
    """How the leaves hang together; structures are equal where containers are."""
    return tree.flatten(value)[1]


@checked
def unflatten(shape: Structure, leaves: Sequence[Any]) -> Tree:
    """The containers again, with these leaves."""
    count = builtins.sum(1 for _ in shape.paths())
    if count != len(leaves):
        raise ArgumentError("tree.unflatten", got=f"{len(leaves)} leaves", need=f"the {count} of the structure")
    return shape.unflatten(leaves)


@checked
def reduce(function: Callable[[Any, Any], Any], value: Tree, *initializer: Any) -> Any:  # noqa: ANN401  # of leaves
    """function(… function(function(initializer, first leaf), second leaf) …, last leaf).

    >>> reduce(lambda total, leaf: total + leaf, {"a": 1, "b": (2, 3)}, 0)
    6
    """
    flat = leaves(value)
    if len(initializer) > 1 or not (flat or initializer):
        got = f"{len(flat)} leaves and {len(initializer)} initializers"
        raise ArgumentError("tree.reduce", got=got, need="at most one initializer, and one where there are no leaves")
    return functools.reduce(function, flat, *initializer)


def all(value: Tree) -> bool:
    """Whether all leaves hold.

    >>> all({"a": True, "b": [1, 0]})
    False
    """
    try:
        return builtins.all(leaves(value))
    except ValueError as error:  # NumPy's, of an array; ours have errors of ours
        fix = "tree.map(nnc.all, value) first"
        raise ArgumentError("tree.all", got=str(error), need="leaves that are true or false", fix=fix) from None


def leaves_with_path(value: Tree) -> list[tuple[str, Any]]:
    """Each leaf behind its path.

    >>> leaves_with_path({"a": [1, 2]})
    [('a.0', 1), ('a.1', 2)]
    """
    flat, shape = tree.flatten(value)
    return list(zip(shape.paths(), flat, strict=True))


def flatten_with_path(value: Tree) -> tuple[list[tuple[str, Any]], Structure]:
    """Each leaf behind its path, and how they hang together.

    >>> flatten_with_path({"a": 1})[0]
    [('a', 1)]
    """
    return leaves_with_path(value), structure(value)


@checked
def map_with_path(function: Callable[..., Any], value: Tree, *others: Tree) -> Tree:
    """The same containers with the function of each path and leaf, and of the leaves at its place in the others.

    >>> map_with_path(lambda path, leaf: f"{path}={leaf}", {"a": [1]})
    {'a': ['a.0=1']}
    """
    shape = structure(value)
    return map(function, shape.unflatten(list(shape.paths())), value, *others)


@checked
def transpose(outer: Structure, inner: Structure, value: Tree) -> Tree:
    """Containers `inner` of containers `outer`, of those the other way round.

    >>> transpose(structure([0, 0]), structure({"a": 0}), [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    rows, columns = builtins.sum(1 for _ in outer.paths()), builtins.sum(1 for _ in inner.paths())
    flat = leaves(value)
    if len(flat) != rows * columns:
        raise ArgumentError("tree.transpose", got=f"{len(flat)} leaves", need=f"{rows} · {columns}")
    return inner.unflatten([outer.unflatten(flat[column::columns]) for column in range(columns)])
