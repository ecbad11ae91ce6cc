"""IR text → object code → loaded functions, with a cache in the process and one on disk.

    key    = sha256(IR text, target, versions)
    object = cache[key] or compile(IR text)

An entry on disk is a magic word, the sha256 of the object, the object. It is written to a temporary file and
renamed, so processes may share the folder; an entry that does not match its checksum is built again; a folder
that cannot be written is not used. Loading an object needs no parsing and no code generation.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from nnc.backends.llvm.frame.kernel import Generator, NativeKernel, Phase
from nnc.backends.llvm.ir.builder import Module
from nnc.backends.llvm.ir.library import VERSION, llvm
from nnc.backends.llvm.ir.target import TargetDescription, target_machine
from nnc.core.exact import Exact
from nnc.core.uncopied import Uncopied

MAGIC = b"NNCOBJ1\n"
ENTRY_POINT = "kernel"


@dataclass(slots=True)
class ObjectCache:
    """Object code on disk by key; `folder` None keeps nothing."""

    folder: Path | None
    hits: int = 0
    misses: int = 0
    warned: bool = False

    def path(self, key: str) -> Path | None:
        """Where the entry of `key` is kept."""
        return self.folder / "objects" / key[:2] / f"{key[2:]}.o" if self.folder else None

    def load(self, key: str) -> bytes | None:
        """The object of `key`, or None when it is absent, unreadable or does not match its checksum."""
        path = self.path(key)
        content = _read(path) if path else None
        if content is not None and _is_sound(content):
            self.hits += 1
            return content[len(MAGIC) + 32 :]
        if content is not None and not self.warned:
            self.warned = True
            reason = f"nnc: damaged entries in the object cache {self.folder} are ignored and made again"
            warnings.warn(reason, RuntimeWarning, stacklevel=2)
        self.misses += 1
        return None

    def store(self, key: str, code: bytes) -> None:
        """Keep an object; a folder that cannot be written is left alone."""
        path = self.path(key)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent)
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(code).digest() + code)
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _is_sound(content: bytes) -> bool:
    start = len(MAGIC) + 32
    return content.startswith(MAGIC) and hashlib.sha256(content[start:]).digest() == content[len(MAGIC) : start]


def source_key(source: str, target: TargetDescription) -> str:
    """sha256(IR text, target, versions of llvmlite and LLVM)"""
    return hashlib.sha256("\0".join((source, target.key, VERSION)).encode()).hexdigest()


def compile_source(source: str, target: TargetDescription) -> bytes:
    """Object code for IR text.

    Our generators vectorize, unroll and hoist, so a few passes that tidy up after them are enough: the whole of
    LLVM's pipeline takes longer and gives no faster kernels.
    """
    # A context of its own: what LLVM keeps in the global one stays for ever.
    module = llvm.parse_assembly(source, llvm.create_context())
    module.verify()
    machine = target_machine(target)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    code: bytes = machine.emit_object(module)
    return code


@dataclass(frozen=True, slots=True)
class Code:
    """Object code, under the key of the text that it was made of, with the symbols that are looked up in it."""

    key: str
    symbols: tuple[str, ...]
    content: bytes


@dataclass(slots=True)
class Jit(Uncopied):
    """Kernels loaded into this process, by generator and by hash.

    LLVM takes some 40 KB for each library, so the kernels of one program are linked as one.
    """

    instead: ClassVar[str] = "copy values"

    target: TargetDescription
    cache: ObjectCache
    _engine: llvm.LLJIT | None = None
    _kernels: dict[Exact, NativeKernel] = field(default_factory=dict)
    _addresses: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _libraries: list[llvm.ResourceTracker] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def forget(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.RLock()

    def kernel(self, generator: Generator) -> NativeKernel:
        """The loaded kernel of `generator`, generated and compiled at most once."""
        exact = Exact(generator)
        if exact not in self._kernels:
            self.make((generator,))
        return self._kernels[exact]

    def make(self, generators: Iterable[Generator]) -> None:
        """Load the kernels of `generators` that are not there yet, all of them as one library."""
        with self._lock:
            fresh = {Exact(generator): generator for generator in generators}
            kernels: dict[Exact, tuple[str, tuple[Phase, ...]]] = {}
            codes: dict[str, Code] = {}
            for exact, generator in fresh.items():
                if exact not in self._kernels:
                    module = Module(self.target)
                    phases = generator.emit(module, ENTRY_POINT)
                    source = str(module)
                    key = source_key(source, self.target)
                    kernels[exact] = key, phases
                    if key not in self._addresses and key not in codes:
                        codes[key] = self._named_code(key, source, phases)
            self._link(tuple(codes.values()))
            for exact, (key, phases) in kernels.items():
                generator = fresh[exact]
                workspace, scratch = generator.workspace(self.target), generator.scratch(self.target)
                self._kernels[exact] = NativeKernel(phases, self._addresses[key], workspace, scratch, key)

    def load(self, module: Module, symbols: Sequence[str]) -> tuple[str, tuple[int, ...]]:
        """Compile and load a module as a library of its own; its key and the addresses of `symbols`."""
        source = str(module)
        key = source_key(source, self.target)
        with self._lock:
            if key not in self._addresses:
                self._link((Code(key, tuple(symbols), self._compiled(key, source)),))
            return key, self._addresses[key]

    def _named_code(self, key: str, source: str, phases: Sequence[Phase]) -> Code:
        """The kernel with names that no other kernel has, so that both can be in one library."""
        name = f"{ENTRY_POINT}_{key[:32]}"
        named = source.replace(f"@{ENTRY_POINT}", f"@{name}")
        symbols = tuple(phase.symbol.replace(ENTRY_POINT, name, 1) for phase in phases)
        return Code(key, symbols, self._compiled(source_key(named, self.target), named))

    def _compiled(self, key: str, source: str) -> bytes:
        code = self.cache.load(key)
        if code is None:
            code = compile_source(source, self.target)
            self.cache.store(key, code)
        return code

    def _link(self, codes: Sequence[Code]) -> None:
        """Load object code as one library; its addresses are kept by key."""
        if not codes:
            return
        if self._engine is None:
            # The older linker, which COFF still needs, takes more memory for each object.
            modern = "windows" not in self.target.triple
            self._engine = llvm.create_lljit_compiler(target_machine(self.target), use_jit_link=modern)
        library = llvm.JITLibraryBuilder()
        for code in codes:
            library.add_object_img(code.content)
            for symbol in code.symbols:
                library.export_symbol(symbol)
        tracker = library.add_current_process().link(self._engine, codes[0].key)
        self._libraries.append(tracker)
        self._addresses.update((code.key, tuple(int(tracker[symbol]) for symbol in code.symbols)) for code in codes)
