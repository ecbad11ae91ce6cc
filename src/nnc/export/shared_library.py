"""A shared library of an object file, by a linker that is on this machine: the target's C compiler, or LLVM's lld.

    ld.lld -shared -o libNAME.so NAME.o

memcpy and the like are left to whoever loads it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nnc.core.values.platform import ObjectFormat, TargetFacts
from nnc.errors import BackendError

# How shared libraries of a format are called.
PATTERNS = {ObjectFormat.ELF: "lib{}.so", ObjectFormat.COFF: "{}.dll", ObjectFormat.MACHO: "lib{}.dylib"}
# A compiler of this name makes programs for the machine that it is on, or takes flags that we do not know.
ANY_COMPILER, LINKER = "clang", "ld.lld"


def linker_of(target: TargetFacts) -> Sequence[str]:
    """The command that links a shared library for this target; BackendError where there is none here."""
    if not target.shares:
        got = f"a shared library for {target.name}"
        raise BackendError("library", got=got, need="a target that loads shared libraries", fix="shared=False")
    compiler = None if target.compiler == ANY_COMPILER else shutil.which(target.compiler)
    if compiler is not None:
        return compiler, "-shared", "-nostdlib", *target.flags.split()
    linker = shutil.which(LINKER) if target.format is ObjectFormat.ELF else None
    if linker is None:
        needed = [*([] if target.compiler == ANY_COMPILER else [target.compiler])]
        needed += [LINKER] if target.format is ObjectFormat.ELF else []
        need = " or ".join(needed) or f"the linker of {target.triple}, on its own system"
        got = f"no linker for {target.name} on this machine"
        raise BackendError("library", got=got, need=need, fix="install one of these, or shared=False")
    return linker, "-shared"


def shared_library(name: str, content: bytes, target: TargetFacts) -> tuple[str, bytes]:
    """The file's name and its bytes; BackendError with what the linker says."""
    command, title = linker_of(target), PATTERNS[target.format].format(name)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "program.o").write_bytes(content)
        ran = subprocess.run([*command, "-o", title, "program.o"], cwd=folder, capture_output=True, text=True)
        if ran.returncode:
            raise BackendError("library", got=f"{command[0]}: {ran.stderr.strip()}", need="a linker that works")
        return title, (folder / title).read_bytes()
