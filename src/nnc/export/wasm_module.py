"""An object file of WebAssembly into a module that runs: memory, stack and exports, without a linker.

    module = wasm_module(object, exports=("digits_run",), first=stack_bytes, pages=12)

An object that leaves no function to others is a module but for what it imports: a memory and a stack pointer, which the
module has itself here. LLVM writes addresses and numbers of functions as they are where data begins at 0 and nothing
else is linked, so nothing needs to be moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnc.core.values.leb128 import read_number, read_text, written_number
from nnc.errors import VerificationError

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, TYPE, IMPORT, FUNCTION, MEMORY, GLOBAL, EXPORT, COUNT, CODE, DATA = 0, 1, 2, 3, 5, 6, 7, 12, 10, 11
FUNCTION_KIND, TABLE_KIND, MEMORY_KIND, GLOBAL_KIND = range(4)
PAGE = 1 << 16
# Bytes of the stack, as of other linkers; no kernel asks for more than a few KB.
STACK_BYTES = 1 << 16
I32, CONSTANT, END = 0x7F, 0x41, 0x0B
SYMBOLS, UNDEFINED = 8, 0x10


def data_end(code: bytes) -> int:
    """The first address behind the constants of an object."""
    sections = dict(_sections(code))
    if DATA not in sections:
        return 0
    content, end = sections[DATA], 0
    count, at = read_number(content, 0)
    for _ in range(count):
        flags, at = read_number(content, at)
        if flags or content[at] != CONSTANT:
            raise VerificationError("wasm: a segment of another kind than LLVM writes")
        place, at = read_number(content, at + 1)
        nbytes, at = read_number(content, at + 1)
        at += nbytes
        end = max(end, place + nbytes)
    return end


def wasm_module(code: bytes, exports: Sequence[str], pages: int) -> bytes:
    """The module, whose memory of so many pages and functions of these names others see; the stack is behind data."""
    sections = dict(_sections(code))
    _check_imports(sections.get(IMPORT, b"\0"))
    top = data_end(code) + STACK_BYTES
    numbers = dict(_functions(code))
    rows = [(b"memory", MEMORY_KIND, 0), *((name.encode(), FUNCTION_KIND, numbers[name]) for name in exports)]
    listed = b"".join(_bytes(name) + bytes([kind]) + written_number(number) for name, kind, number in rows)
    own = {
        MEMORY: b"\1\0" + written_number(pages),
        # One global, i32, that changes: where the stack begins, which grows downwards.
        GLOBAL: bytes([1, I32, 1, CONSTANT]) + _signed(top // 16 * 16) + bytes([END]),
        EXPORT: written_number(len(rows)) + listed,
    }
    taken = {kind: sections[kind] for kind in (TYPE, FUNCTION, COUNT, CODE, DATA) if kind in sections}
    parts = {**taken, **own}
    order = (TYPE, FUNCTION, MEMORY, GLOBAL, EXPORT, COUNT, CODE, DATA)
    return MAGIC + b"".join(bytes([kind]) + _bytes(parts[kind]) for kind in order if kind in parts)


def _check_imports(content: bytes) -> None:
    """Nothing but a memory, a stack pointer and a table that nobody uses."""
    count, at = read_number(content, 0)
    for _ in range(count):
        module, at = read_text(content, at)
        name, at = read_text(content, at)
        kind, at = content[at], at + 1
        if kind == FUNCTION_KIND or (module, name) not in KNOWN:
            raise VerificationError(f"wasm: an import of {module}.{name}")
        if kind == GLOBAL_KIND:
            at += 2
        else:
            at += kind == TABLE_KIND
            flags, at = content[at], at + 1
            for _ in range(1 + (flags & 1)):
                _, at = read_number(content, at)


KNOWN = {("env", "__linear_memory"), ("env", "__stack_pointer"), ("env", "__indirect_function_table")}


def _functions(code: bytes) -> Iterator[tuple[str, int]]:
    """Names and numbers of functions that others see."""
    for kind, content in _sections(code):
        title, at = read_text(content, 0) if kind == CUSTOM else ("", 0)
        if title != "linking":
            continue
        _, at = read_number(content, at)
        while at < len(content):
            part = content[at]
            nbytes, at = read_number(content, at + 1)
            if part == SYMBOLS:
                yield from _symbols(content[at : at + nbytes])
            at += nbytes


def _symbols(content: bytes) -> Iterator[tuple[str, int]]:
    count, at = read_number(content, 0)
    for _ in range(count):
        kind = content[at]
        flags, at = read_number(content, at + 1)
        if kind == 1:
            _, at = read_text(content, at)
            for _ in range(0 if flags & UNDEFINED else 3):
                _, at = read_number(content, at)
            continue
        number, at = read_number(content, at)
        if kind == 3:
            continue
        if not flags & UNDEFINED or flags & 0x40:
            name, at = read_text(content, at)
            if kind == 0 and not flags & UNDEFINED:
                yield name, number


def _sections(code: bytes) -> Iterator[tuple[int, bytes]]:
    at = len(MAGIC)
    while at < len(code):
        kind = code[at]
        nbytes, start = read_number(code, at + 1)
        yield kind, code[start : start + nbytes]
        at = start + nbytes


def _signed(number: int) -> bytes:
    """Such a number whose highest bit is no sign."""
    content = written_number(number)
    return content if not content[-1] & 64 else content[:-1] + bytes([content[-1] | 128, 0])


def _bytes(content: bytes) -> bytes:
    return written_number(len(content)) + content
