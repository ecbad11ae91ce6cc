"""A scale of the loss that finds itself, for gradients in 16 bits (Micikevicius et al. 2018).

gradient = gradient of (scale · loss) / scale

An update whose gradients overflow is left out and halves the scale; after so many without one the scale doubles.
"""

from __future__ import annotations

from nnc.arguments import Count, Positive, checked
from nnc.classes import dataclass
from nnc.errors import AttributeValueError

__all__ = ["LossScale"]


@dataclass(frozen=True, slots=True)
class Scaling:
    """The scale of now, and how many passes since it last changed had finite gradients."""

    scale: float
    passes: int = 0


@checked
@dataclass(frozen=True, slots=True)
class LossScale:
    """Begins at `first`, times `factor` after `interval` passes without an overflow, through it after each with one.

    It stays between `least` and `most`. Powers of two change no bit of a gradient that neither over- nor underflows.
    """

    first: Positive = 2.0**15
    factor: Positive = 2.0
    interval: Count = 2000
    least: Positive = 1.0
    most: Positive = 2.0**24

    def __post_init__(self) -> None:
        # NumPy's numbers would compare in their own type.
        least, first, most = map(float, (self.least, self.first, self.most))
        if not (least <= first <= most and self.factor > 1.0):
            raise AttributeValueError("LossScale", got=str(self), need="least ≤ first ≤ most and a factor above 1")

    def start(self) -> Scaling:
        """Before the first pass."""
        return Scaling(self.first)

    def may_fall(self, scaling: Scaling) -> bool:
        """Whether a smaller scale is left."""
        return scaling.scale > self.least

    def after(self, scaling: Scaling, *, finite: bool) -> Scaling:
        """Behind a pass whose gradients were finite, or were not."""
        if not finite:
            return Scaling(max(scaling.scale / self.factor, self.least))
        if scaling.passes + 1 < self.interval:
            return Scaling(scaling.scale, scaling.passes + 1)
        return Scaling(min(scaling.scale * self.factor, self.most))
