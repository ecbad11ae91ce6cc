"""Numbers of seven bits a byte, as WebAssembly and protobuf have them, and texts behind their lengths."""

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


def written_number(number: int) -> bytes:
    """A number from 0 on, the lowest seven bits first; all bytes but the last are 128 or more."""
    content = bytearray()
    while number > 127:
        content.append(number & 127 | 128)
        number >>= 7
    return bytes([*content, number])


def read_text(code: bytes, place: int) -> tuple[str, int]:
    """The text behind its length in bytes, and the place behind it."""
    nbytes, start = read_number(code, place)
    return code[start : start + nbytes].decode(), start + nbytes
