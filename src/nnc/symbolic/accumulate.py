"""Gradients of parts of a tensor, put together as one of the whole.

    gradient of the root = sum over the parts of (the part's gradient at its place, zero elsewhere)

Parts of one place are added first. Places that do not meet are written into one tensor, which starts as zeros only
where they leave a gap; a place that meets others, or itself, is added. What covers the root in its order is taken as
it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import reduce

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.sizes import comparing_sizes
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.ops.elementwise.pointwise import add
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.movement import EmbedAttrs, embed
from nnc.ops.rules import NoAttrs
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import AliasOf, ExecSymbol, TensorSymbol
from nnc.symbolic.region import Region, covers, overlaps


@dataclass(frozen=True, slots=True)
class GradientPart:
    """The gradient of one place of a tensor, of that place's shape."""

    region: Region
    gradient: Symbol


def sum_of_parts(parts: Sequence[GradientPart]) -> Symbol:
    """The sum of gradients of one place, from left to right."""
    return reduce(add, (part.gradient for part in parts))


def assemble(graph: SymbolicGraph, spec: TensorSpec, parts: Sequence[GradientPart]) -> Symbol:
    """The gradient of a tensor of `spec` from those of its parts, of which there is at least one."""
    whole: list[Symbol] = []
    sheets: list[_Sheet] = []
    for part in _by_place(parts):
        if part.gradient.spec.elements == spec.elements and part.region.strides == contiguous_strides(
            part.region.shape
        ):
            whole.append(reshape(part.gradient, spec.shape))
        elif not part.region.is_injective():
            whole.append(_embedded(part, spec))
        elif not any(sheet.take(part) for sheet in sheets):
            sheets.append(_Sheet([part], *part.region.bounds()))
    return reduce(add, [*whole, *(_laid(graph, spec, sheet.parts) for sheet in sheets)])


def _by_place(parts: Sequence[GradientPart]) -> list[GradientPart]:
    """One part for each place."""
    places: dict[Region, list[GradientPart]] = {}
    with comparing_sizes():
        for part in parts:
            places.setdefault(part.region, []).append(part)
    return [GradientPart(region, sum_of_parts(summands)) for region, summands in places.items()]


@dataclass(slots=True)
class _Sheet:
    """Parts that do not meet, all within [first, last)."""

    parts: list[GradientPart] = field(default_factory=list)
    first: int = 0
    last: int = 0

    def take(self, part: GradientPart) -> bool:
        """Take in a part that meets no other; True when it is in."""
        first, last = part.region.bounds()
        apart = last <= self.first or first >= self.last
        if not apart and any(overlaps(part.region, other.region) for other in self.parts):
            return False
        self.parts.append(part)
        self.first, self.last = min(self.first, first), max(self.last, last)
        return True


def _laid(graph: SymbolicGraph, spec: TensorSpec, parts: Sequence[GradientPart]) -> Symbol:
    """Parts that do not meet, each written to its place of one tensor."""
    whole = Region(spec.shape, 0, contiguous_strides(spec.shape))
    covered = covers([part.region for part in parts], whole)
    if len(parts) == 1 and not covered:
        return _embedded(parts[0], spec)
    origin = graph.tensors[parts[0].gradient.key].origin
    root = graph.add_tensor(TensorSymbol(spec, origin=origin, fill=None if covered else 0.0))
    for part in parts:
        alias = AliasOf(root, part.region.offset, part.region.strides)
        place = graph.add_tensor(TensorSymbol(part.gradient.spec, alias=alias, origin=origin))
        record = ExecSymbol(Command(contiguous, NoAttrs()), (part.gradient.key,), (place,), origin=origin)
        graph.add_exec(record)
    return graph.symbol(root)


def _embedded(part: GradientPart, spec: TensorSpec) -> Symbol:
    """One part in a tensor of zeros; elements that it has twice are added up."""
    return embed(part.gradient, EmbedAttrs(spec.shape, part.region.offset, part.region.strides))
