"""Functions made of other operators: values against NumPy, gradients of two orders, and where formulas are delicate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.eager import Array, Eager, check_gradients, gradients

from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.composed.compose import (
    complex_multiply,
    einsum,
    masked_fill,
    product_of,
    scaled_add,
    scaled_multiply,
    sum_of,
    tile,
)
from nnc.ops.elementwise.pointwise import clamp, gelu_tanh, leaky_relu, multiply, softplus, square, swish
from nnc.ops.reduction.reduction import reduce_all, reduce_any, reduce_is_nan, reduce_norm

examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def values(shape: Sequence[int], seed: int = 0) -> Array:
    """Between 0.2 and 2 in magnitude, of both signs."""
    generator = np.random.default_rng(seed)
    return generator.uniform(0.2, 2, shape) * generator.choice([-1, 1], shape)


def check(function: Callable[..., Eager], *point: Array) -> None:
    check_gradients(lambda variables: [function(*variables)], point)


# ---- einsum

EQUATIONS = (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,ij->ji", (2, 3), (2, 3)),
    ("i,j->ji", (2,), (3,)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ijk->ki", (2, 3, 4)),
    ("ii->i", (3, 3)),
    ("ii->", (3, 3)),
    ("iji->j", (2, 3, 2)),
    (",ij->ij", (), (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("ijk,jl,kl->il", (2, 3, 4), (3, 2), (4, 2)),
    ("ab,bc,ca->", (2, 3), (3, 4), (4, 2)),
    ("iij,jk->ik", (2, 2, 3), (3, 2)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("abcdefg,abcdefg->a", (2, 1, 2, 1, 2, 1, 2), (2, 1, 2, 1, 2, 1, 2)),
    ("i j , j k -> i k", (2, 0), (0, 3)),
)


@pytest.mark.parametrize("row", EQUATIONS, ids=lambda row: row[0])
def test_einsum(row: tuple[str, *tuple[tuple[int, ...], ...]]) -> None:
    equation, *shapes = row
    point = [values(shape, seed) for seed, shape in enumerate(shapes)]
    got = einsum(equation, *map(Eager, point))
    np.testing.assert_allclose(got.array, np.einsum(equation, *point), rtol=1e-12, atol=1e-12)
    check(lambda *variables: einsum(equation, *variables), *point)


@examples
@given(data=st.data(), count=st.integers(1, 3))
def test_any_einsum(data: st.DataObject, count: int) -> None:
    sizes = {letter: data.draw(st.integers(1, 3)) for letter in "abcd"}
    inputs = [data.draw(st.text("abcd", max_size=4)) for _ in range(count)]
    known = sorted(set("".join(inputs)))
    output = "".join(data.draw(st.permutations(known)))[: data.draw(st.integers(0, len(known)))]
    equation = f"{','.join(inputs)}->{output}"
    point = [values([sizes[letter] for letter in letters], seed) for seed, letters in enumerate(inputs)]
    got = einsum(equation, *map(Eager, point))
    np.testing.assert_allclose(got.array, np.einsum(equation, *point), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", ((2, 3), (3, 4))),
        ("ij->ik", ((2, 3),)),
        ("ij->ii", ((2, 3),)),
        ("ij,jk->ik", ((2, 3),)),
        ("i->i", ((2, 3),)),
        ("...i->i", ((2, 3),)),
        ("i1->i", ((2, 3),)),
        ("->", ()),
    ],
)
def test_malformed_equations(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(AttributeValueError, match="einsum: got"):
        einsum(equation, *(Eager(np.zeros(shape)) for shape in shapes))


def test_sizes_of_a_letter_must_agree() -> None:
    with pytest.raises(ShapeError, match="einsum: got j of 3 and of 4; need one size per letter"):
        einsum("ij,jk->ik", Eager(np.zeros((2, 3))), Eager(np.zeros((4, 2))))


# ---- the commands of the catalogue


@examples
@given(data=st.data(), shape=st.lists(st.integers(0, 3), max_size=3))
def test_tile(data: st.DataObject, shape: list[int]) -> None:
    repeats = [data.draw(st.integers(1, 3)) for _ in shape]
    x = values(shape)
    np.testing.assert_array_equal(tile(Eager(x), repeats).array, np.tile(x, repeats) if shape else x)


def test_gradients_of_compositions() -> None:
    a, b, c = values((2, 4)), values((2, 4), 1), values((4,), 2)
    mask = Eager(np.array([[True, False, True, False], [False, True, True, False]]))
    check(lambda x: square(tile(x, (2, 3))), a)
    check(lambda x, y: complex_multiply(square(x), y), a, b)
    check(complex_multiply, a, c)
    check(lambda x, y, z: sum_of(x, multiply(y, z), square(z)), a, b, c)
    check(product_of, a, b, c)
    check(lambda x, y: scaled_add(square(x), y, 2.0, -3.0), a, b)
    check(lambda x, y: scaled_multiply(x, y, 0.5), a, b)
    check(lambda x: masked_fill(square(x), mask, -5.0), a)
    check(lambda x: reduce_norm(square(x), 1), a)


def test_complex_products() -> None:
    a, b = values((2, 3, 4)), values((3, 4), 1)
    got = complex_multiply(Eager(a), Eager(b)).array
    np.testing.assert_allclose(got.view(np.complex128), a.view(np.complex128) * b.view(np.complex128), rtol=1e-12)
    with pytest.raises(ShapeError, match="complex_multiply: .* need equal, even last axes"):
        complex_multiply(Eager(np.zeros(3)), Eager(np.zeros(3)))


def test_a_filled_place_hides_what_was_there() -> None:
    x = Eager(np.array([np.nan, np.inf, 1.0]))
    y = masked_fill(x, Eager(np.array([True, True, False])), -1.0)
    np.testing.assert_array_equal(y.array, [-1, -1, 1])
    (g,) = gradients([y], [Eager(np.ones(3))], [x])
    np.testing.assert_array_equal(g.array, [0, 0, 1])


# ---- truth and nan over axes


@pytest.mark.parametrize("axes", [None, 0, 1, (0, 1), ()])
@pytest.mark.parametrize("shape", [(2, 3), (2, 0), (0, 3)])
def test_any_and_all(axes: int | tuple[int, ...] | None, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).integers(0, 2, shape).astype(np.bool_)
    numbers = np.where(x, np.nan, 1.0)
    for keepdims in (False, True):
        some, every = np.any(x, axes, keepdims=keepdims), np.all(x, axes, keepdims=keepdims)
        np.testing.assert_array_equal(reduce_any(Eager(x), axes, keepdims=keepdims).array, some)
        np.testing.assert_array_equal(reduce_all(Eager(x), axes, keepdims=keepdims).array, every)
        np.testing.assert_array_equal(reduce_is_nan(Eager(numbers), axes, keepdims=keepdims).array, some)


def test_more_true_elements_than_a_byte_counts() -> None:
    assert reduce_any(Eager(np.ones(512, np.bool_))).array
    assert not reduce_all(Eager(np.arange(513) != 512)).array


# ---- where activations are delicate

EXTREMES = np.array([-np.inf, -1e300, -800.0, -40.0, -1e-300, 0.0, 1e-300, 40.0, 800.0, 1e300, np.inf])


def slope(function: Callable[[Eager], Eager], x: Array) -> Array:
    variable = Eager(x)
    y = function(variable)
    (g,) = gradients([y], [Eager(np.ones(y.shape))], [variable])
    return g.array


def test_softplus_at_its_extremes() -> None:
    y = softplus(Eager(EXTREMES)).array
    wanted = [0, 0, math.exp(-800), math.exp(-40), math.log(2), math.log(2), math.log(2), 40 + math.exp(-40), 800]
    np.testing.assert_allclose(y, [*wanted, 1e300, np.inf], rtol=1e-15)
    sigmoid = [0, 0, 0, math.exp(-40), 0.5, 0.5, 0.5, 1, 1, 1, 1]
    np.testing.assert_allclose(slope(softplus, EXTREMES), sigmoid, rtol=1e-14)
    assert np.isnan(softplus(Eager(np.array([np.nan]))).array[0])
    x = np.array([-3.0, 0.0, 2.0])
    s = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(slope(lambda v: multiply(softplus(v), v), x), np.logaddexp(0, x) + x * s, rtol=1e-14)
    check(softplus, x)


@pytest.mark.parametrize("power", [0.0, 0.01, 2.0, -1.0])
def test_leaky_relu_at_its_extremes(power: float) -> None:
    y = leaky_relu(Eager(EXTREMES), power).array
    with np.errstate(invalid="ignore"):
        wanted = np.where(EXTREMES > 0, EXTREMES, power * EXTREMES if power else 0.0)
    np.testing.assert_array_equal(y, wanted)
    got = slope(lambda x: leaky_relu(x, power), EXTREMES)
    np.testing.assert_array_equal(got, np.where(EXTREMES > 0, 1.0, power))
    assert np.isnan(leaky_relu(Eager(np.array([np.nan])), power).array[0])
    check(lambda x: square(leaky_relu(x, power)), values((5,)))


def test_clamp() -> None:
    x = np.array([-np.inf, -2.0, -1.0, 0.0, 1.0, 3.0, np.inf])
    np.testing.assert_array_equal(clamp(Eager(x), -1.0, 1.0).array, np.clip(x, -1, 1))
    np.testing.assert_array_equal(clamp(Eager(x), low=-1.0).array, np.maximum(x, -1))
    np.testing.assert_array_equal(clamp(Eager(x), high=1.0).array, np.minimum(x, 1))
    np.testing.assert_array_equal(slope(lambda v: clamp(v, -1.0, 1.0), x), [0, 0, 0.5, 1, 0.5, 0, 0])
    plain = Eager(x)
    assert clamp(plain) is plain
    assert np.isnan(clamp(Eager(np.array([np.nan])), -1.0, 1.0).array[0])
    np.testing.assert_array_equal(clamp(Eager(np.array([-5, 5], np.int8)), -1, 3).array, [-1, 3])
    with pytest.raises(AttributeValueError, match="clamp: got a bound that is not a number"):
        clamp(plain, math.nan)


def test_activations() -> None:
    x = values((7,))
    np.testing.assert_allclose(swish(Eager(x)).array, x / (1 + np.exp(-x)), rtol=1e-14)
    cubic = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    np.testing.assert_allclose(gelu_tanh(Eager(x)).array, 0.5 * x * (1 + np.tanh(cubic)), rtol=1e-13)
    check(swish, x)
    check(gelu_tanh, x)


def test_a_norm_neither_overflows_nor_divides_by_zero() -> None:
    x = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0]])
    np.testing.assert_allclose(reduce_norm(Eager(x), 1).array, [5e200, 5e-200, 0, np.inf, np.nan], rtol=1e-15)
    narrow = Eager(np.full(16, 300, np.float16))
    assert float(reduce_norm(narrow).array) == 1200
    np.testing.assert_allclose(slope(lambda v: reduce_norm(v, 1), x[:3]), [[0.6, 0.8], [0.6, 0.8], [0, 0]], rtol=1e-14)
