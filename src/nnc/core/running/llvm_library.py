"""llvmlite, where it can be loaded; elsewhere the reason why not. The only module that imports it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from nnc.addresses import check_addresses
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.precautions.shield import Shield

__all__ = ["ABSENCE", "VERSION", "content_of", "llvm", "undisturbed", "unlocked"]

# The size of the library that llvmlite brings: without room for it, it is not absent, and who waits for it is told.
LIBRARY_BYTES = 200_000_000
# What a piece of kernels takes while it is compiled, and more: LLVM ends the process where it gets no memory.
COMPILING_BYTES = 64_000_000
if "llvmlite.binding" not in sys.modules:
    check_addresses("loading LLVM", LIBRARY_BYTES)
try:
    import llvmlite
    from llvmlite import binding as llvm

    ABSENCE = ""
    VERSION = f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"
except (ImportError, OSError, RuntimeError, AttributeError) as error:
    llvm = None
    ABSENCE = f"llvmlite cannot be loaded: {error}"
    VERSION = ""


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block of calls of LLVM: one thread at a time, no fork meanwhile, and Ctrl-C waits for its end.

    llvmlite takes its lock in Python, and an interrupt between the lines keeps it from every other thread for ever.
    OutOfMemoryError where a limit on addresses leaves no room for them.
    """
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
