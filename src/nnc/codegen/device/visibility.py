"""Which memory threads both read and write, so that each has to see what the others wrote before it goes on."""

from __future__ import annotations

from nnc.codegen.device.text import POINTER, ParsedFunction, TextInstruction


class Visibility:
    """Which memory threads both read and write in a function, so that each has to see what the others wrote.

    A pointer's root is an argument by its place, the scratch, a table, or unknown, which may be any.
    """

    UNKNOWN = "?"

    def __init__(self, roots: dict[str, str], shared: frozenset[str]) -> None:
        self._roots, self._shared = roots, shared
        # What has been done since threads met: "read", "write" or nothing.
        self.pending = ""

    def root(self, pointer: str) -> str:
        """Where a pointer comes from."""
        return _root(self._roots, pointer)

    def matters(self, pointer: str) -> bool:
        """Whether what lies there is read and written."""
        return self._roots.get(pointer, self.UNKNOWN) in self._shared

    @classmethod
    def of(cls, function: ParsedFunction) -> Visibility:
        """Follow each pointer to its root."""
        roots = {each.text: each.text for each in function.arguments if each.kind == POINTER}
        slots: set[str] = set()
        read, written = set[str](), set[str]()
        for i in function.instructions():
            _follow(i, roots, slots)
            for pointers, touched in ((_sources(i), read), (_targets(i), written)):
                touched |= {_root(roots, pointer) for pointer in pointers if pointer not in slots}
        unknown = written and cls.UNKNOWN in read | written
        shared = read | written if unknown else read & written
        return cls(roots, frozenset(shared))


def _root(roots: dict[str, str], pointer: str) -> str:
    return pointer if pointer.startswith("@") else roots.get(pointer, Visibility.UNKNOWN)


def _follow(i: TextInstruction, roots: dict[str, str], slots: set[str]) -> None:
    """Note the root of a pointer that an instruction makes."""
    if i.opcode == "alloca":
        if i.kind.array:
            roots[i.result] = i.result
        else:
            slots.add(i.result)
    elif i.opcode in ("getelementptr", "opaque"):
        base = _root(roots, i.operands[0].text)
        steps = i.operands[1].text if len(i.operands) > 1 else ""
        # The table of arguments: each of its entries is a root of its own.
        roots[i.result] = f"{base}[{steps}]" if i.detail == "ptr" and base.startswith("%") else base
    elif i.opcode == "load" and i.kind == POINTER and i.operands[0].text not in slots:
        base = _root(roots, i.operands[0].text)
        roots[i.result] = Visibility.UNKNOWN if base == Visibility.UNKNOWN else f"*{base}"
    elif i.opcode == "select" and i.kind == POINTER:
        both = {_root(roots, each.text) for each in i.operands[1:]}
        roots[i.result] = both.pop() if len(both) == 1 else Visibility.UNKNOWN


def _sources(i: TextInstruction) -> list[str]:
    """Pointers that are read."""
    if i.opcode == "load":
        return [i.operands[0].text]
    masked = i.opcode == "call" and i.detail.startswith(("llvm.masked.load", "llvm.masked.gather"))
    return [i.operands[0].text] if masked else []


def _targets(i: TextInstruction) -> list[str]:
    """Pointers that are written."""
    if i.opcode == "store":
        return [i.operands[1].text]
    masked = i.opcode == "call" and i.detail.startswith(("llvm.masked.store", "llvm.masked.scatter"))
    return [i.operands[1].text] if masked else []
