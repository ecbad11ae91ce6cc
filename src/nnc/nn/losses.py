"""Losses: a scalar to minimize, from the model's output and the target."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from nnc.arguments import checked
from nnc.core.dtype import I32, DType
from nnc.ops import (
    affine,
    argmax,
    broadcast_to,
    cast,
    equal,
    multiply,
    reduce_mean,
    reduce_sum,
    reshape,
    softmax_cross_entropy,
    square,
    subtract,
    where,
)
from nnc.ops.fill import scalar_like
from nnc.ops.operand import T


class Loss(ABC):
    """How far an output is from its target."""

    __slots__ = ()

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

    @abstractmethod
    def build(self, output: T, target: T) -> T:
        """The scalar loss: a mean over the batch."""

    @abstractmethod
    def score(self, output: T, target: T) -> T:
        """A scalar that sums over the batch what users follow beside the loss (such as right answers)."""


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
    """loss = mean_n (ln sum_c e^x[n, c] - x[n, label[n]]); the score counts rows whose largest logit is the label's."""

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
    """loss = mean (output - target)²; the score is the sum over the batch of each example's mean."""

    def each(self, output: T, target: T) -> T:
        """(output - target)²"""
        return square(subtract(output, target))
