"""PyTorch's methods that end in `_`: an eager value holds another one from then on, and what was computed stays.

    bias.zero_()        total.add_(x, alpha=0.1)        with nnc.no_grad(): w.sub_(0.1 * w.grad)        w.data.mul_(0.5)

A leaf that gradients are asked for takes them under `no_grad`, or by its `data`, a constant of its value: what that is
given the leaf holds too. Views are refused, because the array would keep what it has. In functions that are
compiled or mapped they are an error: views are not told from arrays there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from nnc.arguments import explained, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor
from nnc.errors import ArgumentError, ShapeError, UsageError

NUMBERS = (bool, int, float, complex, np.number)
# What says the same of a value that a name stands for.
FORMS = {
    "add_": "x = x + other",
    "sub_": "x = x - other",
    "mul_": "x = x * other",
    "div_": "x = x / other",
    "clamp_": "x = x.clip(low, high)",
    "lerp_": "x = x + weight * (end - x)",
    "copy_": "x = other",
    "fill_": "x = nnc.full_like(x, value)",
    "zero_": "x = nnc.zeros_like(x)",
}


def fits(given: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether sizes are repeated to these."""
    return all(have in (1, want) for have, want in zip(reversed(given), reversed(shape), strict=False))


class InPlaceMethods:
    """The methods; `_settled` is what the class does with the new value."""

    __slots__ = ()

    def _settled(self, subject: str, new: Any) -> Self:  # noqa: ANN401  # an array of this class
        """Hold the new value; UsageError for what is no eager value."""
        got, fix = "a value of a function that is compiled or mapped", FORMS.get(subject, f"x = x.{subject[:-1]}(…)")
        raise UsageError(subject, got=got, need="an eager value", fix=fix, origin=caller_origin())

    def _filled(self, subject: str, value: Any) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        this: Any = self
        return self._settled(subject, this.at[...].set(value))

    def _other(self, subject: str, other: Any) -> Any:  # noqa: ANN401  # as above
        """What it is computed with: a number, or an array; ArgumentError for what is neither."""
        this: Any = self
        if isinstance(other, np.generic):
            # As one of Python's, whose products are exact or infinite: NumPy's own wrap, or are a warning.
            other = other.item()
        if isinstance(other, NUMBERS):
            return other
        operand = this.lift(Tensor.from_numpy(other, this.dtype) if isinstance(other, list | tuple) else other)
        if operand is None:
            got = f"other={shown(other)}"
            raise ArgumentError(subject, got=got, need="an array or a number", origin=caller_origin())
        return operand

    def _times(self, subject: str, other: Any, alpha: Any) -> Any:  # noqa: ANN401  # as above
        other = self._other(subject, other)
        if alpha == 1:
            return other
        try:
            return other * self._other(subject, alpha)
        except OverflowError:
            need = "numbers that a float holds"
            raise ArgumentError(subject, got=shown(other), need=need, origin=caller_origin()) from None

    @explained
    def add_(self, other: Any, *, alpha: float = 1) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x + alpha · other from now on.

        >>> x = nnc.tensor([1.0, 2.0])
        >>> x.add_(1).mul_(10.0)
        Variable(f32[2], constant)
        [20. 30.]
        """
        this: Any = self
        return self._settled("add_", this + self._times("add_", other, alpha))

    @explained
    def sub_(self, other: Any, *, alpha: float = 1) -> Self:  # noqa: ANN401  # as above
        """x - alpha · other from now on."""
        this: Any = self
        return self._settled("sub_", this - self._times("sub_", other, alpha))

    def mul_(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """x · other from now on."""
        this: Any = self
        return self._settled("mul_", this * self._other("mul_", other))

    def div_(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """x / other from now on."""
        this: Any = self
        return self._settled("div_", this / self._other("div_", other))

    def clamp_(self, min: Any = None, max: Any = None) -> Self:  # noqa: ANN401  # as above
        """x within min..max from now on."""
        this: Any = self
        return self._settled("clamp_", this.clip(min, max))

    def lerp_(self, end: Any, weight: Any) -> Self:  # noqa: ANN401  # as above
        """x + weight · (end - x) from now on: a moving average."""
        this: Any = self
        end, weight = self._other("lerp_", end), self._other("lerp_", weight)
        return self._settled("lerp_", this + (end - this) * weight)

    def copy_(self, src: Any) -> Self:  # noqa: ANN401  # as above
        """The elements of another array from now on, of a shape that fits, in this element type."""
        this: Any = self
        source = this.lift(src if hasattr(src, "spec") else np.asarray(src))
        if source is None or source.ndim > this.ndim or not fits(source.shape, this.shape):
            got = shown(src) if source is None else str(source.spec)
            turned = source is not None and source.shape == this.shape[::-1]
            fix = "copy_(w.T): nn.Linear has weight[out, in] as PyTorch, nn.Dense weight[in, out]" if turned else ""
            raise ShapeError("copy_", got=got, need=f"an array that fits {this.spec}", fix=fix, origin=caller_origin())
        return self._filled("copy_", source.astype(this.dtype))

    def fill_(self, value: Any) -> Self:  # noqa: ANN401  # as above
        """All of one value from now on."""
        return self._filled("fill_", value)

    def zero_(self) -> Self:
        """All zeros from now on."""
        return self._filled("zero_", 0)
