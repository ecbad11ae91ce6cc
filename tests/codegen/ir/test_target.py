from __future__ import annotations

from dataclasses import replace

import pytest

from nnc.backends.llvm.run import host
from nnc.backends.llvm.run.host import ENVIRONMENT_VARIABLE, host_target, runnable_target
from nnc.backends.llvm.run.object_code import compile_source
from nnc.codegen.frame.tile import candidates
from nnc.codegen.ir.builder import F32, F64, Module
from nnc.codegen.ir.target import LEVELS, TargetDescription, instruction_set
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.errors import UsageError

X86 = host_target().triple.startswith("x86_64")


def test_the_widest_instruction_set_that_is_whole_is_chosen() -> None:
    assert instruction_set(frozenset()).vector_bits == 128
    assert instruction_set(frozenset({"avx2", "fma"})).vector_bits == 256
    assert instruction_set(frozenset({"avx2", "fma", "avx512f"})).vector_bits == 256
    assert instruction_set(frozenset({"neon"})).vector_registers == 32


def test_lanes_follow_the_vector_width() -> None:
    target = host_target()
    assert target.lanes(32) == target.vector_bits // 32
    assert target.lanes(32) == 2 * target.lanes(64)


def test_lanes_that_lie_apart_are_few() -> None:
    wide = TargetDescription("triple", "processor", "", 512, 32, True)
    assert [wide.lanes(bits) for bits in (8, 16, 32, 64)] == [64, 32, 16, 8]
    assert [wide.lanes(bits, apart=True) for bits in (8, 16, 32, 64)] == [16, 16, 16, 8]
    assert replace(wide, threads=32).lanes(8, apart=True) == 32


def test_tiles_fit_the_registers() -> None:
    target = TargetDescription("triple", "processor", "", 256, 16, True)
    for tile in (*candidates(target, F32), *candidates(target, F64)):
        assert tile.rows * tile.vectors + tile.vectors + 1 <= 16


@pytest.mark.skipif(not X86, reason="levels of x86-64")
@pytest.mark.parametrize("level", sorted(set(LEVELS) - {"generic"}))
def test_code_is_generated_for_every_level(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, level)
    target = host_target()
    module = Module(target)
    Gemm(MatrixProduct(F32, (), 5, 6, 7, (), 7, 1, (), 6, 1, (), 6, True)).emit(module, "kernel")
    assert compile_source(str(module), target)


def test_a_processor_of_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "pentium-9")
    with pytest.raises(UsageError, match="NNC_LLVM_CPU: got 'pentium-9'; need one of generic, x86-64, .* or "):
        runnable_target()


def test_a_level_above_the_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "x86-64-v4")
    monkeypatch.setattr(host, "_present", lambda: LEVELS["x86-64-v3"][1])
    with pytest.raises(UsageError, match="got 'x86-64-v4' on a processor without avx512bw, .*; need a level that"):
        runnable_target()
