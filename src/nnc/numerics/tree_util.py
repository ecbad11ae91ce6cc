"""Nested values under the names of `jax.tree_util`: `from nnc.tree_util import tree_map`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from nnc.dynamic.tree import Tree
from nnc.numerics.tree import flatten as tree_flatten
from nnc.numerics.tree import leaves as tree_leaves
from nnc.numerics.tree import map as tree_map
from nnc.numerics.tree import structure as tree_structure
from nnc.numerics.tree import unflatten as tree_unflatten

__all__ = [
    "tree_all", "tree_flatten", "tree_leaves", "tree_map", "tree_reduce", "tree_structure", "tree_unflatten",
]  # fmt: skip


def tree_reduce(function: Callable[[Any, Any], Any], tree: Tree, *initializer: Any) -> Any:  # noqa: ANN401  # of leaves
    """function(… function(function(initializer, first leaf), second leaf) …, last leaf).

    >>> tree_reduce(lambda total, leaf: total + leaf, {"a": 1, "b": (2, 3)}, 0)
    6
    """
    return reduce(function, tree_leaves(tree), *initializer)


def tree_all(tree: Tree) -> bool:
    """Whether all leaves hold."""
    return all(tree_leaves(tree))
