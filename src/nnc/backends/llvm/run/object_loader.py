"""Object files of kernels → loaded code, without LLVM: what a process needs that finds all of its kernels on the disk.

    image = text of all objects | stubs of functions elsewhere | constants of all objects
    at place p of a section:  value(symbol) + addend - address(p), in the bits that the kind of relocation has

Only ELF of 64 bits for the processor of this process, of sections that are run or read, and relocations that code
generation for position-independent code makes. Anything else is an UnsupportedObjectError, and LLVM's linker loads it.
Memory is written first and run afterwards, never both at a time.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from nnc.classes import dataclass
from nnc.core.precautions.shield import Shield

HEADER, SECTION, SYMBOL, RELOCATION = (
    struct.Struct(f"<{form}") for form in ("16sHHIQQQIHHHHHH", "IIQQQQIIQQ", "IBBHQQ", "QQq")
)
IDENTITY, RELOCATABLE = b"\x7fELF\x02\x01\x01", 1
PROGRAM_BITS, SYMBOLS, RELOCATIONS, UNWINDING = 1, 2, 4, 0x70000001
WRITTEN, LOADED, RUN, IN_THREADS = 1, 2, 4, 0x400
UNDEFINED, FIRST_RESERVED = 0, 0xFF00
# Sections are placed by what they ask for, up to this.
MOST_ALIGNMENT = 4096
MOST_OBJECT_BYTES = 1 << 28
# A jump by the address behind it: of functions elsewhere, which may be farther than 32 bits.
STUB_BYTES = 16
X86_64, AARCH64 = 62, 183
PROCESSORS = {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}
STUBS = {
    # jmp [rip + 2]
    X86_64: bytes.fromhex("ff2502000000") + b"\x0f\x0b",
    # ldr x16, #8; br x16
    AARCH64: bytes.fromhex("5000005800021fd6"),
}


class UnsupportedObjectError(ValueError):
    """An object file that is not of the kind that kernels are."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of an object that is loaded, and where it is in the image."""

    content: bytes
    alignment: int
    is_run: bool


@dataclass(frozen=True, slots=True)
class ObjectSymbol:
    """Where a name stands: in a section of its object, or elsewhere (-1)."""

    name: str
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place of a section where an address is missing."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ObjectParts:
    """What is loaded of an object file."""

    sections: Mapping[int, Section]
    symbols: Sequence[ObjectSymbol]
    relocations: Sequence[Relocation]


def parts_of(content: bytes, machine: int) -> ObjectParts:
    """The parts of an object for this machine. UnsupportedObjectError where it is not whole, or of another kind."""
    try:
        return _parts(content, machine)
    except (struct.error, IndexError, ValueError) as error:
        raise UnsupportedObjectError(str(error)) from None


def _parts(content: bytes, machine: int) -> ObjectParts:
    identity, kind, processor, *_, start, _, _, _, _, each, count, _ = HEADER.unpack_from(content)
    if not identity.startswith(IDENTITY) or (kind, processor, each) != (RELOCATABLE, machine, SECTION.size):
        raise UnsupportedObjectError("no object file of this processor")
    headers = [SECTION.unpack_from(content, start + place * each) for place in range(count)]
    sections, symbols, relocations = {}, list[ObjectSymbol](), list[Relocation]()
    for number, (_, kind, flags, _, offset, size, link, info, alignment, _) in enumerate(headers):
        if flags & LOADED and size:
            plain = kind in (PROGRAM_BITS, UNWINDING) and not flags & (WRITTEN | IN_THREADS)
            if not plain or alignment > MOST_ALIGNMENT or alignment & (alignment - 1):
                raise UnsupportedObjectError(f"a section of kind {kind} with flags {flags}")
            sections[number] = Section(_within(content, offset, size), max(alignment, 1), bool(flags & RUN))
        elif kind == SYMBOLS:
            if symbols:
                raise UnsupportedObjectError("two tables of symbols")
            texts = _within(content, headers[link][4], headers[link][5])
            symbols = [_symbol(entry, texts) for entry in SYMBOL.iter_unpack(_within(content, offset, size))]
        elif kind == RELOCATIONS:
            entries = RELOCATION.iter_unpack(_within(content, offset, size))
            relocations += [
                Relocation(info, place, word & 0xFFFFFFFF, word >> 32, addend) for place, word, addend in entries
            ]
    return ObjectParts(sections, symbols, [each for each in relocations if each.section in sections])


