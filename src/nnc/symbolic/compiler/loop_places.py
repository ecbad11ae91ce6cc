"""Where a loop's body finds what is carried and what stays."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.concrete import (
    Carry,
    Place,
)
from nnc.core.values.tensor import Tensor
from nnc.symbolic.control import WhileAttrs
from nnc.symbolic.records import TensorKey


def places_in_body(
    attrs: WhileAttrs, inputs: Sequence[Place], resident: frozenset[TensorKey], count: Tensor
) -> dict[TensorKey, Place]:
    """Where a body finds its parameters: what is carried and not resident moves on behind an iteration."""
    places: dict[TensorKey, Place] = dict(zip(attrs.body.parameters, inputs, strict=True))
    for position, key in enumerate(attrs.body.parameters[: attrs.carried]):
        if key in resident:
            del places[key]
        elif attrs.body.results[position] != key:
            places[key] = Carry(places[key])
    places[attrs.count] = count
    return places
