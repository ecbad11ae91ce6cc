"""Tensors made of nothing but attributes. (Constants are in `fill.py`.)

arange: y[k] = start + k · step
"""

from __future__ import annotations

from dataclasses import dataclass

from nnc.core.command import Command
from nnc.core.dtype import F32, DType
from nnc.core.spec import TensorSpec
from nnc.errors import AttributeValueError
from nnc.ops.operand import T
from nnc.ops.rules import NotDifferentiable, Pattern, Specs, operator


@dataclass(frozen=True, slots=True)
class ArangeAttrs:
    """First value, difference, number of values, element type."""

    start: float
    step: float
    count: int
    dtype: DType = F32


def _infer(attrs: ArangeAttrs, specs: Specs) -> Specs:
    if attrs.count < 0:
        raise AttributeValueError("arange", got=f"count {attrs.count}", need="count ≥ 0")
    return (TensorSpec((attrs.count,), attrs.dtype),)


ARANGE = operator(
    "arange",
    ArangeAttrs,
    (),
    infer=_infer,
    gradient=NotDifferentiable("it has no inputs"),
    pattern=Pattern.ELEMENTWISE,
    doc="y[k] = start + k · step",
)


def arange_like(x: T, count: int, start: float = 0.0, step: float = 1.0, dtype: DType | None = None) -> T:
    """`count` values from `start` by `step`, of `x`'s element type unless `dtype` is given; `x` is not read."""
    return x.apply(Command(ARANGE, ArangeAttrs(start, step, count, dtype or x.spec.dtype)), ())[0]
