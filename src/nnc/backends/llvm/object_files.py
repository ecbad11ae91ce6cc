"""IR text → object file for a processor that need not be this one, and what is in it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from nnc.backends.llvm.arm_attributes import with_hard_floats
from nnc.backends.llvm.object_contents import contents
from nnc.backends.llvm.run.object_code import compile_on
from nnc.backends.llvm.stack_depth import stack_depth
from nnc.codegen.ir.targets import LibraryTarget
from nnc.core.running.library_program import ObjectFile
from nnc.core.running.llvm_library import llvm, undisturbed


@lru_cache(maxsize=1)
def initialize_all() -> None:
    """Prepare LLVM's code generators for all processors."""
    with undisturbed():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


def object_file(source: str, target: LibraryTarget) -> ObjectFile:
    """The object file of a text; by the passes and in the way of code that is loaded into this process."""
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
    code = compile_on(layout + source, machine)
    content = with_hard_floats(code.content) if described.triple.endswith("eabihf") else code.content
    return replace(contents(content), stack_bytes=stack_depth(source, code.assembly, described.triple))
