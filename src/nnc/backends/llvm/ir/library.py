"""llvmlite, where it can be loaded; elsewhere the reason why not. The only module that imports it."""

from __future__ import annotations

__all__ = ["ABSENCE", "VERSION", "llvm"]

try:
    import llvmlite
    from llvmlite import binding as llvm

    ABSENCE = ""
    VERSION = f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"
except (ImportError, OSError, RuntimeError, AttributeError) as error:
    llvm = None
    ABSENCE = f"llvmlite cannot be loaded: {error}"
    VERSION = ""
