"""What a GGUF file is made of: kinds of metadata values, element types of tensors, and their sizes.

    file   = "GGUF" | u32 version | u64 tensors | u64 values | values | tensor rows | padding | data
    value  = text key | u32 kind | value;   text = u64 bytes | UTF-8;   array = u32 kind | u64 count | values
    tensor = text name | u32 rank | u64 sizes, the last axis first | u32 element type | u64 offset in the data

Integers are little-endian. Offsets are multiples of `general.alignment` (32 unless given).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from math import prod
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.spec import Shape
from nnc.errors import FormatError

MAGIC = b"GGUF"
# 1 counted in 32 bits, for two months of 2023; 2 and 3 differ in the order of bytes that they allow.
VERSIONS = (2, 3)
USUAL_ALIGNMENT, MOST_ALIGNMENT = 32, 1 << 16
ALIGNMENT_KEY = "general.alignment"
# The largest vocabularies have 262,144 tokens and 514,906 merges; two million texts are read in 1.5 s.
MOST_TEXTS = 2_000_000
MOST_VALUES, MOST_TENSORS, MOST_RANK = 100_000, 100_000, 4
MOST_HEADER_BYTES = 1 << 27
MOST_KEY_BYTES = (1 << 16) - 1
MOST_ELEMENTS = 1 << 62

Array: TypeAlias = NDArray[np.generic]
Plain: TypeAlias = bool | int | float | str | Array | tuple[str, ...]


class ValueKind(IntEnum):
    """The kind of a metadata value."""

    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    TEXT = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12


NUMBERS: Mapping[ValueKind, np.dtype[np.generic]] = MappingProxyType(
    {
        kind: np.dtype(code)
        for kind, code in {
            ValueKind.U8: "u1",
            ValueKind.I8: "i1",
            ValueKind.U16: "<u2",
            ValueKind.I16: "<i2",
            ValueKind.U32: "<u4",
            ValueKind.I32: "<i4",
            ValueKind.F32: "<f4",
            ValueKind.BOOL: "?",
            ValueKind.U64: "<u8",
            ValueKind.I64: "<i8",
            ValueKind.F64: "<f8",
        }.items()
    }
)
ELEMENT_KINDS: Mapping[np.dtype[np.generic], ValueKind] = MappingProxyType({row: kind for kind, row in NUMBERS.items()})


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """A value with its kind; texts of an array are a tuple, numbers of one an array of NumPy's."""

    kind: ValueKind
    value: Plain

    @property
    def is_array(self) -> bool:
        """Whether there may be several."""
        return isinstance(self.value, tuple | np.ndarray)


@dataclass(frozen=True, slots=True)
class ElementType:
    """The element type of a tensor: rows are whole blocks of `block` elements in `nbytes` bytes."""

    number: int
    name: str
    block: int
    nbytes: int


# By ggml's numbers, with its names in lower case.
ELEMENT_TYPES: Mapping[int, ElementType] = MappingProxyType(
    {
        number: ElementType(number, name, block, nbytes)
        for number, name, block, nbytes in (
            (0, "f32", 1, 4),
            (1, "f16", 1, 2),
            (2, "q4_0", 32, 18),
            (3, "q4_1", 32, 20),
            (6, "q5_0", 32, 22),
            (7, "q5_1", 32, 24),
            (8, "q8_0", 32, 34),
            (9, "q8_1", 32, 36),
            (10, "q2_k", 256, 84),
            (11, "q3_k", 256, 110),
            (12, "q4_k", 256, 144),
            (13, "q5_k", 256, 176),
            (14, "q6_k", 256, 210),
            (15, "q8_k", 256, 292),
            (16, "iq2_xxs", 256, 66),
            (17, "iq2_xs", 256, 74),
            (18, "iq3_xxs", 256, 98),
            (19, "iq1_s", 256, 50),
            (20, "iq4_nl", 32, 18),
            (21, "iq3_s", 256, 110),
            (22, "iq2_s", 256, 82),
            (23, "iq4_xs", 256, 136),
            (24, "i8", 1, 1),
            (25, "i16", 1, 2),
            (26, "i32", 1, 4),
            (27, "i64", 1, 8),
            (28, "f64", 1, 8),
            (29, "iq1_m", 256, 56),
            (30, "bf16", 1, 2),
            (34, "tq1_0", 256, 54),
            (35, "tq2_0", 256, 66),
            (39, "mxfp4", 32, 17),
        )
    }
)
BY_NAME: Mapping[str, ElementType] = MappingProxyType({row.name: row for row in ELEMENT_TYPES.values()})


@dataclass(frozen=True, slots=True)
class TensorRow:
    """What a file says of a tensor: its shape in our order (the last axis is contiguous), and where its bytes lie."""

    name: str
    kind: ElementType
    shape: Shape
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of all its blocks."""
        return prod(self.shape) // self.kind.block * self.kind.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, which is the last axis."""
        return (self.shape[-1] if self.shape else 1) // self.kind.block * self.kind.nbytes


def malformed(place: str, got: str, need: str = "a whole GGUF file", fix: str = "") -> FormatError:
    """The error for what a file should not hold."""
    return FormatError(place, got=got, need=need, fix=fix or "fetch the file again, or name another")