def _within(content: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(content):
        raise UnsupportedObjectError("a section beyond the file's end")
    return content[offset : offset + size]


def _symbol(entry: tuple[int, int, int, int, int, int], texts: bytes) -> ObjectSymbol:
    name, _, _, section, value, _ = entry
    text = texts[name : texts.index(b"\0", name)].decode()
    if section >= FIRST_RESERVED:
        # Of a source file, which nothing refers to, or of a number.
        return ObjectSymbol("", -1, 0)
    return ObjectSymbol(text, section or -1, value)


@dataclass(slots=True, eq=False)
class CodeImage:
    """Where all sections of some objects come to lie, and the bytes they are in memory that begins at an address."""

    machine: int
    objects: Sequence[ObjectParts]
    # By object and section.
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    stubs: dict[str, int] = field(default_factory=dict)
    run_bytes: int = 0
    nbytes: int = 0

    @classmethod
    def of(cls, contents: Sequence[bytes], machine: int) -> CodeImage:
        """The image of these objects. UnsupportedObjectError for what is not loaded here."""
        image = cls(machine, [parts_of(content, machine) for content in contents])
        end = image._place(0, run=True)
        for parts in image.objects:
            for relocation in parts.relocations:
                symbol = _of(parts.symbols, relocation.symbol)
                if symbol.section < 0 and symbol.name and symbol.name not in image.stubs:
                    image.stubs[symbol.name] = end = _aligned(end, STUB_BYTES)
                    end += STUB_BYTES
        image.run_bytes = _aligned(end, mmap.PAGESIZE)
        image.nbytes = max(_aligned(image._place(image.run_bytes, run=False), mmap.PAGESIZE), mmap.PAGESIZE)
        return image

    def _place(self, end: int, *, run: bool) -> int:
        for place, parts in enumerate(self.objects):
            for number, section in parts.sections.items():
                if section.is_run == run:
                    self.places[place, number] = end = _aligned(end, section.alignment)
                    end += len(section.content)
        return end

    def offsets(self, place: int, names: Sequence[str]) -> tuple[int, ...]:
        """Where these names of an object are. UnsupportedObjectError for one that it has not."""
        own = {
            symbol.name: self.places[place, symbol.section] + symbol.value
            for symbol in self.objects[place].symbols
            if (place, symbol.section) in self.places
            and symbol.value < len(self.objects[place].sections[symbol.section].content)
        }
        if missing := [name for name in names if name not in own]:
            raise UnsupportedObjectError(f"no symbol {missing[0]}")
        return tuple([own[name] for name in names])

    def write(self, memory: bytearray | mmap.mmap, base: int, resolve: Callable[[str], int]) -> None:
        """All sections as they are at `base`; `resolve` gives the address of a name elsewhere."""
        for (place, number), start in self.places.items():
            section = self.objects[place].sections[number].content
            memory[start : start + len(section)] = section
        for name, start in self.stubs.items():
            memory[start : start + STUB_BYTES] = STUBS[self.machine] + resolve(name).to_bytes(8, "little")
        apply = {X86_64: _relocate_x86_64, AARCH64: _relocate_aarch64}[self.machine]
        for start, relocation, value in self._relocations(base):
            apply(memory, start, relocation.kind, value + relocation.addend, base + start)

    def _relocations(self, base: int) -> Iterator[tuple[int, Relocation, int]]:
        """Each with its place in the image, and the address of its symbol."""
        for place, parts in enumerate(self.objects):
            for relocation in parts.relocations:
                start = self.places[place, relocation.section] + relocation.offset
                if relocation.offset + 4 > len(parts.sections[relocation.section].content):
                    raise UnsupportedObjectError("a relocation beyond its section")
                symbol = _of(parts.symbols, relocation.symbol)
                if symbol.section < 0:
                    if symbol.name not in self.stubs:
                        raise UnsupportedObjectError("a symbol of no section")
                    yield start, relocation, base + self.stubs[symbol.name]
                elif (place, symbol.section) in self.places:
                    yield start, relocation, base + self.places[place, symbol.section] + symbol.value
                else:
                    raise UnsupportedObjectError("a symbol of a section that is not loaded")


def _of(symbols: Sequence[ObjectSymbol], number: int) -> ObjectSymbol:
    if not 0 < number < len(symbols):
        raise UnsupportedObjectError("a relocation without a symbol")
    return symbols[number]


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


# ---- relocations


def _relocate_x86_64(memory: bytearray | mmap.mmap, start: int, kind: int, value: int, address: int) -> None:
    """R_X86_64_PC32 and R_X86_64_PLT32: value - address, in 32 bits."""
    if kind not in (2, 4):
        raise UnsupportedObjectError(f"a relocation of kind {kind}")
    memory[start : start + 4] = _signed(value - address, 32).to_bytes(4, "little")


# What a load or store of so many bytes has its offset divided by, by kind: R_AARCH64_ADD_ABS_LO12_NC, LDST8 … LDST128.
LOW_TWELVE = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}


