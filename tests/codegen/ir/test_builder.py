from __future__ import annotations

import pytest

from nnc.backends.llvm.run.host import host_target
from nnc.codegen.ir.builder import (
    ADDRESS,
    BOOL,
    F16,
    F32,
    F64,
    I32,
    INDEX,
    U8,
    Builder,
    Module,
    Type,
)
from nnc.codegen.ir.scalars import conversion, integer_comparison, literal
from nnc.codegen.ir.target import TargetDescription
from nnc.core.running.llvm_library import llvm


def builder(fused: bool = True) -> Builder:
    target = host_target()
    plain = TargetDescription(target.triple, target.processor, target.features, 256, 16, fused)
    return Builder(Module(plain), "f", (("pointer", ADDRESS), ("count", INDEX)))


def verified(b: Builder) -> str:
    b.finish()
    llvm.parse_assembly(str(b.module)).verify()
    return str(b.module)


def test_index_arithmetic_on_constants_writes_nothing() -> None:
    b = builder()
    count = b.arguments[1]
    assert (b.constant(6) * 7 + 2).constant == 44
    assert (b.constant(45) // 7 % 4).constant == 2
    assert count + 0 is count
    assert count * 1 is count
    assert (count * 0).constant == 0
    assert b._lines == []


def test_a_loop_known_to_run_once_is_no_loop() -> None:
    b = builder()
    with b.loop(3, 5, 8) as index:
        assert index.constant == 3
    assert "phi" not in verified(b)


def test_loops_nest_and_may_be_empty() -> None:
    b = builder()
    pointer, count = b.arguments
    with b.loop(0, count) as i, b.loop(i, 10, 2) as j:
        b.store(b.cast(i + j, F32), pointer, i * 10 + j)
    assert verified(b).count("phi") == 2


def test_masks_gathers_and_scatters_are_valid() -> None:
    b = builder()
    pointer, count = b.arguments
    mask = b.mask(count, 8)
    value = b.gather(pointer, count, 3, Type(F32, 8), mask)
    b.scatter(value, pointer, count, 2, mask)
    b.store(b.compare("<", value, 0.0), pointer, 0, mask)
    b.store(b.load(pointer, 8, Type(BOOL, 8), mask), pointer, 64)
    verified(b)


def test_fold_combines_halves() -> None:
    b = builder()
    total = b.fold(b.load(b.arguments[0], 0, Type(F32, 8)), "add")
    assert total.type == Type(F32)
    assert verified(b).count("fadd") == 3


def test_fma_without_the_instruction_is_two() -> None:
    b = builder(fused=False)
    x = b.load(b.arguments[0], 0, Type(F32, 4))
    b.fma(x, x, 1.0)
    assert "llvm.fma" not in verified(b)


def test_leaving_a_loop_in_the_middle() -> None:
    b = builder()
    with b.repeat() as again:
        again.until(b.compare("==", b.load(b.arguments[0], 0, INDEX), 0))
    with b.when(b.compare(">", b.arguments[1], 0)):
        b.variable(b.constant(1)).set(b.constant(2))
    verified(b)


@pytest.mark.parametrize(
    ("number", "scalar", "text"),
    [
        (1.0, F64, "0x3FF0000000000000"),
        (0.1, F32, "0x3FB99999A0000000"),
        (1.5, F16, "0xH3E00"),
        (-3, I32, "-3"),
    ],
)
def test_literals_are_exact(number: float, scalar: object, text: str) -> None:
    assert isinstance(scalar, type(F32))
    assert literal(number, scalar) == text


def test_conversions_and_comparisons_know_signs() -> None:
    assert conversion(U8, I32) == "zext"
    assert conversion(I32, U8) == "trunc"
    assert conversion(BOOL, F32) == "uitofp"
    assert conversion(F16, F64) == "fpext"
    assert integer_comparison("<", False) == "ult"
    assert integer_comparison("==", True) == "eq"
