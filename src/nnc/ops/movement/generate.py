"""Tensors made of nothing but attributes. (Constants are in `fill.py`.)

arange: y[k] = start + k · step
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.examples import ROW, Example
from nnc.ops.movement.fill import integer_range
from nnc.ops.operand import T
from nnc.ops.rules import ARITHMETIC, NotDifferentiable, Pattern, Specs, check_kinds, operator

__all__ = ["arange_like"]


@dataclass(frozen=True, slots=True)
class ArangeAttrs:
    """Spec of the result (its one axis counts the values), first value, difference."""

    spec: TensorSpec
    start: float = 0.0
    step: float = 1.0


def _infer(attrs: ArangeAttrs, specs: Specs) -> Specs:
    check_kinds(ARITHMETIC, attrs.spec)
    if attrs.spec.rank != 1:
        raise ShapeError("arange", got=str(attrs.spec), need="one dimension")
    if attrs.spec.dtype.is_continuous:
        return (attrs.spec,)
    low, high = integer_range(attrs.spec.dtype)
    start, step = float(attrs.start), float(attrs.step)
    last = start + max(attrs.spec.elements - 1, 0) * step
    if not (start.is_integer() and step.is_integer() and all(low <= value <= high for value in (start, last))):
        got = f"values that {attrs.spec.dtype} cannot hold"
        raise AttributeValueError("arange", got=got, need=f"integers {low}..{high}")
    return (attrs.spec,)


ARANGE = operator(
    "arange",
    ArangeAttrs,
    (),
    infer=_infer,
    gradient=NotDifferentiable("it has no inputs"),
    pattern=Pattern.ELEMENTWISE,
    example=Example(ArangeAttrs(ROW), ()),
    doc="y[k] = start + k · step",
)


def arange_like(x: T, count: int, start: float = 0.0, step: float = 1.0, dtype: DType | None = None) -> T:
    """`count` values from `start` by `step`, of `x`'s element type unless `dtype` is given; `x` is not read."""
    spec = TensorSpec((count,), dtype or x.spec.dtype, x.spec.layout, x.spec.device)
    return x.apply(Command(ARANGE, ArangeAttrs(spec, float(start), float(step))), ())[0]
