"""What the builder wrote, as instructions: the part of LLVM's text that generators use, and no more.

functions = parse(str(module)).functions
functions["kernel"].blocks[0].instructions        TextInstruction(result, opcode, kind, operands, detail)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from nnc.classes import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: `element` is LLVM's word; `lanes` of them side by side, 0 for one alone; `array` of so many in memory."""

    element: str
    lanes: int = 0
    array: int = 0

    def __str__(self) -> str:
        if self.array:
            return f"[{self.array} x {self.element}]"
        return f"<{self.lanes} x {self.element}>" if self.lanes else self.element

    @property
    def one(self) -> Kind:
        """The type of one element."""
        return Kind(self.element)

    @property
    def size(self) -> int:
        """Bytes of an element in memory."""
        return SIZES[self.element]


@dataclass(frozen=True, slots=True)
class TextOperand:
    """A register, a constant or a label, as it is written."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class TextInstruction:
    """result = opcode operands.

    `kind` is the type of the result. `detail` is the condition of a comparison, the name of what is called, the
    alignment of an access, or flags.
    """

    result: str
    opcode: str
    kind: Kind
    operands: tuple[TextOperand, ...]
    detail: str = ""


@dataclass(slots=True)
class TextBlock:
    """Instructions from a label to a jump."""

    label: str
    instructions: list[TextInstruction]


@dataclass(frozen=True, slots=True)
class ParsedFunction:
    """A function: its result, arguments and blocks in order."""

    name: str
    result: Kind
    arguments: tuple[TextOperand, ...]
    blocks: tuple[TextBlock, ...]

    def instructions(self) -> Iterator[TextInstruction]:
        """All of them in order."""
        for block in self.blocks:
            yield from block.instructions


@dataclass(frozen=True, slots=True)
class ParsedModule:
    """Functions by name, tables of i64 by name, and arrays in the memory of a group: their element and their size."""

    functions: dict[str, ParsedFunction]
    tables: dict[str, tuple[int, ...]]
    near: dict[str, Kind]


SIZES = {"double": 8, "float": 4, "half": 2, "i128": 16, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1, "ptr": 8}
VOID, LABEL, POINTER = Kind("void"), Kind("label"), Kind("ptr")
I1, I32, I64 = Kind("i1"), Kind("i32"), Kind("i64")

_DEFINE = re.compile(r"define (?:internal )?([\w<> ]+?) @([\w.$-]+)\((.*)\) #0 \{")
_NEAR = re.compile(r"@([\w.$-]+) = internal addrspace\(3\) global (\[\d+ x \w+\]) undef, align \d+")
_TABLE = re.compile(r"@([\w.$-]+) = internal constant \[\d+ x i64\] \[(.*)\], align 64")
_CALL = re.compile(r"call ([\w<> ]+?|void \(\.\.\.\)) @([\w.$-]+)\((.*)\)")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_ARRAY = re.compile(r"\[(\d+) x (\w+)\]")
FLAGS = frozenset({"nuw", "nsw", "exact", "disjoint", "inbounds"})
CASTS = frozenset(
    {"bitcast", "zext", "sext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui", "ptrtoint"}
)


@lru_cache(maxsize=256)
def kind_of(text: str) -> Kind:
    """A type as it is written.

    >>> kind_of("<4 x float>").lanes
    4
    """
    if match := _VECTOR.fullmatch(text):
        return Kind(match[2], lanes=int(match[1]))
    if match := _ARRAY.fullmatch(text):
        return Kind(match[2], array=int(match[1]))
    return Kind(text)


def split(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "(<[{":
            depth += 1
        elif letter in ")>]}":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def typed(text: str) -> TextOperand:
    """A type and what has it: `<4 x float> splat (float 1.0)`."""
    if text[0] in "<[":
        end = text.index(">" if text[0] == "<" else "]") + 1
        return TextOperand(kind_of(text[:end]), text[end:].strip())
    kind, _, rest = text.partition(" ")
    # `immarg` and other words stand between a type and a value in declarations alone.
    return TextOperand(kind_of(kind), rest)


def parse(text: str) -> ParsedModule:
    """All functions and tables of a module's text."""
    functions: dict[str, ParsedFunction] = {}
    tables: dict[str, tuple[int, ...]] = {}
    near: dict[str, Kind] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if match := _DEFINE.fullmatch(line):
            arguments = tuple([TextOperand(kind_of(part.split()[0]), part.split()[-1]) for part in split(match[3])])
            functions[match[2]] = ParsedFunction(match[2], kind_of(match[1]), arguments, tuple(_blocks(lines)))
        elif match := _NEAR.fullmatch(line):
            near[match[1]] = kind_of(match[2])
        elif match := _TABLE.fullmatch(line):
            tables[match[1]] = tuple([int(part.split()[1]) for part in match[2].split(", ")])
    return ParsedModule(functions, tables, near)


