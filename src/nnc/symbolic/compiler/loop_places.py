"""Where a loop's body finds what is carried and what stays."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.concrete import (
    Carry,
    Place,
)
from nnc.core.values.tensor import Tensor
from nnc.symbolic.compiler.place.liveness import OuterMemory
from nnc.symbolic.compiler.place.slots import (
    Slots,
)
from nnc.symbolic.control import WhileAttrs
from nnc.symbolic.records import ExecSymbol, TensorKey


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


def resident_parameters(
    attrs: WhileAttrs, slots: Slots, outer: OuterMemory, record: ExecSymbol
) -> frozenset[TensorKey]:
    """The carried symbols that lie in their slots from the first iteration on."""
    body, resident = attrs.body, set[TensorKey]()
    if slots.passed:
        return frozenset()
    carried = body.parameters[: attrs.carried]
    given = {
        key
        for key, initial in zip(carried, record.inputs, strict=False)
        if key in slots.of and outer.roots.get(slots.of[key]) == initial
    }
    for key in given:
        links = [key]
        while links[-1] in given and body.results[carried.index(links[-1])] in carried:
            links.append(body.results[carried.index(links[-1])])
        if links[-1] in given:
            resident.add(key)
    return frozenset(resident)
