"""llvmlite, imported when something of it is used, and what it says of this machine. The only module that imports it.

A process that finds its kernels on the disk uses nothing of it but what it says of the processor, which is kept there
too: 43 MB of memory and a tenth of a second that such a process does not take (docs/design/0047).
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nnc.addresses import check_addresses, is_shortage
from nnc.classes import dataclass
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.precautions.shield import Shield
from nnc.core.running.processor import processor_facts
from nnc.core.settings import SETTINGS
from nnc.errors import BackendError

if TYPE_CHECKING:
    from llvmlite import binding as llvm

__all__ = ["LlvmFacts", "absence", "content_of", "facts", "llvm", "undisturbed", "unlocked", "version"]

# The size of the library that llvmlite brings: without room for it, it is not absent, and who waits for it is told.
LIBRARY_BYTES = 200_000_000
# What a piece of kernels takes while it is compiled, and more: LLVM ends the process where it gets no memory.
COMPILING_BYTES = 64_000_000
# What the system says of a processor, by which LLVM's word on it is known again.
TELLING = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "features", "cpu implementer",
    "cpu architecture", "cpu variant", "cpu part", "cpu revision", "isa",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LlvmFacts:
    """What LLVM says of itself and of the processor at hand; `flags` are the features in its code generator's words."""

    version: str
    triple: str
    processor: str
    features: Mapping[str, bool]
    flags: str


class _Library:
    """The binding, imported when a name of it is first used."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        value = vars(self)[name] = getattr(_binding(), name)
        return value


if not TYPE_CHECKING:
    llvm = _Library()


def _binding() -> ModuleType:
    """BackendError where it cannot be loaded."""
    if "llvmlite.binding" not in sys.modules:
        check_addresses("loading LLVM", LIBRARY_BYTES)
    try:
        return import_module("llvmlite.binding")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        if is_shortage(error):
            raise
        got = f"llvmlite cannot be loaded: {error}"
        raise BackendError("llvm", got=got, need="llvmlite", fix="pip install llvmlite") from None


@lru_cache(maxsize=1)
def absence() -> str:
    """Why there is no LLVM; an empty text where it was loaded once, by this process or by another one before."""
    if _kept_facts() is not None:
        return ""
    try:
        _binding()
    except BackendError as error:
        return error.got
    return ""


def version() -> str:
    """Of llvmlite and of LLVM; an empty text where there is none."""
    return "" if absence() else facts().version


@lru_cache(maxsize=1)
def facts() -> LlvmFacts:
    """What LLVM says of this machine; without LLVM where a process before had the same library and processor."""
    kept = _kept_facts()
    if kept is not None:
        return kept
    features = llvm.get_host_cpu_features()
    told = LlvmFacts(
        f"llvmlite {sys.modules['llvmlite'].__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}",
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        dict(features),
        features.flatten(),
    )
    if key := _key():
        _cache().store(key, json.dumps(asdict(told)).encode())
    return told


@lru_cache(maxsize=1)
def _kept_facts() -> LlvmFacts | None:
    key = "" if "llvmlite.binding" in sys.modules else _key()
    content = _cache().load(key) if key else None
    if content is None:
        return None
    with suppress(ValueError, TypeError, AttributeError):
        held = LlvmFacts(**json.loads(content))
        texts = (held.version, held.triple, held.processor, held.flags)
        if all(isinstance(text, str) for text in texts) and all(map(_is_fact, held.features.items())):
            return held
    return None


def _is_fact(pair: tuple[object, object]) -> bool:
    return isinstance(pair[0], str) and isinstance(pair[1], bool)


def _cache() -> DiskCache:
    # What is damaged is asked for again: no reason to warn.
    return DiskCache(SETTINGS.cache_folder, "host", ".json", warned=True)


def _key() -> str:
    """Of the library's file, the processor and the system; an empty text where one of them is not told of."""
    home = find_spec("llvmlite")
    if home is None or home.origin is None or not sys.platform.startswith("linux"):
        return ""
    library = Path(home.origin).parent / "binding" / "libllvmlite.so"
    told = [f"{name}={value}" for name, value in processor_facts().items() if name in TELLING]
    try:
        status = library.stat()
    except OSError:
        return ""
    system = os.uname()
    parts = (
        str(library),
        status.st_size,
        status.st_mtime_ns,
        status.st_ino,
        system.release,
        system.machine,
        sys.maxsize,
    )
    return hashlib.sha256("\0".join((*map(str, parts), *told)).encode()).hexdigest() if told else ""


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block of calls of LLVM: one thread at a time, no fork meanwhile, and Ctrl-C waits for its end.

    llvmlite takes its lock in Python, and an interrupt between the lines keeps it from every other thread for ever.
    OutOfMemoryError where a limit on addresses leaves no room for them; before it is loaded, that asks for its own.
    """
    if "llvmlite.binding" in sys.modules:
        check_addresses("compiling kernels", COMPILING_BYTES)
    with Shield(), FORK_GUARD:
        yield


@lru_cache
def unlocked(name: str) -> Callable[..., Any]:
    """A function of LLVM that llvmlite has, without llvmlite's lock: for what takes long, on objects of one thread."""
    locked = getattr(llvm.ffi.lib, name)
    function = getattr(ctypes.CDLL(llvm.ffi.lib._name), name)
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function  # type: ignore[no-any-return]


def content_of(buffer: object) -> bytes:
    """What is in a buffer of LLVM's, which is given back."""
    library = llvm.ffi.lib
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)
