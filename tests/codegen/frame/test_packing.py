from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.backends.llvm.harness import random, run

from nnc.codegen.frame.kernel import phase
from nnc.codegen.frame.packing import Packing
from nnc.codegen.ir.builder import F32, Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription


@dataclass(frozen=True, slots=True)
class PackOne:
    """One panel of `count` lanes and `depth` steps."""

    width: int
    lane_stride: int
    depth_stride: int
    count: int
    depth: int

    def packing(self, lanes: int) -> Packing:
        return Packing(F32, lanes, self.width, self.lane_stride, self.depth_stride, self.count < self.width)

    def workspace(self, target: TargetDescription) -> int:
        return 0

    def scratch(self, target: TargetDescription) -> int:
        return 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        with phase(module, name) as w:
            packing = self.packing(module.target.lanes(32))
            count, depth = w.b.constant(self.count), w.b.constant(self.depth)
            packing.pack(w.b, w.argument(0), count, depth, w.argument(1))
        return (Phase(name, 1, 0.0),)


@pytest.mark.parametrize(("width", "count"), [(6, 5), (6, 6), (32, 5), (32, 6), (32, 32)])
@pytest.mark.parametrize("order", ["copied", "transposed", "gathered"])
def test_a_panel_has_its_lanes_side_by_side(width: int, count: int, order: str) -> None:
    depth = 19
    a = random((count, depth))
    source, strides = {
        "copied": (np.ascontiguousarray(a.T), (1, count)),
        "transposed": (a, (depth, 1)),
        "gathered": (np.ascontiguousarray(np.repeat(a, 2, axis=1)), (2 * depth, 2)),
    }[order]
    problem = PackOne(width, *strides, count, depth)
    panel = np.full(problem.packing(16).elements(depth), 7, np.float32)
    run(problem, [source], [panel])
    want = np.zeros((depth, width), np.float32)
    want[:, :count] = a.T
    np.testing.assert_array_equal(panel[: depth * width].reshape(depth, width), want)