def _relocate_aarch64(memory: bytearray | mmap.mmap, start: int, kind: int, value: int, address: int) -> None:
    """Branches of 26 bits, pages of 4 KB of 21 bits, and what is within such a page of 12 bits."""
    word = int.from_bytes(memory[start : start + 4], "little")
    if kind == 261:  # R_AARCH64_PREL32
        word = _signed(value - address, 32)
    elif kind in (282, 283):  # R_AARCH64_JUMP26, R_AARCH64_CALL26
        word = (word & ~0x3FFFFFF) | _signed((value - address) >> 2, 26)
    elif kind == 275:  # R_AARCH64_ADR_PREL_PG_HI21
        pages = _signed((value >> 12) - (address >> 12), 21)
        word = (word & ~0x60FFFFE0) | (pages & 3) << 29 | (pages >> 2) << 5
    elif kind in LOW_TWELVE:
        shift = LOW_TWELVE[kind]
        if value & ((1 << shift) - 1):
            raise UnsupportedObjectError("a place between whole numbers")
        word = (word & ~0x3FFC00) | ((value & 0xFFF) >> shift) << 10
    else:
        raise UnsupportedObjectError(f"a relocation of kind {kind}")
    memory[start : start + 4] = word.to_bytes(4, "little")


def _signed(value: int, bits: int) -> int:
    """The two's complement of a number that fits."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise UnsupportedObjectError(f"a distance of more than {bits} bits")
    return value & ((1 << bits) - 1)


# ---- this process


class LoadedImage:
    """Memory with code that is run, as long as anybody holds this."""

    __slots__ = ("_memory", "address")

    def __init__(self, memory: mmap.mmap, address: int) -> None:
        self._memory, self.address = memory, address


def load_image(contents: Sequence[bytes], names: Sequence[Sequence[str]]) -> tuple[LoadedImage, list[tuple[int, ...]]]:
    """Objects in memory that may be run, and the addresses of these names of each. UnsupportedObjectError otherwise."""
    machine = elf_machine()
    image = CodeImage.of(contents, machine)
    with Shield():
        try:
            memory = mmap.mmap(-1, image.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            image.write(memory, address, _address_of)
            system = _system()
            parts = (
                (address, image.run_bytes, mmap.PROT_READ | mmap.PROT_EXEC),
                (address + image.run_bytes, image.nbytes - image.run_bytes, mmap.PROT_READ),
            )
            for start, size, protection in parts:
                if size and system.mprotect(start, size, protection):
                    raise UnsupportedObjectError("memory that may not be run")
            if machine == AARCH64:
                _flush(address, image.run_bytes)
        except OSError as error:
            raise UnsupportedObjectError(str(error)) from None
    loaded = LoadedImage(memory, address)
    return loaded, [
        tuple([address + offset for offset in image.offsets(place, each)]) for place, each in enumerate(names)
    ]


@lru_cache(maxsize=1)
def elf_machine() -> int:
    """The processor that this process runs on, as ELF has it; UnsupportedObjectError where it runs no ELF."""
    machine = PROCESSORS.get(platform.machine().lower(), 0) if sys.platform.startswith("linux") else 0
    if not machine or sys.maxsize < 1 << 32:
        raise UnsupportedObjectError("another system or processor")
    return machine


@lru_cache(maxsize=1)
def _system() -> ctypes.CDLL:
    system = ctypes.CDLL(None, use_errno=True)
    system.mprotect.argtypes, system.mprotect.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return system


def _address_of(name: str) -> int:
    """Where this process has a function."""
    try:
        function = getattr(_system(), name)
    except AttributeError:
        raise UnsupportedObjectError(f"no function {name} in this process") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _flush(address: int, size: int) -> None:
    """Let the processor read instructions anew."""
    try:
        clear = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    except (OSError, AttributeError):
        raise UnsupportedObjectError("nothing that clears the cache of instructions") from None
    clear(ctypes.c_void_p(address), ctypes.c_void_p(address + size))
