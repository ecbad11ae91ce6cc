"""Random programs as functions: eager, lazy, memoized and checkpointed, compiled, differentiated inside and outside."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest
from tests.symbolic.programs import random_program, run
from tests.symbolic.rows.control import FLOATS

import nnc
from nnc.core.values.dtype import F64
from nnc.dynamic.graph import default_graph
from nnc.symbolic import verify

# A campaign tries more: NNC_EXAMPLES=1000 pytest tests/dynamic/test_random_functions.py
EXAMPLES = int(os.environ.get("NNC_EXAMPLES", "12"))


@pytest.mark.turns(4)
@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_programs_agree_in_every_way(seed: int) -> None:
    program = random_program(seed, table=FLOATS, dtypes=(F64,), most=10)
    generator = np.random.default_rng(seed)
    arrays = tuple(generator.uniform(-1.5, 1.5, shape) for shape in program.shapes)
    places = range(len(arrays))

    def function(*inputs: Any) -> Any:
        return sum(one.sum() for one in run(program, inputs)[1])

    # What other tests have left in cycles is not counted.
    gc.collect()
    before = len(default_graph().record.tensors)
    value, slopes = nnc.value_and_grad(function, places)(*map(nnc.tensor, arrays))
    bits = [one.numpy().tobytes() for one in (value, *slopes)]
    for way in (nnc.lazy, nnc.memoized):
        with way():
            for _ in range(2):
                got, found = nnc.value_and_grad(function, places)(*map(nnc.tensor, arrays))
                assert [one.numpy().tobytes() for one in (got, *found)] == bits
    for other in (
        nnc.compile(nnc.value_and_grad(function, places)),
        nnc.value_and_grad(nnc.checkpoint(function), places),
        nnc.value_and_grad(nnc.compile(function), places),
    ):
        got, found = other(*arrays)
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-9)
        for one, want in zip(found, slopes, strict=True):
            np.testing.assert_allclose(one, want, rtol=1e-8, atol=1e-8)
    both = [np.stack([array, array[..., ::-1] if array.ndim else array]) for array in arrays]
    values, rows = nnc.vmap(nnc.value_and_grad(function, places))(*both)
    np.testing.assert_allclose(values[0], value, rtol=1e-9, atol=1e-9)
    for one, want in zip(rows, slopes, strict=True):
        np.testing.assert_allclose(one[0], want, rtol=1e-8, atol=1e-8)
    tangents = tuple(np.ones_like(array) for array in arrays)
    _, change = nnc.jvp(function, arrays, tangents)
    np.testing.assert_allclose(change, sum(np.sum(one) for one in slopes), rtol=1e-7, atol=1e-7)
    del value, values, rows, slopes, got, found, one, want, change
    verify(default_graph().record)
    assert len(default_graph().record.tensors) == before
