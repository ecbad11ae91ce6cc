"""The implementations of the operators: llvm (native code, the default), reference (NumPy, the oracle), vendors' own.

blas     matrix products by the library of NumPy
onednn   matrix products by oneDNN, where its wheel is installed

`mps` and `cudnn` answer what programs for PyTorch ask of its backends: neither is here, and their switches set nothing.
"""

from __future__ import annotations


class AbsentBackend:
    """A backend of PyTorch's that is not here; what programs set there changes nothing.

    >>> nnc.backends.mps.is_available()
    False
    """

    benchmark: bool = False
    deterministic: bool = True
    enabled: bool = False
    allow_tf32: bool = False

    def is_available(self) -> bool:
        """Whether it is here: no."""
        return False

    def is_built(self) -> bool:
        """Whether it could be: no."""
        return False


mps, cudnn = AbsentBackend(), AbsentBackend()
__all__ = ["AbsentBackend", "cudnn", "mps"]
