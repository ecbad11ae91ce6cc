"""Stores under masks write the lanes of the mask and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.backends.llvm.harness import run

from nnc.backends.llvm.run.host import host_target
from nnc.codegen.frame.kernel import WithoutMemory, phase
from nnc.codegen.ir.builder import BF16, F16, F32, F64, I8, I16, I32, I64, U8, Module, Scalar, Type
from nnc.codegen.ir.native_kernel import Phase


@dataclass(frozen=True)
class FirstLanes(WithoutMemory):
    """y[i] = x[i] for the first `count` lanes, as another type; the count is known."""

    scalar: Scalar
    count: int
    source: Scalar = F32
    lanes: int = 16

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        with phase(module, name) as w:
            value = w.b.cast(w.b.load(w.argument(0), 0, Type(self.source, self.lanes)), self.scalar)
            w.b.store(value, w.argument(1), 0, w.b.mask(w.b.constant(self.count), self.lanes))
        return (Phase(name, 1, 1.0),)


@pytest.mark.parametrize("count", [1, 2, 15])
@pytest.mark.parametrize("scalar", [U8, I8, I16, F16, BF16, F32], ids=str)
def test_lanes_outside_of_a_known_mask_keep_their_bytes(scalar: Scalar, count: int) -> None:
    if scalar == F16 and not host_target().half:
        pytest.skip("no conversion of f16 here")
    y = np.full(16 * scalar.size, 113, np.uint8)
    run(FirstLanes(scalar, count), [np.ones(16, np.float32)], [y])
    assert (y[: count * scalar.size] != 113).any()
    assert (y[count * scalar.size :] == 113).all()


@pytest.mark.parametrize("source", [F64, I64], ids=str)
def test_half_a_lane_is_not_written_whole(source: Scalar) -> None:
    x, y = np.ones(8, np.int64 if source is I64 else np.float64), np.full(8, 113, np.int32)
    run(FirstLanes(I32, 1, source, 8), [x], [y])
    assert y.tolist() == [1, *[113] * 7]
