"""Batch-norm folding for inference: factors and shifts per channel go into the weights beside them.

    (x ⋆ w + b) · f = x ⋆ (w · f) + b · f          f[c] per output channel, ⋆ a convolution or a product
    (x ⋆ w + b) + s = x ⋆ w + (b + s)
    (x · f) ⋆ w = x ⋆ (w · f)                      f[c] per input channel

With fixed statistics, batch normalization is one such factor and one such shift, so nothing of it is left but work on
weights, which is done only where the weights are smaller than the activation; frozen weights, on which `precompute`
does it once for all runs, are scaled whatever their size.
"""

from __future__ import annotations

from functools import partial

from nnc.ops.convolutions.convolutions import CONVOLUTION
from nnc.ops.elementwise.pointwise import add, multiply
from nnc.ops.products.products import GEMM
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.channels import as_column, as_row, is_row
from nnc.symbolic.records import ExecSymbol, TensorKey
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, producer

PRODUCTS = (CONVOLUTION, GEMM)


def _product(match: Match, position: int, frozen: bool) -> tuple[ExecSymbol, Symbol] | None:
    """The product at `position`, read by this exec alone, and the other operand as one value per channel."""
    for op in PRODUCTS:
        record = producer(match.graph, match.record.inputs[position], op)
        row = match.input(1 - position)
        if record is None or not has_one_reader(match.graph, record.outputs[0]):
            continue
        result, (_, weights, _) = match.input(position), _operands(match.graph, record)
        fits = is_row(row, result.shape[-1]) and row.spec.rank <= result.spec.rank
        if fits and _pays(weights, result, frozen):
            return record, as_row(row)
    return None


def _pays(weights: Symbol, activation: Symbol, frozen: bool) -> bool:
    return frozen or weights.spec.elements < activation.spec.elements


def _scales(graph: SymbolicGraph, weights: Symbol, activation: Symbol, row: Symbol, frozen: bool) -> bool:
    """Whether to multiply weights by a row: one of a single token's activations would scale all of them in each run."""
    return _pays(weights, activation, frozen and _is_parameter(graph, row))


def _is_parameter(graph: SymbolicGraph, row: Symbol) -> bool:
    """Whether nothing that a row is computed of is larger than itself, as matrices behind an activation are."""
    seen, queue = set[TensorKey](), [graph.root(row.key)]
    while queue:
        root = queue.pop()
        if root not in seen:
            seen.add(root)
            if graph.symbol(root).spec.elements > row.spec.elements:
                return False
            read = [key for writer in graph.writers(root) for key in graph.execs[writer].inputs if key is not None]
            queue.extend(map(graph.root, read))
    return True


def _operands(graph: SymbolicGraph, record: ExecSymbol) -> tuple[Symbol, Symbol, Symbol | None]:
    x, weights, bias = (None if key is None else graph.symbol(key) for key in record.inputs)
    assert x is not None
    assert weights is not None
    return x, weights, bias


def _scaled(record: ExecSymbol, weights: Symbol, factor: Symbol, *, by_input: bool) -> Symbol:
    """Weights times a factor per output channel, which is their last axis but in a transposed one, or per input."""
    is_transposed = record.command.op is GEMM and record.command.attrs.transpose_b
    return multiply(weights, as_column(factor) if is_transposed is not by_input else factor)


def _factor(match: Match, frozen: bool) -> Replacement | None:
    """Scale the weights instead of the result."""
    for position in (0, 1):
        if product := _product(match, position, frozen):
            record, row = product
            x, weights, bias = _operands(match.graph, record)
            if not _scales(match.graph, weights, match.input(position), row, frozen):
                continue
            shift = None if bias is None else multiply(bias, row)
            return match.graph.apply(record.command, (x, _scaled(record, weights, row, by_input=False), shift))
    return None


def _shift(match: Match, frozen: bool) -> Replacement | None:
    """Shift the bias instead of the result."""
    for position in (0, 1):
        if product := _product(match, position, frozen):
            record, row = product
            x, weights, bias = _operands(match.graph, record)
            shifted = row if bias is None else add(bias, row)
            return match.graph.apply(record.command, (x, weights, shifted))
    return None


def _factor_in_front(match: Match, frozen: bool) -> Replacement | None:
    """Scale the weights instead of what they are multiplied with."""
    graph, scaled = match.graph, match.producer(0, multiply)
    whole, weights, bias = _operands(graph, match.record)
    if scaled is None or not _reads_channels(match, whole, weights):
        return None
    factors = [graph.symbol(key) for key in scaled.inputs if key is not None]
    for x, row in (factors, factors[::-1]):
        if x.shape == whole.shape and is_row(row, x.shape[-1]) and _scales(graph, weights, x, row, frozen):
            return graph.apply(match.command, (x, _scaled(match.record, weights, as_row(row), by_input=True), bias))
    return None


def _reads_channels(match: Match, x: Symbol, weights: Symbol) -> bool:
    """True when this exec alone reads x, as its first operand, and sums over the last axis of it."""
    attrs = match.command.attrs
    whole = attrs.groups == 1 if match.command.op is CONVOLUTION else not attrs.transpose_a
    return whole and has_one_reader(match.graph, x.key) and match.graph.root(weights.key) != x.key


def _rules(frozen: bool) -> tuple[Rule, ...]:
    return (
        Rule("factor per channel", multiply, partial(_factor, frozen=frozen)),
        Rule("shift per channel", add, partial(_shift, frozen=frozen)),
        *(Rule(f"factor in front of {op.name}", op, partial(_factor_in_front, frozen=frozen)) for op in PRODUCTS),
    )


BATCH_NORM, FROZEN_BATCH_NORM = _rules(frozen=False), _rules(frozen=True)
