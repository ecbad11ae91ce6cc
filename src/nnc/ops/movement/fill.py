"""fill: a constant tensor. y[…] = value."""

from __future__ import annotations

import math

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError
from nnc.ops.examples import MATRIX, Example
from nnc.ops.number import Number, exact, is_whole
from nnc.ops.operand import T
from nnc.ops.rules import NotDifferentiable, Pattern, Specs, operator

__all__ = ["fill_like", "scalar_like"]


@dataclass(frozen=True, slots=True)
class FillAttrs:
    """The value and the spec of the result."""

    value: Number
    spec: TensorSpec

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", exact(self.value))


def _infer(attrs: FillAttrs, specs: Specs) -> Specs:
    low, high = integer_range(attrs.spec.dtype)
    integral = (isinstance(attrs.value, int) or is_whole(attrs.value)) and low <= attrs.value <= high
    if not (attrs.spec.dtype.is_continuous or integral):
        raise AttributeValueError(
            "fill", got=f"a value that {attrs.spec.dtype} cannot hold", need=f"an integer {low}..{high}"
        )
    return (attrs.spec,)


def integer_range(dtype: DType) -> tuple[float, float]:
    """Least and largest value of an integer or truth type; without ends for floats.

    >>> from nnc.core.values.dtype import BOOL, I8
    >>> integer_range(I8), integer_range(BOOL)
    ((-128, 127), (0, 1))
    """
    bits = 8 * dtype.itemsize
    if dtype.kind == "int":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    ends = {"bool": (0, 1), "uint": (0, (1 << bits) - 1)}
    return ends.get(dtype.kind, (-math.inf, math.inf))


FILL = operator(
    "fill",
    FillAttrs,
    (),
    infer=_infer,
    gradient=NotDifferentiable("it has no inputs"),
    pattern=Pattern.ELEMENTWISE,
    example=Example(FillAttrs(0.0, MATRIX), ()),
    doc="y[…] = value",
)


def fill_like(x: T, value: Number) -> T:
    """A tensor of `value` with the spec of `x`; `x` is not read."""
    return x.apply(Command(FILL, FillAttrs(value, x.spec)), ())[0]


def scalar_like(x: T, value: Number) -> T:
    """A scalar of `x`'s element type; `x` is not read."""
    spec = TensorSpec((), x.spec.dtype, x.spec.layout, x.spec.device)
    return x.apply(Command(FILL, FillAttrs(value, spec)), ())[0]
