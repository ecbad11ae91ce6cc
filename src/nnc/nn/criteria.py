"""Losses as PyTorch has them: made with their options, and called with an output and a target.

    criterion = nn.CrossEntropyLoss(weight=[1.0, 2.0], label_smoothing=0.1)
    loss = criterion(net(x), labels)

What they compute is `nnc.nn.functional`'s. `CrossEntropyLoss`, `BCEWithLogitsLoss`, `MSELoss` and `L1Loss` are losses
of models too, where they are means without weights.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import Finite, Positive, Probability, checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand, as_operands, host_values
from nnc.errors import DataError, DTypeError, UsageError
from nnc.nn import functional as fn
from nnc.nn.functional import Reduction
from nnc.nn.modules.module import Module
from nnc.nn.optimization.losses import BinaryCrossEntropy, MeanAbsoluteError, MeanSquaredError, SoftmaxCrossEntropy
from nnc.ops import softmax_cross_entropy, transpose
from nnc.ops.operand import T

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "HuberLoss", "KLDivLoss",
    "L1Loss", "MSELoss", "NLLLoss", "SmoothL1Loss", "TripletMarginLoss",
]  # fmt: skip

Values: TypeAlias = ArrayLike | ArrayOperand
Numbers: TypeAlias = tuple[float, ...] | None


def _numbers(values: Values | None) -> Numbers:
    """Weights as plain numbers: losses are values that are compared and printed."""
    if values is None:
        return None
    given = as_operand(values).cpu().numpy()
    if np.iscomplexobj(given):
        raise DTypeError("weights of a loss", got=str(given.dtype), need="real numbers", fix="weight.real")
    return tuple(given.astype(np.float64).reshape(-1).tolist())


def _array(numbers: Values | None) -> ArrayLike | None:
    return None if numbers is None else np.array(_numbers(numbers), np.float32)


def _check_for_models(loss: object, **options: object) -> None:
    """UsageError for an option that models do not know."""
    for name, value in options.items():
        if value:
            got, fix = f"{name} in a model", "loss=nn.FunctionLoss(lambda output, target: …), with it in the function"
            raise UsageError(type(loss).__name__, got=got, need="the mean over all", fix=fix)


@checked
@dataclass(frozen=True, slots=True)
class MSELoss(MeanSquaredError):  # noqa: N818  # no exception
    """(x - y)²: its mean, its sum, or each.

    >>> nn.MSELoss(reduction="sum")([1.0, 3.0], [1.0, 1.0]).item()
    4.0
    """

    reduction: Reduction = "mean"

    def __call__(self, output: Values, target: Values) -> ArrayOperand:
        """The loss of arrays, eager and traced values."""
        if self.reduction == "mean":
            return MeanSquaredError.__call__(self, output, target)
        return fn.mse_loss(output, target, self.reduction)

    def each(self, output: T, target: T) -> T:
        """(output - target)²"""
        _check_for_models(self, reduction=self.reduction != "mean")
        return MeanSquaredError.each(self, output, target)


@checked
@dataclass(frozen=True, slots=True)
class L1Loss(MeanAbsoluteError):  # noqa: N818  # no exception
    """|x - y|: its mean, its sum, or each.

    >>> nn.L1Loss()([1.0, 3.0], [1.0, 1.0]).item()
    1.0
    """

    reduction: Reduction = "mean"

    def __call__(self, output: Values, target: Values) -> ArrayOperand:
        """The loss of arrays, eager and traced values."""
        if self.reduction == "mean":
            return MeanAbsoluteError.__call__(self, output, target)
        return fn.l1_loss(output, target, self.reduction)

    def each(self, output: T, target: T) -> T:
        """|output - target|"""
        _check_for_models(self, reduction=self.reduction != "mean")
        return MeanAbsoluteError.each(self, output, target)


@checked
@dataclass(frozen=True, slots=True)
class BCEWithLogitsLoss(BinaryCrossEntropy):
    """log(1 + e^x) - x y of logits x, times `weight`; what counts for y = 1 is `pos_weight` times as much.

    >>> nn.BCEWithLogitsLoss()([0.0], [1.0]).item()
    0.6931471824645996
    """

    weight: Values | None = None
    reduction: Reduction = "mean"
    pos_weight: Values | None = None

    def __post_init__(self) -> None:
        for name, value in (("weight", self.weight), ("pos_weight", self.pos_weight)):
            object.__setattr__(self, name, _numbers(value))

    def __call__(self, output: Values, target: Values) -> ArrayOperand:
        """The loss of arrays, eager and traced values."""
        if self.reduction == "mean" and self.weight is self.pos_weight is None:
            return BinaryCrossEntropy.__call__(self, output, target)
        weights = _array(self.weight), _array(self.pos_weight)
        return fn.binary_cross_entropy_with_logits(output, target, weights[0], self.reduction, weights[1])

    def each(self, output: T, target: T) -> T:
        """log(1 + e^x) - x y"""
        options = {"weight": self.weight, "pos_weight": self.pos_weight, "reduction": self.reduction != "mean"}
        _check_for_models(self, **options)
        return BinaryCrossEntropy.each(self, output, target)


@checked
@dataclass(frozen=True, slots=True)
class CrossEntropyLoss(SoftmaxCrossEntropy):
    """-weight[class] · log softmax(x)[class] of logits x[n, classes, …] and targets [n, …], or shares of classes.

    The mean is weighted, and leaves out targets of `ignore_index`.

    >>> round(nn.CrossEntropyLoss()([[2.0, 0.0, 0.0]], [0]).item(), 6)
    0.239545
    >>> round(nn.CrossEntropyLoss(ignore_index=1)([[2.0, 0.0], [0.0, 5.0]], [0, 1]).item(), 6)
    0.126928
    """

    weight: Values | None = None
    ignore_index: int = -100
    reduction: Reduction = "mean"
    label_smoothing: Probability = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _numbers(self.weight))

    def __call__(self, output: Values, target: Values) -> ArrayOperand:
        """The loss of arrays, eager and traced values."""
        scores, wanted = as_operands(output, target)
        known = host_values(wanted)
        if known is not None and not wanted.dtype.is_continuous and scores.ndim:
            labels, classes = known[known != self.ignore_index], scores.shape[min(scores.ndim - 1, 1)]
            if labels.size and not (labels.min() >= 0 and labels.max() < classes):
                need = f"0 to {classes - 1}, or ignore_index ({self.ignore_index})"
                raise DataError("CrossEntropyLoss", got="a label out of range", need=need, origin=caller_origin())
        if scores.ndim == 2 and not wanted.dtype.is_continuous and self == _PLAIN and self._is_whole(wanted):
            return SoftmaxCrossEntropy.__call__(self, scores, wanted)
        options = (_array(self.weight), self.ignore_index, self.reduction, self.label_smoothing)
        return fn.cross_entropy(scores, wanted, *options)

    def _is_whole(self, target: ArrayOperand) -> bool:
        """Whether no target is left out, as far as that can be seen."""
        known = host_values(target)
        return known is not None and not bool((known == self.ignore_index).any())

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """A label for each place: classes are on axis 1."""
        return (*output[:1], *output[2:])

    def classes(self, output: tuple[int, ...]) -> int:
        """As many as axis 1 has."""
        return output[1]

    def each(self, output: T, target: T) -> T:
        """Cross entropy of each place."""
        _check_for_models(self, weight=self.weight, reduction=self.reduction != "mean", smoothing=self.label_smoothing)
        rank = output.spec.rank
        if rank > 2:
            output = transpose(output, (0, *range(2, rank), 1))
        return softmax_cross_entropy(output, target)[0]


# Without options it is one command.
_PLAIN = CrossEntropyLoss()


class _Criterion(Module):
    """A function of an output and a target with options."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  # of each class its own
        super().__init__()
        self.options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


