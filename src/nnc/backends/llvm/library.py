"""llvmlite, where it can be loaded; elsewhere the reason why not. The only module that imports it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.precautions.shield import Shield

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


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block of calls of LLVM: one thread at a time, no fork meanwhile, and Ctrl-C waits for its end.

    llvmlite takes its lock in Python, and an interrupt between the lines keeps it from every other thread for ever.
    """
    with Shield(), FORK_GUARD:
        yield
