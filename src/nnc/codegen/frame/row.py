"""What a row of kernels is made of: operands as generators see them, reasons to refuse, makers of generators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, broadcast, contiguous
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.packing import Packing
from nnc.codegen.ir.builder import BOOL, SCALARS, Scalar
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.spec import Blocked, TensorSpec
from nnc.graph import Op


@dataclass(frozen=True, slots=True)
class View:
    """An operand as generators see it; strides in elements. One in blocks has the shape of these."""

    scalar: Scalar
    shape: Shape
    strides: Shape
    blocked: Blocked | None = None

    @property
    def elements(self) -> int:
        """prod(shape)"""
        return math.prod(self.shape)

    @property
    def plain(self) -> View:
        """The same elements with their axes in order."""
        if self.blocked is None:
            return self
        return View(self.scalar, self.blocked.sizes, contiguous(self.blocked.sizes))

    @property
    def dense(self) -> View:
        """The same without gaps."""
        return replace(self, strides=contiguous(self.shape))

    def access(self, rank: int) -> StridedAccess:
        """This operand inside an iteration of `rank` axes, broadcast where its size is 1."""
        return StridedAccess(self.scalar, broadcast(self.shape, self.strides, rank))

    @property
    def whole(self) -> StridedAccess:
        """This operand inside an iteration over its own shape."""
        return StridedAccess(self.scalar, self.strides)


Views = Sequence[View]
Specs = Sequence[TensorSpec]
# `Any`: the table holds rows of all operators; `Command` checks attributes against the operator.
Refuse = Callable[[Any, Specs, Specs], str]
Generate = Callable[[Any, Views, Views], Generator]
Variations = Mapping[str, Generator]
Variants = Callable[[Any, Views, Views, TargetDescription], Variations]


# By the place of an operand: the layout in which a kernel would rather read it, and the nanoseconds that this saves.
Wishes = Mapping[int, tuple[Blocked, float]]
Wishing = Callable[[Any, Views, Views, TargetDescription], Wishes]


def preferences_of(packing: tuple[Packing, float] | None, weights: Shape, axis: int, parts: int = 1) -> Wishes:
    """The blocks of `axis` in which the weights, input 1, need no packing: how they are packed, and what it takes."""
    if packing is None:
        return {}
    blocks, nanoseconds = packing
    return {1: (Blocked(weights, axis, blocks.width, blocks.steps, parts), nanoseconds)}


def _no_preferences(attrs: object, inputs: Views, outputs: Views, target: TargetDescription) -> Wishes:
    return {}


Reading = Callable[[Any, Views, Views, int, Blocked, TargetDescription], bool]


def _as_wished(
    attrs: object, inputs: Views, outputs: Views, place: int, layout: Blocked, target: TargetDescription
) -> bool:
    return False


def _no_variants(attrs: object, inputs: Views, outputs: Views, target: TargetDescription) -> Variations:
    return {}


@dataclass(frozen=True, slots=True)
class KernelRow:
    """How one operator is served.

    `strided`: inputs with any strides are read where they are, except those at the positions in `dense`;
    `scattered`: so are outputs with any strides written. `checked`: the first word of the kernel's workspace becomes 1
    when an index lies outside its axis. `variants`: other generators by name, for autotune to measure; one that is
    equal to that of `generate` is none. `preferences`: which operands it would rather read in blocks; `reads`: whether
    it reads the operand at a place, whose view is given in order, in another layout of blocks too.
    """

    generate: Generate
    refuse: Refuse
    strided: bool = False
    scattered: bool = False
    dense: tuple[int, ...] = ()
    checked: bool = False
    variants: Variants = _no_variants
    preferences: Wishing = _no_preferences
    reads: Reading = _as_wished

    def others(self, attrs: object, inputs: Views, outputs: Views, target: TargetDescription) -> dict[str, Generator]:
        """The variants that differ from the first choice and from each other."""
        seen = {self.generate(attrs, inputs, outputs)}
        others = {}
        for name, generator in self.variants(attrs, inputs, outputs, target).items():
            if generator not in seen:
                seen.add(generator)
                others[name] = generator
        return others

    def generator(
        self, variant: str, attrs: object, inputs: Views, outputs: Views, target: TargetDescription
    ) -> Generator:
        """The variant of this name; the first choice where there is none for operands with these strides."""
        others = self.variants(attrs, inputs, outputs, target) if variant else {}
        return others.get(variant) or self.generate(attrs, inputs, outputs)


# `Any`: operators of all attribute types.
Rows = Mapping[Op[Any], KernelRow]


def view_of(spec: TensorSpec) -> View:
    """The contiguous operand of a spec."""
    blocked = spec.layout if isinstance(spec.layout, Blocked) else None
    return View(SCALARS[spec.dtype.name], spec.shape, contiguous(spec.shape), blocked)


def any_type(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse nothing."""
    return ""


def numeric(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse truth values."""
    return next((f"element type {s.dtype}" for s in (*inputs, *outputs) if s.dtype.name == BOOL.name), "")


def integral(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse operands that are no integers."""
    return next((f"element type {s.dtype}" for s in (*inputs, *outputs) if s.dtype.kind not in ("int", "uint")), "")


def floating(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse operands that are no floats."""
    return next((f"element type {s.dtype}" for s in (*inputs, *outputs) if not s.dtype.is_float), "")


def filled(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse operands that are no floats, or without elements."""
    empty = any(spec.elements == 0 for spec in (*inputs, *outputs))
    return "an empty operand" if empty else floating(attrs, inputs, outputs)


def only(*allowed: Scalar) -> Refuse:
    """Refuse operands of other element types."""
    names = {scalar.name for scalar in allowed}

    def refuse(attrs: object, inputs: Specs, outputs: Specs) -> str:
        other = next((spec for spec in (*inputs, *outputs) if spec.dtype.name not in names), None)
        return f"element type {other.dtype}" if other else ""

    return refuse
