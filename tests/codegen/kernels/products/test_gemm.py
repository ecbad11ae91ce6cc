from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, run, scalar_of, steps

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.ir.builder import F32
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.ir.target import Machine
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MAX_DEPTH, MatrixProduct
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS

SIZES = [(1, 1, 1), (3, 70, 5), (33, 65, 2 * MAX_DEPTH + 9), (29, 1, 17), (100, 100, 100), (64, 10, 128)]
# One matrix larger than the cache, and blocks of rows, of columns and of steps.
LARGE = [(33, 450, MAX_DEPTH + 76), (200, 600, MAX_DEPTH + 76), (400, 70, MAX_DEPTH + 76)]


def gemm(a: Array, b: Array, bias: bool = False) -> Gemm:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, columns = a.shape[-2], b.shape[-1]
    c = np.empty((*batch, rows, columns), a.dtype)

    def outer(x: Array) -> tuple[int, ...]:
        return tuple(0 if size == 1 else step for size, step in zip(x.shape[:-2], steps(x)[:-2], strict=True))

    problem = MatrixProduct(
        scalar_of(a), batch, rows, columns, a.shape[-1], outer(a), *steps(a)[-2:], outer(b), *steps(b)[-2:],
        outer(c), columns, bias,
    )  # fmt: skip
    return Gemm(problem)


def product(a: Array, b: Array, bias: Array | None = None) -> None:
    want = a.astype(np.float64) @ b.astype(np.float64)
    want = (want if bias is None else want + bias).astype(a.dtype)
    inputs = [a, b] if bias is None else [a, b, bias]
    check(gemm(a, b, bias is not None), inputs, [want], spread=max(1.0, a.shape[-1] ** 0.5))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, True)], ids=["plain", "transposed"])
def test_products_of_all_sizes(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    rows, columns, inner = size
    a = random((inner, rows)).T if transposed[0] else random((rows, inner))
    b = random((columns, inner), seed=1).T if transposed[1] else random((inner, columns), seed=1)
    product(a, b, random((columns,), seed=2) if rows % 2 else None)


@pytest.mark.turns(4)
@pytest.mark.parametrize("size", LARGE, ids=str)
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_large_products_with_an_epilogue(size: tuple[int, int, int], flip_a: bool, flip_b: bool) -> None:
    rows, columns, inner = size
    a = random((inner, rows)).T if flip_a else random((rows, inner))
    b = random((columns, inner), seed=1).T if flip_b else random((inner, columns), seed=1)
    bias, scale = random((columns,), seed=2), random((columns,), seed=3)
    chain = (Instruction("multiply", (0, 1)), Instruction("relu", (2,)))
    want = np.maximum((a.astype(np.float64) @ b + bias) * scale, 0).astype(np.float32)
    made = replace(gemm(a, b, bias=True), epilogue=Epilogue(F32, (True,), chain, 3))
    check(made, [a, b, bias, scale], [want], spread=10 * inner**0.5)


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_f64_with_every_transpose(flip_a: bool, flip_b: bool) -> None:
    a = random((40, 37), np.float64).T if flip_a else random((37, 40), np.float64)
    b = random((50, 40), np.float64, 1).T if flip_b else random((40, 50), np.float64, 1)
    product(a, b, random((50,), np.float64))


def test_f16_is_rounded_once() -> None:
    depth = 2 * MAX_DEPTH + 9
    a, b = random((33, depth), np.float16), random((depth, 65), np.float16, 1)
    product(a, b, random((65,), np.float16, 2))
    product(a, np.ascontiguousarray(b.T).T)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    check(gemm(a, b), [a, b], [wide.astype(np.float16)], spread=0.5)


def test_batches_are_broadcast() -> None:
    product(random((2, 3, 17, 9)), random((1, 3, 9, 40), seed=1))
    product(random((2, 1, 17, 9)), random((3, 9, 40), seed=1)[None])


def test_matrices_with_gaps() -> None:
    product(random((40, 90))[::2, ::3], random((60, 70), seed=1)[::2, ::2])


def test_an_empty_sum_is_the_bias() -> None:
    product(random((5, 0)), random((0, 33)), random((33,)))
    product(random((5, 0)), random((0, 3)))


@pytest.mark.parametrize("flips", [(False, False), (True, True)], ids=str)
def test_rows_behind_whole_tiles_have_the_bits_of_those_inside(flips: tuple[bool, bool]) -> None:
    columns, inner = 70, MAX_DEPTH + 9
    # Powers of two, so that each row has bits of its own that follow from those of the first.
    scales = np.exp2(np.arange(41) % 7).astype(np.float32)[:, None]
    whole = random((1, inner)) * scales
    right = random((columns, inner), seed=1).T if flips[1] else random((inner, columns), seed=1)
    for rows in (15, 17, 22, 27, 29, 31, 40):
        a, c = whole[:rows], np.empty((rows, columns), np.float32)
        a = np.ascontiguousarray(a.T).T if flips[0] else a
        run(gemm(a, right), [a, right], [c])
        np.testing.assert_array_equal(c, c[:1] * scales[:rows])


def test_nothing_to_do() -> None:
    product(random((0, 4)), random((4, 5)))
    product(random((4, 4)), random((4, 0)))


def test_infinities_and_nan_stay_in_their_rows() -> None:
    a, b = random((20, 30)), random((30, 40), seed=1)
    a[3, 4], a[5, 6] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        product(a, b)


@pytest.mark.parametrize("flips", [(False, False), (True, False), (True, True)], ids=str)
def test_operands_in_place_and_packed_give_the_same_bits(
    flips: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, columns, inner = LARGE[1]
    a = random((inner, rows)).T if flips[0] else random((rows, inner))
    b = random((columns, inner), seed=1).T if flips[1] else random((inner, columns), seed=1)
    results = []
    # Rows in one block and in many: the first tile of the first one packs what all others read.
    for in_place, nearby in ((True, 2 << 20), (False, 2 << 20), (False, 64 << 10)):
        target = replace(host_target(), in_place=in_place, machine=Machine(level_two_bytes=nearby))
        other = Jit(target, DiskCache(SETTINGS.cache_folder))
        monkeypatch.setattr("tests.backends.llvm.harness.jit", lambda other=other: other)
        results.append(np.empty((rows, columns), np.float32))
        run(gemm(a, b), [a, b], [results[-1]])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
