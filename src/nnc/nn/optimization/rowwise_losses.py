"""Losses under optax' names: a number for each example, of outputs first and targets behind them.

    loss = optim.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

What they compute is `nnc.nn.functional`'s and `nnc.ops`'.
"""

from __future__ import annotations

from nnc import ops
from nnc.arguments import Positive, checked
from nnc.core.values.dtype import I32
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.nn import functional as fn
from nnc.nn.functional import Values

__all__ = [
    "huber_loss", "l2_loss", "sigmoid_binary_cross_entropy", "softmax_cross_entropy",
    "softmax_cross_entropy_with_integer_labels", "squared_error",
]  # fmt: skip


def softmax_cross_entropy(logits: Values, labels: Values) -> ArrayOperand:
    """-sum over classes of label · log softmax(logits), of shares of classes: [*batch]

    >>> nnc.optim.softmax_cross_entropy([[2.0, 0.0]], [[1.0, 0.0]]).shape
    (1,)
    """
    return -(as_operand(labels) * fn.log_softmax(logits)).sum(-1)


def softmax_cross_entropy_with_integer_labels(logits: Values, labels: Values) -> ArrayOperand:
    """-log softmax(logits)[label], of numbers of classes: [*batch]

    >>> nnc.optim.softmax_cross_entropy_with_integer_labels([[2.0, 0.0]], [0]).shape
    (1,)
    """
    return ops.softmax_cross_entropy(as_operand(logits), as_operand(labels).astype(I32))[0]


def sigmoid_binary_cross_entropy(logits: Values, labels: Values) -> ArrayOperand:
    """log(1 + e^x) - x y, element by element

    >>> nnc.optim.sigmoid_binary_cross_entropy([0.0], [1.0]).shape
    (1,)
    """
    return fn.binary_cross_entropy_with_logits(logits, labels, reduction="none")


def squared_error(predictions: Values, targets: Values | None = None) -> ArrayOperand:
    """(x - y)², element by element; without targets x²

    >>> nnc.optim.squared_error([3.0], [1.0]).tolist()
    [4.0]
    """
    x = as_operand(predictions)
    return ops.square(x if targets is None else x - as_operand(targets))


def l2_loss(predictions: Values, targets: Values | None = None) -> ArrayOperand:
    """(x - y)² / 2, element by element; without targets x² / 2

    >>> nnc.optim.l2_loss([3.0], [1.0]).tolist()
    [2.0]
    """
    return squared_error(predictions, targets) * 0.5


@checked
def huber_loss(predictions: Values, targets: Values | None = None, delta: Positive = 1.0) -> ArrayOperand:
    """d² / 2 where |d| ≤ delta, else delta · (|d| - delta / 2), element by element

    >>> nnc.optim.huber_loss([3.0], [1.0]).tolist()
    [1.5]
    """
    x = as_operand(predictions)
    return fn.huber_loss(x, ops.fill_like(x, 0.0) if targets is None else targets, "none", delta)
