"""Stores under masks write the lanes of the mask and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.backends.llvm.harness import run

from nnc.backends.llvm.frame.kernel import Phase, WithoutMemory, phase
from nnc.backends.llvm.ir.builder import BF16, F16, F32, I8, I16, U8, Module, Scalar, Type


@dataclass(frozen=True)
class FirstLanes(WithoutMemory):
    """y[i] = x[i] for the first `count` of 16 lanes, as another type; the count is known."""

    scalar: Scalar
    count: int

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        with phase(module, name) as w:
            value = w.b.cast(w.b.load(w.argument(0), 0, Type(F32, 16)), self.scalar)
            w.b.store(value, w.argument(1), 0, w.b.mask(w.b.constant(self.count), 16))
        return (Phase(name, 1, 1.0),)


@pytest.mark.parametrize("count", [1, 2, 15])
@pytest.mark.parametrize("scalar", [U8, I8, I16, F16, BF16, F32], ids=str)
def test_lanes_outside_of_a_known_mask_keep_their_bytes(scalar: Scalar, count: int) -> None:
    y = np.full(16 * scalar.size, 113, np.uint8)
    run(FirstLanes(scalar, count), [np.ones(16, np.float32)], [y])
    assert (y[: count * scalar.size] != 113).any()
    assert (y[count * scalar.size :] == 113).all()
