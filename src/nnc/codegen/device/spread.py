"""Vectors over threads: a function of vectors becomes one of numbers, run by `threads` threads in step.

    %z = fadd <32 x float> %x, %y        %z_0 = fadd float %x_0, %y_0
    fold of %z                           exchanges between threads, and additions

Element i of a vector is in thread i mod threads, in its register i // threads; threads behind the last element hold
anything. What is no vector is the same in all threads, so they branch alike. One thread alone holds all elements.

The text that is written knows four functions more, which each kind of device has: `nnc.lane` is the number of a thread
among those in step, `nnc.shuffle.T(x, lane)` the x of another one, `nnc.any` whether one thread says so, and `nnc.meet`
waits until all see what each has written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from nnc.codegen.device.bounds import BOUNDED, HEAD_WORDS, code_of, operand_of_root
from nnc.codegen.device.lanes import zero_of
from nnc.codegen.device.text import (
    CASTS,
    I64,
    POINTER,
    VOID,
    Kind,
    ParsedFunction,
    TextBlock,
    TextInstruction,
    TextOperand,
)
from nnc.codegen.device.vectors import VectorWriter
from nnc.codegen.device.visibility import Visibility

# Nothing that a kernel's result follows from.
DROPPED = ("llvm.prefetch", "llvm.fake.use")
_LANES_OF_NAME = re.compile(r"\.v\d+([if]\d+|p0)")
TRUE = ("1", "true", "-1")


class Spreader(VectorWriter):
    """Writes one function anew."""

    def __init__(
        self, function: ParsedFunction, threads: int, frame: int, tables: dict[str, tuple[int, ...]], *,
        bounded: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(threads, tables)
        self.function = function
        # Where the function's own memory begins in the scratch, and how far it goes.
        self.frame, self.frame_end = frame, frame
        self.slots: dict[str, list[str]] = {}
        self.tail: dict[str, str] = {}
        self.label = ""
        roots = Visibility.of(function) if threads > 1 or bounded else None
        self.order = roots if threads > 1 else None
        self.roots = roots if bounded else None

    # -- text

    def write(self) -> str:
        """The function's text."""
        for block in self.function.blocks:
            self._block(block)
        arguments = ", ".join(f"{each.kind} {each.text}" for each in self.function.arguments)
        body: list[str] = []
        for line in self.lines:
            body.append(self._joined(line) if " = phi " in line else line)
            if line == f"{self.function.blocks[0].label}:":
                body += self.head
        return f"define internal {self.function.result} @{self.function.name}({arguments}) #0 {{\n" + "\n".join(
            [*body, "}"]
        )

    def _joined(self, line: str) -> str:
        """A phi whose predecessors end under other labels now."""
        return re.sub(r"%([\w.]+) \]", lambda match: f"%{self.tail.get(match[1], match[1])} ]", line)

    def _block(self, block: TextBlock) -> None:
        self.label = block.label
        self.lines.append(f"{block.label}:")
        for instruction in block.instructions:
            self._instruction(instruction)
        self.tail[block.label] = self.label

    def _instruction(self, i: TextInstruction) -> None:
        if i.opcode in ("br", "ret") and self.order is not None and self.order.pending:
            self._meet()
        handler = HANDLERS.get(i.opcode)
        if handler is not None:
            handler(self, i)
        else:
            self.elementwise(i)

    def _meet(self) -> None:
        assert self.order is not None
        self.order.pending = ""
        self.call(VOID, "nnc.meet", ())

    # -- memory of a function

    def place(self, i: TextInstruction) -> None:
        """A variable, or an array in the worker's own memory."""
        if i.kind.array:
            self.lines.append(f"{i.result} = getelementptr i8, ptr %scratch, i64 {self.frame_end}")
            self.frame_end += -(-i.kind.array * i.kind.size // 64) * 64
        elif i.kind.lanes:
            self.slots[i.result] = [f"{i.result}_{register}" for register in range(self.count(i.kind))]
            self.lines += [f"{name} = alloca {i.kind.one}" for name in self.slots[i.result]]
        else:
            self.slots[i.result] = [i.result]
            self.lines.append(f"{i.result} = alloca {i.kind}")

    def load(self, i: TextInstruction) -> None:
        """A variable, or memory: thread i reads element i."""
        (place,) = i.operands
        if place.text in self.slots:
            names = [i.result] if not i.kind.lanes else [f"{i.result}_{r}" for r in range(len(self.slots[place.text]))]
            for name, slot in zip(names, self.slots[place.text], strict=True):
                self.new(f"load {i.kind.one if i.kind.lanes else i.kind}, ptr {slot}", name)
            self.registers[i.result] = names
            return
        self._before("read", place.text)
        if i.kind.lanes:
            inside = self.inside(i.kind)
            addresses = self._within(place, self._addresses(place.text, i.kind), inside, i.kind)
            self._read(i.result, i.kind, addresses, inside, self._alignment(i))
        elif i.kind == POINTER:
            self.call(POINTER, "nnc.pointer", ((POINTER, place.text),), i.result)
        else:
            (address,) = self._within(place, [place.text], [""], i.kind)
            self.read(i.kind, address, i.result, self._alignment(i))

    def store(self, i: TextInstruction) -> None:
        """A variable, or memory: thread i writes element i."""
        value, place = i.operands[:2]
        if place.text in self.slots:
            kind = value.kind.one if value.kind.lanes else value.kind
            for text, slot in zip(self.parts(value), self.slots[place.text], strict=True):
                self.lines.append(f"store {kind} {text}, ptr {slot}")
            return
        self._before("write", place.text)
        if value.kind.lanes:
            inside = self.inside(value.kind)
            addresses = self._within(place, self._addresses(place.text, value.kind), inside, value.kind, written=True)
            self._write(value, addresses, inside, self._alignment(i))
        else:
            (address,) = self._within(place, [place.text], [""], value.kind, written=True)
            self.put(value.kind, value.text, address, self._alignment(i))

    @staticmethod
    def _alignment(i: TextInstruction) -> int:
        """Of an access to memory."""
        return int(i.detail or 1)

    def _before(self, action: str, pointer: str) -> None:
        """Threads see what others wrote, and write what others have read.

        Of two vectors that overlap, as where less than a register counts, the second is what stays: it waits as well.
        """
        if self.order is not None and self.order.matters(pointer):
            if self.order.pending and (action == "write" or self.order.pending != action):
                self._meet()
            self.order.pending = action

    def _addresses(self, pointer: str, kind: Kind) -> Sequence[str]:
        addresses = []
        for register in range(self.count(kind)):
            first = register * self.threads
            if self.threads == 1:
                index = str(first)
            else:
                index = self.lane(I64) if not first else self.new(f"add i64 {self.lane(I64)}, {first}")
            addresses.append(self.new(f"getelementptr {kind.element}, ptr {pointer}, i64 {index}"))
        return addresses

    def _within(
        self, pointer: TextOperand, addresses: Sequence[str], active: Sequence[str], kind: Kind, *,
        written: bool = False,
    ) -> Sequence[str]:  # fmt: skip
        """The addresses, of which those that leave the pointer's operand are replaced where that is checked."""
        operand = None if self.roots is None else operand_of_root(self.roots.root(pointer.text))
        if operand is None:
            return addresses
        places, code = HEAD_WORDS + 2 * operand, code_of(operand, kind.size, written=written)
        checked = []
        for address, condition in zip(addresses, active, strict=True):
            size = self.new(f"select i1 {condition}, i64 {kind.size}, i64 0") if condition else str(kind.size)
            given = ((POINTER, "%args"), (POINTER, address), (I64, str(places)), (I64, str(code)), (I64, size))
            checked.append(self.call(POINTER, BOUNDED, given))
        return checked

    def _read(self, result: str, kind: Kind, addresses: Sequence[str], active: Sequence[str], whole: int) -> None:
        """Threads that have nothing to read look at the table of arguments, and hold 0."""
        names = []
        safe = next(each.text for each in self.function.arguments if each.kind == POINTER)
        for register, (address, condition) in enumerate(zip(addresses, active, strict=True)):
            names.append(f"{result}_{register}")
            alignment = self._alignment_of(kind, register, whole)
            if condition:
                chosen = self.new(f"select i1 {condition}, ptr {address}, ptr {safe}")
                value = self.read(kind.one, chosen, "", alignment)
                self.new(f"select i1 {condition}, {kind.element} {value}, {kind.element} {zero_of(kind)}", names[-1])
            else:
                self.read(kind.one, address, names[-1], alignment)
        self.registers[result] = names

    def _write(self, value: TextOperand, addresses: Sequence[str], active: Sequence[str], whole: int) -> None:
        kind, places = value.kind, zip(self.parts(value), addresses, active, strict=True)
        for register, (text, address, condition) in enumerate(places):
            with self._when(condition):
                self.put(kind.one, text, address, self._alignment_of(kind, register, whole))

    def _alignment_of(self, kind: Kind, register: int, whole: int) -> int:
        """What an element of a vector is aligned to, of which the `whole` is; one thread alone knows where it is."""
        if whole < kind.size:
            return whole
        return math.gcd(whole, register * kind.size) if self.threads == 1 else kind.size

    @contextmanager
    def _when(self, condition: str) -> Iterator[None]:
        """if condition: ...; always where there is none"""
        if not condition:
            yield
            return
        self._count += 1
        body, end = f"t{self._count}", f"e{self._count}"
        self.lines += [f"br i1 {condition}, label %{body}, label %{end}", f"{body}:"]
        yield
        self.lines += [f"br label %{end}", f"{end}:"]
        self.label = end

    def _masked(self, mask: TextOperand, kind: Kind) -> list[str]:
        """For each register which threads take part; empty for all."""
        inside, parts = self.inside(kind), self.parts(mask)
        conditions = []
        for bound, part in zip(inside, parts, strict=True):
            if part in TRUE:
                conditions.append(bound)
            else:
                conditions.append(self.new(f"and i1 {bound}, {part}") if bound else part)
        return conditions

    # -- control and calls

    def jump(self, i: TextInstruction) -> None:
        """Threads branch alike."""
        if len(i.operands) == 1:
            self.lines.append(f"br label %{i.operands[0].text}")
        else:
            condition, yes, no = i.operands
            self.lines.append(f"br i1 {condition.text}, label %{yes.text}, label %{no.text}")

    def phi(self, i: TextInstruction) -> None:
        """Of indices alone."""
        pairs = zip(i.operands[::2], i.operands[1::2], strict=True)
        text = ", ".join(f"[ {value.text}, %{label.text} ]" for value, label in pairs)
        self.lines.append(f"{i.result} = phi {i.kind} {text}")

    def opaque(self, i: TextInstruction) -> None:
        """A pointer as it is."""
        self.new(f"getelementptr i8, ptr {i.operands[0].text}, i64 0", i.result)

    def called(self, i: TextInstruction) -> None:
        """Vectors from and to memory; functions, for each register."""
        name = i.detail
        if name.startswith(DROPPED):
            return
        if name.startswith("llvm.masked."):
            self._memory(i, name.split(".")[2])
            return
        vector = i.kind if i.kind.lanes else None
        single = _LANES_OF_NAME.sub(r".\1", name)
        parts = [self.parts(each) for each in i.operands]
        kinds = [each.kind.one if each.kind.lanes else each.kind for each in i.operands]
        if vector is None:
            if any(kind == POINTER for kind in kinds) and self.order is not None and self.order.pending:
                self._meet()
            self.call(i.kind, single, [(k, p[0]) for k, p in zip(kinds, parts, strict=True)], i.result)
            return
        names = []
        for register in range(self.count(vector)):
            texts = [p[register] if each.kind.lanes else p[0] for p, each in zip(parts, i.operands, strict=True)]
            names.append(self.call(vector.one, single, list(zip(kinds, texts, strict=True))))
        self.registers[i.result] = names
        if all(self.is_uniform(each) for each in i.operands if each.kind.lanes):
            self.uniform.add(i.result)

    def _memory(self, i: TextInstruction, action: str) -> None:
        """Masked loads and stores, gathers and scatters."""
        if action in ("load", "gather"):
            place, mask = i.operands[0], i.operands[2]
            self._before("read", place.text)
            addresses = self._addresses(place.text, i.kind) if action == "load" else self.parts(place)
            active = self._masked(mask, i.kind)
            addresses = self._within(place, addresses, active, i.kind)
            self._read(i.result, i.kind, addresses, active, int(i.operands[1].text))
        else:
            value, place, mask = i.operands[0], i.operands[1], i.operands[3]
            self._before("write", place.text)
            addresses = self._addresses(place.text, value.kind) if action == "store" else self.parts(place)
            active = self._masked(mask, value.kind)
            addresses = self._within(place, addresses, active, value.kind, written=True)
            self._write(value, addresses, active, int(i.operands[2].text))


Handler = Callable[[Spreader, TextInstruction], None]
HANDLERS: dict[str, Handler] = {
    "alloca": Spreader.place, "load": Spreader.load, "store": Spreader.store, "shufflevector": Spreader.shuffle,
    "extractelement": Spreader.extract, "insertelement": Spreader.insert, "br": Spreader.jump, "phi": Spreader.phi,
    "call": Spreader.called, "opaque": Spreader.opaque, "icmp": Spreader.compare,
    **dict.fromkeys(CASTS, Spreader.cast), **dict.fromkeys(("mul", "lshr"), Spreader.binary),
}  # fmt: skip
