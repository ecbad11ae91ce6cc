"""Numbers of threads: a constant vector, as each of `threads` threads computes its own element from its number.

pattern_of([3, 4, 5, 6])     value = lane + 3
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.device.text import I32, I64, VOID, Kind

Places = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class LanePattern:
    """value = ((lane >> right) << left) * step + base, and then the bits of `mask`; 0 is no mask."""

    base: int
    step: int = 1
    right: int = 0
    left: int = 0
    mask: int = 0

    def at(self, lane: int) -> int:
        """The value of a lane."""
        value = ((lane >> self.right) << self.left) * self.step + self.base
        return value & self.mask if self.mask else value


def affine(values: Places) -> LanePattern | None:
    """value = base + step * lane for those that are asked for"""
    asked = [(lane, value) for lane, value in enumerate(values) if value is not None]
    if not asked:
        return LanePattern(0, 0)
    (lane, value), (last, final) = asked[0], asked[-1]
    step = (final - value) // (last - lane) if last > lane else 0
    pattern = LanePattern(value - step * lane, step)
    return pattern if all(pattern.at(place) == each for place, each in asked) else None


def pattern_of(values: Places) -> LanePattern | None:
    """What gives the numbers of threads, None where they follow no rule that is known here; `None` is any number."""
    if (pattern := affine(values)) is not None:
        return pattern
    size = len(values)
    asked = [(lane, value) for lane, value in enumerate(values) if value is not None]
    first, start = asked[0]
    for right, left in [(0, 0), *((k, 0) for k in range(1, 6)), *((0, k) for k in range(1, 6))]:
        base = start - ((first >> right) << left)
        for mask in (0, size - 1):
            pattern = LanePattern(base % size if mask else base, 1, right, left, mask)
            if all(pattern.at(lane) == value for lane, value in asked):
                return pattern
    return None


SUFFIXES = {"double": "f64", "float": "f32", "half": "f16"}
# Which element of which register: a thread's text and the number of the thread that holds it.
Place = tuple[str, int] | None


def suffix(kind: Kind) -> str:
    """How a type is written in the names of functions: f32."""
    return SUFFIXES.get(kind.element, kind.element)


def zero_of(kind: Kind) -> str:
    """0 of one element, as it is written."""
    return {"double": "0x0000000000000000", "float": "0x0000000000000000", "half": "0xH0000", "ptr": "null"}.get(
        kind.element, "0"
    )


class LaneWriter:
    """Writes instructions of one thread of `threads`, and what threads exchange."""

    def __init__(self, threads: int, tables: dict[str, tuple[int, ...]]) -> None:
        self.threads, self.tables = threads, tables
        self.lines: list[str] = []
        # Instructions of the function's beginning.
        self.head: list[str] = []
        self.declared: dict[str, str] = {}
        self._count = 0
        self._lane = ""

    def new(self, text: str, name: str = "") -> str:
        """Write an instruction; the name of its result."""
        if not name:
            self._count += 1
            name = f"%s{self._count}"
        self.lines.append(f"{name} = {text}")
        return name

    def call(self, kind: Kind, name: str, operands: Sequence[tuple[Kind, str]], result: str = "") -> str:
        """Write a call of a function that is declared."""
        self.declared[name] = f"declare {kind} @{name}({', '.join(str(each) for each, _ in operands)})"
        body = ", ".join(f"{each} {text}" for each, text in operands)
        if kind == VOID:
            self.lines.append(f"call void @{name}({body})")
            return ""
        return self.new(f"call {kind} @{name}({body})", result)

    def lane(self, kind: Kind = I32) -> str:
        """The number of this thread."""
        if not self._lane:
            self._lane = "%lane"
            self.declared["nnc.lane"] = "declare i32 @nnc.lane()"
            self.head += ["%lane = call i32 @nnc.lane()", "%lane_wide = zext i32 %lane to i64"]
        if kind == I32:
            return "%lane"
        return "%lane_wide" if kind == I64 else self.new(f"trunc i32 %lane to {kind}")

    def lanewise(self, values: Sequence[int | None], kind: Kind) -> str:
        """The number of these that is this thread's."""
        pattern = pattern_of(values)
        if self.threads == 1 or (pattern is not None and not pattern.step):
            return str(next((value for value in values if value is not None), 0))
        if pattern is None:
            return self._looked_up(values, kind)
        text = self.lane(kind)
        if pattern.right:
            text = self.new(f"lshr {kind} {text}, {pattern.right}")
        if pattern.left:
            text = self.new(f"shl {kind} {text}, {pattern.left}")
        if pattern.step != 1:
            text = self.new(f"mul {kind} {text}, {pattern.step}")
        if pattern.base:
            text = self.new(f"add {kind} {text}, {pattern.base}")
        return self.new(f"and {kind} {text}, {pattern.mask}") if pattern.mask else text

    def _looked_up(self, values: Sequence[int | None], kind: Kind) -> str:
        numbers = tuple([value or 0 for value in values])
        known = (name for name, table in self.tables.items() if table == numbers)
        name = next(known, f"nnc_lanes_{len(self.tables)}")
        self.tables[name] = numbers
        place = self.new(f"getelementptr i64, ptr @{name}, i64 {self.lane(I64)}")
        wide = self.new(f"load i64, ptr {place}, align 8")
        return wide if kind == I64 else self.new(f"trunc i64 {wide} to {kind}")

    # -- memory, whose elements devices read and write where they are aligned to their size

    def read(self, kind: Kind, address: str, name: str, alignment: int) -> str:
        """An element at an address; byte by byte where that may be any."""
        if alignment >= kind.size:
            return self.new(f"load {kind}, ptr {address}, align {alignment}", name)
        whole, total = f"i{8 * kind.size}", ""
        for number in range(kind.size):
            place = self.new(f"getelementptr i8, ptr {address}, i64 {number}")
            byte = self.new(f"load i8, ptr {place}, align 1")
            wide = self.new(f"zext i8 {byte} to {whole}")
            wide = self.new(f"shl {whole} {wide}, {8 * number}") if number else wide
            total = self.new(f"or {whole} {total}, {wide}") if total else wide
        return self.new(
            f"bitcast {whole} {total} to {kind}" if kind.element != whole else f"add {whole} {total}, 0", name
        )

    def put(self, kind: Kind, value: str, address: str, alignment: int) -> None:
        """An element goes to an address; byte by byte where that may be any."""
        if alignment >= kind.size:
            self.lines.append(f"store {kind} {value}, ptr {address}, align {alignment}")
            return
        whole = f"i{8 * kind.size}"
        bits = value if kind.element == whole else self.new(f"bitcast {kind} {value} to {whole}")
        for number in range(kind.size):
            place = self.new(f"getelementptr i8, ptr {address}, i64 {number}")
            part = self.new(f"lshr {whole} {bits}, {8 * number}") if number else bits
            byte = self.new(f"trunc {whole} {part} to i8")
            self.lines.append(f"store i8 {byte}, ptr {place}, align 1")

    # -- exchanges

    def shuffled(self, kind: Kind, value: str, thread: str) -> str:
        """The value of another thread."""
        if self.threads == 1 or not value.startswith("%"):
            return value
        return self.call(kind, f"nnc.shuffle.{suffix(kind)}", ((kind, value), (I32, thread)))

    def permuted(self, kind: Kind, places: Sequence[Place]) -> list[str]:
        """Registers whose elements are those at these places."""
        size, threads = len(places), self.threads
        return [
            self._gathered(kind, [places[p] if p < size else None for p in range(first, first + threads)])
            for first in range(0, size, threads)
        ]

    def _gathered(self, kind: Kind, places: Sequence[Place]) -> str:
        sources = list(dict.fromkeys([place[0] for place in places if place is not None and place[0] != "poison"]))
        if not sources:
            return "poison"
        chosen = ""
        for source in sources:
            wanted = [place[1] if place is not None and place[0] == source else None for place in places]
            moved = any(thread not in (None, lane) for lane, thread in enumerate(wanted))
            value = self.shuffled(kind, source, self.lanewise(wanted, I32)) if moved else source
            if not chosen:
                chosen = value
                continue
            bits = sum(1 << lane for lane, thread in enumerate(wanted) if thread is not None)
            word = self.new(f"lshr i64 {bits - (bits >> 63 << 64)}, {self.lane(I64)}")
            mine = self.new(f"trunc i64 {word} to i1")
            chosen = self.new(f"select i1 {mine}, {kind} {value}, {kind} {chosen}")
        return chosen

    def copy(self, result: str, kind: Kind, value: str) -> None:
        """A value by another name."""
        self.new(f"select i1 true, {kind} {value}, {kind} {value}", result)
