"""Threads in step wait where one reads what another wrote, and where one writes what another has read or written."""

from __future__ import annotations

import pytest

from nnc.codegen.device.spread import Spreader
from nnc.codegen.device.text import parse

START = "define void @f(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {\nentry:\n"
LOAD, STORE = "%v{n} = load <4 x float>, ptr {p}, align 4", "store <4 x float> %v1, ptr {p}, align 4"


def spread(*steps: str) -> list[str]:
    """What is left of these steps: reads and writes of numbers, and waits."""
    body = "\n".join(step.format(n=number, p="%scratch") for number, step in enumerate(steps, 1))
    text = Spreader(parse(f"{START}{body}\nret void\n}}").functions["f"], 4, 0, {}).write()
    kinds = {"load float": "read", "store float": "write", "call void @nnc.meet": "wait"}
    return [word for line in text.splitlines() for start, word in kinds.items() if start in line]


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ((LOAD, STORE), ["read", "wait", "write", "wait"]),
        ((LOAD, STORE, LOAD), ["read", "wait", "write", "wait", "read", "wait"]),
        ((LOAD, STORE, STORE), ["read", "wait", "write", "wait", "write", "wait"]),
        ((LOAD, LOAD), ["read", "read"]),
    ],
)
def test_waits_stand_between_what_depends_on_others(steps: tuple[str, ...], left: list[str]) -> None:
    assert spread(*steps) == left


def test_operands_of_their_own_need_no_waits() -> None:
    text = (
        f"{START}%a = load ptr, ptr %args, align 8\n%p = getelementptr ptr, ptr %args, i64 1\n"
        "%b = load ptr, ptr %p, align 8\n%v = load <4 x float>, ptr %a, align 4\n"
        "store <4 x float> %v, ptr %b, align 4\nret void\n}"
    )
    assert "nnc.meet" not in Spreader(parse(text).functions["f"], 4, 0, {}).write()


def test_what_is_not_aligned_is_read_and_written_byte_by_byte() -> None:
    text = f"{START}%v = load half, ptr %scratch, align 1\nstore half %v, ptr %scratch, align 1\nret void\n}}"
    written = Spreader(parse(text).functions["f"], 1, 0, {}).write()
    assert written.count("load i8") == written.count("store i8") == 2
    assert "load half" not in written
