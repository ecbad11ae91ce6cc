"""target = (processor, features, vector bits, vector registers): what the code generators need to know of a machine.

Register tiles, vector widths and unroll factors are derived from these numbers alone, so a kernel is a pure
function of (parameters, target) and its hash can key a cache that several machines share.
"""

from __future__ import annotations

from enum import Enum

from nnc.classes import dataclass

# Sums are cut into parts as for a second-level cache of this size on every machine: all compute the same bits.
SUM_BYTES = 512 * 1024
# Costs of phases are nanoseconds of a processor with this many cycles in one, whose workers meet in this many.
USUAL_CLOCK, USUAL_MEETING = 3.0, 1000.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What blocks and costs follow; results have the same bits whatever stands here (docs/design/0026).

    Bytes and ways of caches and their lines, cycles in a nanosecond, vector multiply-adds in a cycle, nanoseconds for a
    byte from the second-level cache and from beyond, and for two workers to meet where one reads what the other wrote.
    """

    level_one_bytes: int = 32 * 1024
    level_one_ways: int = 8
    level_two_bytes: int = 512 * 1024
    line_bytes: int = 64
    clock: float = USUAL_CLOCK
    multiply_adds: float = 2.0
    near_byte: float = 0.03
    far_byte: float = 0.03
    meeting: float = USUAL_MEETING

    @property
    def way_bytes(self) -> int:
        """Lines so far apart fall on one set of the first-level cache."""
        return self.level_one_bytes // self.level_one_ways

    def reading(self, nbytes: float) -> float:
        """About how many nanoseconds one worker needs to read so many bytes once."""
        return nbytes * (self.near_byte if nbytes <= self.level_two_bytes else self.far_byte)

    @property
    def pace(self) -> float:
        """What a cost is multiplied with, so that it compares with a meeting as it does here."""
        return USUAL_CLOCK / self.clock * (USUAL_MEETING / self.meeting)


class ByteDots(Enum):
    """Products of bytes that one instruction sums in fours: of u8 and i8, of bytes alike, of any (tiles), or none."""

    NONE = "none"
    MIXED = "mixed"
    ALIKE = "alike"
    ANY = "any"


# What triples of processors with addresses of 32 bits begin with.
NARROW_TRIPLES = ("armv", "thumb", "riscv32", "wasm32", "i386", "i686")
# Registers of elements that a group of threads works on as one item: some loads at once, and not too few items.
VECTORS_OF_AN_ITEM = 8
# With this many registers a row of a tile is one cache line: read in place, each step of a sum opens another page.
FEW_REGISTERS = 16
# Elements that lie apart have instructions from 32 bits on; smaller ones are moved each by itself, so that many at once
# are more code and no faster: 64 x 1,000 bytes with a step of 2 are added in 82 us, and compiled in 100 ms, in vectors
# of 64; in 73 us and 21 ms in vectors of 16 (one thread of a Zen 4).
MOST_APART = 16


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """One processor as the generators see it.

    `vector_bits` is the width of the registers used, `vector_registers` how many of them there are. One instruction
    each: `fused` a multiply-add, `rounding` rounding half to even, `half` conversions of f16, `pairs` sums of products
    of bf16 in pairs (AVX-512 BF16, where that is faster than in f32). `byte_dots` says which bytes are multiplied and
    summed in fours (AVX-512 VNNI, AVX-VNNI, NEON's dot products), and `tiles` whether products of bf16 and of bytes are
    summed by registers of 16 x 16 sums (AMX). `in_place` tells whether products read their operands where they are
    rather than packed, of which the bits are the same (docs/design/0009), as they are whatever the `machine` is.

    On a device a register is `threads` threads, of which each holds one element of it, whatever its type; 0 is a
    processor. `short_forms`: quotients of f32 within 2 ulp and f32 as bf16 are one instruction or two (CUDA). Where
    code is `small`, bytes of it and of scratch memory count for more than time.
    """

    triple: str
    processor: str
    features: str
    vector_bits: int
    vector_registers: int
    fused: bool
    half: bool = True
    rounding: bool = True
    pairs: bool = False
    in_place: bool = True
    byte_dots: ByteDots = ByteDots.NONE
    tiles: bool = False
    threads: int = 0
    short_forms: bool = False
    machine: Machine = Machine()
    small: bool = False

    def lanes(self, bits: int, *, apart: bool = False) -> int:
        """lanes = vector_bits / bits: how many elements of `bits` bits one register holds; a wider one stands alone.

        Where they lie `apart` in memory they are at most 16.
        """
        held = max(1, self.vector_bits // bits)
        return self.threads or (min(held, MOST_APART) if apart else held)

    def run(self, elements: int) -> int:
        """Elements of an item, which a processor has so many of: a device has many more items in flight."""
        return min(elements, VECTORS_OF_AN_ITEM * self.threads) if self.threads else elements

    def share(self, steps: int) -> int:
        """Steps of an item without vectors: a thread of a device takes one, so that neighbours are neighbours."""
        return 1 if self.threads else steps

    def side_by_side(self, rows: int) -> int:
        """As many rows whose elementwise work is done together, half of them where registers are few."""
        return rows if self.vector_registers > FEW_REGISTERS else rows // 2

    @property
    def pointer_bytes(self) -> int:
        """Bytes of an address."""
        return 4 if self.triple.startswith(NARROW_TRIPLES) else 8

    @property
    def key(self) -> str:
        """The text that stands for this target in cache keys."""
        return f"{self.triple}/{self.processor}/{self.features}/{self.vector_bits}x{self.vector_registers}"


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """One row of the table of vector instruction sets: chosen when every feature in `needs` is present."""

    needs: frozenset[str]
    vector_bits: int
    vector_registers: int
    fused: bool


# Best first; the last row needs nothing, so a target is always found.
INSTRUCTION_SETS = (
    InstructionSet(frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}), 512, 32, True),
    InstructionSet(frozenset({"avx2", "fma"}), 256, 16, True),
    InstructionSet(frozenset({"neon"}), 128, 32, True),
    InstructionSet(frozenset({"avx"}), 256, 16, False),
    InstructionSet(frozenset(), 128, 16, False),
)

# Elsewhere LLVM calls roundeven of the C library, which is new in C23 and not everywhere.
ROUNDING_FEATURES = frozenset({"sse4.1", "sse4.2", "avx", "avx512f", "neon"})
HALF_FEATURES = frozenset({"f16c", "avx512f", "neon"})
PAIRS_FEATURE = "avx512bf16"
# Their sums of pairs take as long as four multiply-adds: 75 to 81 GFLOP/s of bf16 in pairs on an Emerald Rapids, 116 to
# 144 widened to f32 (128x768x768 to 1024x1024x1024, `benchmarks/kernels.py --only bf16`). Bits follow this, so it is
# said of families, and not measured.
SLOW_PAIRS = frozenset({"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"})
TILE_FEATURES = frozenset({"amx-tile", "amx-bf16", "amx-int8"})
# By the width of the registers that are used.
BYTE_DOTS = {
    512: ("avx512vnni", ByteDots.MIXED), 256: ("avxvnni", ByteDots.MIXED), 128: ("dotprod", ByteDots.ALIKE),
}  # fmt: skip

# Names for NNC_LLVM_CPU that are not processors but levels; the second item is the set of features implied.
LEVELS: dict[str, tuple[str, frozenset[str]]] = {
    "generic": ("generic", frozenset()),
    "x86-64": ("x86-64", frozenset({"sse2"})),
    "x86-64-v2": ("x86-64-v2", frozenset({"sse2", "sse4.2"})),
    "x86-64-v3": ("x86-64-v3", frozenset({"sse2", "sse4.2", "avx", "avx2", "fma", "f16c"})),
    "x86-64-v4": (
        "x86-64-v4",
        frozenset({"sse2", "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"}),
    ),
}


def instruction_set(features: frozenset[str]) -> InstructionSet:
    """The best row of `INSTRUCTION_SETS` whose needs are all in `features`."""
    return next(row for row in INSTRUCTION_SETS if row.needs <= features)


def describe(triple: str, processor: str, features: frozenset[str], flags: str) -> TargetDescription:
    """The description of a processor that has `features`; `flags` is LLVM's spelling of them."""
    row = instruction_set(features)
    dots_feature, byte_dots = BYTE_DOTS[row.vector_bits]
    # LLVM avoids 512-bit registers on some processors to save frequency; kernels that are all FMA gain from them.
    wide = "-prefer-256-bit" if row.vector_bits == 512 else ""
    return TargetDescription(
        triple,
        processor,
        ",".join(part for part in (flags, wide) if part),
        row.vector_bits,
        row.vector_registers,
        row.fused,
        half=bool(features & HALF_FEATURES),
        rounding=bool(features & ROUNDING_FEATURES),
        pairs=row.vector_bits == 512 and PAIRS_FEATURE in features and processor not in SLOW_PAIRS,
        in_place=row.vector_registers > FEW_REGISTERS,
        byte_dots=byte_dots if dots_feature in features else ByteDots.NONE,
        tiles=row.vector_bits == 512 and features >= TILE_FEATURES,
    )
