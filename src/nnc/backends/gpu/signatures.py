"""Functions of a system's library as ctypes calls them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

# By name: the type of the result, None for nothing, and those of the arguments.
Signatures = Mapping[str, tuple[type | None, Sequence[type]]]


def declare(library: ctypes.CDLL, signatures: Signatures, older: str) -> None:
    """Give all functions their types; OSError that begins with `older` where one is not there."""
    for name, (result, arguments) in signatures.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise OSError(f"{older}: it has no {name}") from None
        function.argtypes, function.restype = arguments, result
