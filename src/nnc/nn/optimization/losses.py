"""Losses: a scalar to minimize, from the model's output and the target."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Positive, Rate, Share, checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import I32, DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operands, host_values
from nnc.errors import DataError, ShapeError
from nnc.ops import (
    abs,
    add,
    affine,
    argmax,
    broadcast_to,
    cast,
    clamp,
    ctc_loss,
    divide,
    equal,
    exp,
    greater,
    log,
    log_softmax,
    maximum,
    multiply,
    reduce_mean,
    reduce_sum,
    relu,
    reshape,
    slice_axis,
    softmax_cross_entropy,
    softplus,
    sqrt,
    square,
    subtract,
    where,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.operand import T

__all__ = [
    "BinaryCrossEntropy", "CosineLoss", "CTC", "GaussianLikelihood",
    "Hinge", "Huber", "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError", "MeanSquaredError",
    "PointwiseLoss", "PoissonLoss", "SmoothedCrossEntropy", "SoftmaxCrossEntropy", "Weighted",
]  # fmt: skip


class Loss(ABC):
    """How far an output is from its target.

    Targets that are no classes lie in `target_range`, ends included; where it is None they are not looked at.
    """

    __slots__ = ()
    target_range: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def __call__(self, output: ArrayLike | ArrayOperand, target: ArrayLike | ArrayOperand) -> ArrayOperand:
        """The scalar loss of arrays, eager and traced values, for training loops of one's own."""
        y, wanted = as_operands(output, target)
        subject, need = type(self).__name__, self.target_shape(y.shape)
        if wanted.shape != need:
            fix = "give the target as predictions are: target.reshape(output.shape)"
            raise ShapeError(subject, got=f"a target of {wanted.spec}", need=f"{need}", fix=fix, origin=caller_origin())
        classes, labels = self.classes(y.shape), host_values(wanted)
        if classes and labels is not None and labels.size and not _are_labels(labels, classes):
            raise DataError(subject, got="a label out of range", need=f"0 to {classes - 1}", origin=caller_origin())
        return self.build(y, cast(wanted, self.target_dtype or y.dtype))

    @property
    @abstractmethod
    def target_dtype(self) -> DType | None:
        """Element type of targets; None for that of the output."""

    @abstractmethod
    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the targets of an output."""

    def classes(self, output: tuple[int, ...]) -> int:
        """How many classes targets are numbers of; 0 where they are no numbers of classes."""
        return 0

    def check_targets(self, subject: str, targets: NDArray[np.generic], output: tuple[int, ...]) -> None:
        """DataError for targets of the right shape and range that make no sense for outputs of this shape."""
        return

    @abstractmethod
    def build(self, output: T, target: T) -> T:
        """The scalar loss: a mean over the batch."""

    @abstractmethod
    def score(self, output: T, target: T) -> T:
        """A scalar that sums over the batch what users follow beside the loss (such as right answers)."""


def _are_labels(labels: NDArray[np.generic], classes: int) -> bool:
    """Whether all are 0 to `classes` - 1: without a sign, where one look says it, what is negative is larger."""
    if labels.dtype.kind == "i" and labels.flags.c_contiguous:
        return bool(np.maximum.reduce(labels.view(f"u{labels.dtype.itemsize}"), axis=None) < classes)
    return bool(labels.min() >= 0 and labels.max() < classes)


class PointwiseLoss(Loss):
    """loss = mean of `each`[batch, …], score = sum of `follow`[batch, …]: rows that fill up a batch can be left out."""

    __slots__ = ()

    @property
    def target_dtype(self) -> DType | None:
        """Targets are of the output's type."""
        return None

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """As the output."""
        return output

    @abstractmethod
    def each(self, output: T, target: T) -> T:
        """What the loss is the mean of, one or more numbers per example."""

    def follow(self, output: T, target: T) -> T:
        """What the score is the sum of: the loss of each example, unless a loss says otherwise."""
        each = self.each(output, target)
        return affine(each, 1.0 / max(math.prod(each.shape[1:]), 1))

    def build(self, output: T, target: T) -> T:
        """Mean over the batch."""
        return reduce_mean(self.each(output, target))

    def score(self, output: T, target: T) -> T:
        """Sum over the batch."""
        return reduce_sum(self.follow(output, target))

    def build_padded(self, output: T, target: T, real: T, share: T) -> tuple[T, T]:
        """Loss and score over the places that are `real`[batch] or [batch, steps], 1 / `share` of them."""

        def total(values: T) -> T:
            mask = reshape(real, (*real.shape, *(1,) * (values.spec.rank - real.spec.rank)))
            return reduce_sum(where(broadcast_to(mask, values.shape), values, scalar_like(values, 0.0)))

        each = self.each(output, target)
        mean = multiply(total(each), cast(share, each.spec.dtype))
        per_place = max(math.prod(each.shape[real.spec.rank :]), 1)
        return affine(mean, 1.0 / per_place), total(self.follow(output, target))


