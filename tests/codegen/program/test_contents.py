"""Constants that are put into an object file behind the compiler."""

from __future__ import annotations

import pytest

from nnc.backends.llvm.object_files import object_file
from nnc.codegen.ir.targets import TARGETS, LibraryTarget, library_target
from nnc.codegen.program.contents import MARK_BYTES, filled, reserved

READING = """
target triple = "{triple}"
{first}
{second}
define i8 @read() {{
  %byte = load i8, ptr getelementptr (i8, ptr @first, i64 3)
  ret i8 %byte
}}
"""


def text_of(target: LibraryTarget, *sizes: int) -> str:
    names = zip(("first", "second"), sizes, strict=True)
    rows = {name: reserved(name, bytes(size), "internal" if name == "first" else "") for name, size in names}
    return READING.format(triple=target.description.triple, **rows)


@pytest.mark.parametrize("target", TARGETS, ids=lambda row: row.name)
def test_contents_stand_in_the_object_file_of_every_format(target: LibraryTarget) -> None:
    first, second = bytes(range(100)), bytes(range(60, 200)) * 2
    made = object_file(text_of(target, 100, 280), target, {"second": second, "first": first})
    assert made.content.count(first) == made.content.count(second) == 1
    assert "read" in made.defined


def test_no_load_of_them_is_folded() -> None:
    target = library_target("wasm32")
    made, other = (object_file(text_of(target, 40, 40), target, {"first": bytes([n] * 40)}) for n in (7, 9))
    differing = [place for place, (a, b) in enumerate(zip(made.content, other.content, strict=True)) if a != b]
    assert len(differing) == 40
    assert differing == list(range(differing[0], differing[0] + 40))


def test_few_bytes_take_the_place_of_the_mark() -> None:
    target = library_target("aarch64")
    made = object_file(text_of(target, 3, MARK_BYTES), target, {"first": b"abc", "second": b"d" * MARK_BYTES})
    assert made.content.count(b"abc" + bytes(MARK_BYTES - 3)) == 1


def test_what_was_not_reserved_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match="no third in the object file"):
        filled(b"\x7fELF", {"third": b"abc"})
