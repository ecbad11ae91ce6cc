"""Fusion into operators that exist: bias into products, logarithm into softmax, softmax into losses.

`LOGITS` is not among `FUSION`: where sigmoid(x) rounds to 1, the loss of it is that of 1, and the loss from x itself is
another number, nearer to what was meant. Whoever wants that asks for it.
"""

from __future__ import annotations

import math

from nnc.core.values.command import Command
from nnc.ops.convolutions.convolutions import CONVOLUTION
from nnc.ops.elementwise.pointwise import add, log, minimum, sigmoid
from nnc.ops.loss.loss import BINARY_CROSS_ENTROPY, CATEGORICAL_CROSS_ENTROPY, LEAST, SIGMOID_BINARY_CROSS_ENTROPY
from nnc.ops.movement.fill import scalar_like
from nnc.ops.normalization.softmaxes import log_softmax, softmax, softmax_cross_entropy
from nnc.ops.products.products import GEMM
from nnc.symbolic.ir import Symbol
from nnc.symbolic.passes.channels import as_row, is_row
from nnc.symbolic.records import ExecSymbol
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, producer


def _bias(match: Match) -> Replacement | None:
    """op(a, b) + bias = op(a, b, bias), when nobody else reads the product."""
    for position in (0, 1):
        for op in (GEMM, CONVOLUTION):
            product = producer(match.graph, match.record.inputs[position], op)
            bias = match.input(1 - position)
            if product is not None and _takes_bias(match, product, bias):
                left, right, _ = product.inputs
                assert left is not None
                assert right is not None
                operands = (match.graph.symbol(left), match.graph.symbol(right), as_row(bias))
                return match.served_as(product, match.graph.apply(Command(op, product.command.attrs), operands))
    return None


def _takes_bias(match: Match, product: ExecSymbol, bias: Symbol) -> bool:
    (output,) = product.outputs
    shape = match.graph.tensors[output].spec.shape
    alone = product.inputs[2] is None and has_one_reader(match.graph, output)
    # A bias of more axes than the product gives the sum those axes.
    return alone and shape == match.result.shape and is_row(bias, shape[-1])


def _log_of_softmax(match: Match) -> Replacement | None:
    """ln softmax(x) without the loss of accuracy."""
    inner = match.producer(0, softmax)
    if inner is None or inner.inputs[0] is None or not has_one_reader(match.graph, inner.outputs[0]):
        return None
    return match.served_as(inner, (log_softmax(match.graph.symbol(inner.inputs[0])),))


def _softmax_into_loss(match: Match) -> Replacement | None:
    """-ln softmax(x)[label] from x itself, no more than the loss of the least probability."""
    inner = match.producer(0, softmax)
    labels = match.input(1)
    if inner is None or inner.inputs[0] is None or not has_one_reader(match.graph, inner.outputs[0]):
        return None
    if labels.spec.dtype.is_float or match.command.attrs.smoothing:
        return None
    loss = softmax_cross_entropy(match.graph.symbol(inner.inputs[0]), labels)[0]
    return (minimum(loss, scalar_like(loss, -math.log(LEAST[loss.spec.dtype].probability))),)


def _sigmoid_into_loss(match: Match) -> Replacement | None:
    """The binary cross entropy of sigmoid(x) from x itself, which no rounding to 0 or 1 bounds."""
    inner = match.producer(0, sigmoid)
    if inner is None or inner.inputs[0] is None or not has_one_reader(match.graph, inner.outputs[0]):
        return None
    operands = (match.graph.symbol(inner.inputs[0]), match.input(1))
    fused = match.graph.apply(Command(SIGMOID_BINARY_CROSS_ENTROPY, match.command.attrs), operands)[:1]
    return match.served_as(inner, fused)


FUSION: tuple[Rule, ...] = (
    Rule("bias", add, _bias),
    Rule("log of softmax", log, _log_of_softmax),
    Rule("softmax into loss", CATEGORICAL_CROSS_ENTROPY, _softmax_into_loss),
)
LOGITS: tuple[Rule, ...] = (Rule("sigmoid into loss", BINARY_CROSS_ENTROPY, _sigmoid_into_loss),)