@checked
@dataclass(frozen=True, slots=True)
class SoftmaxCrossEntropy(PointwiseLoss):
    """loss = mean_n (ln sum_c e^x[n, c] - x[n, label[n]]); the score counts rows whose largest logit is the label's.

    >>> nn.SoftmaxCrossEntropy()([[2.0, 0.0, 0.0]], [0])
    Variable(f32[], constant)
    0.2395448386669159
    """

    @property
    def target_dtype(self) -> DType | None:
        """Labels are 32-bit integers."""
        return I32

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """One label per row."""
        return output[:-1]

    def classes(self, output: tuple[int, ...]) -> int:
        """One class per logit."""
        return output[-1]

    def each(self, output: T, target: T) -> T:
        """Cross entropy of each row."""
        return softmax_cross_entropy(output, target)[0]

    def follow(self, output: T, target: T) -> T:
        """1 for right answers."""
        return cast(equal(cast(argmax(output, -1), target.spec.dtype), target), output.spec.dtype)


@checked
@dataclass(frozen=True, slots=True)
class MeanSquaredError(PointwiseLoss):
    """loss = mean (output - target)²; the score is the sum over the batch of each example's mean.

    >>> nn.MeanSquaredError()([[1.0, 3.0]], [[1.0, 1.0]])
    Variable(f32[], constant)
    2.0
    """

    def each(self, output: T, target: T) -> T:
        """(output - target)²"""
        return square(subtract(output, target))


@checked
@dataclass(frozen=True, slots=True)
class MeanAbsoluteError(PointwiseLoss):
    """loss = mean |output - target|.

    >>> nn.MeanAbsoluteError()([[1.0, 3.0]], [[1.0, 1.0]])
    Variable(f32[], constant)
    1.0
    """

    def each(self, output: T, target: T) -> T:
        """|output - target|"""
        return abs(subtract(output, target))


@checked
@dataclass(frozen=True, slots=True)
class Huber(PointwiseLoss):
    """loss = mean of d² / 2 where |d| ≤ delta, else delta · (|d| - delta / 2); d = output - target (Huber 1964).

    >>> nn.Huber()([[3.0]], [[1.0]])
    Variable(f32[], constant)
    1.5
    """

    delta: Positive = 1.0

    def each(self, output: T, target: T) -> T:
        """m · (|d| - m / 2), m = min(|d|, delta)"""
        distance = abs(subtract(output, target))
        near = clamp(distance, None, self.delta)
        return multiply(near, subtract(distance, affine(near, 0.5)))


@checked
@dataclass(frozen=True, slots=True)
class LogCosh(PointwiseLoss):
    """loss = mean ln cosh(output - target) = mean of d + softplus(-2 d) - ln 2."""

    def each(self, output: T, target: T) -> T:
        """ln cosh d"""
        d = subtract(output, target)
        return affine(add(d, softplus(affine(d, -2.0))), 1.0, -math.log(2.0))


@checked
@dataclass(frozen=True, slots=True)
class BinaryCrossEntropy(PointwiseLoss):
    """loss = mean of softplus(x) - x · target for logits x and targets in 0..1; the score counts right signs.

    >>> nn.BinaryCrossEntropy()([[0.0]], [[1.0]])
    Variable(f32[], constant)
    0.6931471824645996
    """

    target_range = (0.0, 1.0)

    def each(self, output: T, target: T) -> T:
        """-target · ln σ(x) - (1 - target) · ln(1 - σ(x))"""
        return subtract(softplus(output), multiply(output, target))

    def follow(self, output: T, target: T) -> T:
        """The share of right signs."""
        zero, half = scalar_like(output, 0.0), scalar_like(target, 0.5)
        right = cast(equal(greater(output, zero), greater(target, half)), output.spec.dtype)
        return affine(right, 1.0 / max(math.prod(right.shape[1:]), 1))


@checked
@dataclass(frozen=True, slots=True)
class PoissonLoss(PointwiseLoss):
    """loss = mean of e^x - target · x, for the logarithm x of a rate."""

    target_range = (0.0, math.inf)

    def each(self, output: T, target: T) -> T:
        """e^x - target · x"""
        return subtract(exp(output), multiply(target, output))


@checked
@dataclass(frozen=True, slots=True)
class KLDivergence(PointwiseLoss):
    """loss = mean over examples of sum target · (ln target - ln softmax(x)), for logits x and targets that sum to 1."""

    target_range = (0.0, 1.0)

    def each(self, output: T, target: T) -> T:
        """sum over classes; 0 · ln 0 = 0"""
        sure = where(
            greater(target, scalar_like(target, 0.0)), log(maximum(target, scalar_like(target, 1e-30))), target
        )
        return reduce_sum(multiply(target, subtract(sure, log_softmax(output))), (-1,))


@checked
@dataclass(frozen=True, slots=True)
class Hinge(PointwiseLoss):
    """loss = mean max(0, 1 - target · output), targets -1 or 1."""

    target_range = (-1.0, 1.0)

    def each(self, output: T, target: T) -> T:
        """max(0, 1 - target · output)"""
        return relu(affine(multiply(target, output), -1.0, 1.0))


