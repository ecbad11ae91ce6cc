"""Functions that compilers expect to be there, run on this processor."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import numpy as np

from nnc.codegen.ir.targets import TARGETS
from nnc.codegen.program.support import support_functions, write_support

NUMBERS = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**96 + 5, 2**127, 2**128 - 1]
NUMBERS += [int.from_bytes(np.random.default_rng(seed).bytes(16), "little") for seed in range(12)]
WHOLE = 2**64 - 1


def test_products_of_128_bits_are_those_of_integers() -> None:
    """Of WebAssembly, which alone has them."""
    target = next(row.description for row in TARGETS if row.name == "wasm32")
    text = next(function for function in support_functions(target) if "__multi3" in function)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = text.replace("__multi3", "product") + 'attributes #0 = { nounwind "no-builtins" }\n'
    module = llvm.parse_assembly(text, llvm.create_context())
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    words = (ctypes.c_uint64,) * 4
    product = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *words)(engine.get_function_address("product"))
    result = (ctypes.c_uint64 * 2)()
    for a in NUMBERS:
        for b in NUMBERS:
            product(ctypes.addressof(result), a & WHOLE, a >> 64, b & WHOLE, b >> 64)
            assert result[0] | result[1] << 64 == a * b % 2**128


def test_others_have_the_functions_of_memory_alone() -> None:
    for row in TARGETS:
        has_product = "__multi3" in write_support(row.description)
        assert has_product is row.name.startswith(("wasm", "browser"))
