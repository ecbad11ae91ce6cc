"""Instructions of LLVM's text in SPIR-V: a table by opcode, and one of the functions that the text calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from nnc.codegen.device.preamble import GROUP_THREADS
from nnc.codegen.device.spirv import assembler as spirv
from nnc.codegen.device.spirv.assembler import FLOATS, SpirvAssembler
from nnc.codegen.device.spirv.quotients import divide
from nnc.codegen.device.text import I1, I32, I64, SIZES, Kind, TextInstruction, TextOperand

# Integers and truth values; floats are named apart in LLVM's text.
ARITHMETIC = {
    "add": 128, "fadd": 129, "sub": 130, "fsub": 131, "mul": 132, "fmul": 133, "udiv": 134, "sdiv": 135, "fdiv": 136,
    "urem": 137, "srem": 138, "frem": 140, "lshr": 194, "ashr": 195, "shl": 196, "or": 197, "xor": 198, "and": 199,
}  # fmt: skip
TRUTH = {"or": 166, "and": 167, "xor": 165, "add": 165}
COMPARISONS = {
    "eq": 170, "ne": 171, "ugt": 172, "sgt": 173, "uge": 174, "sge": 175, "ult": 176, "slt": 177, "ule": 178,
    "sle": 179,
}  # fmt: skip
FLOAT_COMPARISONS = {
    "oeq": 180, "ueq": 181, "one": 182, "une": 183, "olt": 184, "ult": 185, "ogt": 186, "ugt": 187, "ole": 188,
    "ule": 189, "oge": 190, "uge": 191,
}  # fmt: skip
CONVERSIONS = {
    "fptoui": 109, "fptosi": 110, "sitofp": 111, "uitofp": 112, "zext": 113, "trunc": 113, "sext": 114, "fpext": 115,
    "fptrunc": 115, "bitcast": 124,
}  # fmt: skip
NEGATE, NOT_A_NUMBER, SELECT, LOAD, STORE, TO_POINTER, EXTENDED, CALL = 127, 156, 169, 61, 62, 120, 12, 57
BARRIER, ANY, SHUFFLE, NOT_EQUAL, TRUTH_EQUAL = 224, 335, 345, 171, 164
WORKGROUP, SUBGROUP, ACQUIRE_RELEASE_OF_BUFFERS, ACQUIRE_RELEASE_OF_NEAR = 2, 3, 0x48, 0x108
# Functions of GLSL.std.450.
MATHEMATICS = {"roundeven": 2, "trunc": 3, "fabs": 4, "floor": 8, "ceil": 9, "sqrt": 31, "fma": 50}
EXACT = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem", "fneg"})
ALIGNED, ACCESS = 2, 65
# What a thread knows of itself: built-in variables.
GROUPS, GROUP, THREAD, THREAD_OF_GROUP, LANE, SUBGROUPS, SUBGROUP_NUMBER = 24, 26, 27, 29, 41, 38, 40
# The place of the address of tables among the words of a launch.
TABLES_WORD = 5
INTEGERS = {"double": "i64", "float": "i32", "half": "i16"}


class InstructionWriter:
    """Writes the instructions of one function; values are known by their names."""

    def __init__(
        self,
        module: SpirvAssembler,
        functions: Mapping[str, int],
        tables: Mapping[str, int],
        near: Mapping[str, Kind],
    ) -> None:
        self.m = module
        self.called = functions
        # Where each table begins among them; arrays in the memory of a group.
        self.tables, self.arrays = tables, near
        self.values: dict[str, int] = {}
        self.slots: dict[str, tuple[int, Kind]] = {}

    def name(self, text: str) -> int:
        """The id of a value that is computed."""
        if text not in self.values:
            self.values[text] = self.m.id()
        return self.values[text]

    def table(self, name: str) -> int:
        """The address of a table, from where all tables begin."""
        start = self.pushed(TABLES_WORD)
        return self.result(ARITHMETIC["add"], I64, start, self.m.number(self.tables[name], "i64"))

    def pushed(self, place: int) -> int:
        """One of the words that a launch brings."""
        kind = self.m.type("i64")
        member = self.m.id()
        pointer = self.m.pointer(spirv.PUSH_CONSTANT, kind)
        self.m.write(ACCESS, pointer, member, self.m.pushed(), self.m.number(place))
        return self.result(LOAD, I64, member)

    def _built_in(self, number: int, axis: int | None = None) -> int:
        """A number of 32 bits that a thread knows; of three, that along an axis."""
        variable, kind = self.m.built_in(number, vector=axis is not None), self.m.type("i32")
        if axis is None:
            return self.result(LOAD, I32, variable)
        member = self.m.id()
        self.m.write(ACCESS, self.m.pointer(spirv.INPUT, kind), member, variable, self.m.number(axis))
        return self.result(LOAD, I32, member)

    def value(self, operand: TextOperand) -> int:
        """The id of an operand."""
        text = operand.text
        if text.startswith("%"):
            return self.name(text)
        if text.startswith("@"):
            return self.table(text[1:])
        return self.m.constant(operand.kind, text)

    def result(self, opcode: int, kind: Kind, *operands: int, name: str = "") -> int:
        """An instruction with a result."""
        made = self.name(name) if name else self.m.id()
        self.m.write(opcode, self.m.type(kind), made, *operands)
        return made

    def extended(self, number: int, kind: Kind, *operands: int, name: str = "") -> int:
        """A function of GLSL's."""
        return self.result(EXTENDED, kind, self.m.mathematics, number, *operands, name=name)

    def translate(self, i: TextInstruction) -> None:
        """One instruction that is no jump."""
        if i.opcode in ARITHMETIC:
            self._arithmetic(i)
        elif i.opcode in CONVERSIONS:
            self._convert(i)
        else:
            OTHERS[i.opcode](self, i)

    def _arithmetic(self, i: TextInstruction) -> None:
        if i.opcode in ("udiv", "urem") and i.kind == I64 and i.operands[1].text.isdigit():
            quotient, value = i.opcode == "udiv", self.value(i.operands[0])
            divide(self.m, value, int(i.operands[1].text), self.name(i.result), quotient=quotient)
            return
        left, right = (self.value(each) for each in i.operands)
        opcode = TRUTH[i.opcode] if i.kind.element == "i1" else ARITHMETIC[i.opcode]
        made = self.result(opcode, i.kind, left, right, name=i.result)
        if i.opcode in EXACT:
            self.m.decorate(made, spirv.NO_CONTRACTION)

    def negate(self, i: TextInstruction) -> None:
        """-x"""
        made = self.result(NEGATE, i.kind, self.value(i.operands[0]), name=i.result)
        self.m.decorate(made, spirv.NO_CONTRACTION)

    def compare(self, i: TextInstruction) -> None:
        """Comparisons of integers and of truth values."""
        left, right = (self.value(each) for each in i.operands)
        if i.operands[0].kind.element != "i1":
            self.result(COMPARISONS[i.detail], I1, left, right, name=i.result)
        elif i.detail in ("eq", "ne"):
            self.result({"eq": TRUTH_EQUAL, "ne": TRUTH["xor"]}[i.detail], I1, left, right, name=i.result)
        else:
            self._order_truths(i, left, right)

    def _order_truths(self, i: TextInstruction, left: int, right: int) -> None:
        """False before true: what one says where the other holds, and where not."""
        ends = [self.m.constant(I1, text) for text in ("0", "1")]
        chosen, (yes, no) = {
            "ult": (left, (ends[0], right)), "ule": (left, (right, ends[1])),
            "ugt": (right, (ends[0], left)), "uge": (right, (left, ends[1])),
        }[i.detail]  # fmt: skip
        self.result(SELECT, I1, chosen, yes, no, name=i.result)

    def compare_floats(self, i: TextInstruction) -> None:
        """Comparisons of floats; whether one is no number is asked of one alone."""
        left, right = (self.value(each) for each in i.operands)
        if i.detail == "uno" and left == right:
            self.result(NOT_A_NUMBER, I1, left, name=i.result)
        else:
            self.result(FLOAT_COMPARISONS[i.detail], I1, left, right, name=i.result)

    def select(self, i: TextInstruction) -> None:
        """left where condition else right"""
        self.result(SELECT, i.kind, *(self.value(each) for each in i.operands), name=i.result)

    def _convert(self, i: TextInstruction) -> None:
        (source,) = i.operands
        value = self.value(source)
        if source.kind.element == "i1":
            whole, nothing = ((-1 if i.opcode == "sext" else 1), 0)
            if i.kind.element in FLOATS:
                numbers = [self.m.constant(i.kind, f"{each}.0") for each in (1, 0)]
            else:
                numbers = [self.m.number(each, i.kind.element) for each in (whole, nothing)]
            self.result(SELECT, i.kind, value, *numbers, name=i.result)
        elif i.kind.element == "i1":
            low = self.result(ARITHMETIC["and"], source.kind, value, self.m.number(1, source.kind.element))
            self.result(NOT_EQUAL, I1, low, self.m.number(0, source.kind.element), name=i.result)
        elif i.opcode == "sext" and i.kind == I64:
            # lavapipe (Mesa 22.3) takes comparisons of sign-extended numbers with constants for those of others.
            wide, bits = self.result(CONVERSIONS["zext"], I64, value), 64 - spirv.BITS[source.kind.element]
            moved = self.result(ARITHMETIC["shl"], I64, wide, self.m.number(bits, "i64"))
            self.result(ARITHMETIC["ashr"], I64, moved, self.m.number(bits, "i64"), name=i.result)
        else:
            self.result(CONVERSIONS[i.opcode], i.kind, value, name=i.result)

    # -- memory

    def place(self, i: TextInstruction) -> None:
        """Variables were made at the function's beginning."""

    def _pointer(self, operand: TextOperand, kind: Kind) -> tuple[int, tuple[int, ...]]:
        """A pointer to a value of this type, and what is said of the access."""
        if operand.text in self.slots:
            return self.slots[operand.text][0], ()
        size = SIZES[kind.element]
        if size in (1, 2):
            self.m.capabilities.add(spirv.IN_MEMORY[8 * size])
        made = self.m.id()
        self.m.write(TO_POINTER, self.m.pointer(spirv.PHYSICAL, self.m.type(kind)), made, self.value(operand))
        return made, (ALIGNED, size)

    def load(self, i: TextInstruction) -> None:
        """Of a variable, or of an address."""
        place, access = self._pointer(i.operands[0], i.kind)
        self.result(LOAD, i.kind, place, *access, name=i.result)

    def store(self, i: TextInstruction) -> None:
        """To a variable, or to an address."""
        value, target = i.operands
        place, access = self._pointer(target, value.kind)
        self.m.write(STORE, place, self.value(value), *access)

    def number_of(self, i: TextInstruction) -> None:
        """An address is a number."""
        self.result(ARITHMETIC["add"], I64, self.value(i.operands[0]), self.m.number(0, "i64"), name=i.result)

    def address(self, i: TextInstruction) -> None:
        """base + index · size"""
        base, index = i.operands
        size, start = SIZES[i.detail], self.value(base)
        if not index.text.startswith("%"):
            steps = self.m.number(int(index.text) * size, "i64")
        elif size == 1:
            steps = self.value(index)
        else:
            steps = self.result(ARITHMETIC["mul"], I64, self.value(index), self.m.number(size, "i64"))
        self.result(ARITHMETIC["add"], I64, start, steps, name=i.result)

    # -- calls

    def call(self, i: TextInstruction) -> None:
        """Functions of the text, of the device, and intrinsics."""
        if i.detail in self.called:
            operands = [self.value(each) for each in i.operands]
            self.result(CALL, i.kind, self.called[i.detail], *operands, name=i.result)
            return
        parts = i.detail.split(".")
        known = CALLS.get(".".join(parts[:2]) if parts[0] == "llvm" or parts[1] in ("shuffle", "near") else i.detail)
        assert known is not None, i.detail
        known(self, i)

    def mathematics(self, i: TextInstruction) -> None:
        """One of GLSL's functions."""
        operands = [self.value(each) for each in i.operands]
        self.extended(MATHEMATICS[i.detail.split(".")[1]], i.kind, *operands, name=i.result)

    def extreme(self, i: TextInstruction) -> None:
        """The smaller or larger of two integers with signs."""
        left, right = (self.value(each) for each in i.operands)
        relation = "slt" if ".smin." in i.detail else "sgt"
        chosen = self.result(COMPARISONS[relation], I1, left, right)
        self.result(SELECT, i.kind, chosen, left, right, name=i.result)

    def copy_sign(self, i: TextInstruction) -> None:
        """All bits of the first but the highest, which is that of the second."""
        element = INTEGERS[i.kind.element]
        whole = Kind(element)
        highest = 1 << spirv.BITS[element] - 1
        size, sign = (self.result(CONVERSIONS["bitcast"], whole, self.value(each)) for each in i.operands)
        kept = self.result(ARITHMETIC["and"], whole, size, self.m.number(highest - 1, element))
        taken = self.result(ARITHMETIC["and"], whole, sign, self.m.number(highest, element))
        joined = self.result(ARITHMETIC["or"], whole, kept, taken)
        self.result(CONVERSIONS["bitcast"], i.kind, joined, name=i.result)

    def saturate(self, i: TextInstruction) -> None:
        """The integer next towards 0, the last one beyond, 0 of what is no number."""
        (source,) = i.operands
        x, bits, signed = self.value(source), spirv.BITS[i.kind.element], ".fptosi." in i.detail
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        bounds = [self.m.constant(source.kind, f"{float(each)!r}") for each in (low, math.ldexp(1.0, bits - signed))]
        plain = self.result(CONVERSIONS["fptosi" if signed else "fptoui"], i.kind, x)
        below = self.result(FLOAT_COMPARISONS["ole"], I1, x, bounds[0])
        above = self.result(FLOAT_COMPARISONS["oge"], I1, x, bounds[1])
        unknown = self.result(NOT_A_NUMBER, I1, x)
        ends = [self.m.number(each, i.kind.element) for each in (low, high, 0)]
        plain = self.result(SELECT, i.kind, below, ends[0], plain)
        plain = self.result(SELECT, i.kind, above, ends[1], plain)
        self.result(SELECT, i.kind, unknown, ends[2], plain, name=i.result)

    # -- threads

    def lane(self, i: TextInstruction) -> None:
        """The number of a thread in its subgroup."""
        self.m.capabilities.add(spirv.GROUP)
        self.result(ARITHMETIC["add"], I32, self._built_in(LANE), self.m.number(0), name=i.result)

    def worker(self, i: TextInstruction) -> None:
        """The number of a thread, a subgroup or a group among all of a launch, and how many there are."""
        all_of_them, kind = i.detail.startswith("nnc.workers"), i.detail.rpartition(".")[2]
        group = self._built_in(GROUPS if all_of_them else GROUP, 0)
        if kind == "group":
            self.result(CONVERSIONS["zext"], I64, group, name=i.result)
            return
        if kind == "subgroup":
            self.m.capabilities.add(spirv.GROUP)
            each, own = self._built_in(SUBGROUPS), self._built_in(SUBGROUP_NUMBER)
        else:
            each, own = self.m.number(GROUP_THREADS), self._built_in(THREAD, 0)
        group, each, own = (self.result(CONVERSIONS["zext"], I64, value) for value in (group, each, own))
        if all_of_them:
            self.result(ARITHMETIC["mul"], I64, group, each, name=i.result)
        else:
            before = self.result(ARITHMETIC["mul"], I64, group, each)
            self.result(ARITHMETIC["add"], I64, before, own, name=i.result)

    def thread(self, i: TextInstruction) -> None:
        """The number of a thread in its group."""
        self.result(ARITHMETIC["add"], I32, self._built_in(THREAD_OF_GROUP), self.m.number(0), name=i.result)

    def subgroup(self, i: TextInstruction) -> None:
        """The number of a thread's subgroup in its group."""
        self.m.capabilities.add(spirv.GROUP)
        self.result(ARITHMETIC["add"], I32, self._built_in(SUBGROUP_NUMBER), self.m.number(0), name=i.result)

    def wait(self, i: TextInstruction) -> None:
        """All threads of a group see what each has written to the memory that they share."""
        scope = self.m.number(WORKGROUP)
        self.m.write(BARRIER, scope, scope, self.m.number(ACQUIRE_RELEASE_OF_NEAR))

    def near(self, i: TextInstruction) -> None:
        """An element of the memory of a group is read or written."""
        _, _, action, name = i.detail.split(".", 3)
        array = self.arrays[name]
        kind, place = self.m.type(array.element), self.m.id()
        variable, index = self.m.near(name, array), self.value(i.operands[0])
        self.m.write(ACCESS, self.m.pointer(spirv.WORKGROUP, kind), place, variable, index)
        if action == "load":
            self.result(LOAD, i.kind, place, name=i.result)
        else:
            self.m.write(STORE, place, self.value(i.operands[1]))

    def pointer(self, i: TextInstruction) -> None:
        """An address that lies in memory."""
        self.load(TextInstruction(i.result, "load", I64, i.operands))

    def meet(self, i: TextInstruction) -> None:
        """Threads of a subgroup see what each has written."""
        scope = self.m.number(SUBGROUP)
        self.m.write(BARRIER, scope, scope, self.m.number(ACQUIRE_RELEASE_OF_BUFFERS))

    def any(self, i: TextInstruction) -> None:
        """Whether one thread says so."""
        self.m.capabilities |= {spirv.GROUP, spirv.GROUP_VOTE}
        self.result(ANY, I1, self.m.number(SUBGROUP), self.value(i.operands[0]), name=i.result)

    def shuffle(self, i: TextInstruction) -> None:
        """The value of another thread, in words of 32 bits, which all devices exchange."""
        self.m.capabilities |= {spirv.GROUP, spirv.GROUP_SHUFFLE}
        value, thread, element = self.value(i.operands[0]), self.value(i.operands[1]), i.kind.element
        if element == "i1":
            word = self._exchanged(self._word_of_truth(value), thread)
            self.result(NOT_EQUAL, I1, word, self.m.number(0), name=i.result)
        elif element in ("float", "i32"):
            self._exchanged(value, thread, i.kind, i.result)
        elif spirv.BITS[element] == 64:
            self._exchange_long(i, value, thread)
        else:
            whole = Kind(INTEGERS.get(element, element))
            value = self.result(CONVERSIONS["bitcast"], whole, value) if element in FLOATS else value
            wide = self.result(CONVERSIONS["zext"], I32, value)
            narrow = self._exchanged(wide, thread)
            if element in FLOATS:
                narrow = self.result(CONVERSIONS["trunc"], whole, narrow)
                self.result(CONVERSIONS["bitcast"], i.kind, narrow, name=i.result)
            else:
                self.result(CONVERSIONS["trunc"], i.kind, narrow, name=i.result)

    def _word_of_truth(self, value: int) -> int:
        return self.result(SELECT, I32, value, self.m.number(1), self.m.number(0))

    def _exchanged(self, value: int, thread: int, kind: Kind = I32, name: str = "") -> int:
        return self.result(SHUFFLE, kind, self.m.number(SUBGROUP), value, thread, name=name)

    def _exchange_long(self, i: TextInstruction, value: int, thread: int) -> None:
        floats = i.kind.element in FLOATS
        whole = self.result(CONVERSIONS["bitcast"], I64, value) if floats else value
        bits = self.m.number(32, "i64")
        upper = self.result(ARITHMETIC["lshr"], I64, whole, bits)
        low, high = (self._exchanged(self.result(113, I32, each), thread) for each in (whole, upper))
        low, high = (self.result(113, I64, each) for each in (low, high))
        moved = self.result(ARITHMETIC["shl"], I64, high, bits)
        if floats:
            joined = self.result(ARITHMETIC["or"], I64, low, moved)
            self.result(CONVERSIONS["bitcast"], i.kind, joined, name=i.result)
        else:
            self.result(ARITHMETIC["or"], I64, low, moved, name=i.result)


