"""Registers that hold vectors: what each thread has, elementwise instructions, exchanges, and bits as other types."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.codegen.device.lanes import SUFFIXES, LaneWriter, Place, zero_of
from nnc.codegen.device.text import CASTS, I1, I64, Kind, TextInstruction, TextOperand, split

BINARY = frozenset(
    {
        "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "and", "or", "xor", "shl", "lshr", "ashr",
        "fadd", "fsub", "fmul", "fdiv", "frem",
    }
)  # fmt: skip


class VectorWriter(LaneWriter):
    """Writes instructions on vectors as those of one thread."""

    def __init__(self, threads: int, tables: dict[str, tuple[int, ...]]) -> None:
        super().__init__(threads, tables)
        self.registers: dict[str, list[str]] = {}
        # Vectors whose elements are all one; votes, by what stands for their bits; words of 128 bits as two.
        self.uniform: set[str] = set()
        self.votes: dict[str, str] = {}
        self.pairs: dict[str, tuple[str, str]] = {}

    # -- operands

    def count(self, kind: Kind) -> int:
        """Registers of a thread for a vector."""
        return -(-kind.lanes // self.threads)

    def parts(self, operand: TextOperand) -> list[str]:
        """What this thread has of an operand."""
        kind, text = operand.kind, operand.text
        if not kind.lanes:
            return [text]
        if text.startswith("%"):
            return self.registers[text]
        if text.startswith("splat"):
            return [text[text.index("(") + 1 : -1].split(" ", 1)[1]] * self.count(kind)
        if text == "zeroinitializer":
            return [zero_of(kind)] * self.count(kind)
        if text == "poison":
            return ["poison"] * self.count(kind)
        values = [int(part.split()[1]) for part in split(text[1:-1])]
        return [
            self.lanewise(values[place : place + self.threads], kind.one)
            for place in range(0, len(values), self.threads)
        ]

    def is_uniform(self, operand: TextOperand) -> bool:
        """Whether all elements of a vector are one."""
        return operand.text in self.uniform or operand.text.startswith(("splat", "zero", "poison"))

    # -- elementwise

    def elementwise(self, i: TextInstruction) -> None:
        """One instruction for each register, with the parts of its vectors."""
        vector = i.kind if i.kind.lanes else next((each.kind for each in i.operands if each.kind.lanes), i.kind)
        if not vector.lanes:
            self.lines.append(self.written(i, i.result, [each.text for each in i.operands]))
            return
        parts = [self.parts(each) for each in i.operands]
        names = []
        for register in range(self.count(vector)):
            texts = [
                part[register] if each.kind.lanes else part[0] for part, each in zip(parts, i.operands, strict=True)
            ]
            names.append(f"{i.result}_{register}")
            self.lines.append(self.written(i, names[-1], texts))
        self.registers[i.result] = names
        if all(self.is_uniform(each) for each in i.operands if each.kind.lanes):
            self.uniform.add(i.result)

    def written(self, i: TextInstruction, result: str, texts: Sequence[str]) -> str:
        """An instruction on single elements."""
        kinds = [each.kind.one if each.kind.lanes else each.kind for each in i.operands]
        if i.opcode in ("icmp", "fcmp"):
            body = f"{i.opcode} {i.detail} {kinds[0]} {texts[0]}, {texts[1]}"
        elif i.opcode in CASTS:
            body = f"{i.opcode} {kinds[0]} {texts[0]} to {i.kind.one}"
        elif i.opcode == "getelementptr":
            body = f"getelementptr {i.detail}, ptr {texts[0]}, {kinds[1]} {texts[1]}"
        elif i.opcode in ("fneg", "ret"):
            body = f"{i.opcode} {kinds[0]} {texts[0]}" if kinds else "ret void"
        elif i.opcode == "select":
            body = "select " + ", ".join(f"{kind} {text}" for kind, text in zip(kinds, texts, strict=True))
        else:
            assert i.opcode in BINARY, i.opcode
            flags = f" {i.detail}" if i.detail else ""
            body = f"{i.opcode}{flags} {kinds[0]} {texts[0]}, {texts[1]}"
        return f"{result} = {body}" if result else body

    def compare(self, i: TextInstruction) -> None:
        """A vote is compared with 0, which is the vote."""
        vote = self.votes.get(i.operands[0].text)
        if vote is None:
            self.elementwise(i)
        else:
            self.new(f"icmp {i.detail} i32 {vote}, 0", i.result)

    def inside(self, kind: Kind) -> list[str]:
        """For each register which threads hold an element; empty for all."""
        rest = kind.lanes % self.threads
        if not rest:
            return [""] * self.count(kind)
        return [*[""] * (self.count(kind) - 1), self.new(f"icmp ult i32 {self.lane()}, {rest}")]

    # -- exchanges

    def _places(self, operand: TextOperand) -> list[Place]:
        """Where each element of a vector is."""
        parts = self.parts(operand)
        return [(parts[e // self.threads], e % self.threads) for e in range(operand.kind.lanes)]

    def shuffle(self, i: TextInstruction) -> None:
        """out[i] = (left ++ right)[mask[i]]"""
        left, right, mask = i.operands
        if mask.text == "zeroinitializer" and self.is_uniform(left):
            self.registers[i.result] = [self.parts(left)[0]] * self.count(i.kind)
            self.uniform.add(i.result)
            return
        wanted: list[int | None] = [0] * i.kind.lanes
        if mask.text != "zeroinitializer":
            texts = [part.split()[1] for part in split(mask.text[1:-1])]
            wanted = [None if text == "poison" else int(text) for text in texts]
        places = [*self._places(left), *(self._places(right) if right.text != "poison" else ())]
        self.registers[i.result] = self.permuted(i.kind.one, [None if w is None else places[w] for w in wanted])

    def extract(self, i: TextInstruction) -> None:
        """An element, for all threads."""
        vector, index = i.operands
        parts, kind = self.parts(vector), vector.kind.one
        if not index.text.startswith("%"):
            place = int(index.text)
            part, thread = parts[place // self.threads], str(place % self.threads)
        else:
            part, thread = self._chosen_register(kind, parts, index.text)
        value = part if self.is_uniform(vector) else self.shuffled(kind, part, thread)
        self.copy(i.result, kind, value)

    def _chosen_register(self, kind: Kind, parts: Sequence[str], index: str) -> tuple[str, str]:
        chosen = parts[0]
        for register, part in enumerate(parts[1:], 1):
            behind = self.new(f"icmp uge i64 {index}, {register * self.threads}")
            chosen = self.new(f"select i1 {behind}, {kind} {part}, {kind} {chosen}")
        low = self.new(f"and i64 {index}, {self.threads - 1}")
        return chosen, self.new(f"trunc i64 {low} to i32")

    def insert(self, i: TextInstruction) -> None:
        """The vector with one element replaced; of nothing, a vector of nothing but this."""
        vector, element, index = i.operands
        if vector.text == "poison":
            self.registers[i.result] = [element.text] * self.count(i.kind)
            self.uniform.add(i.result)
            return
        parts, place = list(self.parts(vector)), int(index.text)
        register, kind = place // self.threads, i.kind.one
        if self.threads > 1:
            mine = self.new(f"icmp eq i32 {self.lane()}, {place % self.threads}")
            parts[register] = self.new(f"select i1 {mine}, {kind} {element.text}, {kind} {parts[register]}")
        else:
            parts[register] = element.text
        self.registers[i.result] = parts

    # -- bits

    def cast(self, i: TextInstruction) -> None:
        """Conversions; bits of vectors as other vectors, truth values as a vote, products of 128 bits as two words."""
        source = i.operands[0]
        if "i128" in (i.kind.element, source.kind.element) and not source.kind.lanes:
            self._wide(i)
        elif i.opcode != "bitcast" or source.kind.lanes == i.kind.lanes:
            if i.opcode == "bitcast" and source.kind == i.kind:
                self._same(i)
            else:
                self.elementwise(i)
        elif source.kind.element == "i1":
            self._vote(i.result, source)
        elif i.kind.size < source.kind.size:
            self._narrowed(i, source)
        else:
            self._widened(i, source)

    def _same(self, i: TextInstruction) -> None:
        source = i.operands[0]
        if i.kind.lanes:
            self.registers[i.result] = self.parts(source)
            if self.is_uniform(source):
                self.uniform.add(i.result)
        else:
            self.copy(i.result, i.kind, source.text)

    def _vote(self, result: str, source: TextOperand) -> None:
        votes = []
        for bound, part in zip(self.inside(source.kind), self.parts(source), strict=True):
            votes.append(self.new(f"and i1 {bound}, {part}") if bound else part)
        vote_of_all = votes[0]
        for vote in votes[1:]:
            vote_of_all = self.new(f"or i1 {vote_of_all}, {vote}")
        if self.threads > 1:
            vote_of_all = self.call(I1, "nnc.any", ((I1, vote_of_all),))
        self.votes[result] = self.new(f"zext i1 {vote_of_all} to i32")

    def _narrowed(self, i: TextInstruction, source: TextOperand) -> None:
        """Element j is part j mod k of element j // k."""
        parts, bits = source.kind.size // i.kind.size, 8 * i.kind.size
        held = self._places(source)
        moved = self.permuted(source.kind.one, [held[e // parts] for e in range(i.kind.lanes)])
        names = []
        for register, text in enumerate(moved):
            first = register * self.threads
            shifts: list[int | None] = [e % parts * bits for e in range(first, first + self.threads)]
            kind = source.kind.one
            shifted = self.new(f"lshr {kind} {text}, {self.lanewise(shifts, kind)}")
            narrow = self.new(f"trunc {kind} {shifted} to i{8 * i.kind.size}")
            floats = i.kind.element in SUFFIXES
            names.append(self.new(f"bitcast i{8 * i.kind.size} {narrow} to {i.kind.one}") if floats else narrow)
        self.registers[i.result] = names

    def _widened(self, i: TextInstruction, source: TextOperand) -> None:
        """Element j is made of k elements from j * k on, the lowest bits first."""
        parts, bits, kind = i.kind.size // source.kind.size, 8 * source.kind.size, i.kind.one
        held, lanes = self._places(source), i.kind.lanes or 1
        total = [""] * -(-lanes // self.threads)
        for part in range(parts):
            for register, text in enumerate(
                self.permuted(source.kind.one, [held[e * parts + part] for e in range(lanes)])
            ):
                wide = self.new(f"zext {source.kind.one} {text} to {kind}")
                wide = self.new(f"shl {kind} {wide}, {part * bits}") if part else wide
                total[register] = self.new(f"or {kind} {total[register]}, {wide}") if part else wide
        if i.kind.lanes:
            self.registers[i.result] = total
        else:
            self.copy(i.result, kind, self.shuffled(kind, total[0], "0"))

    def _wide(self, i: TextInstruction) -> None:
        """zext to 128 bits and trunc from them."""
        source = i.operands[0]
        if i.opcode == "zext":
            self.pairs[i.result] = (source.text, "0")
        else:
            self.copy(i.result, i.kind, self.pairs[source.text][0])

    def binary(self, i: TextInstruction) -> None:
        """Products and shifts of 128 bits by words; the rest elementwise."""
        if i.kind.element != "i128" or i.kind.lanes:
            self.elementwise(i)
            return
        left, right = i.operands
        if i.opcode == "mul":
            low, _ = self.pairs[left.text]
            factor = self.pairs.get(right.text, (right.text, "0"))[0]
            high = self.call(I64, "nnc.high.product", ((I64, low), (I64, factor)))
            self.pairs[i.result] = (self.new(f"mul i64 {low}, {factor}"), high)
            return
        assert i.opcode == "lshr", i.opcode
        low, high = self.pairs[left.text]
        bits = int(right.text)
        if bits < 64:
            rest, kept = self.new(f"lshr i64 {low}, {bits}"), self.new(f"shl i64 {high}, {64 - bits}")
            self.pairs[i.result] = (self.new(f"or i64 {rest}, {kept}"), self.new(f"lshr i64 {high}, {bits}"))
        else:
            self.pairs[i.result] = (high, "0")
