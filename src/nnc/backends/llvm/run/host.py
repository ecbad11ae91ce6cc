"""The processor that this process runs on: what it may use of it, and LLVM's code generator for it."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache

from nnc.codegen.ir.target import LEVELS, TILE_FEATURES, TargetDescription, describe
from nnc.core.running.llvm_library import facts, llvm
from nnc.errors import UsageError

ENVIRONMENT_VARIABLE = "NNC_LLVM_CPU"
# Number of the system call, of the request, and of the state that tiles are.
TILE_PERMISSION = (158, 0x1023, 18)


@lru_cache(maxsize=1)
def initialize() -> None:
    """Prepare LLVM's native code generator; cheap after the first call."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def host_target() -> TargetDescription:
    """The processor this process runs on, or the level that NNC_LLVM_CPU names."""
    return _target_named(os.environ.get(ENVIRONMENT_VARIABLE, ""))


@lru_cache(maxsize=8)
def _target_named(name: str) -> TargetDescription:
    told = facts()
    if name in LEVELS:
        processor, features = LEVELS[name]
        return describe(told.triple, processor, features, "")
    return describe(told.triple, name or told.processor, _present(), told.flags)


def _present() -> frozenset[str]:
    """The features of the processor this process runs on that it may use, in LLVM's words."""
    neon = {"neon"} if facts().triple.startswith(("aarch64", "arm64")) else set[str]()
    features = frozenset(feature for feature, there in facts().features.items() if there) | neon
    return features - TILE_FEATURES if tiles_absence() else features


def tiles_absence() -> str:
    """Why this process may not use tiles (AMX); nothing where it may, for which the system is asked once."""
    features = facts().features
    return _refusal() if all(features.get(feature) for feature in TILE_FEATURES) else "the processor has none"


@lru_cache(maxsize=1)
def _refusal() -> str:
    """What the system answers to arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); nothing is yes.

    The permission is that of all threads and children. It is refused where the stack for signals of some thread has no
    room for the registers.
    """
    if not sys.platform.startswith("linux"):
        return "only Linux is asked for the permission"
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes, call.restype = [ctypes.c_long] * 3, ctypes.c_long
    return f"the system refuses: {os.strerror(ctypes.get_errno())}" if call(*TILE_PERMISSION) else ""


def runnable_target() -> TargetDescription:
    """`host_target()`, refused with UsageError where its code would hold instructions that this processor lacks."""
    name, host = os.environ.get(ENVIRONMENT_VARIABLE, ""), facts().processor
    if name not in (*LEVELS, host, ""):
        need = f"one of {', '.join(LEVELS)}, or {host}, which this processor is"
        raise UsageError(ENVIRONMENT_VARIABLE, got=repr(name), need=need)
    _, needs = LEVELS.get(name, ("", frozenset()))
    if absent := sorted(needs - _present()):
        got = f"{name!r} on a processor without {', '.join(absent)}"
        raise UsageError(ENVIRONMENT_VARIABLE, got=got, need="a level that this processor has")
    return host_target()


def target_machine(target: TargetDescription) -> llvm.TargetMachine:
    """LLVM's code generator for `target`, set up for code that is loaded into this process."""
    initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.processor, features=target.features, opt=3, reloc="pic", codemodel="small", jit=True
    )
