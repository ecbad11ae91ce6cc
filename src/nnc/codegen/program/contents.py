"""Constants of a program that are put into its object file behind the compiler, which reads a byte of a text as three.

    module.define(reserved("digits_constants", content, "internal"))       a mark, and zeros behind it
    code = filled(code, {"digits_constants": content})

The code depends on how many bytes they are alone: programs that differ in their weights have one text. No load of them
is folded, as the mark is "externally initialized".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from nnc.codegen.ir.native_kernel import ALIGNMENT

MARK_BYTES = 32


def _mark(name: str) -> bytes:
    return hashlib.sha256(f"the contents of {name}".encode()).digest()


def reserved(name: str, content: bytes, linkage: str = "") -> str:
    """The constant of that name, of as many bytes as the content, or as the mark where that is longer."""
    kind, rest = f"[{MARK_BYTES} x i8]", f"[{max(len(content) - MARK_BYTES, 0)} x i8]"
    escaped = "\\" + _mark(name).hex("\\")
    value = f'<{{ {kind} c"{escaped}", {rest} zeroinitializer }}>'
    return f"@{name} = {linkage} externally_initialized constant <{{ {kind}, {rest} }}> {value}, align {ALIGNMENT}"


def filled(code: bytes, contents: Mapping[str, bytes]) -> bytes:
    """An object file with the contents of all that was reserved in it."""
    places = sorted((_place(code, name), content) for name, content in contents.items())
    parts, end = list[bytes](), 0
    for place, content in places:
        content = content.ljust(MARK_BYTES, b"\0")
        parts += [code[end:place], content]
        end = place + len(content)
    return b"".join((*parts, code[end:]))


def _place(code: bytes, name: str) -> int:
    mark = _mark(name)
    place = code.find(mark)
    assert place >= 0, f"no {name} in the object file"
    assert code.find(mark, place + 1) < 0, f"{name} more than once in the object file"
    return place
