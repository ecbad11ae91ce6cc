"""What neither `copy` nor `pickle` may take: owners of a thread, of native code, or of memory that code is bound to.

A copy of its fields would run on the memory of the original, which may die first.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn, SupportsIndex

from nnc.errors import UsageError


class Uncopied:
    """A class whose objects are not copied: `copy`, `deepcopy` and `pickle` raise UsageError, which says what to do."""

    __slots__ = ()
    instead: ClassVar[str]

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        kind = type(self).__name__
        raise UsageError("copy", got=f"a {kind}, which is bound to this process", need="values", fix=self.instead)
