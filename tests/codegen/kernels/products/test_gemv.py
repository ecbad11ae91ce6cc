"""Matrix times vector, in both orders of memory, against NumPy's product in f64."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, scalar_of, steps

from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.codegen.kernels.products.gemv import Gemv, matrix_times_vector

SIZES = [(1, 1), (3, 5), (16, 32), (130, 9), (257, 300), (5, 2000), (700, 3)]


def product(m: Array, v: Array, bias: Array | None = None) -> None:
    want = m.astype(np.float64) @ v.astype(np.float64)
    want = (want if bias is None else want + bias).astype(m.dtype)
    generator = Gemv(scalar_of(m), *m.shape, *steps(m), *steps(v), 0, 0 if bias is None else bias.size)
    check(generator, [m, v] if bias is None else [m, v, bias], [want], spread=max(1.0, v.size**0.5))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_sizes(size: tuple[int, int], transposed: bool) -> None:
    m = random(size[::-1]).T if transposed else random(size)
    product(m, random(size[1:], seed=1))
    product(m, random(size[1:], seed=1), random(size[:1], seed=2))


@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_f64_gaps_and_one_bias(transposed: bool) -> None:
    m = random((90, 70), np.float64).T[:, ::2] if transposed else random((70, 90), np.float64)[::2]
    product(m, random((2 * m.shape[1],), np.float64, 1)[::2], np.array([0.5]))


def test_an_empty_sum_is_the_bias() -> None:
    for m in (random((40, 0)), random((0, 40)).T):
        product(m, random((0,)), random((40,)))
        product(m, random((0,)))


def test_infinities_and_nan_stay_in_their_rows() -> None:
    m, v = random((20, 37)), random((37,), seed=1)
    m[3, 36], m[19, 6] = np.inf, np.nan
    product(m, v)
    product(np.ascontiguousarray(m.T).T, v)


def test_which_products_are_of_a_vector() -> None:
    scalar = scalar_of(random((1,)))

    def gemm(rows: int, columns: int, a: tuple[int, int], b: tuple[int, int], bias: bool = False) -> MatrixProduct:
        return MatrixProduct(scalar, (), rows, columns, 7, (), *a, (), *b, (), columns, bias)

    assert matrix_times_vector(gemm(1, 5, (7, 1), (5, 1), True)) == Gemv(scalar, 5, 7, 1, 5, 1, 1, 5)
    assert matrix_times_vector(gemm(1, 5, (7, 1), (1, 7))) == Gemv(scalar, 5, 7, 7, 1, 1, 1)
    assert matrix_times_vector(gemm(5, 1, (7, 1), (3, 1), True)) == Gemv(scalar, 5, 7, 7, 1, 3, 0, 1)
    assert matrix_times_vector(gemm(5, 2, (7, 1), (2, 1))) is None
    assert matrix_times_vector(gemm(1, 5, (7, 1), (10, 2))) is None