@checked
@dataclass(frozen=True, slots=True)
class CosineLoss(PointwiseLoss):
    """loss = mean over examples of 1 - cosine of output and target along the last axis.

    >>> nn.CosineLoss()([[1.0, 0.0]], [[0.0, 1.0]])
    Variable(f32[], constant)
    1.0
    """

    epsilon: Positive = 1e-8

    def each(self, output: T, target: T) -> T:
        """1 - y · t / (|y| |t|)"""
        norms = [sqrt(maximum(reduce_sum(square(x), (-1,)), scalar_like(x, self.epsilon**2))) for x in (output, target)]
        dot = reduce_sum(multiply(output, target), (-1,))
        return affine(divide(dot, multiply(*norms)), -1.0, 1.0)


@checked
@dataclass(frozen=True, slots=True)
class SmoothedCrossEntropy(SoftmaxCrossEntropy):
    """Cross entropy with `smoothing` of the target spread over all classes evenly (Szegedy et al. 2016)."""

    smoothing: Share = 0.1

    def each(self, output: T, target: T) -> T:
        """(1 - s) · ce(label) + s · mean over classes of -ln softmax(x)"""
        plain = affine(softmax_cross_entropy(output, target)[0], 1.0 - self.smoothing)
        return subtract(plain, affine(reduce_mean(log_softmax(output), (-1,)), self.smoothing))


@checked
@dataclass(frozen=True, slots=True)
class GaussianLikelihood(PointwiseLoss):
    """loss = mean of (v + (target - m)² / e^v) / 2 for outputs [m, v]: means, then logarithms of variances."""

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """Half of the features of the output."""
        if output[-1] % 2:
            raise ShapeError("GaussianLikelihood", got=f"{output[-1]} features", need="means and as many variances")
        return (*output[:-1], output[-1] // 2)

    def each(self, output: T, target: T) -> T:
        """(v + (target - m)² · e^-v) / 2"""
        axis, half = output.spec.rank - 1, output.shape[-1] // 2
        mean, spread = slice_axis(output, axis, 0, half), slice_axis(output, axis, half, 2 * half)
        far = multiply(square(subtract(target, mean)), exp(affine(spread, -1.0)))
        return affine(add(spread, far), 0.5)


@checked
@dataclass(frozen=True, slots=True)
class CTC(PointwiseLoss):
    """loss = mean of -ln p(labels | logits[steps, classes]), over all alignments (Graves et al. 2006).

    Targets are at most `labels` classes, filled up with 0, which is the blank. Divided by nothing but the batch.
    """

    labels: Count

    @property
    def target_dtype(self) -> DType | None:
        """Labels are 32-bit integers."""
        return I32

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """Labels, of which no more than the steps can be said."""
        return (*output[:-2], self.labels)

    def classes(self, output: tuple[int, ...]) -> int:
        """One class per logit, the blank among them."""
        return output[-1]

    def check_targets(self, subject: str, targets: NDArray[np.generic], output: tuple[int, ...]) -> None:
        """Labels stand before blanks, and find room: a step for each, and one more between two that are equal."""
        said = targets != 0
        needed = said.sum(-1) + ((targets[:, 1:] == targets[:, :-1]) & said[:, 1:]).sum(-1)
        for what, wrong in (
            ("a label behind a blank (0)", (said[:, 1:] & ~said[:, :-1]).any(-1)),
            (f"more labels than {output[-2]} steps hold", needed > output[-2]),
        ):
            if wrong.any():
                need = "labels first, then 0; a step for each, and one more between equal ones"
                raise DataError(subject, got=f"{what} in row {int(wrong.argmax())}", need=need)

    def each(self, output: T, target: T) -> T:
        """Of each example."""
        if output.spec.rank != 3:
            raise ShapeError("CTC", got=str(output.spec), need="logits [batch, steps, classes]")
        said = reduce_sum(cast(greater(target, scalar_like(target, 0.0)), I32), (1,))
        steps = affine(said, 0.0, float(output.shape[1]))
        return ctc_loss(log_softmax(output), target, steps, said)


@checked
@dataclass(frozen=True, slots=True)
class Weighted(PointwiseLoss):
    """`weight` times another loss: for one of several outputs.

    >>> nn.Weighted(nn.MeanSquaredError(), 0.5)
    Weighted(loss=MeanSquaredError(), weight=0.5)
    """

    loss: PointwiseLoss
    weight: Rate

    @property
    def target_dtype(self) -> DType | None:
        """That of the loss."""
        return self.loss.target_dtype

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """That of the loss."""
        return self.loss.target_shape(output)

    def classes(self, output: tuple[int, ...]) -> int:
        """Those of the loss."""
        return self.loss.classes(output)

    def check_targets(self, subject: str, targets: NDArray[np.generic], output: tuple[int, ...]) -> None:
        """As the loss does."""
        self.loss.check_targets(subject, targets, output)

    def each(self, output: T, target: T) -> T:
        """weight · loss"""
        return affine(self.loss.each(output, target), self.weight)

    def follow(self, output: T, target: T) -> T:
        """The score of the loss."""
        return self.loss.follow(output, target)
