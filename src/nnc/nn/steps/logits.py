"""Losses of logits behind a layer that has made probabilities of them: it trains, and badly."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from nnc.nn.optimization.losses import BinaryCrossEntropy, KLDivergence, Loss, SoftmaxCrossEntropy
from nnc.ops.elementwise.pointwise import sigmoid
from nnc.ops.normalization.softmaxes import softmax
from nnc.symbolic import Symbol

# What a loss has inside, so that it does not belong before it.
WITHIN = ((SoftmaxCrossEntropy, softmax), (KLDivergence, softmax), (BinaryCrossEntropy, sigmoid))


def warn_of_probabilities(losses: Sequence[Loss], outputs: Sequence[Symbol]) -> None:
    """A UserWarning for an output that is made by the function that its loss has inside.

    Of softmax(x) as logits the loss is at best ln(1 + (c - 1) / e) for c classes, and gradients are small.
    """
    for loss, output in zip(losses, outputs, strict=False):
        made = {output.graph.execs[key].command.op for key in output.graph.writers(output.key)}
        for kind, function in WITHIN:
            if isinstance(loss, kind) and function in made:
                name = type(loss).__name__
                warnings.warn(
                    f"{name}: got the output of {function.name}; need logits, of which it takes the "
                    f"{function.name} itself. Fix: leave {function.name} out of the layers, and apply "
                    f"nnc.{function.name} to what predict() gives",
                    UserWarning,
                    stacklevel=2,
                )
