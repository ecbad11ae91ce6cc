"""The oracle against formulas written out element by element, in f64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conformance.cases import CONVOLUTIONS, POOLS

from nnc.backends.reference.kernels import KERNELS
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from nnc.core.values.spec import Shape
from nnc.core.values.spec import spec as spec_of
from nnc.graph import Op
from nnc.ops.convolutions.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.convolutions.pooling import (
    AVERAGE_POOL,
    AVERAGE_POOL_GRADIENT,
    MAX_POOL,
    MAX_POOL_GATHER,
    MAX_POOL_GRADIENT,
    AveragePoolGradientAttrs,
    PoolAttrs,
)
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import (
    AFFINE,
    CAST,
    AffineAttrs,
    CastAttrs,
    add,
    erf,
    erfc,
    multiply,
    preference,
    relu,
    sign,
    step,
)
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.movement import EMBED, EmbedAttrs
from nnc.ops.normalization.softmaxes import (
    LABEL_DIFFERENCE,
    SOFTMAX_CROSS_ENTROPY,
    SOFTMAX_CROSS_ENTROPY_GRADIENT,
    log_softmax,
    softmax,
)
from nnc.ops.optimizer.optimizer import ADAM, SGD, AdamAttrs, SGDAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.reduction.reduction import ARGMAX, REDUCE_MAX, REDUCE_MEAN
from nnc.ops.rules import NoAttrs, infer

# `Any`: elements of any type, as in the kernels.
Array = NDArray[Any]
Index = tuple[int, ...]
NONE = NoAttrs()


def run(op: Op[Any], attrs: Any, *inputs: Array | None) -> list[Array]:  # attributes of any operator
    """The outputs of an operator, with the specs that it infers."""
    command = Command(op, attrs)
    specs = tuple(None if array is None else spec_of(array.shape, dtype_of(array)) for array in inputs)
    outputs = [np.empty(spec.shape, spec.dtype.numpy) for spec in infer(op, attrs, specs)]
    with np.errstate(all="ignore"):
        KERNELS[command.op](attrs, inputs, outputs)
    return outputs


def dtype_of(array: Array) -> DType:
    return next(dtype for dtype in (F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL) if dtype.numpy == array.dtype)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def close(got: Array, want: Array | Sequence[float]) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def places(window: Window, kernel: Shape, result: Index, sizes: Shape) -> list[tuple[Index, Index]]:
    """(k, i) for each window position k that lies on the data, at i."""
    found = []
    for k in itertools.product(*map(range, kernel)):
        moves = zip(result, window.strides, k, window.dilations, window.padding, strict=True)
        i = tuple(o * stride + e * dilation - before for o, stride, e, dilation, (before, _) in moves)
        if all(0 <= position < size for position, size in zip(i, sizes, strict=True)):
            found.append((k, i))
    return found


@pytest.mark.parametrize(("data", "weights", "window", "groups"), CONVOLUTIONS)
def test_convolution(data: Shape, weights: Shape, window: Window, groups: int) -> None:
    x, w, bias = random(*data), random(*weights, seed=1), random(weights[-1], seed=2)
    (y,) = run(CONVOLUTION, ConvolutionAttrs(window, groups), x, w, bias)
    want = np.zeros_like(y)
    inputs, filters = weights[-2], weights[-1]
    for n, f in itertools.product(range(data[0]), range(filters)):
        first = f // (filters // groups) * inputs
        for o in np.ndindex(*y.shape[1:-1]):
            want[(n, *o, f)] = bias[f] + sum(
                x[(n, *i, first + c)] * w[(*k, c, f)]
                for k, i in places(window, weights[:-2], o, data[1:-1])
                for c in range(inputs)
            )
    close(y, want)


@pytest.mark.parametrize(("data", "weights", "window", "groups"), CONVOLUTIONS)
def test_the_gradients_of_convolution_are_its_adjoints(
    data: Shape, weights: Shape, window: Window, groups: int
) -> None:
    x, w = random(*data), random(*weights, seed=1)
    (y,) = run(CONVOLUTION, ConvolutionAttrs(window, groups), x, w, None)
    g = random(*y.shape, seed=2)
    by_data, by_weight = (ConvolutionGradientAttrs(window, groups, sizes) for sizes in (data[1:-1], weights[:-2]))
    (back_x,) = run(CONVOLUTION_DATA_GRADIENT, by_data, g, w)
    (back_w,) = run(CONVOLUTION_WEIGHT_GRADIENT, by_weight, x, g)
    for left, right in ((back_x, x), (back_w, w)):
        np.testing.assert_allclose(np.sum(left * right), np.sum(g * y), rtol=1e-9, atol=1e-10)


def test_a_convolution_of_many_images_is_that_of_each() -> None:
    """More columns than fit one block of the kernel."""
    x, w = random(70, 12, 12, 16), random(3, 3, 16, 4, seed=1)
    window = Window((1, 1), ((1, 1), (1, 1)), (1, 1))
    (y,) = run(CONVOLUTION, ConvolutionAttrs(window), x, w, None)
    for n in (0, 1, 50, 51, 69):
        close(y[n : n + 1], run(CONVOLUTION, ConvolutionAttrs(window), x[n : n + 1], w, None)[0])
    g = random(*y.shape, seed=2)
    (back_x,) = run(CONVOLUTION_DATA_GRADIENT, ConvolutionGradientAttrs(window, 1, (12, 12)), g, w)
    (back_w,) = run(CONVOLUTION_WEIGHT_GRADIENT, ConvolutionGradientAttrs(window, 1, (3, 3)), x, g)
    for left, right in ((back_x, x), (back_w, w)):
        np.testing.assert_allclose(np.sum(left * right), np.sum(g * y), rtol=1e-9)


@pytest.mark.parametrize(("shape", "kernel", "window"), POOLS)
@pytest.mark.parametrize("border", [False, True])
def test_average_pool(shape: Shape, kernel: Shape, window: Window, border: bool) -> None:
    x, attrs = random(*shape), PoolAttrs(kernel, window, border)
    (y,) = run(AVERAGE_POOL, attrs, x)
    g = random(*y.shape, seed=1)
    (back,) = run(AVERAGE_POOL_GRADIENT, AveragePoolGradientAttrs(attrs, shape[1:-1]), g)
    want, want_back = np.zeros_like(y), np.zeros_like(x)
    for n, *o, c in np.ndindex(*y.shape):
        inside = places(window, kernel, tuple(o), shape[1:-1])
        count = math.prod(kernel) if border else len(inside)
        for _, i in inside:
            want[(n, *o, c)] += x[(n, *i, c)] / count
            want_back[(n, *i, c)] += g[(n, *o, c)] / count
    close(y, want)
    close(back, want_back)


@pytest.mark.parametrize(("shape", "kernel", "window"), POOLS)
@pytest.mark.parametrize("values", ["different", "tied", "lowest"])
def test_max_pool(shape: Shape, kernel: Shape, window: Window, values: str) -> None:
    makers = {"different": random(*shape), "tied": np.rint(random(*shape)), "lowest": np.full(shape, -np.inf)}
    x, attrs = makers[values], PoolAttrs(kernel, window)
    (y,) = run(MAX_POOL, attrs, x)
    g, h = random(*y.shape, seed=1), random(*shape, seed=2)
    (back,) = run(MAX_POOL_GRADIENT, attrs, g, x, y)
    (gathered,) = run(MAX_POOL_GATHER, attrs, h, x, y)
    want, want_back, want_gathered = np.zeros_like(y), np.zeros_like(x), np.zeros_like(y)
    for n, *o, c in np.ndindex(*y.shape):
        inside = [(n, *i, c) for _, i in places(window, kernel, tuple(o), shape[1:-1])]
        first = max(inside, key=lambda place: x[place])
        want[(n, *o, c)], want_gathered[(n, *o, c)] = x[first], h[first]
        want_back[first] += g[(n, *o, c)]
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(gathered, want_gathered)
    close(back, want_back)


def test_max_pool_of_integers_and_of_nan() -> None:
    window = Window((1,), ((1, 0),), (1,))
    (y,) = run(MAX_POOL, PoolAttrs((2,), window), np.array([[[-128], [-128], [5]]], np.int8))
    np.testing.assert_array_equal(y[0, :, 0], [-128, -128, 5])
    (y,) = run(MAX_POOL, PoolAttrs((2,), window), np.array([[[1.0], [np.nan], [2.0], [3.0]]]))
    np.testing.assert_array_equal(y[0, :, 0], [1, np.nan, np.nan, 3])


@pytest.mark.parametrize(
    ("m", "k", "n"), [(3, 4, 5), (130, 300, 70), (1, 500, 1), (1, 200, 90), (9000, 3, 1), (2, 0, 3)]
)
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_gemm(m: int, k: int, n: int, flip_a: bool, flip_b: bool) -> None:
    a, b, bias = random(m, k), random(k, n, seed=1), random(n, seed=2)
    left, right = (np.ascontiguousarray(x.T) if flip else x for x, flip in ((a, flip_a), (b, flip_b)))
    (y,) = run(GEMM, GemmAttrs(flip_a, flip_b), left, right, bias)
    np.testing.assert_allclose(y, np.einsum("mk,kn->mn", a, b) + bias, rtol=1e-11, atol=1e-11)


def test_gemm_of_batches_and_of_a_matrix_with_itself() -> None:
    a, b = random(2, 1, 3, 4), random(5, 4, 2, seed=1)
    close(run(GEMM, GemmAttrs(), a, b, None)[0], np.einsum("abmk,bkn->abmn", np.broadcast_to(a, (2, 5, 3, 4)), b))
    a = random(70, 90)
    np.testing.assert_allclose(run(GEMM, GemmAttrs(transpose_b=True), a, a, None)[0], np.einsum("ik,jk->ij", a, a))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_integers_wrap(dtype: type[np.integer[Any]]) -> None:
    a, b = (np.random.default_rng(seed).integers(-100, 100, (5, 6)).astype(dtype) for seed in range(2))
    exact_a, exact_b = a.astype(object), b.astype(object)
    bits = 8 * a.itemsize

    def wrapped(values: Array) -> Array:
        moduli = [int(value) % (1 << bits) for value in values.ravel()]
        return np.array(moduli, np.uint64).astype(dtype).reshape(values.shape)

    np.testing.assert_array_equal(run(add, NONE, a, b)[0], wrapped(exact_a + exact_b))
    np.testing.assert_array_equal(run(multiply, NONE, a, b)[0], wrapped(exact_a * exact_b))
    np.testing.assert_array_equal(run(GEMM, GemmAttrs(transpose_b=True), a, b, None)[0], wrapped(exact_a @ exact_b.T))
    np.testing.assert_array_equal(run(AFFINE, AffineAttrs(-7.0, 100.0), a)[0], wrapped(-7 * exact_a + 100))
    np.testing.assert_array_equal(run(REDUCE_SUM, ReduceAttrs((0,)), a)[0], wrapped(exact_a.sum(axis=0)))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_narrow_floats_are_rounded_once(dtype: DType) -> None:
    a, b = (random(4, 600, seed=seed).astype(dtype.numpy) for seed in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    (y,) = run(GEMM, GemmAttrs(transpose_b=True), a, b, None)
    spacing = {F16: 2.0**-10, BF16: 2.0**-7}[dtype]
    assert np.all(np.abs(y.astype(np.float64) - exact) <= 0.51 * spacing * np.abs(exact) + 1e-4)
    ones = np.full((3000,), 1.0).astype(dtype.numpy)
    assert run(REDUCE_SUM, ReduceAttrs((0,)), ones)[0].astype(np.float64) == np.float64(3000.0).astype(dtype.numpy)
    assert run(REDUCE_MEAN, ReduceAttrs((0,)), ones)[0].astype(np.float64) == 1.0


def test_sums_are_exact_beyond_f32() -> None:
    x = np.array([1e8, 1.0, -1e8], np.float32)
    assert run(REDUCE_SUM, ReduceAttrs((0,)), x)[0] == 1.0


def test_softmax() -> None:
    x = np.array([[0.0, 1.0, 2.0], [1000.0, 1000.0, 0.0], [-5.0, -5.0, -5.0]])
    total = 1 + math.e + math.e**2
    want = np.array([[1 / total, math.e / total, math.e**2 / total], [0.5, 0.5, 0.0], [1 / 3] * 3])
    close(run(softmax, NONE, x)[0], want)
    close(run(log_softmax, NONE, x)[0][0], np.log(want[0]))
    close(run(log_softmax, NONE, x)[0][1], [-math.log(2), -math.log(2), -1000 - math.log(2)])


def test_softmax_cross_entropy() -> None:
    x, labels = random(4, 5), np.array([0, 4, 2, 2])
    loss, probability = run(SOFTMAX_CROSS_ENTROPY, NONE, x, labels)
    for n in range(4):
        powers = [math.exp(value) for value in x[n]]
        close(probability[n], [power / sum(powers) for power in powers])
        close(loss[n], math.log(sum(powers)) - x[n, labels[n]])
    g, h = random(4, seed=1), random(4, 5, seed=2)
    truth = np.eye(5)[labels]
    close(run(SOFTMAX_CROSS_ENTROPY_GRADIENT, NONE, g, probability, labels)[0], g[:, None] * (probability - truth))
    close(run(LABEL_DIFFERENCE, NONE, h, probability, labels)[0], np.einsum("nc,nc->n", h, probability - truth))


@pytest.mark.parametrize("label", [-1, 5, 127])
def test_a_label_outside_the_classes_has_no_loss(label: int) -> None:
    x, labels = random(2, 5), np.array([1, label], np.int8)
    loss, probability = run(SOFTMAX_CROSS_ENTROPY, NONE, x, labels)
    assert np.isfinite(loss[0])
    assert np.isnan(loss[1])
    (g,) = run(SOFTMAX_CROSS_ENTROPY_GRADIENT, NONE, np.ones(2), probability, labels)
    close(g[1], probability[1])


def test_pointwise_functions_without_a_numpy_name() -> None:
    x = np.array([-np.inf, -2.0, -0.0, 0.0, 0.5, np.inf, np.nan])
    close(run(erf, NONE, x)[0], [-1, -0.9953222650189527, 0, 0, 0.5204998778130465, 1, np.nan])
    close(run(erfc, NONE, x * 10)[0], [2, 2, 1, 1, 1.5374597944280347e-12, 0, np.nan])
    np.testing.assert_array_equal(run(relu, NONE, x)[0], [0, 0, 0, 0, 0.5, np.inf, np.nan])
    np.testing.assert_array_equal(run(sign, NONE, x)[0], [-1, -1, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(run(step, NONE, x)[0], [0, 0, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(run(preference, NONE, x, np.zeros(7))[0], [0, 0, 0.5, 0.5, 1, 1, 0])


@pytest.mark.parametrize("dtype", [F64, F32, BF16], ids=str)
@pytest.mark.parametrize("target", [I64, I32, I16, I8, U8], ids=str)
def test_casts_to_integers_saturate(dtype: DType, target: DType) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.5, -2.5, 0.99, -0.0]).astype(dtype.numpy)
    (y,) = run(CAST, CastAttrs(target), x)
    low, high = int(np.iinfo(target.numpy.name).min), int(np.iinfo(target.numpy.name).max)
    small = -2 if low else 0
    assert y.tolist() == [0, high, low, high, low, 2, small, 0, 0]


def test_casts_between_the_others() -> None:
    assert run(CAST, CastAttrs(BOOL), np.array([0.0, -0.0, 0.1, np.nan]))[0].tolist() == [False, False, True, True]
    assert run(CAST, CastAttrs(U8), np.array([-1, 256, 7]))[0].tolist() == [255, 0, 7]
    assert run(CAST, CastAttrs(F32), np.array([True, False]))[0].tolist() == [1.0, 0.0]
    assert run(CAST, CastAttrs(I8), np.array([200, 3], np.uint8))[0].tolist() == [-56, 3]
    assert run(CAST, CastAttrs(F16), np.array([1e30, 65504.0]))[0].tolist() == [np.inf, 65504.0]


def test_extrema_of_nan() -> None:
    x = np.array([[1.0, np.nan, 3.0], [2.0, 2.0, 1.0]])
    np.testing.assert_array_equal(run(REDUCE_MAX, ReduceAttrs((1,)), x)[0], [np.nan, 2])
    np.testing.assert_array_equal(run(ARGMAX, ReduceAttrs((1,)), x)[0], [1, 0])


def test_embed() -> None:
    x = random(2, 3)
    (y,) = run(EMBED, EmbedAttrs((3, 7), 12, (-10, 2)), x)
    want = np.zeros(21)
    for i, j in np.ndindex(2, 3):
        want[12 - 10 * i + 2 * j] = x[i, j]
    np.testing.assert_array_equal(y, want.reshape(3, 7))
    (y,) = run(EMBED, EmbedAttrs((4,), 0, (1, 1)), x)
    np.testing.assert_allclose(y, [x[0, 0], x[0, 1] + x[1, 0], x[0, 2] + x[1, 1], x[1, 2]])


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd(nesterov: bool) -> None:
    attrs = SGDAttrs(momentum=0.9, dampening=0.0 if nesterov else 0.2, decay=0.1, nesterov=nesterov)
    w, m, slow_w, slow_m = np.array([1.0, -2.0]), np.zeros(2), [1.0, -2.0], [0.0, 0.0]
    for update in range(4):
        g = random(2, seed=update)
        w, m = run(SGD, attrs, g, w, m, np.array(0.05))
        for i in range(2):
            slope = g[i] + 0.1 * slow_w[i]
            slow_m[i] = 0.9 * slow_m[i] + (1 if nesterov else 0.8) * slope
            slow_w[i] -= 0.05 * (slope + 0.9 * slow_m[i] if nesterov else slow_m[i])
        close(w, slow_w)
        close(m, slow_m)


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam(decoupled: bool) -> None:
    attrs = AdamAttrs(0.8, 0.95, 1e-6, 0.1, decoupled)
    w, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    slow = [[1.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]
    for update in range(1, 5):
        g = random(2, seed=update)
        w, m, v = run(ADAM, attrs, g, w, m, v, np.array(0.05), np.array(update))
        for i, (weight, mean, square) in enumerate(slow):
            slope = g[i] + (0 if decoupled else 0.1 * weight)
            mean, square = 0.8 * mean + 0.2 * slope, 0.95 * square + 0.05 * slope**2
            shrink = 0.05 * 0.1 * weight if decoupled else 0
            ratio = (mean / (1 - 0.8**update)) / (math.sqrt(square / (1 - 0.95**update)) + 1e-6)
            slow[i] = [weight - shrink - 0.05 * ratio, mean, square]
        close(np.stack([w, m, v], axis=1), np.array(slow))
