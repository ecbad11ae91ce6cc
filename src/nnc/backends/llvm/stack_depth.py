"""How deep the stack gets in a program: frames of functions and who calls whom, read from LLVM's assembly.

    depth(f) = frame(f) + max(depth(g) for each g that f calls)

A frame is what instructions at the beginning of a function take off the stack pointer; what alignment may take more is
added. No function of a program calls itself, and those of the C library are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nnc.classes import dataclass

_DEFINED = re.compile(r"^define .*?@([\w.$-]+)\(", re.MULTILINE)
_LABEL = re.compile(r"^_?([A-Za-z_][\w.$-]*):", re.MULTILINE)
_CALL = re.compile(r"^\s+(?:callq|call|bl|jal|tail|b|jmp|j)\s+_?([A-Za-z_][\w.$-]*)", re.MULTILINE)
_LISTED = re.compile(r"[rd]\d+|lr|sp|pc")


@dataclass(frozen=True, slots=True)
class Taking:
    """An instruction that takes from the stack: `bytes` each, or its number, or so many for each register it lists."""

    pattern: re.Pattern[str]
    nbytes: int = 0
    of_each: int = 0


def _taking(pattern: str, nbytes: int = 0, of_each: int = 0) -> Taking:
    return Taking(re.compile(rf"^\s+{pattern}", re.MULTILINE), nbytes, of_each)


ARM = (
    _taking(r"push(?:\.w)?\s+(\{.*\})", of_each=4),
    _taking(r"vpush\s+(\{.*\})", of_each=8),
    _taking(r"subw?(?:\.w)?\s+sp,(?: sp,)? #(\d+)"),
    _taking(r"bfc\s+sp, #0, #\d+", nbytes=64),
)
AARCH64 = (_taking(r"sub\s+sp, sp, #(\d+)(?!,)"), _taking(r"st[pr]\s+.*\[sp, #-(\d+)\]!"))
# What triples begin with. The return address is on the stack on x86 alone.
ROWS: Mapping[str, tuple[Taking, ...]] = {
    "x86_64": (
        _taking(r"pushq\s", nbytes=8),
        _taking(r"subq\s+\$(\d+), %rsp"),
        _taking(r"andq\s+\$-(\d+), %rsp"),
        _taking(r"retq", nbytes=8),
    ),
    "aarch64": AARCH64,
    "arm64": AARCH64,
    "arm": ARM,
    "thumb": ARM,
    "riscv": (_taking(r"addi\s+sp, sp, -(\d+)"),),
    "wasm32": (_taking(r"global\.get\s+__stack_pointer\n(?:\s+local\.\w+\s.*\n)*\s+i32\.const\s+(\d+)\n\s+i32\.sub"),),
}
# An amount in a register: it depends on the processor, or has more digits than an instruction.
_UNKNOWN = re.compile(r"^\s+sub(?:\.w)?\s+sp, sp, [a-z]|^\s+sub\s+sp, sp, #\d+, lsl", re.MULTILINE)


def stack_depth(source: str, assembly: str, triple: str) -> int:
    """The most bytes below the caller's stack pointer; 0 where some frame is not known beforehand."""
    rows = next((rows for prefix, rows in ROWS.items() if triple.startswith(prefix)), ())
    names = set(_DEFINED.findall(source))
    starts = [match for match in _LABEL.finditer(assembly) if match[1] in names]
    ends = [*(match.start() for match in starts[1:]), len(assembly)]
    bodies = {match[1]: assembly[match.end() : end] for match, end in zip(starts, ends, strict=True)}
    if not rows or any(_UNKNOWN.search(body) for body in bodies.values()):
        return 0
    depths: dict[str, int] = {}
    # Functions that call none first: names that stay are those of a circle, which programs have not.
    waiting = {name: set(_CALL.findall(body)) & bodies.keys() - {name} for name, body in bodies.items()}
    while ready := [name for name, called in waiting.items() if called <= depths.keys()]:
        for name in ready:
            below = max((depths[inner] for inner in waiting.pop(name)), default=0)
            depths[name] = _frame(bodies[name], rows) + below
    return 0 if waiting else max(depths.values(), default=0)


def _frame(body: str, rows: tuple[Taking, ...]) -> int:
    total = 0
    for row in rows:
        for match in row.pattern.finditer(body):
            if row.of_each:
                total += row.of_each * len(_LISTED.findall(match[1]))
            else:
                total += row.nbytes or int(match[1])
    return total
