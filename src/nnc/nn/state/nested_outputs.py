"""Outputs of a module that gives containers, or what is no array: operands in a row, as all layers have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nnc.dynamic.tree import Structure


class NestedOutputs(tuple[Any, ...]):
    """The operands of a structure of leaves, which stand at these places."""

    structure: Structure
    leaves: tuple[Any, ...]
    places: tuple[int, ...]

    def __new__(
        cls, operands: Iterable[Any], structure: Structure, leaves: tuple[Any, ...], places: tuple[int, ...]
    ) -> NestedOutputs:
        made = super().__new__(cls, operands)
        made.structure, made.leaves, made.places = structure, leaves, places
        return made


def hung_together(outputs: tuple[Any, ...], values: Sequence[Any]) -> Any:  # noqa: ANN401  # what a call gives
    """The values as `outputs` hang together: one value, a tuple, or the containers of a module."""
    if type(outputs) is tuple or not isinstance(outputs, NestedOutputs):
        return values[0] if len(values) == 1 else tuple(values)
    leaves = list(outputs.leaves)
    for place, value in zip(outputs.places, values, strict=True):
        leaves[place] = value
    return outputs.structure.unflatten(leaves)
