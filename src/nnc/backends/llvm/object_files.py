"""IR text → object file for a processor that need not be this one, and what is in it; kept on disk by the text."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from nnc.backends.llvm.arm_attributes import with_hard_floats
from nnc.backends.llvm.object_contents import contents
from nnc.backends.llvm.run.object_code import CompiledText, compile_on
from nnc.backends.llvm.stack_depth import stack_depth
from nnc.codegen.ir.targets import LibraryTarget
from nnc.codegen.program.contents import filled
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running.library_program import ObjectFile
from nnc.core.running.llvm_library import llvm, undisturbed, version
from nnc.core.settings import SETTINGS

# Of the bytes that code on disk may take: what objects of libraries may.
LIBRARY_SHARE = 8
SIZE_FIELD = 8


@lru_cache(maxsize=1)
def initialize_all() -> None:
    """Prepare LLVM's code generators for all processors."""
    with undisturbed():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


def object_file(source: str, target: LibraryTarget, given: Mapping[str, bytes]) -> ObjectFile:
    """The object file of a text with these contents in it; nothing is compiled where this text was before."""
    code, triple = _kept(source, target), target.description.triple
    content = filled(with_hard_floats(code.content) if triple.endswith("eabihf") else code.content, given)
    return replace(contents(content), stack_bytes=stack_depth(source, code.assembly, triple))


def _kept(source: str, target: LibraryTarget) -> CompiledText:
    """From the disk, or compiled and kept there: the size of the object file, then both texts, compressed."""
    cache = DiskCache(SETTINGS.cache_folder, "libraryobject", ".z", SETTINGS.cached_code_bytes // LIBRARY_SHARE)
    parts = (source, target.description.key, target.relocation, target.abi, version())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    entry = cache.load(key)
    if entry is not None:
        size, both = int.from_bytes(entry[:SIZE_FIELD], "little"), zlib.decompress(entry[SIZE_FIELD:])
        return CompiledText(both[:size], both[size:].decode())
    code = _compiled(source, target)
    both = zlib.compress(code.content + code.assembly.encode(), 1)
    cache.store(key, len(code.content).to_bytes(SIZE_FIELD, "little") + both)
    return code


def _compiled(source: str, target: LibraryTarget) -> CompiledText:
    """By the passes and in the way of code that is loaded into this process."""
    initialize_all()
    described = target.description
    machine = llvm.Target.from_triple(described.triple).create_target_machine(
        cpu=described.processor,
        features=described.features,
        opt=3,
        reloc=target.relocation,
        codemodel="default",
        abiname=target.abi,
    )
    layout = f'target datalayout = "{machine.target_data}"\n'
    return compile_on(layout + source, machine)
