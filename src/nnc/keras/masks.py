"""Masks beside operands: which steps of a sequence are real, as `Embedding(mask_zero=True)` tells layers and losses.

A mask belongs to one operand and is forgotten with it. Inside a layer operands may be others than those that it is
called with, so each call carries the masks in, and those of its outputs out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any
from weakref import ref

from nnc.dynamic.tree import flatten, map_leaves

_OF_OPERANDS: dict[int, tuple[ref[Any], Any]] = {}


def mask_of(operand: Any) -> Any:
    """The mask of an operand, true where a step is real, or None."""
    row = _OF_OPERANDS.get(id(operand))
    return row[1] if row is not None and row[0]() is operand else None


def set_mask(operand: Any, mask: Any) -> None:
    """Keep a mask beside the operand, while that is there."""
    key = id(operand)
    _OF_OPERANDS[key] = ref(operand, lambda _: _OF_OPERANDS.pop(key, None)), mask


def masks_of(values: Any) -> Any:
    """The mask of each operand, as they hang together; None where there is none at all."""
    if not _OF_OPERANDS:
        return None
    masks = map_leaves(mask_of, values)
    return masks if any(mask is not None for mask in flatten(masks)[0]) else None


def set_masks(values: Any, masks: Sequence[Any]) -> None:
    """Give the operands among the values, in order, those masks that there are."""
    for value, mask in zip(flatten(values)[0], masks, strict=False):
        if mask is not None and mask_of(value) is None:
            set_mask(value, mask)


class Carried:
    """The masks of one call of a layer: those of its inputs, and, behind it, those that its outputs have."""

    def __init__(self, layer: Any, values: Any) -> None:
        self.layer = layer
        self.ahead = flatten(masks_of(values))[0]
        self.behind: list[Any] = []


CARRIED: ContextVar[Carried | None] = ContextVar("carried", default=None)
