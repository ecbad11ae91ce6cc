from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, access, check, random, run, scalar_of

from nnc.backends.llvm.run.host import host_target
from nnc.codegen.frame.access import StridedAccess, broadcast
from nnc.codegen.ir.expression import CONSTANT, CONVERT, Instruction
from nnc.codegen.kernels.elementwise.pointwise import Pointwise

HALF = pytest.param(np.float16, marks=pytest.mark.skipif(not host_target().half, reason="no conversion of f16 here"))


def operand(array: Array, rank: int) -> StridedAccess:
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return StridedAccess(scalar_of(array), broadcast(array.shape, strides, rank))


def binary(operation: str, left: Array, right: Array, want: Array) -> None:
    rank = want.ndim
    inputs = (operand(left, rank), operand(right, rank))
    chain = Pointwise(want.shape, inputs, (access(want),), (Instruction(operation, (0, 1)),), (2,))
    check(chain, [left, right], [want])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((64,), (64,)),
        ((5, 37), (37,)),
        ((5, 37), (5, 1)),
        ((4, 1, 3), (5, 1)),
        ((2, 3, 4, 5), (3, 1, 5)),
        ((3,), ()),
        ((9000,), (9000,)),
        ((3, 5000), (5000,)),
        ((0, 4), (4,)),
    ],
    ids=str,
)
def test_operands_are_broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = random(left), random(right, seed=1)
    binary("add", a, b, np.asarray(a + b))


def test_strided_and_transposed_operands_are_read_where_they_are() -> None:
    a, b = random((21, 18)).T, random((36, 42))[::2, ::2]
    binary("multiply", a, b, np.ascontiguousarray(a * b))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
@pytest.mark.parametrize("size", [5, 16, 17, 64, 301])
def test_small_integers_that_lie_apart_are_read_and_written(dtype: type[np.integer], size: int) -> None:
    wholes = [np.random.default_rng(place).integers(0, 60, (3, 3 * size)).astype(dtype) for place in range(3)]
    a, b, y = (whole[:, 1::3] for whole in wholes)
    kept = wholes[2][:, ::3].copy()
    chain = Pointwise(y.shape, (access(a), access(b)), (access(y),), (Instruction("add", (0, 1)),), (2,))
    run(chain, [a, b], [y])
    np.testing.assert_array_equal(y, a + b)
    np.testing.assert_array_equal(wholes[2][:, ::3], kept)


def test_a_strided_result_is_written_where_it_is() -> None:
    x, whole = random((6, 19)), np.zeros((12, 38), np.float32)
    y = whole[::2, 1::2]
    chain = Pointwise(x.shape, (access(x),), (access(y),), (Instruction("square", (0,)),), (1,))
    run(chain, [x], [y])
    np.testing.assert_array_equal(y, x * x)
    assert whole[1::2].sum() == whole[:, ::2].sum() == 0


def test_a_chain_is_one_kernel_with_several_results() -> None:
    x, y = random((700,)), random((700,), seed=1)
    instructions = (
        Instruction("affine", (0,), (2.0, 1.0)),
        Instruction("multiply", (2, 1)),
        Instruction("relu", (3,)),
        Instruction("less", (3, 1)),
    )
    outputs = (StridedAccess(scalar_of(x), (1,)), StridedAccess(scalar_of(np.zeros(1, np.bool_)), (1,)))
    chain = Pointwise((700,), (access(x), access(y)), outputs, instructions, (4, 5))
    product = (x * 2 + 1) * y
    check(chain, [x, y], [np.maximum(product, 0), product < y])


def test_nan_wins_in_maximum_and_minimum() -> None:
    a = np.array([1, np.nan, 3, np.inf, -np.inf, np.nan] * 5, np.float32)
    b = np.array([np.nan, 2, 1, 0, np.nan, np.nan] * 5, np.float32)
    binary("maximum", a, b, np.maximum(a, b))
    binary("minimum", a, b, np.minimum(a, b))


@pytest.mark.parametrize("dtype", [np.float64, HALF, np.int32, np.int64, np.uint8])
def test_other_element_types(dtype: type[np.generic]) -> None:
    a, b = (random((77,), seed=seed) * 9 for seed in (0, 1))
    left, right = np.abs(a).astype(dtype), np.abs(b).astype(dtype)
    binary("add", left, right, left + right)
    binary("less_equal", left, right, left <= right)


def test_casts_saturate_and_nan_becomes_zero() -> None:
    x = np.array([1.9, -1.9, np.nan, np.inf, -np.inf, 1e20], np.float32)
    want = np.array([1, -1, 0, 2**31 - 1, -(2**31), 2**31 - 1], np.int32)
    chain = Pointwise((6,), (access(x),), (access(want),), (Instruction(CONVERT, (0,), result="i32"),), (1,))
    check(chain, [x], [want])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, HALF])
@pytest.mark.parametrize(("target", "name"), [(np.int16, "i16"), (np.int8, "i8"), (np.uint8, "u8")])
def test_casts_to_narrow_integers_saturate_in_whole_vectors(
    dtype: type[np.generic], target: type[np.signedinteger], name: str
) -> None:
    """The largest numbers of i16 are none of f16."""
    limits = np.iinfo(target)
    edges = [limits.min, limits.max, limits.min - 0.6, limits.max + 0.6, 1.9, -1.9, 65504.0, -65504.0]
    x = np.resize(np.array([*edges, np.nan, np.inf, -np.inf]), 77).astype(dtype)
    want = np.nan_to_num(np.clip(np.trunc(x.astype(np.float64)), limits.min, limits.max), nan=0).astype(target)
    chain = Pointwise((77,), (access(x),), (access(want),), (Instruction(CONVERT, (0,), result=name),), (1,))
    check(chain, [x], [want])


def test_a_constant_needs_no_input() -> None:
    want = np.full((3, 70), 2.5, np.float32)
    chain = Pointwise(want.shape, (), (access(want),), (Instruction(CONSTANT, (), (2.5,), "f32"),), (0,))
    check(chain, [], [want])


def test_the_result_may_lie_over_an_input() -> None:
    x = random((1003,))
    want = np.exp(x.astype(np.float64))
    run(Pointwise(x.shape, (access(x),), (access(x),), (Instruction("exp", (0,)),), (1,)), [x], [x], workers=2)
    np.testing.assert_allclose(x, want, rtol=1e-6)
