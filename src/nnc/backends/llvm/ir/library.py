"""llvmlite, where it can be loaded; elsewhere the reason why not. The only module that imports it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nnc.core.shield import Shield

__all__ = ["ABSENCE", "VERSION", "llvm", "undisturbed"]

try:
    import llvmlite
    from llvmlite import binding as llvm

    ABSENCE = ""
    VERSION = f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"
except (ImportError, OSError, RuntimeError, AttributeError) as error:
    llvm = None
    ABSENCE = f"llvmlite cannot be loaded: {error}"
    VERSION = ""

_LOCK = threading.RLock()
# A fork waits for the end of a block: in a child that began inside of one, LLVM's own lock would be held for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block of calls of LLVM: one thread at a time, no fork meanwhile, and Ctrl-C waits for its end.

    llvmlite takes its lock in Python, and an interrupt between the lines keeps it from every other thread for ever.
    """
    with Shield(), _LOCK:
        yield
