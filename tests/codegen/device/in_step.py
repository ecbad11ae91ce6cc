"""Threads of a group run a kernel's text in NumPy: each register is an array with a number for each thread.

Threads that branch apart run block by block, the earliest first, and come together where their blocks do. So what warps
exchange, matrices that they multiply, and memory that a group shares are checked without a device.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import partial

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nnc.codegen.device.launch import DeviceKernel, DevicePhase, device_kernel
from nnc.codegen.device.spirv.assembler import float_pattern
from nnc.codegen.device.text import CASTS, Kind, ParsedFunction, ParsedModule, TextInstruction, TextOperand, parse
from nnc.codegen.device.warpgroups import WarpgroupProduct
from nnc.codegen.frame.kernel import Generator, words_of
from nnc.codegen.ir.target import TargetDescription

DTYPES = {
    "double": np.float64, "float": np.float32, "half": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
    "i8": np.int8, "i1": np.bool_, "ptr": np.int64,
}  # fmt: skip
ARITHMETIC = {
    "add": np.add, "fadd": np.add, "sub": np.subtract, "fsub": np.subtract, "mul": np.multiply, "fmul": np.multiply,
    "fdiv": np.divide, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
    "ashr": np.right_shift,
}  # fmt: skip
RELATIONS = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
    "sge": np.greater_equal,
    "oeq": np.equal, "une": np.not_equal, "olt": np.less, "ole": np.less_equal, "ogt": np.greater,
    "oge": np.greater_equal, "ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal,
}  # fmt: skip
MATHEMATICS = {
    "llvm.fabs": np.abs, "llvm.sqrt": np.sqrt, "llvm.floor": np.floor, "llvm.ceil": np.ceil, "llvm.trunc": np.trunc,
    "llvm.roundeven": np.rint, "llvm.smin": np.minimum, "llvm.smax": np.maximum, "llvm.copysign": np.copysign,
}  # fmt: skip
WARP = 32
Values = NDArray[np.generic]


def unsigned(values: Values) -> Values:
    return values.view(np.dtype(f"u{values.dtype.itemsize}")) if values.dtype.kind == "i" else values


def paired(kind: type, low: Values, high: Values) -> Values:
    """Two numbers as a word, the first in its low half."""
    return np.stack([low.astype(kind), high.astype(kind)], 1).view(np.int32)[:, 0]


SHORT_FORMS: dict[str, Callable[..., Values]] = {
    "nnc.bf16.f32": lambda x: x.astype(ml_dtypes.bfloat16).view(np.int16),
    "nnc.ratio.f32": np.divide,
    "nnc.power": np.exp2,
    "nnc.pair.bf16": partial(paired, ml_dtypes.bfloat16),
    "nnc.pair.f16": partial(paired, np.float16),
}


class Group:
    """One group of threads, and the memory that all share."""

    def __init__(self, module: ParsedModule, threads: int, memory: NDArray[np.uint8], number: int, groups: int) -> None:
        self.module, self.threads, self.memory = module, threads, memory
        self.number, self.groups = number, groups
        # What nobody has written is no number of any type.
        self.near = {
            name: np.full(array.array * array.size, 0x7F, np.uint8).view(DTYPES[array.element])
            for name, array in module.near.items()
        }
        self.tables: dict[str, int] = {}
        # Copies and products under way, sealed ones first: what happens when somebody waits for them.
        self.copies: list[list[Callable[[], None]]] = [[]]
        self.products: list[list[Callable[[], None]]] = [[]]

    def run(self, function: ParsedFunction, arguments: Sequence[Values], active: NDArray[np.bool_]) -> Values:
        """Run a function for the active threads; what it returns to them."""
        frame = _Frame(self, function, arguments, active)
        frame.run()
        return frame.result


class _Frame:
    def __init__(
        self, group: Group, function: ParsedFunction, arguments: Sequence[Values], active: NDArray[np.bool_]
    ) -> None:
        self.g, self.f = group, function
        self.values = {each.text: value for each, value in zip(function.arguments, arguments, strict=True)}
        self.slots: dict[str, Values] = {}
        self.places = {block.label: number for number, block in enumerate(function.blocks)}
        self.at = np.where(active, 0, len(function.blocks))
        self.before = np.zeros(group.threads, np.int64)
        self.active = active
        self.result: Values = np.zeros(group.threads, DTYPES.get(function.result.element, np.int64))

    def run(self) -> None:
        while (first := int(self.at.min())) < len(self.f.blocks):
            self.active = self.at == first
            for i in self.f.blocks[first].instructions:
                self._step(i, first)

    def value(self, operand: TextOperand) -> Values:
        kind, text = DTYPES[operand.kind.element], operand.text
        if text.startswith("%"):
            # What an earlier iteration would have set is asked for before the first one.
            return self.values.get(text, np.zeros(self.g.threads, kind))
        if text.startswith("@"):
            return np.full(self.g.threads, self.g.tables[text[1:]], kind)
        if text == "poison":
            return np.zeros(self.g.threads, kind)
        if operand.kind.element in ("double", "float", "half"):
            pattern = float_pattern(operand.kind.element, text)
            size = np.dtype(kind).itemsize
            return np.full(self.g.threads, np.frombuffer(pattern.to_bytes(size, "little"), kind)[0])
        number = {"true": 1, "false": 0, "null": 0}.get(text)
        return np.full(self.g.threads, int(text) if number is None else number).astype(kind)

    def _set(self, name: str, value: Values) -> None:
        old = self.values.get(name)
        self.values[name] = value if old is None or self.active.all() else np.where(self.active, value, old)

    def _step(self, i: TextInstruction, block: int) -> None:
        with np.errstate(all="ignore"):
            if i.opcode in ("br", "ret"):
                self._jump(i, block)
            elif i.opcode == "phi":
                pairs = list(zip(i.operands[::2], i.operands[1::2], strict=True))
                value = self.value(pairs[0][0])
                for other, label in pairs[1:]:
                    value = np.where(self.before == self.places[label.text], self.value(other), value)
                self._set(i.result, value)
            elif i.opcode == "call":
                self._call(i)
            elif i.opcode == "alloca":
                self.slots.setdefault(i.result, np.zeros(self.g.threads, DTYPES[i.kind.element]))
            elif i.opcode == "store":
                self._store(
                    i.operands[1].text,
                    self.value(i.operands[1]) if i.operands[1].text not in self.slots else None,
                    self.value(i.operands[0]),
                )
            elif i.opcode == "load":
                self._set(i.result, self._load(i.operands[0], i.kind))
            else:
                self._set(i.result, self._computed(i, [self.value(each) for each in i.operands]))

    def _jump(self, i: TextInstruction, block: int) -> None:
        self.before = np.where(self.active, block, self.before)
        if i.opcode == "ret":
            if i.operands:
                self.result = np.where(self.active, self.value(i.operands[0]), self.result)
            target: Values = np.full(self.g.threads, len(self.f.blocks))
        elif len(i.operands) == 1:
            target = np.full(self.g.threads, self.places[i.operands[0].text])
        else:
            condition, yes, no = i.operands
            target = np.where(self.value(condition), self.places[yes.text], self.places[no.text])
        self.at = np.where(self.active, target, self.at)

    def _computed(self, i: TextInstruction, values: list[Values]) -> Values:
        kind = DTYPES[i.kind.element]
        if i.opcode in ARITHMETIC:
            function = np.logical_xor if kind is np.bool_ and i.opcode == "add" else ARITHMETIC[i.opcode]
            return function(*values).astype(kind)
        if i.opcode in ("udiv", "urem", "lshr"):
            left, right = map(unsigned, values)
            function = {"udiv": np.floor_divide, "urem": np.remainder, "lshr": np.right_shift}[i.opcode]
            return function(left, np.where(self.active, right, right.dtype.type(1))).astype(left.dtype).view(kind)
        if i.opcode == "sdiv":
            return np.trunc(values[0] / np.where(self.active, values[1], 1)).astype(kind)
        if i.opcode == "fneg":
            return -values[0]
        if i.opcode == "icmp":
            left, right = map(unsigned, values) if i.detail[0] == "u" else values
            return RELATIONS[i.detail](left, right)
        if i.opcode == "fcmp":
            return np.isnan(values[0]) | np.isnan(values[1]) if i.detail == "uno" else RELATIONS[i.detail](*values)
        if i.opcode == "select":
            return np.where(*values)
        if i.opcode == "getelementptr":
            return values[0] + values[1].astype(np.int64) * Kind(i.detail).size
        assert i.opcode in CASTS, i.opcode
        return self._cast(i, values[0], kind)

    def _cast(self, i: TextInstruction, value: Values, kind: type) -> Values:
        if i.opcode == "bitcast":
            return value.view(kind)
        if i.opcode in ("zext", "uitofp") and value.dtype.kind == "i":
            return unsigned(value).astype(kind)
        if i.opcode == "trunc" and kind is np.bool_:
            return value & 1 != 0
        return value.astype(kind)

    # -- memory

    def _bytes(self, addresses: Values, size: int) -> NDArray[np.int64]:
        assert (addresses[self.active] % size == 0).all(), "misaligned"
        return np.where(self.active, addresses, 0)[:, None] + np.arange(size)

    def _load(self, place: TextOperand, kind: Kind) -> Values:
        if place.text in self.slots:
            return self.slots[place.text]
        return np.ascontiguousarray(self.g.memory[self._bytes(self.value(place), kind.size)]).view(
            DTYPES[kind.element]
        )[:, 0]

    def _store(self, name: str, addresses: Values | None, value: Values) -> None:
        if addresses is None:
            self.slots[name] = np.where(self.active, value, self.slots[name])
            return
        size = value.dtype.itemsize
        places = self._bytes(addresses, size)[self.active]
        self.g.memory[places] = np.ascontiguousarray(value[self.active]).view(np.uint8).reshape(-1, size)

    # -- calls

    def _call(self, i: TextInstruction) -> None:
        name = i.detail
        if name in self.g.module.functions:
            arguments = [self.value(each) for each in i.operands]
            result = self.g.run(self.g.module.functions[name], arguments, self.active)
            if i.result:
                self._set(i.result, result)
        elif name.startswith("nnc.near."):
            self._near(i)
        elif name.startswith("nnc.multiply."):
            self._multiply(i)
        elif name.startswith(("nnc.copies.", "nnc.products.")):
            assert self.active.all()
            self._order(*name.split(".")[1:])
        elif name == "nnc.store.aligned":
            assert (self.value(i.operands[0])[self.active] % 16 == 0).all()
            for number, word in enumerate(i.operands[1:]):
                self._store("", self.value(i.operands[0]) + 4 * number, self.value(word))
        elif name not in ("nnc.meet", "nnc.wait"):
            self._set(i.result, self._known(i, [self.value(each) for each in i.operands]))
        else:
            assert self.active.all() or name == "nnc.meet", "threads wait apart"

    def _order(self, kind: str, action: str, left: str = "0") -> None:
        """Seal what is under way, or do what is sealed but for the last `left`."""
        waiting = self.g.copies if kind == "copies" else self.g.products
        if action == "seal":
            waiting.append([])
        elif action == "wait":
            done = waiting[: len(waiting) - 1 - int(left)]
            del waiting[: len(done)]
            for step in (step for steps in done for step in steps):
                step()

    def _known(self, i: TextInstruction, values: list[Values]) -> Values:
        threads = np.arange(self.g.threads)
        name, kind = i.detail, DTYPES[i.kind.element]
        numbers = {"nnc.lane": threads % WARP, "nnc.thread": threads, "nnc.subgroup": threads // WARP}
        if name in numbers:
            return numbers[name].astype(np.int32)
        if name.startswith("llvm.nvvm.read.ptx.sreg."):
            known = {"tid": threads, "ntid": self.g.threads, "ctaid": self.g.number, "nctaid": self.g.groups}
            return np.broadcast_to(known[name.split(".")[5]], threads.shape).astype(np.int32)
        if name.startswith("nnc.worker"):
            per = {"thread": 1, "subgroup": WARP, "group": self.g.threads}[name.rpartition(".")[2]]
            each = self.g.threads // per
            if name.startswith("nnc.workers"):
                return np.full(self.g.threads, self.g.groups * each)
            return self.g.number * each + threads // per
        if name.startswith("nnc.shuffle"):
            assert self.active.reshape(-1, WARP).all(1)[self.active[::WARP]].all(), "a warp exchanges apart"
            return values[0][threads // WARP * WARP + values[1] % WARP]
        if name == "nnc.any":
            said = (values[0] & self.active).reshape(-1, WARP).any(1)
            return said[threads // WARP]
        if name == "nnc.pointer":
            return self._load(i.operands[0], Kind("i64"))
        if name in SHORT_FORMS:
            return SHORT_FORMS[name](*values)
        if name == "nnc.load.aligned":
            assert (values[0][self.active] % 16 == 0).all()
            return self._load(i.operands[0], Kind("i32"))
        if name.startswith("llvm.fma"):
            wide = [value.astype(np.float64 if kind is np.float32 else np.longdouble) for value in values]
            return (wide[0] * wide[1] + wide[2]).astype(kind)
        if name.startswith("llvm.fpto"):
            return self._saturated(values[0], kind, signed="fptosi" in name)
        return MATHEMATICS[".".join(name.split(".")[:2])](*values).astype(kind)

    def _saturated(self, value: Values, kind: type, *, signed: bool) -> Values:
        ends = np.iinfo(kind) if signed else np.iinfo(np.dtype(kind).str.replace("i", "u"))
        bounded = np.clip(np.trunc(np.nan_to_num(value, nan=0.0)).astype(np.float64), float(ends.min), float(ends.max))
        return np.array([min(max(int(each), ends.min), ends.max) for each in bounded]).astype(kind)

    def _near(self, i: TextInstruction) -> None:
        _, _, action, name = i.detail.split(".", 3)
        array, index = self.g.near[name], self.value(i.operands[0])
        safe = np.where(self.active, index, 0)
        if action == "load":
            self._set(i.result, array[safe])
        elif action == "store":
            array[index[self.active]] = self.value(i.operands[1])[self.active]
        elif action in ("fetch", "fetch_element"):
            size = 16 if action == "fetch" else 4
            self._fetch(array, index, self.value(i.operands[1]), self.value(i.operands[2]), size)
        elif action.startswith("warpgroup_"):
            self._multiply_together(
                array,
                WarpgroupProduct.of(action),
                index,
                self.value(i.operands[1]),
                [each.text for each in i.operands[2:]],
            )
        else:
            self._matrices(array, safe, [each.text for each in i.operands[1:]], turned=action == "turned")

    def _fetch(self, array: Values, index: Values, source: Values, nbytes: Values, size: int) -> None:
        """Read now, and written when it is waited for."""
        assert (index[self.active] % (size // 4) == 0).all()
        assert (source[self.active] % size == 0).all()
        assert ((nbytes >= 0) & (nbytes <= size))[self.active].all()
        places = np.where(self.active, source, 0)[:, None] + np.arange(size)
        content = np.where(np.arange(size) < nbytes[:, None], self.g.memory[places], 0).astype(np.uint8)[self.active]
        words, target = content.view(array.dtype), index[self.active][:, None] + np.arange(size // 4)

        def write() -> None:
            array[target] = words

        self.g.copies[-1].append(write)

    def _multiply_together(
        self, array: Values, product: WarpgroupProduct, left: Values, right: Values, slots: list[str]
    ) -> None:
        """Done when it is waited for, when operands must be what they were."""
        assert self.active.all()
        assert len(slots) == product.sums
        lines = (64, product.left_turned), (product.columns, product.right_turned)
        for first in range(0, self.g.threads, 4 * WARP):
            at = int(left[first]), int(right[first])
            sides = [self._laid_out(array, place, *line) for place, line in zip(at, lines, strict=True)]
            self.g.products[-1].append(partial(self._add_together, array, product, first, at, sides, lines, slots))

    def _add_together(
        self, array: Values, product: WarpgroupProduct, first: int, at: tuple[int, int], sides: list[Values],
        lines: tuple[tuple[int, bool], tuple[int, bool]], slots: list[str],
    ) -> None:  # fmt: skip
        for place, line, before in zip(at, lines, sides, strict=True):
            assert (self._laid_out(array, place, *line) == before).all(), "an operand was overwritten"
        total = self._halves(sides[0], product.element) @ self._halves(sides[1], product.element).T
        for number, slot in enumerate(slots):
            for warp in range(4):
                rows = total[16 * warp + number % 4 // 2 * 8 :, number // 4 * 8 + number % 2 :][:8, :8:2]
                mine = slice(first + warp * WARP, first + warp * WARP + WARP)
                self.slots[slot][mine] += rows.ravel().astype(np.float32)

    def _laid_out(self, array: Values, place: int, lines: int, turned: bool) -> Values:
        """lines x 16 elements of an operand that begins at a byte, as its rows of 128 bytes have them."""
        assert place % 16 == 0
        line, step = np.meshgrid(np.arange(lines), np.arange(16), indexing="ij")
        row, column = (line // 64 * 64 + step, line % 64) if turned else (line, step)
        at = place + 128 * row + 2 * column
        at ^= at // 128 % 8 * 16
        return array.view(np.uint16)[at // 2]

    @staticmethod
    def _halves(halves: Values, element: str) -> NDArray[np.float64]:
        if element == "bf16":
            return (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return halves.view(np.float16).astype(np.float64)

    def _matrices(self, array: Values, index: Values, slots: list[str], *, turned: bool) -> None:
        assert self.active.all()
        assert (index % 4 == 0).all()
        halves = array.view(np.uint16)
        for first in range(0, self.g.threads, WARP):
            for number in range(4):
                rows = index[first + 8 * number : first + 8 * number + 8]
                matrix = np.stack([halves[2 * row : 2 * row + 8] for row in rows])
                matrix = np.ascontiguousarray(matrix.T if turned else matrix)
                self.slots[slots[number]][first : first + WARP] = matrix.view(np.int32).ravel()

    def _multiply(self, i: TextInstruction) -> None:
        assert self.active.all()
        words = [self.value(each) for each in i.operands[:6]]
        sums = [self.slots[each.text] for each in i.operands[6:]]
        for first in range(0, self.g.threads, WARP):
            mine = slice(first, first + WARP)
            corners = [self._matrix(word[mine], i.detail) for word in words]
            left = np.block([[corners[0], corners[2]], [corners[1], corners[3]]])
            right = np.hstack([corners[4], corners[5]]).T
            total = left @ right
            for place, each in enumerate(sums):
                rows = total[place // 2 * 8 : place // 2 * 8 + 8, place % 2 :: 2]
                each[mine] += rows.ravel().astype(np.float32)

    def _matrix(self, words: Values, name: str) -> NDArray[np.float64]:
        return self._halves(np.ascontiguousarray(words).view(np.uint16).reshape(8, 8), name.rpartition(".")[2])


# Bytes behind each operand that nobody may write, and what is in those of the first; of the next it is one more:
# what is read behind one operand and written behind another shows.
BEHIND, MARK = 4096, 0xA0


def run(generator: Generator, target: TargetDescription, operands: Sequence[Values]) -> DeviceKernel:
    """Run all phases on contiguous operands, inputs and then results."""
    kernel = device_kernel(generator, target, "kernel")
    # Of some arrays the launch says the size, in words.
    near = max(phase.near for phase in kernel.phases) // 4
    sized = rf"internal addrspace(3) global [{near} x \1] undef, align 1024"
    text = re.sub(r"external addrspace\(3\) global \[0 x (\w+)\], align 1024", sized, kernel.text)
    text = re.sub(r"define internal [^\n]* @nnc\.(?!high)[^\n]*\{\n.*?\n\}\n", "", text, flags=re.DOTALL)
    module = parse(
        text.replace("ptx_kernel ", "").replace("#1 {", "#0 {").replace("#2 {", "#0 {").replace("#3 {", "#0 {")
    )
    memory = np.zeros(1 << 22, np.uint8)
    end = 64

    def place(size: int) -> int:
        nonlocal end
        start, end = end, (end + size + 255) // 256 * 256
        return start

    addresses = [place(max(each.nbytes, 16) + BEHIND) for each in operands]
    for number, (start, each) in enumerate(zip(addresses, operands, strict=True)):
        memory[start : start + each.nbytes] = np.ascontiguousarray(each).view(np.uint8).ravel() if each.nbytes else ()
        memory[start + each.nbytes :][:BEHIND] = MARK + number
    workspace = generator.workspace(target)
    words = [0, *addresses, *([place(workspace)] if workspace else ()), *words_of(generator)]
    table = place(8 * len(words))
    memory[table : table + 8 * len(words)] = np.frombuffer(struct.pack(f"<{len(words)}q", *words), np.uint8)
    tables = {}
    for name, numbers in module.tables.items():
        tables[name] = place(8 * len(numbers))
        memory[tables[name] : tables[name] + 8 * len(numbers)] = np.array(numbers, np.int64).view(np.uint8)
    for phase in kernel.phases:
        _launch(module, phase, memory, tables, table + 8, place(phase.scratch * phase.workers * min(phase.groups, 2)))
    for number, (start, each) in enumerate(zip(addresses, operands, strict=True)):
        assert (memory[start + each.nbytes :][:BEHIND] == MARK + number).all(), "written behind an operand's end"
        each[...] = memory[start : start + each.nbytes].view(each.dtype).reshape(each.shape)
    return kernel


def _launch(
    module: ParsedModule,
    phase: DevicePhase,
    memory: NDArray[np.uint8],
    tables: dict[str, int],
    table: int,
    scratch: int,
) -> None:
    groups = min(phase.groups, 2)
    for number in range(groups):
        group = Group(module, phase.threads, memory, number, groups)
        group.tables = tables
        words = (table, phase.first, phase.items, scratch, phase.scratch)
        arguments = [np.full(phase.threads, word, np.int64) for word in words]
        group.run(module.functions[phase.entry], arguments, np.ones(phase.threads, np.bool_))
