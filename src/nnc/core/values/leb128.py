"""Numbers of seven bits a byte, as files of WebAssembly have them, and texts behind their lengths."""

from __future__ import annotations


def read_number(code: bytes, place: int) -> tuple[int, int]:
    """The number Σ (byteᵢ & 127) · 128ⁱ, up to the first byte below 128, and the place behind it."""
    number = shift = 0
    while True:
        byte, place = code[place], place + 1
        number |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return number, place


def read_text(code: bytes, place: int) -> tuple[str, int]:
    """The text behind its length in bytes, and the place behind it."""
    nbytes, start = read_number(code, place)
    return code[start : start + nbytes].decode(), start + nbytes
