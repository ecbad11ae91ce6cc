"""Every generator writes code for other processors than this one: LLVM parses, verifies and assembles it for each.

Nothing runs here: an object is made, and its undefined symbols are read. Of each generator and kind of element the
first case of the conformance table is taken, and products and convolutions of weights in the blocks of another
processor; a generator is written for every processor, its kinds of elements for every second one. All cases of the
table, some ten minutes, by

    NNC_ALL_CROSS_TARGETS=1 scripts/test tests/codegen/test_cross_targets.py
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import llvmlite.binding as llvm
import pytest
from tests.conformance.cases import CASES, Case

from nnc.backends.llvm.object_contents import contents
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.row import View, view_of
from nnc.codegen.frame.tile import candidates, tiles_for
from nnc.codegen.ir.builder import F32, Module
from nnc.codegen.ir.target import ByteDots, TargetDescription
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.table import ROWS
from nnc.core.values.dtype import F16, DType
from nnc.core.values.spec import spec
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import infer

ALL_CASES = "NNC_ALL_CROSS_TARGETS" in os.environ
# LLVM makes calls of long copies and fills.
MEMORY = frozenset({"memcpy", "memset", "memmove"})
# Asked by name, lane by lane (`mathematics.library`): f64, arguments beyond all quarter turns, processors without FMA.
FUNCTIONS = (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp2",
    "expm1", "log1p", "log2", "log10", "erf", "erfc", "pow", "hypot", "fmod", "lgamma", "tgamma",
)  # fmt: skip
LIBRARY = frozenset(FUNCTIONS) | frozenset(f"{name}f" for name in FUNCTIONS)
# What a compiler brings for a processor without the instruction: products of 128 bits, and on 32 bits quotients of 64.
WIDE_PRODUCTS = frozenset({"__multi3"})
WIDE_QUOTIENTS = frozenset({"__divdi3", "__moddi3", "__udivdi3", "__umoddi3"})
WIDE_FLOATS = frozenset({"__floatdidf", "__floatdisf", "__floatundidf", "__floatundisf", "__fixdfdi", "__fixsfdi"})

# ELF's numbers of processors; WebAssembly has none.
X86_64, ARM, AARCH64, RISCV, WASM = 62, 40, 183, 243, 0


def machine_of(code: bytes) -> int:
    """The processor that an ELF object is of; 0 for WebAssembly."""
    return 0 if code.startswith(b"\0asm") else int(struct.unpack_from("<H", code, 18)[0])


@dataclass(frozen=True, slots=True)
class CrossTarget:
    """A row of the table: what generators see, the processor that objects are of, what the compiler may add."""

    name: str
    machine: int
    target: TargetDescription
    runtime: frozenset[str] = frozenset()


def x86_64(level: str, bits: int, registers: int, **features: bool | ByteDots) -> CrossTarget:
    wide = "-prefer-256-bit" if bits == 512 else ""
    target = TargetDescription("x86_64-linux-gnu", level, wide, bits, registers, fused=bits > 128)
    return CrossTarget(level, X86_64, replace(target, in_place=registers > 16, **features))  # type: ignore[arg-type]


def other(
    name: str, machine: int, triple: str, features: str, bits: int = 128, registers: int = 32, *runtime: frozenset[str],
    processor: str = "", half: bool = False, fused: bool = True, rounding: bool = True,
) -> CrossTarget:  # fmt: skip
    target = TargetDescription(triple, processor or name, features, bits, registers, fused, half, rounding)
    return CrossTarget(name, machine, replace(target, in_place=registers > 16), frozenset().union(*runtime))


RV64 = "riscv64-linux-gnu", "+m,+a,+f,+d"
CROSS_TARGETS = (
    x86_64("x86-64", 128, 16, half=False, rounding=False),
    x86_64("x86-64-v2", 128, 16, half=False),
    x86_64("x86-64-v3", 256, 16, byte_dots=ByteDots.NONE),
    x86_64("x86-64-v4", 512, 32),
    x86_64("sapphirerapids", 512, 32, tiles=True, byte_dots=ByteDots.MIXED),
    other("cortex-a72", AARCH64, "aarch64-linux-gnu", "+neon", half=True),
    other("riscv64gcv", RISCV, RV64[0], f"{RV64[1]},+c,+v,+zvl128b", processor="generic-rv64", rounding=False),
    other("riscv64gc", RISCV, RV64[0], f"{RV64[1]},+c", processor="generic-rv64", rounding=False),
    other(
        "wasm32", WASM, "wasm32-unknown-unknown", "+simd128", 128, 16, WIDE_PRODUCTS, processor="generic", fused=False
    ),
    other("cortex-m7", ARM, "thumbv7em-none-eabihf", "+fp-armv8d16sp", 32, 16, WIDE_QUOTIENTS, WIDE_FLOATS),
    other(
        "cortex-a9", ARM, "armv7-linux-gnueabihf", "+neon,+vfp3", 128, 16, WIDE_QUOTIENTS, WIDE_FLOATS, fused=False,
        rounding=False,
    ),
)  # fmt: skip
WIDEST = CROSS_TARGETS[3].target


# Weights whose blocks are of 64 columns on the widest processor.
BLOCKED = (
    (
        CONVOLUTION,
        ConvolutionAttrs(Window((1, 1), ((1, 1), (1, 1)), (1, 1))),
        (spec((1, 14, 14, 8)), spec((3, 3, 8, 64)), None),
    ),
    (GEMM, GemmAttrs(), (spec((4, 64)), spec((64, 512)), None)),
)


def generator_of(case: Case, dtype: DType) -> Generator | None:
    """The generator that serves a case; None where none does, or where operands are in blocks."""
    row, specs = ROWS.get(case.op), case.specs(dtype)
    if row is None or any(spec is not None and spec.plain is not spec for spec in specs):
        return None
    inputs, results = [spec for spec in specs if spec is not None], infer(case.op, case.attrs, specs)
    if row.refuse(case.attrs, inputs, results):
        return None
    return row.generate(case.attrs, [view_of(spec) for spec in inputs], [view_of(spec) for spec in results])


@cache
def in_blocks() -> tuple[Generator, ...]:
    """Products and sums written out, whose weights lie in blocks as the widest processor wishes."""
    made = []
    for op, attrs, operands in BLOCKED:
        row, results = ROWS[op], [view_of(spec) for spec in infer(op, attrs, operands)]
        inputs = [view_of(spec) for spec in operands if spec is not None]
        for place, (layout, _) in row.preferences(attrs, inputs, results, WIDEST).items():
            inputs[place] = View(inputs[place].scalar, layout.shape, (), layout)
            made.append(row.generate(attrs, inputs, results))
    return tuple(made)


def element_kind(dtype: DType) -> str:
    """Integers of one size are alike."""
    return dtype.name if dtype.is_float else f"{dtype.itemsize} bytes"


@cache
def generators() -> tuple[tuple[str, bool, Generator], ...]:
    """The name of each, whether it works on f16, and the generator."""
    kinds, chosen = set[object](), dict[Generator, tuple[str, bool]]()
    for case in CASES:
        for dtype in case.dtypes:
            generator = generator_of(case, dtype)
            kind = (type(generator), element_kind(dtype))
            if generator is not None and (ALL_CASES or kind not in kinds):
                kinds.add(kind)
                chosen.setdefault(generator, (f"{case} {dtype}", dtype is F16))
    chosen |= {generator: (f"{type(generator).__name__} of blocks", False) for generator in in_blocks()}
    return tuple((name, half, generator) for generator, (name, half) in chosen.items())


def in_turn(place: int) -> Iterator[tuple[str, bool, Generator]]:
    """Every second kind of element of each generator for the target at this place, the others for the next one."""
    turns = Counter[type[Generator]]()
    for name, half, generator in generators():
        turns[type(generator)] += not half
        # Few processors have f16: it is tried on each.
        if ALL_CASES or half or (turns[type(generator)] + place) % 2 or alone(type(generator)):
            yield name, half, generator


@cache
def alone(kind: type[Generator]) -> bool:
    """Whether a generator has one kind of element."""
    return [type(generator) for *_, generator in generators()].count(kind) == 1


def assembled(generator: Generator, target: TargetDescription, machine: llvm.TargetMachine) -> bytes:
    """The object of a kernel, once it is parsed and verified."""
    module = Module(target)
    generator.emit(module, "kernel")
    parsed = llvm.parse_assembly(str(module), llvm.create_context())
    parsed.triple, parsed.data_layout = target.triple, str(machine.target_data)
    parsed.verify()
    return bytes(machine.emit_object(parsed))


@pytest.mark.turns(4)
@pytest.mark.parametrize("row", CROSS_TARGETS, ids=lambda row: row.name)
def test_every_generator_becomes_an_object_that_asks_for_nothing_unexpected(row: CrossTarget) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target, allowed = row.target, MEMORY | LIBRARY | row.runtime
    # Without optimization each takes a third of the time; what a processor cannot do shows in both.
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.processor, features=target.features, opt=0, reloc="static"
    )
    unexpected, count = dict[str, set[str]](), 0
    for name, half, generator in in_turn(CROSS_TARGETS.index(row)):
        if target.half or not half:
            code = assembled(generator, target, machine)
            assert machine_of(code) == row.machine
            count += 1
            if asked := set(contents(code).undefined) - allowed:
                unexpected[name] = asked
    assert unexpected == {}
    assert count > 70


def test_blocks_of_a_wide_processor_have_more_columns_than_a_tile_of_few_registers() -> None:
    correlation, product = in_blocks()
    assert isinstance(correlation, Correlation)
    assert isinstance(product, Gemm)
    few = CROSS_TARGETS[0].target
    for width in (correlation.problem.panel, product.problem.width):
        assert candidates(WIDEST, F32, width)
        assert not candidates(few, F32, width)
        (tile,) = tiles_for(few, F32, width)
        assert tile.columns == width


def test_undefined_symbols_are_found_in_objects_of_all_kinds() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    call = "%y = call float @foreign(float %x)"
    text = f"declare float @foreign(float) define float @kernel(float %x) nounwind {{ {call} ret float %y }}"
    for row in CROSS_TARGETS:
        machine = llvm.Target.from_triple(row.target.triple).create_target_machine(reloc="static")
        parsed = llvm.parse_assembly(text, llvm.create_context())
        parsed.triple = row.target.triple
        assert set(contents(machine.emit_object(parsed)).undefined) == {"foreign"}
