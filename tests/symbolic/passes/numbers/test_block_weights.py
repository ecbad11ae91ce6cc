"""Weights in blocks: what runs afterwards, how near it is, what stays and why, and tables that give scores too."""

from __future__ import annotations

import numpy as np
import pytest
from tests.symbolic.interpreter import interpret
from tests.symbolic.passes.equality import named

from nnc import ops
from nnc.core.values.dtype import I32
from nnc.core.values.spec import spec
from nnc.symbolic import Symbol, SymbolicGraph, faults
from nnc.symbolic.passes import precompute, quantize_products


def decoder() -> tuple[SymbolicGraph, list[Symbol], list[Symbol], list[Symbol]]:
    """A tied table, a product by rows and one by columns, one that fits no blocks, a convolution."""
    graph = SymbolicGraph("net")
    tokens, image = graph.input(spec((2, 3), I32), "tokens"), graph.input(spec((2, 4, 4, 3)), "image")
    shapes = {"table": (20, 64), "wide": (64, 256), "narrow": (64, 256), "odd": (64, 6), "last": (9, 6)}
    shapes["window"] = (3, 3, 3, 5)
    weights = [graph.input(spec(shape), name) for name, shape in shapes.items()]
    table, wide, narrow, odd, last, window = weights
    x = ops.index_select(table, tokens)
    hidden = ops.gemm(ops.tanh(ops.gemm(x, wide)), narrow, transpose_b=True)
    rest = ops.gemm(ops.gemm(hidden, odd), last, transpose_b=True)
    scores = ops.gemm(hidden, table, transpose_b=True)
    return graph, [tokens, image], weights, [scores, rest, ops.convolution(image, window, window=ops.window_of(3))]


@pytest.mark.parametrize(("mode", "most"), [("q8_0", 0.03), ("q4_1", 0.3), ("q4_k", 0.3), ("q6_k", 0.05)])
def test_products_and_tables_are_near_and_their_weights_are_rows_of_bytes(mode: str, most: float) -> None:
    graph, inputs, weights, outputs = decoder()
    values = named([*inputs, *weights])
    values[inputs[0]] = np.array([[3, 0, 19], [7, 7, 1]], np.int32)
    want = interpret(graph, outputs, values)
    rows = {row.name: row for row in quantize_products(graph, weights, mode, "reference")}
    assert faults(graph) == ()
    got = interpret(graph, outputs, values)
    for result, exact in zip(got[:2], want[:2], strict=True):
        assert 0 < np.abs(result - exact).max() < most * np.abs(exact).max()
    assert np.array_equal(got[2], want[2])
    skipped = {name: row.skipped for name, row in rows.items() if row.skipped}
    assert skipped == {"last": "its sums fill no blocks", "window": "it is a convolution"}
    assert rows["wide"].bytes_after < rows["wide"].bytes_before / 3


def test_a_table_that_gives_the_scores_is_packed_once_and_rows_that_no_block_of_256_fits_have_short_ones() -> None:
    graph, _, weights, outputs = decoder()
    quantize_products(graph, weights, "q4_k", "reference")
    before = precompute(graph, weights, outputs)
    read = [one.spec for one in before.results if graph.readers(one.key)]
    # table[20, 64] and wide, odd by rows of 64 products in blocks of 32, narrow[64, 256] in one of 256.
    assert sorted(one.shape for one in read if one.dtype.name == "u8") == [(6, 40), (20, 40), (64, 144), (256, 40)]
    names = [graph.execs[key].command.op.name for key in graph.execs.toposort()]
    assert names.count("block_product") == 4
    assert names.count("dequantize_blocks") == 1
    assert "quantize_blocks" not in names
