"""Nested values as one vector, under the name of `jax.flatten_util`: `from nnc.flatten_util import ravel_pytree`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

from nnc.dynamic.tree import Tree, flatten
from nnc.errors import ShapeError
from nnc.numerics.conversion import AnyArray, Array, as_array, met
from nnc.numerics.creation import zeros
from nnc.numerics.shapes import concatenate

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Tree) -> tuple[Array, Callable[[AnyArray], Any]]:
    """All elements of all leaves in a row, in the element type that holds all, and the function back.

    >>> vector, restored = ravel_pytree({"w": [[1.0, 2.0]], "b": [3.0]})
    """
    leaves, structure = flatten(pytree)
    given = [as_array(leaf) for leaf in leaves]
    ends = [0, *accumulate(leaf.spec.elements for leaf in given)]
    vector = concatenate([leaf.reshape(-1) for leaf in met(given)]) if given else zeros(0)

    def restored(values: AnyArray) -> Any:  # noqa: ANN401  # the containers again
        """The containers again, with these elements in the leaves' shapes and element types."""
        row = as_array(values)
        if row.shape != (ends[-1],):
            raise ShapeError("ravel_pytree", got=str(row.spec), need=f"{ends[-1]} elements in a row")
        parts = [row[first:last] for first, last in pairwise(ends)]
        return structure.unflatten(
            [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, given, strict=True)]
        )

    return vector, restored
