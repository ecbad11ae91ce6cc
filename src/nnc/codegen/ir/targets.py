"""The processors that a library may be made for: one visible table, and the spelling that chooses from it.

    row = library_target("aarch64")                    a row as it stands
    row = library_target("x86-64-v3,+avxvnni")         with features of LLVM's behind the name
    row = library_target("thumbv7em,small")            of small code
    row = library_target("native", description)        the processor at hand

A row says what generators see (`TargetDescription`) and what LLVM and the linker need to know beside it.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.ir.target import LEVELS, Machine, TargetDescription, describe
from nnc.core.values.platform import ObjectFormat, TargetFacts
from nnc.errors import UsageError


@dataclass(frozen=True, slots=True)
class LibraryTarget:
    """A row: its name, what generators see, and `relocation` and `abi` as LLVM takes them.

    `compiler` is the C compiler's name that the example's Makefile begins with, `flags` what it needs.
    """

    name: str
    description: TargetDescription
    format: ObjectFormat = ObjectFormat.ELF
    relocation: str = "pic"
    abi: str = ""
    compiler: str = "cc"
    flags: str = ""

    @property
    def facts(self) -> TargetFacts:
        """What the files of a library tell of it."""
        seen = self.description
        shares = self.relocation == "pic" and self.format is not ObjectFormat.WASM
        return TargetFacts(
            self.name, seen.triple, seen.processor, seen.features, self.format, self.compiler, self.flags, shares
        )


def _x86_64(name: str, triple: str, level: str, format: ObjectFormat = ObjectFormat.ELF) -> LibraryTarget:
    processor, features = LEVELS[level]
    described = describe(triple, processor, features, "")
    compiler = {ObjectFormat.COFF: "x86_64-w64-mingw32-gcc", ObjectFormat.MACHO: "clang"}.get(format, "gcc")
    return LibraryTarget(name, described, format, compiler=compiler)


def _other(
    name: str, triple: str, processor: str, features: str, bits: int = 128, registers: int = 32, *,
    fused: bool = True, half: bool = False, rounding: bool = True, format: ObjectFormat = ObjectFormat.ELF,
    relocation: str = "pic", abi: str = "", compiler: str = "cc", flags: str = "",
) -> LibraryTarget:  # fmt: skip
    described = TargetDescription(triple, processor, features, bits, registers, fused, half, rounding)
    described = replace(described, in_place=registers > 16)
    return LibraryTarget(name, described, format, relocation, abi, compiler, flags)


COFF, MACHO, WASM = ObjectFormat.COFF, ObjectFormat.MACHO, ObjectFormat.WASM
RV64, RV64V = "+m,+a,+f,+d,+c", "+m,+a,+f,+d,+c,+v,+zvl128b"
TARGETS = (
    _x86_64("x86-64", "x86_64-linux-gnu", "x86-64"),
    _x86_64("x86-64-v2", "x86_64-linux-gnu", "x86-64-v2"),
    _x86_64("x86-64-v3", "x86_64-linux-gnu", "x86-64-v3"),
    _x86_64("x86-64-v4", "x86_64-linux-gnu", "x86-64-v4"),
    _x86_64("x86-64-v3-windows", "x86_64-pc-windows-gnu", "x86-64-v3", COFF),
    _x86_64("x86-64-v3-macos", "x86_64-apple-macos11", "x86-64-v3", MACHO),
    _other("aarch64", "aarch64-linux-gnu", "cortex-a72", "+neon", half=True, compiler="aarch64-linux-gnu-gcc"),
    _other("aarch64-android", "aarch64-linux-android21", "cortex-a72", "+neon", half=True, compiler="clang"),
    _other("aarch64-macos", "arm64-apple-macos11", "apple-m1", "+neon", half=True, format=MACHO, compiler="clang"),
    _other(
        "armv7", "armv7-linux-gnueabihf", "cortex-a9", "+neon,+vfp3", registers=16, fused=False, rounding=False,
        compiler="arm-linux-gnueabihf-gcc",
    ),
    _other(
        "thumbv7em", "thumbv7em-none-eabihf", "cortex-m7", "+fp-armv8d16sp", 32, 16, relocation="static",
        compiler="arm-none-eabi-gcc", flags="-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16",
    ),
    _other(
        "thumbv8.1m", "thumbv8.1m.main-none-eabihf", "cortex-m55", "+fp-armv8d16,-mve,-mve.fp", 32, 16,
        relocation="static", compiler="arm-none-eabi-gcc", flags="-mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
    ),
    _other(
        "riscv64", "riscv64-linux-gnu", "generic-rv64", RV64, 32, 32, rounding=False, abi="lp64d",
        compiler="riscv64-linux-gnu-gcc",
    ),
    _other(
        "riscv64v", "riscv64-linux-gnu", "generic-rv64", RV64V, rounding=False, abi="lp64d",
        compiler="riscv64-linux-gnu-gcc",
    ),
    _other(
        "riscv32", "riscv32-unknown-elf", "generic-rv32", "+m,+a,+f,+d,+c", 32, 32, rounding=False, relocation="static",
        abi="ilp32d", compiler="riscv32-unknown-elf-gcc",
    ),
    _other(
        "wasm32", "wasm32-unknown-unknown", "generic", "", 32, 32, fused=False, format=WASM, relocation="static",
        compiler="clang", flags="--target=wasm32",
    ),
    _other(
        "browser", "wasm32-unknown-unknown", "generic", "+simd128", registers=16, fused=False, format=WASM,
        relocation="static", compiler="clang", flags="--target=wasm32 -msimd128",
    ),
    _other(
        "wasm32-simd", "wasm32-unknown-unknown", "generic", "+simd128", registers=16, fused=False, format=WASM,
        relocation="static", compiler="clang", flags="--target=wasm32 -msimd128",
    ),
)  # fmt: skip


# The name of the processor that a library is made on.
NATIVE = "native"
# LLVM ends the process where it meets a masked load of one element for Helium, the vectors of ARMv8.1-M.
HELIUM = frozenset({"+mve", "+mve.fp"})
# Behind a name, for small code: sums in few registers, and blocks as for caches that are nearly none.
SMALL, SMALL_REGISTERS = "small", 6
NEARLY_NO_CACHES = Machine(level_one_bytes=4 * 1024, level_two_bytes=8 * 1024)


def small(description: TargetDescription) -> TargetDescription:
    """The same processor where bytes of code and of scratch memory count for more than time."""
    registers = min(description.vector_registers, SMALL_REGISTERS)
    return replace(description, vector_registers=registers, in_place=True, machine=NEARLY_NO_CACHES, small=True)


def library_target(text: str, native: TargetDescription | None = None) -> LibraryTarget:
    """The row that `NAME[,FEATURES]` names, with these features of LLVM's; UsageError for a name of no row.

    `small` among the features is for small code. `native` is what the name of the processor at hand stands for, where
    there is such a processor.
    """
    name, *features = text.split(",")
    row = _row(name, native)
    wrong = [part for part in features if part != SMALL and not part.startswith(("+", "-"))]
    if wrong:
        need = f"features of LLVM's, each with + or -, or {SMALL}"
        raise UsageError("target", got=f"{wrong[0]!r} in {text!r}", need=need, fix=f"{name},+{wrong[0]}")
    if HELIUM.intersection(features):
        got, fix = f"Helium in {text!r}", f"{name}, whose code is scalar"
        raise UsageError("target", got=got, need="features that LLVM writes masked loads for", fix=fix)
    described = row.description
    told = ",".join(part for part in (described.features, *features) if part and part != SMALL)
    described = replace(described, features=told)
    return replace(row, name=text, description=small(described) if SMALL in features else described)


def _row(name: str, native: TargetDescription | None) -> LibraryTarget:
    if name == NATIVE and native is not None:
        return LibraryTarget(name, native)
    row = next((row for row in TARGETS if row.name == name), None)
    if row is None:
        names = ", ".join((NATIVE, *(row.name for row in TARGETS)))
        raise UsageError("target", got=repr(name), need=f"one of {names}", fix="see docs/library.md for the table")
    return row
