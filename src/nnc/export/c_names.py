"""Names of ports, sizes and libraries as C, C++ and JavaScript have them.

c_names(["x", "x.1", "for"])        {"x": "x", "x.1": "x_1", "for": "for_"}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from nnc.errors import UsageError

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
UNSUITED = re.compile(r"[^A-Za-z0-9_]")
# Words of C11, C++20 and ECMAScript.
_KEYWORDS = """
    alignas alignof and and_eq arguments asm async auto await bitand bitor bool break case catch char char8_t
    char16_t char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    continue debugger decltype default delete do double dynamic_cast else enum eval explicit export extends extern
    false finally float for friend function goto if implements import in inline instanceof int interface let long
    mutable namespace new noexcept not not_eq null nullptr operator or or_eq package private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast std
    struct super switch template this thread_local throw true try typedef typeid typename typeof union unsigned
    using var virtual void volatile wchar_t while with xor xor_eq yield
"""
# What the texts of a library and its programs call things themselves.
_OURS = """
    arena arena_bytes differs error fclose file fill_f32 fill_f64 fopen fprintf fread given i initial_state inputs
    main memcpy memmove memset name need outputs place places pool printf program row run size_t state stderr
    uint8_t int8_t uint16_t int16_t int32_t uint32_t int64_t weights wrong
"""
KEYWORDS, OURS = frozenset(_KEYWORDS.split()), frozenset(_OURS.split())
# Targets that cmake has itself.
CMAKE = frozenset({"all", "clean", "edit_cache", "help", "install", "package", "rebuild_cache", "test"})


def check_name(name: str) -> None:
    """UsageError for what a library cannot be called in C and C++."""
    if not IDENTIFIER.fullmatch(name):
        raise UsageError("library", got=repr(name), need="a name of C: letters, digits and _, a letter first")
    if name in KEYWORDS:
        got, need = f"the word {name}", "a name that is no word of C or C++"
        raise UsageError("library", got=got, need=need, fix=f'"{name}_net"')


def lettered(text: str, kind: str) -> str:
    """A text in letters of C, with what it is in front where it begins with none."""
    plain = UNSUITED.sub("_", text)
    return plain if plain[:1].isalpha() else f"{kind}_{plain}"


def c_names(texts: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """A name for each text, none of those taken: what becomes one name gets numbers, a word of a language a `_`."""
    named: dict[str, str] = {}
    for text in texts:
        plain = lettered(text, "port")
        plain = f"{plain}_" if plain in KEYWORDS | OURS else plain
        name, number = plain, 1
        while name in taken or name in named.values():
            number += 1
            name = f"{plain}_{number}"
        named[text] = name
    return named


def cmake_target(name: str) -> str:
    """What cmake calls a library."""
    return f"{name}_library" if name in CMAKE else name
