"""What an object file has for others, what it leaves to others, and its bytes of code: read from its bytes.

ELF of 32 or 64 bits, COFF, Mach-O of 64 bits, WebAssembly.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nnc.classes import dataclass
from nnc.core.running.library_program import ObjectFile
from nnc.core.values.leb128 import read_number, read_text

# ELF: the type of a symbol table, a section that is executed, and a symbol that others see.
SYMBOL_TABLE, EXECUTED, GLOBAL, WEAK = 2, 4, 1, 2
# Mach-O: a segment, the table of symbols, a section of instructions, and a symbol that others see.
SEGMENT, SYMTAB, INSTRUCTIONS, EXTERNAL = 0x19, 2, 0x80000000, 1
# COFF: a section of code, and a symbol that others see.
CODE, COFF_EXTERNAL = 0x20, 2
# WebAssembly: numbers of sections, of kinds of imports, and of entries of the table of symbols.
WASM_IMPORTS, WASM_CODE, WASM_FUNCTION, WASM_LINKING_SYMBOLS = 2, 10, 0, 8


def contents(code: bytes) -> ObjectFile:
    """The object file with what was read from it."""
    if code.startswith(b"\0asm"):
        names, size = (
            list(_wasm_symbols(code)),
            sum(end - at for kind, at, end in _wasm_sections(code) if kind == WASM_CODE),
        )
    elif code.startswith(b"\x7fELF"):
        names, size = list(_elf_symbols(code)), _elf_code(code)
    elif code.startswith(b"\xcf\xfa\xed\xfe"):
        names, size = _macho(code)
    else:
        names, size = _coff(code)
    defined = sorted({name for name, here in names if here})
    undefined = sorted({name for name, here in names if not here})
    return ObjectFile(code, tuple(defined), tuple(undefined), size)


def _name(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


# ---- ELF


@dataclass(frozen=True, slots=True)
class _Section:
    """A header of ELF's."""

    kind: int
    flags: int
    offset: int
    nbytes: int
    link: int


def _elf_sections(code: bytes) -> list[_Section]:
    wide = code[4] == 2
    start = struct.unpack_from("<Q" if wide else "<I", code, 40 if wide else 32)[0]
    size, count = struct.unpack_from("<HH", code, 58 if wide else 46)
    rows = [struct.unpack_from("<IIQQQQI" if wide else "<7I", code, start + size * number) for number in range(count)]
    return [_Section(kind, flags, offset, nbytes, link) for _, kind, flags, _, offset, nbytes, link in rows]


def _elf_symbols(code: bytes) -> Iterator[tuple[str, bool]]:
    wide, sections = code[4] == 2, _elf_sections(code)
    for table in sections:
        if table.kind != SYMBOL_TABLE:
            continue
        for at in range(table.offset, table.offset + table.nbytes, 24 if wide else 16):
            (name,) = struct.unpack_from("<I", code, at)
            (section,) = struct.unpack_from("<H", code, at + (6 if wide else 14))
            if name and code[at + (4 if wide else 12)] >> 4 in (GLOBAL, WEAK):
                yield _name(code, sections[table.link].offset + name), section != 0


def _elf_code(code: bytes) -> int:
    return sum(section.nbytes for section in _elf_sections(code) if section.flags & EXECUTED)


# ---- Mach-O and COFF


def _macho(code: bytes) -> tuple[list[tuple[str, bool]], int]:
    names, size, at = list[tuple[str, bool]](), 0, 32
    for _ in range(struct.unpack_from("<I", code, 16)[0]):
        command, nbytes = struct.unpack_from("<II", code, at)
        if command == SEGMENT:
            for section in range(struct.unpack_from("<I", code, at + 64)[0]):
                place = at + 72 + 80 * section
                size += struct.unpack_from("<Q", code, place + 40)[0] * bool(
                    struct.unpack_from("<I", code, place + 64)[0] & INSTRUCTIONS
                )
        if command == SYMTAB:
            table, count, texts, _ = struct.unpack_from("<4I", code, at + 8)
            for entry in range(table, table + 16 * count, 16):
                name, kind, section = struct.unpack_from("<IBB", code, entry)
                if kind & EXTERNAL:
                    names.append((_name(code, texts + name).removeprefix("_"), section != 0))
        at += nbytes
    return names, size


def _coff(code: bytes) -> tuple[list[tuple[str, bool]], int]:
    _, sections, _, table, count, optional, _ = struct.unpack_from("<HHIIIHH", code, 0)
    headers = [20 + optional + 40 * number for number in range(sections)]
    size = sum(
        struct.unpack_from("<I", code, at + 16)[0]
        for at in headers
        if struct.unpack_from("<I", code, at + 36)[0] & CODE
    )
    names, entry = list[tuple[str, bool]](), 0
    while entry < count:
        at = table + 18 * entry
        short, place, value, section, kind, more = struct.unpack_from("<4sIIhxxBB", code, at)
        name = (
            _name(code, table + 18 * count + place)
            if short == b"\0\0\0\0"
            else code[at : at + 8].rstrip(b"\0").decode()
        )
        if kind == COFF_EXTERNAL and (section > 0 or not value):
            names.append((name, section > 0))
        entry += 1 + more
    return names, size


# ---- WebAssembly


def _wasm_sections(code: bytes) -> Iterator[tuple[int, int, int]]:
    """The number of each section, and where its content begins and ends."""
    at = 8
    while at < len(code):
        nbytes, start = read_number(code, at + 1)
        yield code[at], start, start + nbytes
        at = start + nbytes


def _wasm_symbols(code: bytes) -> Iterator[tuple[str, bool]]:
    for kind, start, end in _wasm_sections(code):
        if kind == WASM_IMPORTS:
            for name in _wasm_imports(code, start):
                yield name, False
        if kind == 0:
            title, at = read_text(code, start)
            if title == "linking":
                for name in _wasm_defined(code, at, end):
                    yield name, True


def _wasm_defined(code: bytes, at: int, end: int) -> Iterator[str]:
    """Functions that are defined here and seen by others."""
    _, at = read_number(code, at)
    while at < end:
        kind = code[at]
        nbytes, start = read_number(code, at + 1)
        at = start + nbytes
        if kind != WASM_LINKING_SYMBOLS:
            continue
        count, place = read_number(code, start)
        for _ in range(count):
            what = code[place]
            flags, place = read_number(code, place + 1)
            if what == 1:  # data: a name, and where it is unless it is somebody else's
                name, place = read_text(code, place)
                for _ in range(0 if flags & 0x10 else 3):
                    _, place = read_number(code, place)
                continue
            _, place = read_number(code, place)
            if what == 3:
                continue
            if not flags & 0x10 or flags & 0x40:
                name, place = read_text(code, place)
                if what == 0 and not flags & 0x10 and not flags & 2:
                    yield name


def _wasm_imports(code: bytes, start: int) -> Iterator[str]:
    """The functions of the section of imports: module, name, kind and type of each."""
    count, place = read_number(code, start)
    for _ in range(count):
        _, place = read_text(code, place)
        name, place = read_text(code, place)
        kind, place = code[place], place + 1
        if kind == WASM_FUNCTION:
            yield name
            _, place = read_number(code, place)
        else:
            place = _after_limits(code, place, kind)


def _after_limits(code: bytes, place: int, kind: int) -> int:
    """Behind a table, a memory or a global."""
    if kind == 3:
        return place + 2
    flags = code[place + (kind == 1)]
    place += 1 + (kind == 1)
    for _ in range(1 + (flags & 1)):
        _, place = read_number(code, place)
    return place
