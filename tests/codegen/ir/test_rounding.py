"""Rounding without an instruction for it: the same bits as with one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm import harness
from tests.backends.llvm.harness import access, run

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.ir.target import LEVELS, describe
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS


def test_which_levels_have_an_instruction() -> None:
    assert [describe("x86_64", "", LEVELS[level][1], "").rounding for level in ("x86-64", "x86-64-v2")] == [False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_halves_go_to_even_numbers_and_signs_stay(dtype: type[np.floating], monkeypatch: pytest.MonkeyPatch) -> None:
    halves = np.arange(-9, 9, 0.25)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 2.0**23 - 0.5, 2.0**23, 2.0**24 + 2, 2.0**52 - 0.5, 1e300]
    with np.errstate(over="ignore"):
        x = np.concatenate([halves, edges, np.negative(edges), np.nextafter(halves, 9)]).astype(dtype)
    target = replace(host_target(), rounding=False)
    monkeypatch.setattr(harness, "jit", lambda: Jit(target, DiskCache(SETTINGS.cache_folder)))
    y = np.empty_like(x)
    kernel = Pointwise(x.shape, (access(x),), (access(y),), (Instruction("round", (0,)),), (1,))
    module = Module(target)
    kernel.emit(module, "kernel")
    assert "roundeven" not in str(module)
    run(kernel, [x], [y])
    np.testing.assert_array_equal(y, np.rint(x))
    np.testing.assert_array_equal(np.signbit(y), np.signbit(np.rint(x)))
