"""Losses of language models: over the tokens that count, and over pairs of answers of which one is preferred.

log p(answer) = sum over its tokens of x[t, label[t]] - ln sum_c e^x[t, c], x logits; labels below 0 do not count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Positive, checked
from nnc.classes import dataclass
from nnc.core.values.dtype import F32, I32, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import DataError, ShapeError
from nnc.nn.optimization.joint_losses import JointLoss
from nnc.nn.optimization.losses import Loss
from nnc.ops import (
    affine,
    argmax,
    cast,
    divide,
    equal,
    greater,
    greater_equal,
    maximum,
    multiply,
    reduce_mean,
    reduce_sum,
    reshape,
    slice_axis,
    softmax_cross_entropy,
    softplus,
    subtract,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.operand import T

__all__ = ["DirectPreference", "TokenCrossEntropy"]


@checked
@dataclass(frozen=True, slots=True)
class TokenCrossEntropy(Loss):
    """loss = mean over labels ≥ 0 of ln sum_c e^x[…, c] - x[…, label]; labels below 0 do not count (-100 in PyTorch).

    The score is the share of the labels that have the largest logit, times the batch. 0 where nothing counts.

    >>> nn.TokenCrossEntropy()([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0, -100])
    Variable(f32[], constant)
    0.2395448386669159
    """

    target_range = None

    @property
    def target_dtype(self) -> DType | None:
        """Labels are 32-bit integers."""
        return I32

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """One label per row of logits."""
        return output[:-1]

    def check_targets(self, subject: str, targets: NDArray[np.generic], output: tuple[int, ...]) -> None:
        """DataError for labels that are no whole numbers below the classes."""
        if targets.dtype.kind not in "iu" or (targets.size and int(targets.max()) >= output[-1]):
            got = f"labels of {targets.dtype}" if targets.dtype.kind not in "iu" else "a label out of range"
            raise DataError(subject, got=got, need=f"integers below {output[-1]}; those below 0 do not count")

    def build(self, output: T, target: T) -> T:
        """Mean over the labels that count."""
        each, counted = _negative_log_likelihood(output, target)
        return divide(reduce_sum(each), _at_least_one(reduce_sum(counted)))

    def score(self, output: T, target: T) -> T:
        """batch · right / counted"""
        counted = cast(_counts(target), output.spec.dtype)
        right = equal(cast(argmax(output, -1), target.spec.dtype), target)
        share = divide(reduce_sum(cast(right, output.spec.dtype)), _at_least_one(reduce_sum(counted)))
        return affine(share, output.shape[0])


@checked
@dataclass(frozen=True, slots=True)
class DirectPreference(JointLoss):
    """loss = mean of -ln σ(beta · ((p₀ - p₁) - (r₀ - r₁))): direct preference optimization (Rafailov et al. 2023).

    p₀ and p₁ are log p of a preferred answer and of the other one by the logits[batch, 2, t, vocabulary], r₀ and r₁
    those of the network that training began with. Targets are labels[batch, 2, t], below 0 where they do not count,
    and r[batch, 2]. The score counts pairs whose preferred answer has become the likelier one.
    """

    beta: Positive = 0.1

    def target_specs(self, outputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        """Labels, and log p of each answer before the training."""
        logits = outputs[0]
        if len(outputs) != 1 or logits.rank != 4 or logits.shape[1] != 2:
            need = "logits [batch, 2, t, vocabulary]"
            raise ShapeError("DirectPreference", got=", ".join(map(str, outputs)), need=need)
        return TensorSpec(logits.shape[:3], I32), TensorSpec(logits.shape[:2], F32)

    def build(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        """Mean over pairs."""
        return reduce_mean(softplus(affine(self._margin(outputs, targets), -self.beta)))

    def score(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        """Pairs with a margin above 0."""
        margin = self._margin(outputs, targets)
        return reduce_sum(cast(greater(margin, scalar_like(margin, 0.0)), margin.spec.dtype))

    def _margin(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        """(p₀ - p₁) - (r₀ - r₁) of each pair."""
        gained = subtract(log_probabilities(outputs[0], targets[0]), cast(targets[1], outputs[0].spec.dtype))
        preferred, other = (slice_axis(gained, 1, place, place + 1) for place in (0, 1))
        return reshape(subtract(preferred, other), (gained.shape[0],))


def log_probabilities(logits: T, labels: T) -> T:
    """log p[…] of the labels[…, t] that are 0 or more, by logits[…, t, classes]."""
    each, _ = _negative_log_likelihood(logits, labels)
    return affine(reduce_sum(each, (each.spec.rank - 1,)), -1.0)


def _counts(labels: T) -> T:
    return greater_equal(labels, scalar_like(labels, 0))


def _negative_log_likelihood(logits: T, labels: T) -> tuple[T, T]:
    """-log p of each label, 0 where it does not count; and 1 where it does."""
    counted = cast(_counts(labels), logits.spec.dtype)
    each = softmax_cross_entropy(logits, maximum(labels, scalar_like(labels, 0)))[0]
    return multiply(each, counted), counted


def _at_least_one(count: T) -> T:
    return maximum(count, scalar_like(count, 1.0))
