"""A static library: the `ar` format with the table of symbols that linkers look in.

    !<arch>\\n, then each member: 60 bytes of header, its content, a line feed where that is odd

GNU's form for ELF, COFF and WebAssembly; BSD's for Mach-O, whose table is a member of its own name. Times, owners and
modes are zero or fixed, so that equal objects give equal archives.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

MAGIC = b"!<arch>\n"
HEADER_BYTES = 60
# A name of at most this many characters stands in the header itself.
SHORT_NAME = 15


def archive(members: Mapping[str, bytes], symbols: Mapping[str, Sequence[str]], *, bsd: bool = False) -> bytes:
    """An archive of members by file name; `symbols` are the names that each defines."""
    entries = [(name, symbol) for name in members for symbol in symbols[name]]
    names = b"".join(symbol.encode() + b"\0" for _, symbol in entries)
    size = 8 + 8 * len(entries) + len(names) if bsd else 4 + 4 * len(entries) + len(names)
    size += -size % (8 if bsd else 2)
    place, places = len(MAGIC) + HEADER_BYTES + size, dict[str, int]()
    for name, content in members.items():
        assert len(name) <= SHORT_NAME, "names of members are ours"
        places[name] = place
        place += HEADER_BYTES + len(content) + len(content) % 2
    table = _bsd_table(entries, places) if bsd else _gnu_table(entries, places)
    parts = [MAGIC, _header("__.SYMDEF" if bsd else "/", size), (table + names).ljust(size, b"\0")]
    for name, content in members.items():
        parts += [_header(name if bsd else f"{name}/", len(content)), content, b"\n" * (len(content) % 2)]
    return b"".join(parts)


def _gnu_table(entries: Sequence[tuple[str, str]], places: Mapping[str, int]) -> bytes:
    return struct.pack(f">{1 + len(entries)}I", len(entries), *(places[name] for name, _ in entries))


def _bsd_table(entries: Sequence[tuple[str, str]], places: Mapping[str, int]) -> bytes:
    """Pairs of where a name is among the names, and where its member is."""
    rows, at = list[int](), 0
    for name, symbol in entries:
        rows += (at, places[name])
        at += len(symbol.encode()) + 1
    padding = -(8 + 8 * len(entries) + at) % 8
    return struct.pack(f"<{2 + len(rows)}I", 8 * len(entries), *rows, at + padding)[: 4 + 8 * len(entries) + 4]


def _header(name: str, size: int) -> bytes:
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}`\n".encode()
