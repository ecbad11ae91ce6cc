"""Attention and its gradient against NumPy in f64; one and three workers give the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random

from nnc.codegen.ir.builder import BOOL, F32, F64
from nnc.codegen.kernels.sequence.attention import Attention


def reference(problem: Attention, arrays: list[Array]) -> tuple[list[Array], list[Array]]:
    """y and lse; then q', k' and v' for the gradient g = arrays[0]."""
    g, q, k, v = (array.astype(np.float64) for array in arrays)
    repeats = problem.heads // problem.groups
    wide_k, wide_v = np.repeat(k, repeats, 2), np.repeat(v, repeats, 2)
    s = np.einsum("bihd,bjhd->bhij", q, wide_k) * problem.scale
    if problem.causal:
        s = np.where(np.tri(problem.rows, problem.columns, problem.columns - problem.rows, bool), s, -np.inf)
    lse = np.log(np.exp(s).sum(-1))
    p = np.exp(s - lse[..., None])
    y = np.einsum("bhij,bjhe->bihe", p, wide_v)
    slope = np.einsum("bihe,bjhe->bhij", g, wide_v) - np.einsum("bihe,bihe->bhi", g, y)[..., None]
    slope = p * slope * problem.scale
    by_k, by_v = np.einsum("bhij,bihd->bjhd", slope, q), np.einsum("bhij,bihe->bjhe", p, g)
    split = (problem.batch, problem.columns, problem.groups, repeats, -1)
    by_key_heads = [part.reshape(split).sum(3) for part in (by_k, by_v)]
    return [y, lse], [np.einsum("bhij,bjhd->bihd", slope, wide_k), *by_key_heads]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(70, 70, 4, 2, 24), (33, 65, 2, 2, 64), (1, 9, 3, 1, 5)])
def test_forward_and_gradient(causal: bool, sizes: tuple[int, int, int, int, int]) -> None:
    rows, columns, heads, groups, features = sizes
    for scalar, dtype in ((F32, np.float32), (F64, np.float64)):
        problem = Attention(scalar, 2, rows, columns, heads, groups, features, features, 0.3, causal)
        shapes = [(2, rows, heads, features)] * 2 + [(2, columns, groups, features)] * 2
        arrays = [random(shape, dtype, seed) for seed, shape in enumerate(shapes)]
        forward, backward = reference(problem, arrays)
        results = [np.ascontiguousarray(result, dtype) for result in forward]
        check(problem, arrays[1:], results, spread=20.0)
        wanted = [np.ascontiguousarray(result, dtype) for result in backward]
        check(replace(problem, gradient=True), [*arrays, *results], wanted, spread=20.0)


@pytest.mark.parametrize("rows", [70, 1])
def test_columns_behind_all_that_a_mask_shows_are_not_read(rows: int) -> None:
    # Each row sees one column more than the last; the second half of 70 sees nothing, and is 0.
    seen = np.arange(300) <= 10 + np.arange(rows)[:, None]
    seen[35:] = False
    q, k, v = random((1, rows, 2, 16)), random((1, 300, 2, 16), seed=1), random((1, 300, 2, 16), seed=2)
    powers = np.where(seen, np.exp(0.3 * np.einsum("bihd,bjhd->bhij", q, k).astype(np.float64)), 0.0)
    total = powers.sum(-1)
    lse = np.where(total > 0, np.log(np.where(total > 0, total, 1.0)), np.inf).astype(np.float32)
    y = np.einsum("bhij,bjhe->bihe", powers / np.where(total > 0, total, 1.0)[..., None], v).astype(np.float32)
    k[:, 128:], v[:, 128:] = np.nan, np.nan
    problem = Attention(F32, 1, rows, 300, 2, 2, 16, 16, 0.3, False, BOOL, (rows * 300, 0, 300, 1))
    check(problem, [q, k, v, seen[None, None]], [y, lse], spread=20.0)
