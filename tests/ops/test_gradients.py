"""Every differentiable operator passes gradient checks of orders 1 and 2, and gradients stay inside the catalogue."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.cases import CASES, Case
from tests.conformance.runs import REFERENCE, ROW
from tests.conformance.test_empty import emptied
from tests.conformance.test_empty import given as results_of
from tests.ops.eager import Array, Eager, check_gradients, gradients

from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, C128, F16, F32, F64, I32, DType
from nnc.core.values.spec import Shape
from nnc.errors import NotDifferentiableError, ShapeError
from nnc.ops import broadcast_to, reduce_max, reduce_mean, reduce_min, reduce_sum, reshape
from nnc.ops.convolutions.convolutions import convolution
from nnc.ops.convolutions.pooling import MAX_POOL_GATHER, MAX_POOL_GRADIENT, average_pool, max_pool
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.complex_numbers import complex_of, conjugate, imaginary, magnitude
from nnc.ops.elementwise.pointwise import (
    add,
    affine,
    atan,
    cast,
    cos,
    divide,
    erf,
    erfc,
    exp,
    gelu,
    log,
    maximum,
    minimum,
    multiply,
    power,
    real,
    reciprocal,
    relu,
    sigmoid,
    sin,
    sqrt,
    square,
    subtract,
    tanh,
)
from nnc.ops.movement.copy import stop_gradient
from nnc.ops.movement.movement import concatenate, slice_axis, transpose
from nnc.ops.normalization.softmaxes import log_softmax, softmax, softmax_cross_entropy
from nnc.ops.operators import OPERATORS
from nnc.ops.products.fourier import fft, ifft, irfft, rfft
from nnc.ops.products.linear_algebra import QR, solve
from nnc.ops.products.products import gemm
from nnc.ops.rules import GRADIENT, PATTERN, NotDifferentiable, Pattern

# Inputs that say which window position was chosen: the result is constant in them where it is smooth.
CHOOSING_INPUTS = {MAX_POOL_GRADIENT: (1, 2), MAX_POOL_GATHER: (1, 2)}

# A campaign tries more: NNC_EXAMPLES=1000 pytest tests/ops/test_gradients.py
EXAMPLES = int(os.environ.get("NNC_EXAMPLES", "20"))
examples = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
sizes = st.integers(1, 3)


def differentiable(case: Case) -> bool:
    return case.smooth and F64 in case.dtypes and not isinstance(GRADIENT[case.op], NotDifferentiable)


def gapped(x: Eager) -> Eager:
    """Every second element of the last axis."""
    return slice_axis(x, x.spec.rank - 1, 0, x.shape[-1], 2) if x.shape else x


# How an input lies in memory: what takes it out of the array that is made of its elements, and what makes that.
VIEWS: dict[str, tuple[Callable[[Eager], Eager], Callable[[Array], Array]]] = {
    "plain": (lambda x: x, lambda array: array),
    "transposed": (transpose, lambda array: np.array(array.T, order="C")),
    "with gaps": (gapped, lambda array: np.repeat(array, 2, -1) if array.ndim else array),
}


def check_case(case: Case, view: str = "plain") -> set[str]:
    """Check a row on f64; the names of the operators that its gradients are made of."""
    arrays, specs = case.arrays(F64), case.specs(F64)
    take, widen = VIEWS[view]
    free = [
        index
        for index, spec in enumerate(specs)
        if spec is not None and spec.dtype is F64 and index not in CHOOSING_INPUTS.get(case.op, ())
    ]
    fixed = [None if array is None else Eager(array) for array in arrays]

    def function(variables: Sequence[Eager]) -> Sequence[Eager]:
        inputs = list(fixed)
        for index, variable in zip(free, variables, strict=True):
            inputs[index] = take(variable)
        return variables[0].apply(Command(case.op, case.attrs), inputs)

    point = [array for index, array in enumerate(arrays) if index in free and array is not None]
    records = check_gradients(function, list(map(widen, point)))
    return {record.command.op.name for record in records if record.command is not None}


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", [case for case in CASES if differentiable(case)], ids=str)
def test_gradients_of_orders_one_and_two(case: Case) -> None:
    emitted = check_case(case)
    assert emitted <= {op.name for op in OPERATORS}


# A view changes nothing of a rule but what it reads: every fourth row of an operator, its first among them.
TURNED = [case for case in CASES if differentiable(case) and ROW[case] % 4 == 0]


@pytest.mark.turns(8)
@pytest.mark.parametrize("view", ["transposed", "with gaps"])
@pytest.mark.parametrize("case", TURNED, ids=str)
def test_gradients_of_inputs_that_are_views(case: Case, view: str) -> None:
    check_case(case, view)


def smooth(generator: np.random.Generator, shape: Shape, earlier: object) -> Array:
    """Away from 0; counts of updates are 1."""
    return generator.uniform(0.6, 1.8, shape) if shape else np.ones(shape)


@pytest.mark.turns(24)
@pytest.mark.parametrize("name", dict.fromkeys(case.op.name for case in CASES if differentiable(case)))
def test_gradients_where_a_size_is_zero(name: str) -> None:
    for row in CASES:
        if row.op.name == name and differentiable(row):
            for case in emptied(row, F64, smooth):
                results = results_of(REFERENCE, case, F64)
                # Refused: nothing to choose from, no inverse. Not finite: the largest of no scores.
                if results and all(np.isfinite(result).all() for result in results) and not is_wide(case):
                    check_case(case)


def is_wide(case: Case) -> bool:
    """A wide matrix of `qr`, whose gradient is refused by name."""
    shape = case.specs(F64)[0].shape if case.op is QR else (1, 1)
    return shape[-2] < shape[-1]


def is_pointwise(case: Case) -> bool:
    return PATTERN[case.op] <= Pattern.BROADCAST and bool(case.op.inputs)


@pytest.mark.parametrize("case", [case for case in CASES if differentiable(case) and is_pointwise(case)], ids=str)
def test_gradients_of_no_elements_have_the_shape_of_their_inputs(case: Case) -> None:
    inputs = [
        None if array is None else Eager(np.zeros((0, *array.shape[1:]) if array.ndim else (), array.dtype))
        for array in case.arrays(F64)
    ]
    first = next(x for x in inputs if x is not None)
    try:
        results = first.apply(Command(case.op, case.attrs), inputs)
    except ShapeError:
        return  # attributes that name the sizes of this row
    variables = [x for x in inputs if x is not None and x.spec.dtype is F64]
    slopes = gradients(results, [Eager(np.ones_like(y.array)) for y in results], variables)
    assert [slope.spec.shape for slope in slopes] == [x.spec.shape for x in variables]


# Functions of complex numbers z and w, with the operators whose gradients are checked by them.
COMPLEX: dict[str, Callable[[Eager, Eager], Eager]] = {
    "complex": lambda z, w: multiply(z, w),
    "conjugate": lambda z, w: divide(conjugate(z), w),
    "magnitude": lambda z, w: multiply(cast(magnitude(z), C128), exp(w)),
    "real": lambda z, w: multiply(cast(real(z), C128), log(w)),
    "imaginary": lambda z, w: power(z, cast(imaginary(w), C128)),
    "fft": lambda z, w: multiply(fft(z), fft(square(w), 5)[:3]),
    "inverse": lambda z, w: multiply(ifft(z, norm="ortho"), sqrt(w)),
    "half": lambda z, w: multiply(cast(irfft(z, 3), C128), rfft(real(w), 5, norm="forward")),
    "solve": lambda z, w: reshape(solve(reshape(concatenate([z, w, square(z)]), (3, 3)), reshape(w, (3, 1))), (3,)),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_complex_numbers_by_their_parts(name: str) -> None:
    def function(a: Eager, b: Eager, c: Eager, d: Eager) -> Eager:
        z = COMPLEX[name](complex_of(a, b), complex_of(c, d))
        return concatenate([real(z), imaginary(z)])

    check(function, *(positive((3,), seed) for seed in range(4)))


def test_every_operator_has_a_gradient_that_is_checked_or_a_reason() -> None:
    checked = {case.op for case in CASES if differentiable(case)} | {op for op in OPERATORS if op.name in COMPLEX}
    for op in OPERATORS:
        rule = GRADIENT[op]
        # What stops gradients has none on purpose: tests/dynamic/transforms/test_differentiation.py.
        reasoned = isinstance(rule, NotDifferentiable) and len(rule.reason) > 10
        assert reasoned or op in checked or op is stop_gradient, op.name


def test_operators_without_a_gradient_say_why() -> None:
    for op in (op for op in OPERATORS if isinstance(GRADIENT[op], NotDifferentiable) and op.inputs):
        case = next(case for case in CASES if case.op is op)
        dtype = F32 if F32 in case.dtypes else case.dtypes[0]
        inputs = [None if array is None else Eager(array) for array in case.arrays(dtype)]
        first = next(x for x in inputs if x is not None)
        results = first.apply(Command(op, case.attrs), inputs)
        with pytest.raises(NotDifferentiableError, match=op.name):
            gradients(results[:1], [Eager(np.ones_like(results[0].array))], [first])


def values(shape: Shape, seed: int = 0) -> Array:
    """All different, none near 0, and different for each seed."""
    count = math.prod(shape)
    order = np.random.default_rng(seed).permutation(count)
    return ((order - count // 2) * 0.11 + 0.05 + 0.013 * seed).reshape(shape)


def positive(shape: Shape, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(0.6, 1.8, shape)


def check(function: Callable[..., Eager], *point: Array) -> None:
    check_gradients(lambda variables: [function(*variables)], point)


@st.composite
def shapes(draw: st.DrawFn, low: int = 0, high: int = 3) -> Shape:
    return tuple(draw(st.lists(sizes, min_size=low, max_size=high)))


@st.composite
def narrowed(draw: st.DrawFn, shape: Shape) -> Shape:
    """A shape that broadcasts to `shape`."""
    lead = draw(st.integers(0, len(shape)))
    return tuple(1 if draw(st.booleans()) else size for size in shape[lead:])


Unary = Callable[[Eager], Eager]
# Functions that map (0.4, 2.5) into itself, so that they can be applied to each other.
INTO_THEMSELVES: tuple[Unary, ...] = (
    lambda x: affine(tanh(x), 1.0, 0.5),
    lambda x: affine(sin(x), 0.5, 1.0),
    lambda x: affine(cos(x), 0.5, 1.0),
    lambda x: affine(sigmoid(x), 2.0),
    lambda x: affine(exp(affine(x, -1.0)), 1.0, 0.5),
    lambda x: affine(log(x), 0.5, 1.2),
    lambda x: affine(erf(x), 1.0, 0.5),
    atan,
    erfc,
    lambda x: affine(gelu(x), 0.6, 0.4),
    lambda x: affine(square(x), 0.3, 0.5),
    lambda x: affine(relu(affine(x, 1.0, -1.0)), 1.0, 0.5),
    lambda x: reciprocal(x),
    lambda x: sqrt(x),
)
Combination = Callable[[Eager, Eager], Eager]
COMBINATIONS: tuple[Combination, ...] = (
    lambda a, b: affine(add(a, b), 0.5),
    lambda a, b: affine(subtract(a, b), 0.4, 1.3),
    lambda a, b: sqrt(multiply(a, b)),
    lambda a, b: affine(divide(a, b), 0.3, 0.4),
    lambda a, b: affine(power(a, affine(b, 0.5)), 0.4, 0.4),
    maximum,
    minimum,
)


@examples
@given(data=st.data(), shape=shapes(), depth=st.integers(1, 3))
def test_expressions(data: st.DataObject, shape: Shape, depth: int) -> None:
    other = data.draw(narrowed(shape))
    steps = data.draw(st.lists(st.sampled_from(INTO_THEMSELVES), min_size=depth, max_size=depth))
    joins = data.draw(st.lists(st.sampled_from(COMBINATIONS), min_size=depth, max_size=depth))

    def function(a: Eager, b: Eager) -> Eager:
        result = a
        for step, join in zip(steps, joins, strict=True):
            result = join(step(result), b)
        return result

    check(function, positive(shape), positive(other, 1))


@examples
@given(data=st.data(), shape=shapes(1, 4), keepdims=st.booleans())
def test_reductions(data: st.DataObject, shape: Shape, keepdims: bool) -> None:
    axes = data.draw(st.sets(st.integers(-len(shape), -1)))
    x = values(shape)
    for reduce in (reduce_sum, reduce_mean, reduce_max, reduce_min):
        check(lambda v, reduce=reduce: square(reduce(v, axes, keepdims=keepdims)), x)


@examples
@given(data=st.data(), shape=shapes(0, 4))
def test_broadcasting(data: st.DataObject, shape: Shape) -> None:
    check(lambda x: square(broadcast_to(x, shape)), values(data.draw(narrowed(shape))))


@examples
@given(data=st.data(), m=sizes, k=sizes, n=sizes, batch=shapes(0, 2), flips=st.tuples(*[st.booleans()] * 3))
def test_matrix_products(
    data: st.DataObject, m: int, k: int, n: int, batch: Shape, flips: tuple[bool, bool, bool]
) -> None:
    flip_a, flip_b, with_bias = flips
    left, right = data.draw(narrowed(batch)), data.draw(narrowed(batch))
    point = [values((*left, *((k, m) if flip_a else (m, k)))), values((*right, *((n, k) if flip_b else (k, n))), 1)]
    point += [values((n,), 2)] * with_bias
    check(lambda a, b, bias=None: gemm(tanh(a), b, bias, transpose_a=flip_a, transpose_b=flip_b), *point)


@st.composite
def moves(draw: st.DrawFn, kernel: Shape, *, narrow: bool) -> tuple[Window, Shape]:
    """A window for the kernel (its border less than its reach when `narrow`), and the smallest data it fits."""
    strides = tuple(draw(st.integers(1, 3)) for _ in kernel)
    dilations = tuple(draw(st.integers(1, 2)) for _ in kernel)
    widest = (d * (e - 1) if narrow else 2 for d, e in zip(dilations, kernel, strict=True))
    edges = tuple((draw(st.integers(0, most)), draw(st.integers(0, most))) for most in widest)
    smallest = (
        max(dilation, dilation * (extent - 1) + 1 - sum(edge))
        for extent, dilation, edge in zip(kernel, dilations, edges, strict=True)
    )
    return Window(strides, edges, dilations), tuple(smallest)


@examples
@given(
    data=st.data(),
    rank=st.integers(1, 3),
    groups=st.integers(1, 2),
    channels=st.integers(1, 2),
    filters=st.integers(1, 2),
)
def test_convolutions(data: st.DataObject, rank: int, groups: int, channels: int, filters: int) -> None:
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    window, smallest = data.draw(moves(kernel, narrow=False))
    spatial = tuple(size + data.draw(st.integers(0, 2)) for size in smallest)
    x = values((data.draw(st.integers(1, 2)), *spatial, channels * groups))
    w, bias = values((*kernel, channels, filters * groups), 1), values((filters * groups,), 2)
    check(lambda a, b, c: convolution(a, b, c, window=window, groups=groups), 0.1 * x, 0.1 * w, bias)
    check(lambda a, b: convolution(tanh(a), b, window=window, groups=groups), 0.1 * x, 0.1 * w)


@examples
@given(data=st.data(), rank=st.integers(1, 3), border=st.booleans())
def test_pools(data: st.DataObject, rank: int, border: bool) -> None:
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    window, smallest = data.draw(moves(kernel, narrow=True))
    spatial = tuple(size + data.draw(st.integers(0, 2)) for size in smallest)
    x = values((data.draw(st.integers(1, 2)), *spatial, data.draw(st.integers(1, 2))))
    check(lambda v: max_pool(square(affine(v, 0.1, 2.0)), kernel, window), 0.1 * x)
    check(lambda v: average_pool(square(v), kernel, window, count_border=border), 0.1 * x)


@examples
@given(rows=shapes(0, 2), classes=st.integers(1, 5))
def test_softmax(rows: Shape, classes: int) -> None:
    x = values((*rows, classes))
    labels = Eager(np.random.default_rng(0).integers(0, classes, rows))
    check(softmax, x)
    check(log_softmax, x)
    check_gradients(lambda variables: softmax_cross_entropy(variables[0], labels), [x])
    check(lambda v: multiply(*(reshape(y, (-1,))[:1] for y in softmax_cross_entropy(v, labels))), x)


@examples
@given(data=st.data(), shape=shapes(1, 3))
def test_movement_and_views(data: st.DataObject, shape: Shape) -> None:
    permutation = tuple(data.draw(st.permutations(range(len(shape)))))
    axis = data.draw(st.integers(0, len(shape) - 1))
    start = data.draw(st.integers(0, shape[axis]))

    def function(x: Eager) -> Eager:
        upper, lower = slice_axis(x, axis, start, shape[axis]), slice_axis(x, axis, 0, start)
        swapped = concatenate([square(upper), lower, upper], axis)
        flat = reshape(transpose(swapped, permutation), (-1,))
        return multiply(flat, reshape(reshape(square(flat), (1, -1, 1)), (-1,)))

    check(function, values(shape))


def test_indexing() -> None:
    x = values((3, 4, 5))
    check(lambda v: square(v[1:, -1, ::1]), x)
    check(lambda v: multiply(v[0], v[2]) @ reshape(v[1, 0], (5, 1)), x)
    check(lambda v: square(transpose(v[:, 1:3])[2]), x)
    check(lambda v: square(v[3:]), x)


def test_python_operators() -> None:
    a, b = positive((2, 3)), positive((3,), 1)
    check(lambda x, y: (2 * x + y - 1) * (3 - x) / (y + 2) - (1 / x) + x**2 - (x**y) + (x - y) / 4 + (1 + -x), a, b)


def test_the_fourth_derivative_of_exp_is_exp() -> None:
    x = Eager(values((5,)))
    y = exp(x)
    for _ in range(4):
        (y,) = gradients([y], [Eager(np.ones(5))], [x])
        np.testing.assert_allclose(y.array, np.exp(x.array), rtol=1e-12)


def test_the_third_derivative_of_tanh() -> None:
    x = Eager(values((5,)))
    y = tanh(x)
    for _ in range(3):
        (y,) = gradients([y], [Eager(np.ones(5))], [x])
    t = np.tanh(x.array)
    np.testing.assert_allclose(y.array, (1 - t**2) * (6 * t**2 - 2), rtol=1e-10)


@pytest.mark.parametrize("target", [F32, F16, BF16], ids=str)
def test_a_cast_casts_the_gradient_back(target: DType) -> None:
    x = Eager(np.array([0.5, -2.0]))
    y = cast(x, target)
    (g,) = gradients([y], [cast(Eager(np.array([3.0, 0.25])), target)], [x])
    assert g.spec.dtype is F64
    np.testing.assert_array_equal(g.array, [3.0, 0.25])


def test_no_gradient_flows_through_integers() -> None:
    x = Eager(np.array([1.5, 2.5]))
    y = multiply(cast(cast(x, I32), F64), x)
    (g,) = gradients([y], [Eager(np.ones(2))], [x])
    np.testing.assert_array_equal(g.array, [1.0, 2.0])


def test_ties_share_the_gradient() -> None:
    x = Eager(np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]))
    (g,) = gradients([reduce_max(x, 1)], [Eager(np.array([1.0, 6.0]))], [x])
    np.testing.assert_array_equal(g.array, [[0, 0.5, 0.5], [2, 2, 2]])
    a, b = Eager(np.array([1.0, 2.0])), Eager(np.array([1.0, 5.0]))
    left, right = gradients([maximum(a, b)], [Eager(np.ones(2))], [a, b])
    np.testing.assert_array_equal([left.array, right.array], [[0.5, 0], [0.5, 1]])


@pytest.mark.parametrize("flip", [False, True])
def test_a_shared_factor_has_one_gradient_and_none_per_batch_entry(flip: bool) -> None:
    generator = np.random.default_rng(4)
    a = Eager(generator.standard_normal((5, 2, 3)))
    b = Eager(generator.standard_normal((4, 3) if flip else (3, 4)))
    y = gemm(a, b, transpose_b=flip)
    ones = np.ones((5, 2, 4))
    (slope,) = gradients([y], [Eager(ones)], [b])
    want = np.einsum("bmk,bmn->nk" if flip else "bmk,bmn->kn", a.array, ones)
    np.testing.assert_allclose(slope.array, want, rtol=1e-12)
