"""Quantization: what the formulas say at their edges, whatever is refused, and batches of examples."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.dynamic import DynamicGraph
from nnc.errors import DTypeError, ShapeError

GRAPH = DynamicGraph("reference")


def const(values, dtype="f32"):
    return GRAPH.constant(np.asarray(values), dtype)


def test_quantization_rounds_halves_to_even_and_saturates() -> None:
    x = const([0.25, 0.75, -0.25, 1e9, -1e9, np.inf, -np.inf, np.nan])
    assert ops.quantize(x, const(0.5), const(3, "u8")).numpy().tolist() == [3, 5, 3, 255, 0, 255, 0, 0]
    assert ops.quantize(x, const(0.5), const(0, "i8")).numpy().tolist() == [0, 2, 0, 127, -128, 127, -128, 0]


def test_there_and_back_is_within_half_a_step() -> None:
    x = np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32)
    for leading in (0, 1):
        y, scale, zero = ops.dynamic_quantize(const(x), leading=leading)
        shape = (*scale.shape, *(1,) * (2 - leading))
        back = ops.dequantize(y, ops.reshape(scale, shape), ops.reshape(zero, shape)).numpy()
        assert np.abs(back - x).max() <= 0.51 * scale.numpy().max()
    assert scale.shape == zero.shape == (6,)


def test_zeros_have_the_scale_one_and_what_is_not_finite_shows() -> None:
    y, scale, zero = ops.dynamic_quantize(const(np.zeros((2, 3))))
    assert (scale.item(), zero.item(), y.numpy().max()) == (1, 0, 0)
    y, scale, zero = ops.dynamic_quantize(const([1.0, np.nan]))
    assert np.isnan(ops.dequantize(y, scale, zero).numpy()).all()


def test_a_product_of_dequantized_weights_is_that_of_floats_and_so_are_its_gradients_and_batches() -> None:
    generator = np.random.default_rng(3)
    x, scale, bias = (generator.normal(size=shape).astype(np.float32) for shape in ((2, 3, 7), (5,), (5,)))
    q = const(generator.integers(-128, 128, (7, 5)), "i8")

    def exact(x, scale, bias):
        return ops.gemm(x, ops.dequantize(q, scale, const(0, "i8"))) + bias

    def fused(x, scale, bias):
        return ops.dequantized_product(x, q, scale, bias)

    given = [const(one) for one in (x, scale, bias)]
    np.testing.assert_allclose(fused(*given).numpy(), exact(*given).numpy(), rtol=1e-5, atol=1e-4)
    grads = [
        nnc.grad(lambda *a, f=f: ops.reduce_sum(ops.tanh(f(*a) / 99), (0, 1, 2)), (0, 1, 2)) for f in (fused, exact)
    ]
    for got, want in zip(grads[0](*given), grads[1](*given), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    some = const(x), const(np.stack([scale, scale + 1])), const(np.stack([bias, -bias]))
    want = np.stack([exact(*(one[row] for one in some)).numpy() for row in range(2)])
    np.testing.assert_allclose(nnc.vmap(fused)(*some).numpy(), want, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(
        nnc.vmap(lambda x: fused(x, *given[1:]))(some[0]).numpy(), fused(*given).numpy(), rtol=1e-6
    )


def test_sums_wrap_modulo_two_to_the_32() -> None:
    a, b = const(np.full((1, 70000), 255), "u8"), const(np.full((70000, 1), 255), "u8")
    want = 70000 * 255 * 255
    assert ops.integer_product(a, b).item() == (want + 2**31) % 2**32 - 2**31


def test_quads_hold_the_same_weights() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.integers(0, 256, (3, 7)), generator.integers(-128, 128, (7, 5))
    left, right = const(a, "u8"), const(b, "i8")
    assert ops.quads(right).shape == (2, 5, 4)
    np.testing.assert_array_equal(ops.integer_product(left, ops.quads(right), quads=True).numpy(), a @ b)
    with pytest.raises(ShapeError, match="quads: got"):
        ops.quads(right[0])
    np.testing.assert_array_equal(
        ops.integer_product(left, right, const(9, "u8"), const(np.arange(5), "i8")).numpy(),
        (a - 9) @ (b - np.arange(5)),
    )


def test_the_gradient_of_a_scale_is_that_of_the_product_with_it() -> None:
    def total(scale, x, zero):
        return ops.reduce_sum(ops.dequantize(x, scale, zero), (0,))

    gradient = nnc.grad(total)(np.float32(0.5), np.array([1, 3, 250], np.uint8), np.uint8(2))
    assert gradient.item() == -1 + 1 + 248


def test_gradients_pass_straight_through_where_one_asks_for_it() -> None:
    def loss(x, zero):
        half = ops.scalar_like(x, 0.5)
        y = ops.dequantize(ops.quantize(x, half, zero), half, zero)
        return ops.reduce_sum(ops.square(x + ops.stop_gradient(y - x)), (0,))

    assert nnc.grad(loss)(np.array([0.6, 1.2], np.float32), np.uint8(0)).numpy().tolist() == [1.0, 2.0]


def test_examples_under_vmap_are_those_one_by_one() -> None:
    generator = np.random.default_rng(2)
    a, b = (
        generator.integers(0, 256, (4, 3, 7)).astype(np.uint8),
        generator.integers(-128, 128, (4, 7, 5)).astype(np.int8),
    )
    zeros = np.array([3, 0, 200, 9], np.uint8)
    got = nnc.vmap(lambda a, b, zero: ops.integer_product(a, b, zero))(a, b, zeros).numpy()
    np.testing.assert_array_equal(got, (a.astype(int) - zeros[:, None, None]) @ b.astype(int))
    window = ops.window_of(3, padding="same")
    x, w = generator.integers(0, 256, (4, 2, 5, 5, 3)).astype(np.uint8), generator.integers(-9, 9, (4, 3, 3, 3, 6))
    weights = w.astype(np.int8)

    def convolve(x, w, zero):
        return ops.integer_convolution(x, w, zero, window=window)

    want = [convolve(const(x[i], "u8"), const(weights[i], "i8"), const(zeros[i], "u8")).numpy() for i in range(4)]
    np.testing.assert_array_equal(nnc.vmap(convolve)(x, weights, zeros).numpy(), want)
    shared = nnc.vmap(convolve, in_axes=(0, None, None))(x, const(weights[0], "i8"), const(3, "u8")).numpy()
    np.testing.assert_array_equal(
        shared[2], convolve(const(x[2], "u8"), const(weights[0], "i8"), const(3, "u8")).numpy()
    )
    y, scale, _ = nnc.vmap(lambda x: ops.dynamic_quantize(x))(generator.normal(size=(4, 3)).astype(np.float32))
    assert (y.shape, scale.shape) == ((4, 3), (4,))


def test_wrong_operands_are_refused_by_name() -> None:
    a, b = const(np.zeros((2, 8)), "u8"), const(np.zeros((8, 3)), "i8")
    with pytest.raises(DTypeError, match="integer_product: got a=f32"):
        ops.integer_product(const(np.zeros((2, 8))), b)
    with pytest.raises(ShapeError, match="a's k"):
        ops.integer_product(a, ops.quads(b))
    with pytest.raises(DTypeError, match="zero of the operand's element type"):
        ops.integer_product(a, b, const(0, "i8"))
    with pytest.raises(ShapeError, match="one zero, or zeros"):
        ops.integer_product(a, b, const(np.zeros((2, 8)), "u8"))
    with pytest.raises(ShapeError, match="in quads"):
        ops.integer_convolution(
            const(np.zeros((1, 4, 4, 8)), "u8"),
            const(np.zeros((1, 1, 2, 6, 3)), "i8"),
            window=ops.window_of(1),
            quads=True,
        )
    with pytest.raises(DTypeError, match="scale"):
        ops.quantize(const(np.zeros(3)), const(1, "f64"), const(0, "u8"))
    with pytest.raises(ShapeError, match="leading"):
        ops.dynamic_quantize(const(np.zeros(3)), leading=2)


def test_what_a_product_of_dequantized_weights_is_not_made_of_is_refused() -> None:
    x, q, scale = const(np.zeros((2, 4))), const(np.zeros((4, 3)), "i8"), const(np.zeros(3))
    with pytest.raises(DTypeError, match="q of i8 or u8"):
        ops.dequantized_product(x, x, scale)
    with pytest.raises(DTypeError, match="scale and bias of x's element type"):
        ops.dequantized_product(x, q, const(np.zeros(3), "f64"))
    with pytest.raises(ShapeError, match="q\\[k, n\\]"):
        ops.dequantized_product(const(np.zeros((2, 3))), q, scale)
    with pytest.raises(ShapeError, match="scale and bias of shape \\[3\\]"):
        ops.dequantized_product(x, q, scale, const(0))
