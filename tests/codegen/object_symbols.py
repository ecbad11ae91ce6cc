"""The names that an object file leaves to others, read from its bytes: ELF of 32 or 64 bits, or WebAssembly."""

from __future__ import annotations

import struct
from collections.abc import Iterator

SYMBOL_TABLE = 2  # the type of an ELF section
WASM_IMPORTS, WASM_FUNCTION = 2, 0


def undefined_symbols(code: bytes) -> set[str]:
    """Names of functions that this object calls and does not hold."""
    if code.startswith(b"\0asm"):
        return set(_wasm_imports(code))
    assert code.startswith(b"\x7fELF")
    return set(_elf_undefined(code))


def machine_of(code: bytes) -> int:
    """The processor that an ELF object is of; 0 for WebAssembly."""
    return 0 if code.startswith(b"\0asm") else int(struct.unpack_from("<H", code, 18)[0])


def _elf_undefined(code: bytes) -> Iterator[str]:
    """Symbols of section 0, in a file of this byte order."""
    wide = code[4] == 2
    sections_at = struct.unpack_from("<Q" if wide else "<I", code, 40 if wide else 32)[0]
    size, count = struct.unpack_from("<HH", code, 58 if wide else 46)
    # name, type, flags, address, offset, size, link
    headers = [struct.unpack_from("<IIQQQQI" if wide else "<7I", code, sections_at + size * n) for n in range(count)]
    for _, kind, _, _, offset, nbytes, link in headers:
        if kind != SYMBOL_TABLE:
            continue
        texts = headers[link][4]
        for at in range(offset, offset + nbytes, 24 if wide else 16):
            name, section = (
                struct.unpack_from("<I", code, at)[0],
                struct.unpack_from("<H", code, at + (6 if wide else 14))[0],
            )
            if name and not section:
                yield code[texts + name : code.index(b"\0", texts + name)].decode()


def _wasm_imports(code: bytes) -> Iterator[str]:
    """The functions of the section of imports: module, name, kind and type of each."""
    at = 8
    while at < len(code):
        section, (nbytes, start) = code[at], _leb128(code, at + 1)
        at = start + nbytes
        if section != WASM_IMPORTS:
            continue
        count, place = _leb128(code, start)
        for _ in range(count):
            _, place = _text(code, place)
            name, place = _text(code, place)
            kind, place = code[place], place + 1
            if kind == WASM_FUNCTION:
                yield name
                _, place = _leb128(code, place)
            else:
                place = _after_limits(code, place, kind)


def _after_limits(code: bytes, place: int, kind: int) -> int:
    """Behind a table, a memory or a global."""
    if kind == 3:
        return place + 2
    flags = code[place + (kind == 1)]
    place += 1 + (kind == 1)
    for _ in range(1 + (flags & 1)):
        _, place = _leb128(code, place)
    return place


def _text(code: bytes, place: int) -> tuple[str, int]:
    nbytes, start = _leb128(code, place)
    return code[start : start + nbytes].decode(), start + nbytes


def _leb128(code: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place behind it."""
    number = shift = 0
    while True:
        byte, place = code[place], place + 1
        number |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return number, place
