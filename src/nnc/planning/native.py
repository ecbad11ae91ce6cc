"""The compiler that hot loops of solvers are handed to, where somebody has named one; without it Python runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nnc.errors import NncError
from nnc.faces import wire

Loop: TypeAlias = Callable[..., int]
Compiler: TypeAlias = Callable[[Loop], Loop]

_COMPILER: list[Compiler] = []
_COMPILED: dict[Loop, Loop | None] = {}


def use_compiler(compiler: Compiler | None) -> None:
    """Let `compiler` turn loops into native code from now on; with None Python runs them."""
    _COMPILER[:] = [] if compiler is None else [compiler]
    _COMPILED.clear()


def compiled(loop: Loop) -> Loop | None:
    """`loop` as native code, made at the first call; `None` when there is no compiler or it cannot."""
    if loop not in _COMPILED:
        wire()
        _COMPILED[loop] = None
        for compiler in _COMPILER:
            try:
                _COMPILED[loop] = compiler(loop)
            except (NncError, OSError):  # OSError: the source text is not there
                continue
    return _COMPILED[loop]
