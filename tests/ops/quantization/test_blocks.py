"""Products with weights in blocks: those of floats, with their gradients and batches, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.core.values.blocks import FORMATS, dequantize, quantize
from nnc.dynamic import DynamicGraph
from nnc.errors import DTypeError, IndexRangeError, ShapeError, UnknownNameError

GRAPH = DynamicGraph("reference")


def const(values, dtype="f32"):
    return GRAPH.constant(np.asarray(values), dtype)


def packed(name: str, rows: int, blocks: int = 1, seed: int = 0):
    values = np.random.default_rng(seed).normal(size=(rows, blocks * FORMATS[name].size))
    rows_of_bytes = quantize(values, name)
    return const(rows_of_bytes, "u8"), const(dequantize(rows_of_bytes, name))


@pytest.mark.parametrize("name", ["q4_1", "q6_k"])
def test_a_product_is_that_of_floats_and_so_are_its_gradients_of_any_order_and_batches(name: str) -> None:
    weights, floats = packed(name, 5)
    generator = np.random.default_rng(1)
    x, bias = (const(generator.normal(size=shape) / 8) for shape in ((2, 3, FORMATS[name].size), (5,)))

    def in_blocks(x, bias):
        return ops.block_product(x, weights, bias, format=name)

    def of_floats(x, bias):
        return ops.gemm(x, floats, transpose_b=True) + bias

    def slope(f):
        return nnc.grad(lambda *a: ops.reduce_sum(ops.tanh(f(*a)), (0, 1, 2)), (0, 1))

    def second(f):
        return nnc.grad(lambda *a: ops.reduce_sum(ops.square(slope(f)(*a)[0]), (0, 1, 2)), (0, 1))

    np.testing.assert_allclose(in_blocks(x, bias).numpy(), of_floats(x, bias).numpy(), rtol=1e-5, atol=1e-5)
    for of in (slope, second):
        for got, want in zip(of(in_blocks)(x, bias), of(of_floats)(x, bias), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-3, atol=1e-4)
    mapped = nnc.vmap(in_blocks, (0, None))(x, bias)
    np.testing.assert_allclose(mapped.numpy(), of_floats(x, bias).numpy(), rtol=1e-5, atol=1e-5)


def test_weights_of_each_example_are_multiplied_too() -> None:
    weights, floats = packed("q4_0", 6)
    x = const(np.random.default_rng(2).normal(size=(2, 4, 32)))
    both = ops.reshape(weights, (2, 3, 18))
    got = nnc.vmap(lambda x, w: ops.block_product(x, w, format="q4_0"))(x, both)
    want = ops.gemm(x, ops.reshape(floats, (2, 3, 32)), transpose_b=True)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


def test_rows_of_a_table_are_those_of_its_values() -> None:
    weights, floats = packed("q4_k", 7, 2)
    tokens = const([[3, 0], [6, 3]], "i32")
    got = ops.block_rows(weights, tokens, format="q4_k")
    assert np.array_equal(got.numpy(), floats.numpy()[[[3, 0], [6, 3]]])
    with pytest.raises(IndexRangeError):
        ops.block_rows(weights, const([7], "i32"), format="q4_k").numpy()


def test_what_does_not_fit_is_told() -> None:
    weights, _ = packed("q4_0", 5)
    x = const(np.zeros((2, 32)))
    for call, error, told in (
        (lambda: ops.block_product(x, weights, format="q4_1"), ShapeError, "rows of 18 bytes"),
        (lambda: ops.block_product(x, weights, format="q9"), UnknownNameError, "one of q8_0"),
        (lambda: ops.block_product(const(np.zeros((2, 33))), weights, format="q4_0"), ShapeError, r"weights \[5, 32\]"),
        (lambda: ops.block_product(x, weights, const(np.zeros(4)), format="q4_0"), ShapeError, r"shape \[5\]"),
        (lambda: ops.block_product(x, x, format="q4_0"), DTypeError, "u8"),
        (lambda: ops.block_product(x, weights, const(np.zeros(5), "f64"), format="q4_0"), DTypeError, "bias"),
        (lambda: ops.dequantize_blocks(x, format="q4_0"), DTypeError, "u8"),
        (lambda: ops.block_product(x, weights, format="q4_0", transpose_b=False), ShapeError, r"m, 5\]"),
    ):
        with pytest.raises(error, match=told):
            call()
