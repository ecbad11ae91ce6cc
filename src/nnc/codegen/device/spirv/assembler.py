"""A SPIR-V module in the making: ids, types and constants that are each made once, and sections in their order."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from nnc.codegen.device.text import Kind

MAGIC, VERSION_1_5 = 0x07230203, 0x00010500

# Numbers of capabilities.
SHADER, FLOAT16, FLOAT64, INT64, INT16, INT8 = 1, 9, 10, 11, 22, 39
STORAGE16, STORAGE8, ADDRESSES = 4433, 4448, 5347
GROUP, GROUP_VOTE, GROUP_SHUFFLE = 61, 62, 65
# Storage classes.
INPUT, WORKGROUP, FUNCTION, PUSH_CONSTANT, PHYSICAL = 1, 4, 7, 9, 5349
# Opcodes of types, constants and decorations.
EXTENSIONS, MEMORY_MODEL, ENTRY_POINT, EXECUTION_MODE, CAPABILITY = 11, 14, 15, 16, 17
TYPE_VOID, TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_VECTOR, TYPE_ARRAY, TYPE_STRUCT, TYPE_POINTER, TYPE_FUNCTION = (
    19, 20, 21, 22, 23, 28, 30, 32, 33,
)  # fmt: skip
TRUE, FALSE, CONSTANT, UNDEFINED, VARIABLE = 41, 42, 43, 1, 59
DECORATE, MEMBER_DECORATE = 71, 72
BLOCK, BUILT_IN, OFFSET, NO_CONTRACTION = 2, 11, 35, 42
# What a type of LLVM's is, in bits, and what it needs to be computed with and to be in memory.
BITS = {"i64": 64, "i32": 32, "i16": 16, "i8": 8, "double": 64, "float": 32, "half": 16, "ptr": 64}
NEEDS = {"i64": INT64, "ptr": INT64, "i16": INT16, "i8": INT8, "double": FLOAT64, "half": FLOAT16}
IN_MEMORY = {16: STORAGE16, 8: STORAGE8}
# Words of a launch: args, first, items, scratch, scratch_bytes, and where tables are.
PUSHED_WORDS = 6
FLOATS = ("double", "float", "half")


def text_words(text: str) -> list[int]:
    """A string in words, with a zero behind it."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


