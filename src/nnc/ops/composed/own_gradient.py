"""own_gradient: y₁ … of (y₁ …, x₁ …), whose gradient by x₁ … its author writes; none flows to y₁ …

What functions with gradients of their own are in graphs (`nnc.autograd.Function`, `custom_vjp`). Behind differentiation
one of one result is nothing, and passes take it away. It is known by no name: no text of a graph can say it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnc.classes import dataclass
from nnc.graph import Op, Registry
from nnc.ops.batching import BatchedCall
from nnc.ops.composed.custom import KERNEL, Arrays
from nnc.ops.operand import Operand
from nnc.ops.rules import Applied, Gradients, Specs, operator

__all__ = ["OWN_GRADIENT", "OwnGradientAttrs"]


@dataclass(frozen=True, slots=True, eq=False)
class OwnGradientAttrs:
    """How many results there are, their gradient rule, and the operator on a batch."""

    results: int
    gradient: Callable[[Applied[Any], Gradients], Gradients]
    batched: Callable[[BatchedCall[Any]], tuple[Operand, ...]]


def _infer(attrs: OwnGradientAttrs, specs: Specs) -> Specs:
    return specs[: attrs.results]


# `Any`: elements of any type.
def _handed_on(attrs: OwnGradientAttrs, inputs: Arrays, outputs: Sequence[Any]) -> None:
    for value, output in zip(inputs, outputs, strict=False):
        output[...] = value


OWN_GRADIENT: Op[OwnGradientAttrs] = operator(
    "own_gradient",
    OwnGradientAttrs,
    ("x",),
    infer=_infer,
    gradient=lambda call, gradients: call.attrs.gradient(call, gradients),
    batched=lambda call: call.attrs.batched(call),
    variadic=True,
    registry=Registry("own gradients"),
    doc="y₁ … of (y₁ …, x₁ …), whose gradient by x₁ … its author writes",
)
KERNEL.set(OWN_GRADIENT, _handed_on)
