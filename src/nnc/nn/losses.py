"""Losses: a scalar to minimize, from the model's output and the target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from nnc.arguments import checked
from nnc.core.dtype import I32, DType
from nnc.ops import affine, argmax, cast, equal, reduce_mean, reduce_sum, softmax_cross_entropy, square, subtract
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


@checked
@dataclass(frozen=True, slots=True)
class SoftmaxCrossEntropy(Loss):
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

    def build(self, output: T, target: T) -> T:
        """Mean cross entropy of the rows."""
        return reduce_mean(softmax_cross_entropy(output, target)[0])

    def score(self, output: T, target: T) -> T:
        """Number of right answers."""
        right = equal(cast(argmax(output, -1), target.spec.dtype), target)
        return reduce_sum(cast(right, output.spec.dtype))


@checked
@dataclass(frozen=True, slots=True)
class MeanSquaredError(Loss):
    """loss = mean (output - target)²; the score is the sum of squares over the batch, per row."""

    @property
    def target_dtype(self) -> DType | None:
        """Targets are of the output's type."""
        return None

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """As the output."""
        return output

    def build(self, output: T, target: T) -> T:
        """Mean of the squared differences."""
        return reduce_mean(square(subtract(output, target)))

    def score(self, output: T, target: T) -> T:
        """Sum over rows of the mean squared difference."""
        return affine(reduce_mean(square(subtract(output, target))), output.shape[0])
