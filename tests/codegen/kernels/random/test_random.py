from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnc import ops
from nnc.codegen.frame.kernel import words_of
from nnc.codegen.frame.row import view_of
from nnc.codegen.kernels.table import ROWS
from nnc.core.values.dtype import F16, F32, I64
from nnc.core.values.spec import TensorSpec, spec
from nnc.graph import Op
from nnc.ops.random.random import (
    DROPOUT,
    RANDOM_NORMAL,
    RANDOM_UNIFORM,
    DropoutAttrs,
    NormalAttrs,
    UniformAttrs,
    largest_below,
)
from nnc.symbolic import SymbolicGraph, compile

MATRIX, COUNTER = spec((16, 17)), TensorSpec((), I64)
ATTRIBUTES = {
    RANDOM_UNIFORM: (UniformAttrs(MATRIX), UniformAttrs(MATRIX, -2.0, 5.0, seed=2**64 - 1)),
    RANDOM_NORMAL: (NormalAttrs(MATRIX), NormalAttrs(MATRIX, 3.0, 0.5, seed=9)),
    DROPOUT: (DropoutAttrs(0.5), DropoutAttrs(0.1, seed=8)),
}


@pytest.mark.parametrize("op", list(ATTRIBUTES), ids=lambda op: op.name)
def test_one_kernel_serves_all_seeds_bounds_and_rates(op: Op[object]) -> None:
    inputs = [view_of(MATRIX), view_of(COUNTER)] if op is DROPOUT else [view_of(COUNTER)]
    first, second = (ROWS[op].generate(attrs, inputs, [view_of(MATRIX)]) for attrs in ATTRIBUTES[op])
    assert first == second
    assert words_of(first) != words_of(second)


def drawn(backend: str, seed: int, low: float, high: float, dtype: str) -> np.ndarray:
    graph = SymbolicGraph("random")
    counter = graph.input(COUNTER)
    y = ops.random_uniform(counter, replace(spec((1001,)), dtype=spec((), dtype).dtype), low, high, seed=seed)
    program = compile(graph, [y], backend=backend)
    program.write(counter, np.array(11))
    program.run()
    return np.array(program.tensor(y).numpy())


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5, 2**64 - 1])
def test_uniform_numbers_are_those_of_the_reference(seed: int) -> None:
    for dtype in ("f64", "f32"):
        np.testing.assert_array_equal(drawn("llvm", seed, -1.0, 3.0, dtype), drawn("reference", seed, -1.0, 3.0, dtype))


def test_a_bound_that_rounding_would_reach_is_not_drawn() -> None:
    high = float(np.nextafter(np.float32(1.0), np.float32(2.0)))
    found = drawn("llvm", 3, 1.0, high, F32.name)
    assert found.max() == 1.0


def test_a_bound_beyond_the_element_type_is_its_largest_number() -> None:
    assert largest_below(1e30, F16) == 65504.0
