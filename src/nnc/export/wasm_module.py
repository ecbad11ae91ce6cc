"""An object file of WebAssembly into a module that runs: memory, stack and exports, without a linker.

    module = wasm_module(object, exports=("digits_run",), pages=12)

An object that leaves no function to others is a module but for what it imports: a memory and a stack pointer, which the
module has itself here, or, where workers share the memory, gets from those who start it, with the function that hands
chunks to workers. LLVM writes addresses and numbers of functions as they are where data begins at 0 and nothing else is
linked, so nothing needs to be moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nnc.core.values.leb128 import read_number, read_text, written_number
from nnc.errors import VerificationError

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT, COUNT, CODE, DATA = (
    0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 10, 11,
)  # fmt: skip
FUNCTION_KIND, TABLE_KIND, MEMORY_KIND, GLOBAL_KIND = range(4)
PAGE = 1 << 16
# Bytes of the stack, as of other linkers; no kernel asks for more than a few KB.
STACK_BYTES = 1 << 16
I32, CONSTANT, END, FUNCTIONS = 0x7F, 0x41, 0x0B, 0x70
# Limits of a memory that workers share have a most, of as many pages as 32 bits reach.
SHARED, MOST_PAGES = 3, 1 << 16
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


def wasm_module(code: bytes, exports: Sequence[str], pages: int, *, shared: bool = False) -> bytes:
    """The module, whose memory of so many pages and functions of these names others see; the stack is behind data.

    With `shared` memory, stack pointer and `parallel_for` are imports from `env`.
    """
    sections = dict(_sections(code))
    callback = _callback(sections.get(IMPORT, b"\0"))
    if (callback is not None) is not shared:
        raise VerificationError(
            "wasm: a function that hands chunks to workers, of a program without, or none with them"
        )
    numbers = dict(_functions(code))
    rows = [(name.encode(), FUNCTION_KIND, numbers[name]) for name in exports]
    own = {TABLE: bytes([1, FUNCTIONS, 0]) + written_number(_slots(sections))} if ELEMENT in sections else {}
    if callback is None:
        rows.insert(0, (b"memory", MEMORY_KIND, 0))
        own |= {MEMORY: b"\1\0" + written_number(pages), GLOBAL: _stack_pointer(stack_top(code))}
    else:
        own[IMPORT] = _imports(pages, callback)
    listed = b"".join(_bytes(name) + bytes([kind]) + written_number(number) for name, kind, number in rows)
    own[EXPORT] = written_number(len(rows)) + listed
    taken = {kind: sections[kind] for kind in (TYPE, FUNCTION, ELEMENT, COUNT, CODE, DATA) if kind in sections}
    parts = {**taken, **own}
    order = (TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT, COUNT, CODE, DATA)
    return MAGIC + b"".join(bytes([kind]) + _bytes(parts[kind]) for kind in order if kind in parts)


def stack_top(code: bytes) -> int:
    """Where the stack begins, which grows downwards to the constants."""
    return (data_end(code) + STACK_BYTES) // 16 * 16


def _stack_pointer(top: int) -> bytes:
    """One global, i32, that changes."""
    return bytes([1, I32, 1, CONSTANT]) + _signed(top) + bytes([END])


def _imports(pages: int, callback: int) -> bytes:
    limits = bytes([SHARED]) + written_number(pages) + written_number(MOST_PAGES)
    rows = (
        (b"memory", bytes([MEMORY_KIND]) + limits),
        (b"stack_pointer", bytes([GLOBAL_KIND, I32, 1])),
        (CALLBACK.encode(), bytes([FUNCTION_KIND]) + written_number(callback)),
    )
    return written_number(len(rows)) + b"".join(_bytes(b"env") + _bytes(name) + kind for name, kind in rows)


def _slots(sections: Mapping[int, bytes]) -> int:
    """How many functions the table has places for: LLVM writes one row of them, from 1 on."""
    content = sections[ELEMENT]
    if content[:5] != bytes([1, 0, CONSTANT, 1, END]):
        raise VerificationError("wasm: functions in a table in another way than LLVM writes them")
    count, _ = read_number(content, 5)
    return 1 + count


def _callback(content: bytes) -> int | None:
    """The type of the function that is imported, if there is one; VerificationError for an import that is unknown."""
    count, at = read_number(content, 0)
    callback = None
    for _ in range(count):
        module, at = read_text(content, at)
        name, at = read_text(content, at)
        kind, at = content[at], at + 1
        if (module, name, kind == FUNCTION_KIND) not in KNOWN:
            raise VerificationError(f"wasm: an import of {module}.{name}")
        if kind == FUNCTION_KIND:
            callback, at = read_number(content, at)
        elif kind == GLOBAL_KIND:
            at += 2
        else:
            at += kind == TABLE_KIND
            flags, at = content[at], at + 1
            for _ in range(1 + (flags & 1)):
                _, at = read_number(content, at)
    return callback


CALLBACK = "parallel_for"
KNOWN = {
    ("env", "__linear_memory", False),
    ("env", "__stack_pointer", False),
    ("env", "__indirect_function_table", False),
    ("env", CALLBACK, True),
}


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