Translation = Callable[[InstructionWriter, TextInstruction], None]
OTHERS: dict[str, Translation] = {
    "fneg": InstructionWriter.negate,
    "icmp": InstructionWriter.compare,
    "fcmp": InstructionWriter.compare_floats,
    "select": InstructionWriter.select,
    "alloca": InstructionWriter.place,
    "load": InstructionWriter.load,
    "store": InstructionWriter.store,
    "getelementptr": InstructionWriter.address,
    "ptrtoint": InstructionWriter.number_of,
    "call": InstructionWriter.call,
}
CALLS: dict[str, Translation] = {
    **{f"llvm.{name}": InstructionWriter.mathematics for name in MATHEMATICS},
    "llvm.smin": InstructionWriter.extreme,
    "llvm.smax": InstructionWriter.extreme,
    "llvm.copysign": InstructionWriter.copy_sign,
    "llvm.fptosi": InstructionWriter.saturate,
    "llvm.fptoui": InstructionWriter.saturate,
    "nnc.pointer": InstructionWriter.pointer,
    "nnc.lane": InstructionWriter.lane,
    **{
        f"nnc.{each}.{what}": InstructionWriter.worker
        for each in ("worker", "workers")
        for what in ("thread", "subgroup", "group")
    },
    "nnc.thread": InstructionWriter.thread,
    "nnc.subgroup": InstructionWriter.subgroup,
    "nnc.wait": InstructionWriter.wait,
    "nnc.near": InstructionWriter.near,
    "nnc.meet": InstructionWriter.meet,
    "nnc.any": InstructionWriter.any,
    "nnc.shuffle": InstructionWriter.shuffle,
}