@checked
class NLLLoss(_Criterion):
    """-weight[class] · x[class] of logarithms of probabilities x[n, classes, …] and targets [n, …].

    >>> nn.NLLLoss()(nnc.log_softmax([[2.0, 0.0, 0.0]]), [0]).item()
    0.2395448386669159
    """

    def __init__(self, weight: Values | None = None, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__(weight=_array(_numbers(weight)), ignore_index=ignore_index, reduction=reduction)

    def forward(self, input: ArrayOperand, target: ArrayOperand) -> ArrayOperand:
        """The loss."""
        return fn.nll_loss(input, target, **self.options)


@checked
class BCELoss(_Criterion):
    """-(y log p + (1 - y) log(1 - p)) of probabilities p, times `weight`.

    >>> nn.BCELoss()([0.5], [1.0]).item()
    0.6931471824645996
    """

    def __init__(self, weight: Values | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(weight=_array(_numbers(weight)), reduction=reduction)

    def forward(self, input: ArrayOperand, target: ArrayOperand) -> ArrayOperand:
        """The loss."""
        return fn.binary_cross_entropy(input, target, **self.options)


@checked
class HuberLoss(_Criterion):
    """d² / 2 where |d| ≤ delta, else delta · (|d| - delta / 2), d = x - y.

    >>> nn.HuberLoss()([3.0], [1.0]).item()
    1.5
    """

    def __init__(self, reduction: Reduction = "mean", delta: Positive = 1.0) -> None:
        super().__init__(reduction=reduction, delta=delta)

    def forward(self, input: ArrayOperand, target: ArrayOperand) -> ArrayOperand:
        """The loss."""
        return fn.huber_loss(input, target, **self.options)


@checked
class SmoothL1Loss(_Criterion):
    """Huber's loss divided by `beta`, where it ends to be a square.

    >>> nn.SmoothL1Loss()([3.0], [1.0]).item()
    1.5
    """

    def __init__(self, reduction: Reduction = "mean", beta: Positive = 1.0) -> None:
        super().__init__(reduction=reduction, beta=beta)

    def forward(self, input: ArrayOperand, target: ArrayOperand) -> ArrayOperand:
        """The loss."""
        return fn.smooth_l1_loss(input, target, **self.options)


@checked
class KLDivLoss(_Criterion):
    """y · (log y - x) of logarithms of probabilities x; "batchmean" is the sum divided by the examples.

    >>> nn.KLDivLoss(reduction="batchmean")(nnc.log_softmax([[0.0, 0.0]]), [[0.5, 0.5]]).item()
    0.0
    """

    def __init__(self, reduction: fn.DivergenceReduction = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction, log_target=log_target)

    def forward(self, input: ArrayOperand, target: ArrayOperand) -> ArrayOperand:
        """The loss."""
        return fn.kl_div(input, target, **self.options)


@checked
class TripletMarginLoss(_Criterion):
    """max(|a - p| - |a - n| + margin, 0) of an anchor, a positive and a negative.

    With `swap`, |p - n| takes the place of |a - n| where it is less.

    >>> nn.TripletMarginLoss()([[0.0]], [[0.0]], [[0.5]]).item()
    0.5
    """

    def __init__(
        self,
        margin: Positive = 1.0,
        p: Positive = 2.0,
        eps: Positive = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(margin=margin, p=p, eps=eps, swap=swap, reduction=reduction)

    def forward(self, anchor: ArrayOperand, positive: ArrayOperand, negative: ArrayOperand) -> ArrayOperand:
        """The loss."""
        return fn.triplet_margin_loss(anchor, positive, negative, **self.options)


@checked
class CosineEmbeddingLoss(_Criterion):
    """1 - cos(a, b) where y = 1, max(0, cos(a, b) - margin) where y = -1.

    >>> nn.CosineEmbeddingLoss()([[1.0, 0.0]], [[0.0, 1.0]], [1.0]).item()
    1.0
    """

    def __init__(self, margin: Finite = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)

    def forward(self, input1: ArrayOperand, input2: ArrayOperand, target: ArrayOperand) -> ArrayOperand:
        """The loss."""
        return fn.cosine_embedding_loss(input1, input2, target, **self.options)


@checked
class CTCLoss(_Criterion):
    """-log p(labels | x[steps, batch, classes]) over all alignments of labels with steps; x are log-probabilities.

    Called with x, the labels [batch, labels], and how many steps and labels each example has.

    >>> x = nnc.log_softmax(nnc.zeros((4, 1, 3)), axis=2)
    >>> round(nn.CTCLoss()(x, [[1, 2]], [4], [2]).item(), 4)
    0.8432
    """

    def __init__(self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        super().__init__(blank=blank, reduction=reduction, zero_infinity=zero_infinity)

    def forward(
        self, log_probs: ArrayOperand, targets: ArrayOperand, input_lengths: ArrayOperand, target_lengths: ArrayOperand
    ) -> ArrayOperand:
        """The loss."""
        return fn.ctc_loss(log_probs, targets, input_lengths, target_lengths, **self.options)
