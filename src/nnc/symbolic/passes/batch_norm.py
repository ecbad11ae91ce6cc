"""Batch-norm folding for inference: factors and shifts per channel go into the weights in front of them.

    (x ⋆ w + b) · f = x ⋆ (w · f) + b · f          f[c] per output channel, ⋆ a convolution or a product
    (x ⋆ w + b) + s = x ⋆ w + (b + s)

With fixed statistics, batch normalization is one such factor and one such shift, so nothing of it is left but work on
weights, which is done only where the weights are smaller than the result.
"""

from __future__ import annotations

from nnc.core.spec import TensorSpec, contiguous_strides
from nnc.ops.convolution import CONVOLUTION
from nnc.ops.gemm import GEMM
from nnc.ops.pointwise import ADD, MULTIPLY, add, multiply
from nnc.symbolic.ir import ExecSymbol, Symbol, SymbolicGraph
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, producer


def _product(match: Match, position: int) -> tuple[ExecSymbol, Symbol] | None:
    """The product at `position`, read by this exec alone, and the other operand as one value per channel."""
    for op in (CONVOLUTION, GEMM):
        record = producer(match.graph, match.record.inputs[position], op)
        row = match.input(1 - position)
        if record is not None and _fits(match.graph, record, row):
            return record, _as_row(row)
    return None


def _fits(graph: SymbolicGraph, record: ExecSymbol, row: Symbol) -> bool:
    """One value per channel, weights with the channels last, and fewer of them than results."""
    (output,) = record.outputs
    result, weights = graph.tensors[output].spec, record.inputs[1]
    assert weights is not None
    size = graph.tensors[weights].spec
    per_channel = row.spec.elements == result.shape[-1] == (row.shape[-1] if row.shape else 1)
    dense = row.strides == contiguous_strides(row.shape) and row.spec.rank <= result.rank
    last = record.command.op is CONVOLUTION or (not record.command.attrs.transpose_b and size.rank == 2)
    return per_channel and dense and last and has_one_reader(graph, output) and size.elements < result.elements


def _as_row(row: Symbol) -> Symbol:
    spec = TensorSpec((row.spec.elements,), row.spec.dtype, row.spec.layout, row.spec.device)
    return row if row.spec.rank == 1 else row.alias(spec, row.offset, (1,))


def _operands(graph: SymbolicGraph, record: ExecSymbol) -> tuple[Symbol, Symbol, Symbol | None]:
    x, weights, bias = (None if key is None else graph.symbol(key) for key in record.inputs)
    assert x is not None
    assert weights is not None
    return x, weights, bias


def _factor(match: Match) -> Replacement | None:
    """Scale the weights instead of the result."""
    for position in (0, 1):
        if found := _product(match, position):
            record, row = found
            x, weights, bias = _operands(match.graph, record)
            scaled = None if bias is None else multiply(bias, row)
            return match.graph.apply(record.command, (x, multiply(weights, row), scaled))
    return None


def _shift(match: Match) -> Replacement | None:
    """Shift the bias instead of the result."""
    for position in (0, 1):
        if found := _product(match, position):
            record, row = found
            x, weights, bias = _operands(match.graph, record)
            shifted = row if bias is None else add(bias, row)
            return match.graph.apply(record.command, (x, weights, shifted))
    return None


BATCH_NORM: tuple[Rule, ...] = (
    Rule("factor per channel", MULTIPLY, _factor),
    Rule("shift per channel", ADD, _shift),
)
