"""Types of values in registers and in memory, and numbers as LLVM writes them."""

from __future__ import annotations

import math
import struct
from dataclasses import field

from nnc.classes import dataclass

Number = int | float


# Each is made once, and compared some ten times for each load.
@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """An element type: its IR spelling in registers, in memory, its bytes there, and how to compute with it."""

    name: str
    register: str
    memory: str
    size: int
    floating: bool = False
    signed: bool = True


F64 = Scalar("f64", "double", "double", 8, floating=True)
F32 = Scalar("f32", "float", "float", 4, floating=True)
F16 = Scalar("f16", "half", "half", 2, floating=True)
BF16 = Scalar("bf16", "i16", "i16", 2, floating=True)  # moved as bits; computed with after a cast to f32
I64 = Scalar("i64", "i64", "i64", 8)
I32 = Scalar("i32", "i32", "i32", 4)
I16 = Scalar("i16", "i16", "i16", 2)
U16 = Scalar("u16", "i16", "i16", 2, signed=False)
I8 = Scalar("i8", "i8", "i8", 1)
U8 = Scalar("u8", "i8", "i8", 1, signed=False)
BOOL = Scalar("bool", "i1", "i8", 1, signed=False)
POINTER = Scalar("ptr", "ptr", "ptr", 8, signed=False)
NARROW = (I16, U16, I8, U8)
SCALARS = {scalar.name: scalar for scalar in (F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL)}


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar (lanes = 0) or a vector of `lanes` scalars."""

    scalar: Scalar
    lanes: int = 0
    # Written some twenty times for each type that is made.
    _text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        register = self.scalar.register
        object.__setattr__(self, "_text", f"<{self.lanes} x {register}>" if self.lanes else register)

    def __str__(self) -> str:
        return self._text

    def __format__(self, form: str) -> str:
        return self._text

    @property
    def memory(self) -> str:
        """The spelling of this type in loads and stores."""
        return f"<{self.lanes} x {self.scalar.memory}>" if self.lanes else self.scalar.memory

    @property
    def suffix(self) -> str:
        """The spelling of this type in names of intrinsics: v16f32."""
        kind = {"double": "f64", "float": "f32", "half": "f16", "ptr": "p0"}
        text = kind.get(self.scalar.register, self.scalar.register)
        return f"v{self.lanes}{text}" if self.lanes else text

    def of(self, scalar: Scalar) -> Type:
        """The type with as many lanes of another scalar."""
        return Type(scalar, self.lanes)


INDEX = Type(I64)
ADDRESS = Type(POINTER)
DOUBLE_INDEX = Type(Scalar("i128", "i128", "i128", 16))
PACKED = {"f64": "<d", "f32": "<f", "f16": "<e"}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def integer_comparison(relation: str, signed: bool) -> str:
    """LLVM's word for a comparison of integers: slt, ult, eq ..."""
    word = COMPARISONS[relation]
    return word if relation in ("==", "!=") else ("s" if signed else "u") + word


def conversion(source: Scalar, target: Scalar) -> str:
    """LLVM's word for a conversion by value between two different scalars, but for floats to integers."""
    if source.floating and target.floating:
        return "fpext" if target.size > source.size else "fptrunc"
    if target.floating:
        return "sitofp" if source.signed else "uitofp"
    if source == BOOL or (target.size > source.size and not source.signed):
        return "zext"
    return "sext" if target.size > source.size else "trunc"


def literal(number: Number, scalar: Scalar) -> str:
    """A number as IR writes it: floating-point constants are the bits of a double, exact in the scalar's type."""
    if not scalar.floating:
        return str(int.from_bytes(number_bytes(number, scalar), "little", signed=scalar.signed))
    assert scalar != BF16, "constants are made in the type of computation"
    stored = number_bytes(number, scalar)
    if scalar == F16:
        return f"0xH{int.from_bytes(stored, 'little'):04X}"
    (held,) = struct.unpack(PACKED[scalar.name], stored)
    (pattern,) = struct.unpack("<Q", struct.pack("<d", held))
    return f"0x{pattern:016X}"


def number_bytes(number: Number, scalar: Scalar) -> bytes:
    """A number as memory holds it, little end first: integers modulo 2^bits, too large floats as infinity."""
    if not scalar.floating:
        return (int(number) % (1 << 8 * scalar.size)).to_bytes(scalar.size, "little")
    try:
        return struct.pack(PACKED[scalar.name], float(number))
    except OverflowError:
        return struct.pack(PACKED[scalar.name], math.copysign(math.inf, number > 0 or -1))
