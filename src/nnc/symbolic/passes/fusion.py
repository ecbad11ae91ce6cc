"""Fusion into operators that exist: bias into products, logarithm into softmax, label entropy into one loss."""

from __future__ import annotations

from nnc.core.command import Command
from nnc.core.spec import contiguous_strides
from nnc.ops.convolution import CONVOLUTION
from nnc.ops.gemm import GEMM
from nnc.ops.pointwise import ADD, LOG
from nnc.ops.softmax import SOFTMAX, log_softmax
from nnc.symbolic.ir import ExecSymbol, Symbol
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
                operands = (match.graph.symbol(left), match.graph.symbol(right), _as_row(bias))
                return match.graph.apply(Command(op, product.command.attrs), operands)
    return None


def _takes_bias(match: Match, product: ExecSymbol, bias: Symbol) -> bool:
    (output,) = product.outputs
    channels = match.graph.tensors[output].spec.shape[-1]
    is_row = bias.spec.elements == channels == (bias.shape[-1] if bias.shape else 1)
    is_whole = bias.strides == contiguous_strides(bias.shape)
    return product.inputs[2] is None and has_one_reader(match.graph, output) and is_row and is_whole


def _as_row(bias: Symbol) -> Symbol:
    spec = type(bias.spec)((bias.spec.elements,), bias.spec.dtype, bias.spec.layout, bias.spec.device)
    return bias if bias.spec.rank == 1 else bias.alias(spec, bias.offset, (1,))


def _log_of_softmax(match: Match) -> Replacement | None:
    """ln softmax(x) without the loss of accuracy."""
    inner = match.producer(0, SOFTMAX)
    if inner is None or inner.inputs[0] is None or not has_one_reader(match.graph, inner.outputs[0]):
        return None
    return (log_softmax(match.graph.symbol(inner.inputs[0])),)


FUSION: tuple[Rule, ...] = (
    Rule("bias", ADD, _bias),
    Rule("log of softmax", LOG, _log_of_softmax),
)
