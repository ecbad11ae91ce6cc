"""The build attribute of ARM objects that says that floats are handed over in registers (Tag_ABI_VFP_args).

LLVM leaves it out here, and linkers refuse such an object beside those of a C compiler for hard floats. No function
that others see has a parameter that is a float, so nothing but the attribute changes.

    "A", then bytes of the rest (u32), "aeabi", 1 for the whole file, bytes from that 1 on (u32), then tags and values
"""

from __future__ import annotations

import struct

ATTRIBUTES = 0x70000003  # the type of the section
VFP_ARGUMENTS = bytes((28, 1))
LENGTH_AT, FILE_LENGTH_AT = 1, 12  # behind "A", and behind "aeabi\\0" and the 1


def with_hard_floats(code: bytes) -> bytes:
    """The object, an ELF file of 32 bits, with the attribute: its section anew, at the end of the file."""
    table = struct.unpack_from("<I", code, 32)[0]
    size, count = struct.unpack_from("<HH", code, 46)
    for place in range(table, table + size * count, size):
        kind, _, _, offset, nbytes = struct.unpack_from("<5I", code, place + 4)
        if kind == ATTRIBUTES:
            section = bytearray(code[offset : offset + nbytes] + VFP_ARGUMENTS)
            for at in (LENGTH_AT, FILE_LENGTH_AT):
                struct.pack_into("<I", section, at, struct.unpack_from("<I", section, at)[0] + len(VFP_ARGUMENTS))
            patched = bytearray(code + section)
            struct.pack_into("<2I", patched, place + 16, len(code), len(section))
            return bytes(patched)
    return code
