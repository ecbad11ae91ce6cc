"""Nested values by paths, as `mlx.utils` has them: `model.parameters()` of MLX is a tree, and files hold names.

tree_flatten({"a": {"w": x}})           [("a.w", x)]
tree_unflatten([("a.w", x)])            {"a": {"w": x}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnc.arguments import explained
from nnc.dynamic.tree import Tree, flatten
from nnc.numerics.tree import map as mapped

__all__ = ["tree_flatten", "tree_map", "tree_map_with_path", "tree_unflatten"]


@explained
def tree_flatten(tree: Tree, prefix: str = "") -> list[tuple[str, Any]]:
    """(path, leaf) of each leaf; of a layer's parameters by their paths.

    >>> tree_flatten({"a": (1, 2)})
    [('a.0', 1), ('a.1', 2)]
    """
    leaves, structure = flatten(tree)
    return list(zip((f"{prefix}{path}" for path in structure.paths()), leaves, strict=True))


@explained
def tree_map(function: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """The same containers with the function of each leaf, and of those at its place in the others."""
    return mapped(function, tree, *rest)


@explained
def tree_map_with_path(function: Callable[..., Any], tree: Tree) -> Tree:
    """The same containers with the function of each path and leaf."""
    leaves, structure = flatten(tree)
    return structure.unflatten([function(path, leaf) for path, leaf in zip(structure.paths(), leaves, strict=True)])


@explained
def tree_unflatten(tree: Sequence[tuple[str, Any]] | Mapping[str, Any]) -> Tree:
    """Dictionaries, and lists where keys are numbers, of (path, leaf).

    >>> tree_unflatten([("a.0", 1), ("a.1", 2)])
    {'a': [1, 2]}
    """
    pairs = list(tree.items()) if isinstance(tree, Mapping) else list(tree)
    if len(pairs) == 1 and pairs[0][0] == "":
        return pairs[0][1]
    groups: dict[str, list[tuple[str, Any]]] = {}
    for path, leaf in pairs:
        name, _, below = path.partition(".")
        groups.setdefault(name, []).append((below, leaf))
    values = {name: tree_unflatten(group) for name, group in groups.items()}
    if values and all(name.isdigit() for name in values):
        return [values[name] for name in sorted(values, key=int)]
    return values
