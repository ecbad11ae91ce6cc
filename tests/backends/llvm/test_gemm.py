from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, scalar_of, steps

from nnc.backends.llvm.gemm import MAX_DEPTH, Gemm

SIZES = [(1, 1, 1), (3, 70, 5), (33, 65, 2 * MAX_DEPTH + 9), (29, 1, 17), (100, 100, 100), (64, 10, 128)]


def product(a: Array, b: Array, bias: Array | None = None) -> None:
    wide = [None if x is None else x.astype(np.float64) for x in (a, b, bias)]
    assert wide[0] is not None
    assert wide[1] is not None
    want = (wide[0] @ wide[1] + (0 if wide[2] is None else wide[2])).astype(a.dtype)
    batch = want.shape[:-2]

    def outer(x: Array) -> tuple[int, ...]:
        return tuple(0 if size == 1 else step for size, step in zip(x.shape[:-2], steps(x)[:-2], strict=True))

    generator = Gemm(
        scalar_of(a), batch, *want.shape[-2:], a.shape[-1], outer(a), *steps(a)[-2:], outer(b), *steps(b)[-2:],
        outer(want), want.shape[-1], bias is not None,
    )  # fmt: skip
    inputs = [a, b] if bias is None else [a, b, bias]
    check(generator, inputs, [want], spread=max(1.0, a.shape[-1] ** 0.5))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, True)], ids=["plain", "transposed"])
def test_products_of_all_sizes(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    rows, columns, inner = size
    a = random((inner, rows)).T if transposed[0] else random((rows, inner))
    b = random((columns, inner), seed=1).T if transposed[1] else random((inner, columns), seed=1)
    product(a, b, random((columns,), seed=2) if rows % 2 else None)


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_f64_with_every_transpose(flip_a: bool, flip_b: bool) -> None:
    a = random((40, 37), np.float64).T if flip_a else random((37, 40), np.float64)
    b = random((50, 40), np.float64, 1).T if flip_b else random((40, 50), np.float64, 1)
    product(a, b, random((50,), np.float64))


def test_batches_are_broadcast() -> None:
    product(random((2, 3, 17, 9)), random((1, 3, 9, 40), seed=1))
    product(random((2, 1, 17, 9)), random((3, 9, 40), seed=1)[None])


def test_matrices_with_gaps() -> None:
    product(random((40, 90))[::2, ::3], random((60, 70), seed=1)[::2, ::2])


def test_an_empty_sum_is_the_bias() -> None:
    product(random((5, 0)), random((0, 33)), random((33,)))
    product(random((5, 0)), random((0, 3)))


def test_nothing_to_do() -> None:
    product(random((0, 4)), random((4, 5)))
    product(random((4, 4)), random((4, 0)))


def test_infinities_and_nan_stay_in_their_rows() -> None:
    a, b = random((20, 30)), random((30, 40), seed=1)
    a[3, 4], a[5, 6] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        product(a, b)
