from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, run, scalar_of

from nnc.codegen.ir.builder import I64
from nnc.codegen.kernels.normalization.softmax import KINDS, Softmax


def probabilities(x: Array) -> Array:
    wide = x.astype(np.float64)
    power = np.exp(wide - wide.max(1, keepdims=True))
    return np.asarray(power / power.sum(1, keepdims=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("columns", [10, 100])
def test_every_member_of_the_family(kind: str, columns: int, dtype: type[np.generic]) -> None:
    rows = 33
    generator = np.random.default_rng(0)
    x, h = random((rows, columns), dtype) * 5, random((rows, columns), dtype, 1)
    labels, g = generator.integers(0, columns, rows), random((rows,), dtype, 2)
    p = probabilities(x)
    narrow = p.astype(dtype)
    difference = narrow.astype(np.float64) - np.eye(columns)[labels]
    inputs, wanted = {
        "softmax": ([x], [p]),
        "log_softmax": ([x], [np.log(p)]),
        "softmax_cross_entropy": ([x, labels], [-np.log(p[np.arange(rows), labels]), p]),
        "softmax_cross_entropy_gradient": ([g, narrow, labels], [g[:, None] * difference]),
        "label_difference": ([h, narrow, labels], [(h * difference).sum(1)]),
    }[kind]
    generator_ = Softmax(kind, scalar_of(x), rows, columns, I64)
    check(generator_, inputs, [want.astype(dtype) for want in wanted], spread=4.0)


def test_large_inputs_do_not_overflow() -> None:
    x = np.array([[1000.0, 1001.0, -1e30], [-np.inf, 0.0, 0.0]], np.float32)
    check(Softmax("softmax", scalar_of(x), 2, 3), [x], [probabilities(x).astype(np.float32)])


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
@pytest.mark.parametrize("column", [0, 15, 16, 70, 129])
def test_a_nan_anywhere_spoils_its_row_alone(kind: str, column: int) -> None:
    x, y = random((3, 130)), np.zeros((3, 130), np.float32)
    x[1, column] = np.nan
    run(Softmax(kind, scalar_of(x), 3, 130), [x], [y])
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_what_is_masked_has_no_share_and_powers_are_normal_numbers(dtype: type[np.generic]) -> None:
    """A share of 16 bits may be denormal, as it is computed in f32."""
    x, y = random((2, 40), dtype), np.ones((2, 40), dtype)
    x[0, 5], x[1, 7], x[1, 8], x[1, 9] = -np.inf, x[1].max() + 100, x[1].max(), x[1].max() + 90
    x[0, 6], x[0, 7] = x[0].max() - 40, x[0].max() - 720
    run(Softmax("softmax", scalar_of(x), 2, 40), [x], [y])
    assert y[0, 5] == 0
    want = probabilities(x)
    want[want < np.finfo(np.float64 if dtype is np.float64 else np.float32).tiny] = 0
    least = np.finfo(dtype).smallest_subnormal if dtype is np.float16 else 0
    np.testing.assert_allclose(y, want.astype(dtype), rtol=2e-3 if dtype is np.float16 else 3e-6, atol=least)


def test_rows_that_no_cache_holds() -> None:
    x = random((2, 70001))
    check(Softmax("softmax", scalar_of(x), *x.shape), [x], [probabilities(x).astype(np.float32)])
    check(Softmax("log_softmax", scalar_of(x), *x.shape), [x], [np.log(probabilities(x)).astype(np.float32)])


def test_the_result_may_lie_over_the_input() -> None:
    x = random((7, 50))
    want = probabilities(x)
    run(Softmax("softmax", scalar_of(x), 7, 50), [x], [x])
    np.testing.assert_allclose(x, want, rtol=1e-5)


@pytest.mark.parametrize("label", [-1, 4, 2**40])
def test_a_label_that_is_no_class_gives_nan(label: int) -> None:
    x, labels = random((2, 4)), np.array([1, label])
    loss, p = np.zeros(2, np.float32), np.zeros((2, 4), np.float32)
    run(Softmax("softmax_cross_entropy", scalar_of(x), 2, 4, I64), [x, labels], [loss, p])
    assert np.isfinite(loss[0])
    assert np.isnan(loss[1])
