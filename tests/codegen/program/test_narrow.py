"""Quotients and floats of integers of 64 bits as functions of a program's own, run on this processor."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest

from nnc.codegen.program.narrow import with_own_arithmetic

TEXT = """
define i64 @udiv(i64 %a, i64 %b) #0 {
%q = udiv i64 %a, %b
ret i64 %q
}
define i64 @urem(i64 %a, i64 %b) #0 {
%q = urem i64 %a, %b
ret i64 %q
}
define i64 @sdiv(i64 %a, i64 %b) #0 {
%q = sdiv i64 %a, %b
ret i64 %q
}
define i64 @srem(i64 %a, i64 %b) #0 {
%q = srem i64 %a, %b
ret i64 %q
}
define float @single(i64 %a) #0 {
%f = sitofp i64 %a to float
ret float %f
}
define double @double(i64 %a) #0 {
%f = uitofp i64 %a to double
ret double %f
}
attributes #0 = { nounwind }
"""
NUMBERS = [0, 1, 2, 3, 7, 10, 1000, 2**24 - 1, 2**24 + 1, 2**24 + 3, 2**31, 2**53 + 1, 2**62 + 2**38, 2**63 - 1]
NUMBERS += [int(number) for number in np.random.default_rng(0).integers(0, 2**62, 20)]


@pytest.fixture(scope="module")
def engine() -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = with_own_arithmetic(TEXT)
    assert " div i64" not in text
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


@pytest.mark.parametrize("name", ["udiv", "urem", "sdiv", "srem"])
def test_quotients_round_towards_zero(engine: llvm.ExecutionEngine, name: str) -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(engine.get_function_address(name))
    signs = (1,) if name[0] == "u" else (1, -1)
    for a in NUMBERS:
        for b in [number for number in NUMBERS if number]:
            for sign in signs:
                for other in signs:
                    quotient = a // b * sign * other
                    wanted = quotient if name.endswith("div") else a * sign - quotient * b * other
                    assert function(a * sign, b * other) == wanted


def test_floats_are_rounded_to_the_nearest_and_ties_to_even(engine: llvm.ExecutionEngine) -> None:
    single = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(engine.get_function_address("single"))
    double = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(engine.get_function_address("double"))
    for number in NUMBERS:
        assert single(number) == np.float32(np.int64(number))
        assert single(-number) == np.float32(np.int64(-number))
        assert double(number) == float(number)


def test_powers_of_two_stay_instructions_and_texts_without_them_stay_as_they_are() -> None:
    text = "define i64 @f(i64 %a) {\n%q = udiv i64 %a, 64\nret i64 %q\n}\n"
    assert with_own_arithmetic(text) == text
