"""Containers that a module takes and gives: layers are built on operands in a row, which hang together as here.

    y, (h, c) = self.lstm(x, (h, c))          return logits, None          net(batch, mask=None, options={"scale": s})

What is no array goes to `forward` as it is: texts, None, truth values, objects; numbers and tuples of numbers too,
where arrays stand beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.tree import LEAF, Structure, Tree
from nnc.nn.layers.layer import Input, LayerValue
from nnc.nn.state.nested_outputs import NestedOutputs
from nnc.ops.operand import Operand


class PassedOn:
    """What is no array, and stands in the results of a module as it is: distributions."""


# What stands in the arguments and results of a call as it is.
STATIC = (str, bytes, bool, NoneType, PassedOn)
OPERANDS = (ArrayOperand, Operand, LayerValue, Input, Tensor, np.ndarray, np.generic)
# Arguments that may be more than arrays in a row.
UNSURE = (*STATIC, tuple, dict, list, int, float)


@dataclass(frozen=True, slots=True, eq=False)
class GivenArguments:
    """What a module was called with: leaves, how they hang together, and which of them are arrays."""

    leaves: tuple[Any, ...]
    structure: Structure
    places: tuple[int, ...]

    def arrays(self) -> list[Any]:
        """The arrays in a row."""
        return [self.leaves[place] for place in self.places]

    def with_arrays(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by position and by name, with others in the places of the arrays."""
        leaves = list(self.leaves)
        for place, array in zip(self.places, arrays, strict=False):
            leaves[place] = array
        values, options = self.structure.unflatten(leaves)
        return values, options


def given_arguments(values: tuple[Any, ...], options: Mapping[str, Any]) -> GivenArguments:
    """The arguments taken apart."""
    leaves: list[Any] = []
    parts = tuple(_taken_apart(value, leaves) for value in values)
    named = Structure(dict, tuple(options), tuple(_taken_apart(value, leaves) for value in options.values()))
    structure = Structure(tuple, (), (Structure(tuple, (), parts), named))
    places = tuple(place for place, leaf in enumerate(leaves) if _is_array(leaf))
    if not places:
        # Numbers alone are what the module is of.
        places = tuple(place for place, leaf in enumerate(leaves) if _is_numbers(leaf))
    return GivenArguments(tuple(leaves), structure, places)


def nested_outputs(given: Any) -> tuple[tuple[Any, ...], Structure | None]:  # noqa: ANN401  # what `forward` gives
    """Values in a row, and how they hang together; None for one value, or a tuple of values."""
    if not isinstance(given, (tuple, list, dict, *STATIC)):
        return (given,), None
    if isinstance(given, tuple) and not any(isinstance(value, (tuple, list, dict, *STATIC)) for value in given):
        return given, None
    leaves: list[Any] = []
    structure = _containers(given, leaves)
    return tuple(leaves), structure


def in_row(values: Sequence[Any], structure: Structure, operands: Sequence[Any]) -> NestedOutputs:
    """The operands of those values that are some, and how all of them hang together."""
    places = tuple(place for place, value in enumerate(values) if not isinstance(value, STATIC))
    return NestedOutputs(operands, structure, tuple(values), places)


def _containers(value: Any, leaves: list[Any]) -> Structure:  # noqa: ANN401  # of any kind
    if isinstance(value, dict):
        return Structure(dict, tuple(value), tuple(_containers(part, leaves) for part in value.values()))
    if isinstance(value, tuple | list):
        kind = type(value) if type(value) is list or hasattr(value, "_fields") else tuple
        return Structure(kind, (), tuple(_containers(part, leaves) for part in value))
    leaves.append(value)
    return LEAF


def _taken_apart(value: Tree, leaves: list[Any]) -> Structure:
    """Containers that hold operands, taken apart; all else is a leaf, lists of numbers too."""
    if not _holds_operands(value):
        leaves.append(value)
        return LEAF
    if isinstance(value, dict):
        return Structure(dict, tuple(value), tuple(_taken_apart(part, leaves) for part in value.values()))
    kind = type(value) if type(value) is list or hasattr(value, "_fields") else tuple
    return Structure(kind, (), tuple(_taken_apart(part, leaves) for part in value))


def _holds_operands(value: object) -> bool:
    """Whether it is a container with an operand or an array somewhere in it."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, tuple | list):
        return False
    return any(isinstance(part, OPERANDS) or _holds_operands(part) for part in value)


def _is_array(value: object) -> bool:
    if isinstance(value, list):
        return _is_numbers(value)
    if isinstance(value, OPERANDS):
        return True
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _is_numbers(value: object) -> bool:
    """A number, or lists and tuples of numbers."""
    if isinstance(value, tuple | list):
        return bool(value) and all(map(_is_numbers, value))
    return isinstance(value, int | float) and not isinstance(value, bool)