class SpirvAssembler:
    """Words of one module."""

    def __init__(self) -> None:
        self._last = 0
        self.capabilities: set[int] = {SHADER, ADDRESSES, INT64}
        self.entries: list[int] = []
        self.decorations: list[int] = []
        self.globals: list[int] = []
        self.functions: list[int] = []
        self.interface: list[int] = []
        self._made: dict[tuple[object, ...], int] = {}
        self.mathematics = self.id()

    def id(self) -> int:
        """The next number of a result."""
        self._last += 1
        return self._last

    @staticmethod
    def words(opcode: int, *operands: int) -> list[int]:
        """An instruction."""
        return [(len(operands) + 1) << 16 | opcode, *operands]

    def write(self, opcode: int, *operands: int) -> None:
        """Write an instruction of a function."""
        self.functions += self.words(opcode, *operands)

    def made(self, key: tuple[object, ...], opcode: int, *operands: int) -> int:
        """A type, or what has none: one for each key."""
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = self.id()
            self.globals += self.words(opcode, known, *operands)
        return known

    def type(self, kind: Kind | str) -> int:
        """The type of a value; addresses are numbers."""
        element = kind if isinstance(kind, str) else kind.element
        if element == "void":
            return self.made(("void",), TYPE_VOID)
        if element == "i1":
            return self.made(("i1",), TYPE_BOOL)
        if element in NEEDS:
            self.capabilities.add(NEEDS[element])
        bits = BITS[element]
        if element in FLOATS:
            return self.made(("float", bits), TYPE_FLOAT, bits)
        return self.made(("int", bits), TYPE_INT, bits, 0)

    def pointer(self, storage: int, target: int) -> int:
        """The type of pointers into a kind of memory."""
        return self.made(("pointer", storage, target), TYPE_POINTER, storage, target)

    def function_type(self, result: Kind, arguments: Sequence[Kind]) -> int:
        """The type of a function."""
        types = [self.type(each) for each in arguments]
        return self.made(("function", self.type(result), *types), TYPE_FUNCTION, self.type(result), *types)

    def number(self, value: int, element: str = "i32") -> int:
        """An integer constant."""
        bits, kind = BITS[element], self.type(element)
        pattern = value % (1 << bits)
        words = [pattern & 0xFFFFFFFF, pattern >> 32] if bits == 64 else [pattern]
        return self._constant(("number", bits, pattern), kind, words)

    def _constant(self, key: tuple[object, ...], kind: int, words: Sequence[int]) -> int:
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = self.id()
            self.globals += self.words(CONSTANT, kind, known, *words)
        return known

    def constant(self, kind: Kind, text: str) -> int:
        """A constant as LLVM writes it."""
        element, result = kind.element, self.type(kind)
        if text in ("poison", "undef"):
            known = self._made.get(("undefined", result))
            if known is None:
                known = self._made["undefined", result] = self.id()
                self.globals += self.words(UNDEFINED, result, known)
            return known
        if element == "i1":
            return self._truth(text in ("1", "true", "-1"))
        if element not in FLOATS:
            return self.number(0 if text == "null" else int(text), element)
        pattern = float_pattern(element, text)
        words = [pattern & 0xFFFFFFFF, pattern >> 32] if element == "double" else [pattern]
        return self._constant(("float", element, pattern), result, words)

    def _truth(self, holds: bool) -> int:
        known = self._made.get(("truth", holds))
        if known is None:
            known = self._made["truth", holds] = self.id()
            self.globals += self.words(TRUE if holds else FALSE, self.type("i1"), known)
        return known

    def variable(self, kind: int, storage: int) -> int:
        """A variable of the whole module."""
        result = self.id()
        self.globals += self.words(VARIABLE, self.pointer(storage, kind), result, storage)
        self.interface.append(result)
        return result

    def pushed(self) -> int:
        """The words that a launch brings: a structure of addresses and numbers of 64 bits."""
        known = self._made.get(("pushed",))
        if known is None:
            word = self.type("i64")
            structure = self.made(("words",), TYPE_STRUCT, *[word] * PUSHED_WORDS)
            self.decorate(structure, BLOCK)
            for place in range(PUSHED_WORDS):
                self.decorations += self.words(MEMBER_DECORATE, structure, place, OFFSET, 8 * place)
            known = self._made["pushed",] = self.variable(structure, PUSH_CONSTANT)
        return known

    def built_in(self, number: int, *, vector: bool) -> int:
        """A variable that the device sets: a number of 32 bits, or three."""
        known = self._made.get(("built in", number))
        if known is None:
            word = self.type("i32")
            kind = self.made(("vector",), TYPE_VECTOR, word, 3) if vector else word
            known = self._made["built in", number] = self.variable(kind, INPUT)
            self.decorate(known, BUILT_IN, number)
        return known

    def near(self, name: str, array: Kind) -> int:
        """An array in the memory of a group, one for each name."""
        known = self._made.get(("near", name))
        if known is None:
            kind = self.made(("array", str(array)), TYPE_ARRAY, self.type(array.element), self.number(array.array))
            known = self._made["near", name] = self.variable(kind, WORKGROUP)
        return known

    def decorate(self, target: int, *words: int) -> None:
        """Say something of a result."""
        self.decorations += self.words(DECORATE, target, *words)

    def assembled(self) -> bytes:
        """The module."""
        words = [MAGIC, VERSION_1_5, 0, self._last + 1, 0]
        for capability in sorted(self.capabilities):
            words += self.words(CAPABILITY, capability)
        words += self.words(EXTENSIONS, self.mathematics, *text_words("GLSL.std.450"))
        words += self.words(MEMORY_MODEL, PHYSICAL - 1, 1)
        words += [*self.entries, *self.decorations, *self.globals, *self.functions]
        return struct.pack(f"<{len(words)}I", *words)


def float_pattern(element: str, text: str) -> int:
    """The bits of a constant: `0xH3C00` of half, the bits of a double for all others, or digits."""
    if text.startswith("0xH"):
        return int(text[3:], 16)
    value = struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0] if text.startswith("0x") else float(text)
    form = {"double": ("<d", "<Q"), "float": ("<f", "<I"), "half": ("<e", "<H")}[element]
    pattern: int = struct.unpack(form[1], struct.pack(form[0], value))[0]
    return pattern
