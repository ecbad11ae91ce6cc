"""Losses of several outputs at once: parts of an output, side by side along its last axis, that lie near or apart.

d(u, v) = |u - v|        as `Concatenate` puts outputs of one network side by side: [anchor, positive, negative]
"""

from __future__ import annotations

from nnc.arguments import Positive, checked
from nnc.classes import dataclass
from nnc.errors import ShapeError
from nnc.nn.optimization.losses import PointwiseLoss
from nnc.ops import add, affine, cast, less, maximum, multiply, reduce_sum, relu, slice_axis, sqrt, square, subtract
from nnc.ops.movement.fill import scalar_like
from nnc.ops.operand import T

__all__ = ["ContrastiveLoss", "TripletLoss"]

# Of two equal outputs: their distance has no slope.
LEAST = 1e-6


@checked
@dataclass(frozen=True, slots=True)
class TripletLoss(PointwiseLoss):
    """loss = mean of max(0, d(a, p) - d(a, n) + margin) of outputs [anchor, positive, negative].

    The score counts the triplets whose positive is nearer (Schroff et al. 2015). Targets, one per triplet, say how much
    each of them weighs: 1, or 0 for one that is left out.

    >>> nn.TripletLoss(1.0)([[0.0, 0.5, 2.0]], [1.0])
    Variable(f32[], constant)
    0.0
    """

    margin: Positive = 1.0
    target_range = (0.0, 1.0)

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """A number per triplet."""
        _check_parts("TripletLoss", output, 3)
        return output[:-1]

    def each(self, output: T, target: T) -> T:
        """target · max(0, d(a, p) - d(a, n) + margin)"""
        return multiply(target, relu(affine(_margin(output), 1.0, self.margin)))

    def follow(self, output: T, target: T) -> T:
        """1 where the positive is nearer."""
        return multiply(target, _is_negative(_margin(output)))


@checked
@dataclass(frozen=True, slots=True)
class ContrastiveLoss(PointwiseLoss):
    """loss = mean of (t · d² + (1 - t) · max(0, margin - d)²) / 2, d = d(u, v) of outputs [u, v]; t = 1: a like pair.

    The score counts the pairs that lie on the right side of half of the margin (Hadsell, Chopra, LeCun 2006).

    >>> nn.ContrastiveLoss(1.0)([[0.0, 2.0]], [1.0])
    Variable(f32[], constant)
    2.0
    """

    margin: Positive = 1.0
    target_range = (0.0, 1.0)

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """A number per pair."""
        _check_parts("ContrastiveLoss", output, 2)
        return output[:-1]

    def each(self, output: T, target: T) -> T:
        """(t · d² + (1 - t) · max(0, m - d)²) / 2"""
        d = _distance(output, 0, 1, 2)
        apart = square(relu(affine(d, -1.0, self.margin)))
        return affine(add(multiply(target, square(d)), multiply(affine(target, -1.0, 1.0), apart)), 0.5)

    def follow(self, output: T, target: T) -> T:
        """1 where like pairs are near and others far: t · near + (1 - t) · (1 - near)"""
        near = _is_negative(affine(_distance(output, 0, 1, 2), 1.0, -self.margin / 2))
        return add(multiply(target, near), multiply(affine(target, -1.0, 1.0), affine(near, -1.0, 1.0)))


def _margin(output: T) -> T:
    """d(anchor, positive) - d(anchor, negative)"""
    return subtract(_distance(output, 0, 1, 3), _distance(output, 0, 2, 3))


def _distance(output: T, first: int, other: int, parts: int) -> T:
    """Between two of the parts of the last axis."""
    axis, width = output.spec.rank - 1, output.shape[-1] // parts
    u, v = (slice_axis(output, axis, place * width, (place + 1) * width) for place in (first, other))
    summed = reduce_sum(square(subtract(u, v)), (-1,))
    return sqrt(maximum(summed, scalar_like(summed, LEAST**2)))


def _is_negative(x: T) -> T:
    """1 where x < 0."""
    return cast(less(x, scalar_like(x, 0.0)), x.spec.dtype)


def _check_parts(subject: str, output: tuple[int, ...], parts: int) -> None:
    if not output or output[-1] % parts:
        got = f"{output[-1] if output else 'no'} features"
        raise ShapeError(
            subject,
            got=got,
            need=f"{parts} outputs of one width, side by side",
            fix="Lambda(lambda *outputs: concatenate(outputs, -1))",
        )
