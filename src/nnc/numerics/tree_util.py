"""Nested values under the names of `jax.tree_util`: `from nnc.tree_util import tree_map`."""

from __future__ import annotations

from nnc.numerics.tree import all as tree_all
from nnc.numerics.tree import flatten as tree_flatten
from nnc.numerics.tree import flatten_with_path as tree_flatten_with_path
from nnc.numerics.tree import leaves as tree_leaves
from nnc.numerics.tree import leaves_with_path as tree_leaves_with_path
from nnc.numerics.tree import map as tree_map
from nnc.numerics.tree import map_with_path as tree_map_with_path
from nnc.numerics.tree import reduce as tree_reduce
from nnc.numerics.tree import structure as tree_structure
from nnc.numerics.tree import transpose as tree_transpose
from nnc.numerics.tree import unflatten as tree_unflatten

__all__ = [
    "keystr", "tree_all", "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map",
    "tree_map_with_path", "tree_reduce", "tree_structure", "tree_transpose", "tree_unflatten",
]  # fmt: skip


def keystr(path: str) -> str:
    """The path of a leaf, which is a text here.

    >>> [keystr(path) for path, _ in tree_leaves_with_path({"a": (1, 2)})]
    ['a.0', 'a.1']
    """
    return path