def _blocks(lines: Iterator[str]) -> Iterator[TextBlock]:
    block = TextBlock("entry", [])
    for line in lines:
        if line == "}":
            break
        if line.endswith(":"):
            if block.instructions or block.label != "entry":
                yield block
            block = TextBlock(line[:-1], [])
        elif line:
            block.instructions.append(instruction(line))
    yield block


def instruction(line: str) -> TextInstruction:
    """One line.

    >>> instruction("%x = fadd float %a, 0x0").operands[0].text
    '%a'
    """
    result, equals, body = line.partition(" = ")
    if not equals or not result.startswith("%"):
        result, body = "", line
    opcode, _, rest = body.partition(" ")
    return _READERS.get(opcode, _binary)(result, opcode, rest.strip())


def _binary(result: str, opcode: str, rest: str) -> TextInstruction:
    words = rest.split(" ", 2)
    flags = ""
    while words[0] in FLAGS:
        flags, rest = f"{flags} {words[0]}", rest.partition(" ")[2]
        words = rest.split(" ", 2)
    first, second = split(rest)
    left = typed(first)
    return TextInstruction(result, opcode, left.kind, (left, TextOperand(left.kind, second)), flags.strip())


def _compare(result: str, opcode: str, rest: str) -> TextInstruction:
    condition, _, rest = rest.partition(" ")
    first, second = split(rest)
    left = typed(first)
    return TextInstruction(
        result, opcode, Kind("i1", left.kind.lanes), (left, TextOperand(left.kind, second)), condition
    )  # fmt: skip


def _negation(result: str, opcode: str, rest: str) -> TextInstruction:
    operand = typed(rest)
    return TextInstruction(result, opcode, operand.kind, (operand,))


def _cast(result: str, opcode: str, rest: str) -> TextInstruction:
    source, _, target = rest.rpartition(" to ")
    return TextInstruction(result, opcode, kind_of(target), (typed(source),))


def _typed_list(result: str, opcode: str, rest: str) -> TextInstruction:
    operands = tuple([typed(part) for part in split(rest)])
    kinds = {
        "select": lambda: operands[1].kind, "insertelement": lambda: operands[0].kind,
        "extractelement": lambda: operands[0].kind.one,
        "shufflevector": lambda: Kind(operands[0].kind.element, operands[2].kind.lanes),
        "store": lambda: VOID, "ret": lambda: VOID,
    }  # fmt: skip
    given = tuple([each for each in operands if each.kind != ALIGN])
    return TextInstruction(result, opcode, kinds[opcode](), given, _alignment(operands[-1]))


ALIGN = Kind("align")


def _alignment(operand: TextOperand) -> str:
    """What an access is aligned to, if it says so."""
    return operand.text if operand.kind == ALIGN else ""


def _load(result: str, opcode: str, rest: str) -> TextInstruction:
    parts = split(rest)
    return TextInstruction(result, opcode, kind_of(parts[0]), (typed(parts[1]),), _alignment(typed(parts[-1])))


def _address(result: str, opcode: str, rest: str) -> TextInstruction:
    element, base, index = split(rest)
    place = typed(index)
    return TextInstruction(result, opcode, Kind("ptr", place.kind.lanes), (typed(base), place), element)


def _place(result: str, opcode: str, rest: str) -> TextInstruction:
    return TextInstruction(result, opcode, kind_of(split(rest)[0]), ())


def _call(result: str, opcode: str, rest: str) -> TextInstruction:
    if rest.startswith('ptr asm ""'):
        return TextInstruction(result, "opaque", POINTER, (typed(rest.rpartition("(")[2].rstrip(")")),))
    match = _CALL.fullmatch(f"call {rest}")
    assert match is not None, rest
    operands = tuple([typed(part) for part in split(match[3])])
    return TextInstruction(result, opcode, VOID if match[1] == "void (...)" else kind_of(match[1]), operands, match[2])


def _branch(result: str, opcode: str, rest: str) -> TextInstruction:
    return TextInstruction(result, opcode, VOID, tuple([_without_mark(typed(part)) for part in split(rest)]))


def _without_mark(operand: TextOperand) -> TextOperand:
    return TextOperand(LABEL, operand.text[1:]) if operand.kind == LABEL else operand


def _phi(result: str, opcode: str, rest: str) -> TextInstruction:
    word, _, pairs = rest.partition(" ")
    kind = kind_of(word)
    operands = []
    for pair in split(pairs):
        value, label = split(pair[1:-1])
        operands += [TextOperand(kind, value), TextOperand(LABEL, label[1:])]
    return TextInstruction(result, opcode, kind, tuple(operands))


def _return(result: str, opcode: str, rest: str) -> TextInstruction:
    return TextInstruction(result, opcode, VOID, () if rest == "void" else (typed(rest),))


_READERS = {
    "icmp": _compare, "fcmp": _compare, "fneg": _negation, **dict.fromkeys(CASTS, _cast), "load": _load,
    **dict.fromkeys(("select", "insertelement", "extractelement", "shufflevector", "store"), _typed_list),
    "getelementptr": _address, "alloca": _place, "call": _call, "br": _branch, "phi": _phi, "ret": _return,
}  # fmt: skip
