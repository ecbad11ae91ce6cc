"""IR text → object code → loaded functions, with a cache in the process and one on disk.

    key    = sha256(IR text, target, versions)
    object = cache[key] or compile(IR text)

Of a kernel that was made before, the record of its generator tells both keys without the text (`records.py`).
Loading an object needs no parsing, no code generation, and nothing of LLVM (`object_loader.py`). What is not there is
compiled on all cores (`object_code.py`), in pieces of some kernels: texts and what LLVM makes of them are there for one
piece only.
An interrupt leaves what was loaded before it, and what was compiled on the disk.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import count
from typing import TYPE_CHECKING, ClassVar, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from nnc.backends.llvm.run.compilations import note_compilation
from nnc.backends.llvm.run.host import target_machine
from nnc.backends.llvm.run.object_loader import LoadedImage, UnsupportedObjectError, load_image
from nnc.backends.llvm.run.records import Record, Records, named_entry, records_in_cache
from nnc.classes import dataclass
from nnc.codegen.ir.native_kernel import NativeKernel, Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.late_names import LateModule
from nnc.core.running.llvm_library import llvm, undisturbed, version
from nnc.core.running.stored_steps import StoredKernel
from nnc.core.settings import SETTINGS
from nnc.core.values.exact import Exact
from nnc.core.values.storage import trim, trim_free_memory

if TYPE_CHECKING:
    import nnc.codegen.frame.written as writing
    from nnc.backends.llvm.run import object_code as compiling
    from nnc.codegen.frame.kernel import Generator
    from nnc.codegen.frame.written import SizedKernel
    from nnc.codegen.ir.builder import Module
else:
    # Code from the disk is neither written nor compiled.
    compiling, writing = LateModule("nnc.backends.llvm.run.object_code"), LateModule("nnc.codegen.frame.written")

R = TypeVar("R")

ENTRY_POINT = "kernel"
# Libraries per linker. Making one takes 2 ms, a library 70 bytes for ever instead of 9 KB (benchmarks/growth.py).
LINKED = 64
# Bytes of texts for each thread that are written before they are compiled, and memory is given back behind them. All 83
# kernels of SqueezeNet's training step at once made the process 22 MB larger, so it is 4 (docs/design/0018).
PIECE = 48 << 10
# Outlines of generators whose records are kept in the process, some 10 KB each, and how many texts of one.
RECORDS, TEXTS = 4096, 64


def _named(key: str) -> str:
    """The name of the kernel whose text has this key."""
    return f"{ENTRY_POINT}_{key[:32]}"


def _renamed(symbol: str, key: str) -> str:
    """A symbol of that kernel, in a library of many."""
    return symbol.replace(ENTRY_POINT, _named(key), 1)


def source_key(source: str, target: TargetDescription) -> str:
    """sha256(IR text, target, versions of llvmlite and LLVM)"""
    return hashlib.sha256("\0".join((source, target.key, version())).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Code:
    """Object code with the symbols that are looked up in it, and the text that it was made of.

    `key` is that of the text as it was generated; `source` writes it, maybe with other names in it, and `stored` is the
    key of the object on the disk. What is not there has a text until it is compiled, and no content until then.
    """

    key: str
    stored: str
    symbols: tuple[str, ...]
    source: Callable[[], str]
    content: bytes | None
    text: str = ""
    from_disk: bool = False


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LoadedCode:
    """The addresses of symbols in a library, which stays loaded as long as anybody holds this.

    On the disk the object has the key `stored`.
    """

    key: str
    stored: str
    addresses: tuple[int, ...]
    library: Library | LoadedImage


class Library:
    """A loaded library with the linker that loaded it; it is unloaded before the linker goes."""

    __slots__ = ("_linker", "tracker")

    def __init__(self, linker: llvm.LLJIT, tracker: llvm.ResourceTracker) -> None:
        self._linker = linker
        self.tracker = tracker

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # llvmlite's own functions may be gone at the end of the interpreter, and the code goes with the process.
        if is_ending():
            self.tracker.detach()
        else:
            self.tracker.close()


@dataclass(frozen=True, slots=True)
class SizedRecord:
    """The record of a text, and the kernel that it is at the sizes at hand."""

    record: Record
    sized: SizedKernel


def _restored(kernel: StoredKernel, code: LoadedCode) -> NativeKernel:
    """The kernel of code that is loaded. ValueError where it has other phases."""
    phases = tuple([Phase(*phase) for phase in kernel.phases])
    if len(phases) != len(code.addresses):
        raise ValueError(f"{len(phases)} phases of code that has {len(code.addresses)}")
    words = np.array(kernel.sizes, np.int64)
    return NativeKernel(phases, code.addresses, kernel.workspace, kernel.scratch, code.key, words, code, code.stored)


def _serving(records: Iterable[Record], sizes: Sequence[int]) -> SizedRecord | None:
    """The first record whose conditions these sizes meet."""
    for record in records:
        if sized := record.written.at(sizes):
            return SizedRecord(record, sized)
    return None


@dataclass(slots=True)
class Jit(Uncopied):
    """Kernels loaded into this process, by generator and by hash.

    LLVM takes some 40 KB for each library, so the kernels of one program are linked as one.
    """

    instead: ClassVar[str] = "copy values"

    target: TargetDescription
    cache: DiskCache
    _engine: llvm.LLJIT | None = None
    _linked: int = 0
    _kernels: WeakValueDictionary[Exact, NativeKernel] = field(default_factory=WeakValueDictionary)
    _loaded: WeakValueDictionary[str, LoadedCode] = field(default_factory=WeakValueDictionary)
    _records: dict[Exact, tuple[Record, ...]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _lock: threading.RLock = field(default_factory=fork_safe_rlock)

    def kernel(self, generator: Generator) -> NativeKernel:
        """The loaded kernel of `generator`; while anybody holds it, it is generated and compiled once."""
        return self._kernels.get(Exact(generator)) or self.make((generator,))[0]

    def make(self, generators: Iterable[Generator]) -> tuple[NativeKernel, ...]:
        """The kernels of `generators`; those that are not there yet are loaded as one library."""
        with self._lock:
            asked = {Exact(generator): generator for generator in generators}
            made = {exact: kernel for exact in asked if (kernel := self._kernels.get(exact)) is not None}
            drafts: dict[Exact, SizedRecord] = {}
            codes: dict[str, Code] = {}
            held: list[LoadedCode] = []
            fresh = [(exact, generator) for exact, generator in asked.items() if exact not in made]
            if fresh:
                records, most = records_in_cache(self.cache), PIECE * SETTINGS.worker_count()
                with self._noted() as seconds:
                    for exact, generator in fresh:
                        drafts[exact] = self._draft(generator, records, codes, held)
                        if sum(len(code.text) for code in codes.values()) >= most:
                            self._compile(codes, seconds)
                    self._compile(codes, seconds)
            held += self._link(tuple(codes.values()))
            for exact, draft in drafts.items():
                made[exact] = self._kernels[exact] = self._made(asked[exact], draft)
            return tuple(made[exact] for exact in asked)

    def load(self, module: Module, symbols: Sequence[str]) -> LoadedCode:
        """Compile and load a module as a library of its own, with the addresses of `symbols`."""
        source = str(module)
        key = source_key(source, self.target)
        with self._lock:
            if loaded := self._loaded.get(key):
                return loaded
            codes = {key: self._code(key, key, tuple(symbols), lambda: source, source)}
            with self._noted() as seconds:
                self._compile(codes, seconds)
            return self._link(tuple(codes.values()))[0]

    def load_named(self, name: str, symbols: Sequence[str], emit: Callable[[], Module]) -> LoadedCode:
        """As `load`, of a module that these sources write by that name: not written where its object is on the disk."""
        entry = named_entry(self.cache, name, self.target)
        with self._lock:
            stored = entry[0].load(entry[1]) if entry is not None else None
            key = "" if stored is None else stored.decode(errors="replace")
            if loaded := self._loaded.get(key):
                return loaded
            if content := self.cache.load(key) if key.isalnum() else None:
                code = Code(key, key, tuple(symbols), lambda: str(emit()), content, from_disk=True)
                return self._link((code,))[0]
            made = self.load(emit(), symbols)
            if entry is not None:
                entry[0].store(entry[1], made.stored.encode())
            return made

    def records(self, shape: Exact) -> tuple[Record, ...]:
        """The records of generators with this outline that the process has."""
        with self._lock:
            return self._records.get(shape, ())

    def resized(
        self, records: Sequence[Record], sizes: Sequence[int], workspace: int, scratch: int
    ) -> NativeKernel | None:
        """The kernel of one of these records that reads these sizes, if its code is loaded.

        What it takes of memory is known to who asks.
        """
        draft = _serving(records, sizes)
        with self._lock:
            code = None if draft is None else self._loaded.get(draft.record.key)
        return None if draft is None or code is None else self._sized(draft, code, workspace, scratch)

    def restored(self, kernels: Sequence[StoredKernel]) -> tuple[NativeKernel, ...] | None:
        """Kernels that another process has kept; None where the code of one is not on the disk, or cannot be loaded."""
        with self._lock:
            held = {kernel.key: code for kernel in kernels if (code := self._loaded.get(kernel.key)) is not None}
            codes: dict[str, Code] = {}
            for kernel in kernels:
                if kernel.key in held or kernel.key in codes:
                    continue
                if (content := self.cache.load(kernel.stored)) is None:
                    return None
                symbols = tuple(_renamed(symbol, kernel.key) for symbol, *_ in kernel.phases)
                codes[kernel.key] = Code(kernel.key, kernel.stored, symbols, str, content, from_disk=True)
            try:
                held |= {code.key: code for code in (self._load(tuple(codes.values())) if codes else ())}
            except RuntimeError:
                return None
            return tuple(_restored(kernel, held[kernel.key]) for kernel in kernels)

    def _made(self, generator: Generator, draft: SizedRecord) -> NativeKernel:
        """The kernel of a draft whose code is loaded."""
        workspace, scratch = generator.workspace(self.target), generator.scratch(self.target)
        return self._sized(draft, self._loaded[draft.record.key], workspace, scratch)

    def _sized(self, draft: SizedRecord, code: LoadedCode, workspace: int, scratch: int) -> NativeKernel:
        pace = self.target.machine.pace
        phases = tuple([Phase(p.symbol, p.items, p.cost * pace, p.first) for p in draft.sized.phases])
        words = np.array(draft.sized.words, np.int64)
        return NativeKernel(phases, code.addresses, workspace, scratch, code.key, words, code, code.stored)

    def _draft(
        self, generator: Generator, records: Records, codes: dict[str, Code], held: list[LoadedCode]
    ) -> SizedRecord:
        """What `generator` writes; its code is among those to link, or those that are loaded, from here on.

        The text is not written where its record and its object are there.
        """
        draft, text = self._recorded(generator, records)
        record = draft.record
        loaded = self._loaded.get(record.key)
        if loaded is not None:
            held.append(loaded)
        elif record.key not in codes:
            names = [phase.symbol for phase in draft.sized.phases]
            symbols = tuple(_renamed(name, record.key) for name in names)
            codes[record.key] = self._code(
                record.key, record.stored, symbols, lambda: self._written(generator)[1], text
            )
        return draft

    def _code(self, key: str, stored: str, symbols: tuple[str, ...], source: Callable[[], str], text: str) -> Code:
        """From the disk where it is there, else with its text, which `source` writes if there is none."""
        content = self.cache.load(stored)
        if content is None:
            return Code(key, stored, symbols, source, None, text or source())
        return Code(key, stored, symbols, source, content, from_disk=True)

    def _recorded(self, generator: Generator, records: Records) -> tuple[SizedRecord, str]:
        """The record of a text that serves the generator's sizes; its text, if it had to be written."""
        shape, sizes = writing.outline(generator, self.target)
        exact = Exact(shape)
        known = self._records.pop(exact, ())
        self._records[exact] = known
        if draft := _serving(known, sizes):
            return draft, ""
        place = records.key(shape, self.target)
        known = tuple(dict.fromkeys((*known, *records.load(place))))
        draft, text = _serving(known, sizes), ""
        if draft is None:
            record, text = self._written(generator)
            known = (*known, record)[-TEXTS:]
            records.store(place, known)
            draft = _serving((record,), sizes)
            assert draft is not None, "sizes meet their own conditions"
        self._records[exact] = known
        if len(self._records) > RECORDS:
            self._records.pop(next(iter(self._records)))
        return draft, text

    def _written(self, generator: Generator) -> tuple[Record, str]:
        """The text of a kernel with names that no other kernel has, so that both can be in one library."""
        source, written = writing.write(generator, self.target, ENTRY_POINT)
        key = source_key(source, self.target)
        text = source.replace(f"@{ENTRY_POINT}", f"@{_named(key)}")
        return Record(key, source_key(text, self.target), written), text

    @contextmanager
    def _noted(self) -> Iterator[dict[str, float]]:
        """Counts what is compiled in the block as one batch: seconds of a processor by key."""
        seconds: dict[str, float] = {}
        try:
            yield seconds
        finally:
            if seconds:
                note_compilation(self.cache, tuple(seconds), sum(seconds.values()))

    def _compile(self, codes: dict[str, Code], seconds: dict[str, float]) -> None:
        """Compile what is not on the disk, on as many threads as kernels may use, and give back what that took."""
        fresh = {code.text: key for key, code in codes.items() if code.content is None}
        if not fresh:
            return
        crew = compiling.Crew(compiling.compile_source, tuple(fresh), self.target)
        try:
            crew.run(SETTINGS.worker_count())
        finally:
            for (text, key), content, spent in zip(fresh.items(), crew.codes, crew.seconds, strict=True):
                if content is not None:
                    self.cache.store(source_key(text, self.target), content)
                    codes[key], seconds[key] = replace(codes[key], content=content, text=""), spent
        del fresh, crew, text
        trim_free_memory()

    def _link(self, codes: Sequence[Code]) -> list[LoadedCode]:
        """Load object code as one library.

        Code from the disk that cannot be loaded is compiled again.
        """
        if not codes:
            return []
        try:
            return self._load(codes)
        except RuntimeError:
            if not any(code.from_disk for code in codes):
                raise
            again = {code.key: replace(code, content=None, text=code.source(), from_disk=False) for code in codes}
            with self._noted() as seconds:
                self._compile(again, seconds)
            return self._load(tuple(again.values()))

    def _load(self, codes: Sequence[Code]) -> list[LoadedCode]:
        """As one library, by LLVM's linker where the objects are not of the kind that needs none."""
        owner: Library | LoadedImage
        try:
            owner, addressed = load_image([code.content or b"" for code in codes], [code.symbols for code in codes])
        except UnsupportedObjectError:
            owner, addressed = self._linked_by_llvm(codes)
        loaded = [
            LoadedCode(code.key, code.stored, addresses, owner)
            for code, addresses in zip(codes, addressed, strict=True)
        ]
        self._loaded.update((value.key, value) for value in loaded)
        return loaded

    def _linked_by_llvm(self, codes: Sequence[Code]) -> tuple[Library, list[tuple[int, ...]]]:
        with undisturbed():
            linker = self._linker()
            library = llvm.JITLibraryBuilder()
            for code in codes:
                library.add_object_img(code.content)
                for symbol in code.symbols:
                    library.export_symbol(symbol)
            # A name is taken even where linking fails, so each attempt has its own.
            name = f"{codes[0].key}-{next(self._numbers)}"
            tracker = library.add_current_process().link(linker, name)
            addressed = [tuple(int(tracker[symbol]) for symbol in code.symbols) for code in codes]
            return Library(linker, tracker), addressed

    def _linker(self) -> llvm.LLJIT:
        """Another one from time to time: of a library that was unloaded 9 KB stay in its linker."""
        if self._engine is None or self._linked >= LINKED:
            # The older linker, which COFF still needs, takes more memory for each object.
            modern = "windows" not in self.target.triple
            self._engine = llvm.create_lljit_compiler(target_machine(self.target), use_jit_link=modern)
            self._linked = 0
            trim()
        self._linked += 1
        return self._engine
