"""The spec of a symbol whose shape nobody has said yet.

Such a symbol can be read and written by commands, whose results have no spec either; once it is specified, all that
follows from it is inferred. Whoever asks for its shape before that gets a ShapeError with the line that asked.
"""

from __future__ import annotations

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.spec import TensorSpec
from nnc.errors import ShapeError


class _Auto(TensorSpec):
    """A spec without fields. What is not set falls through to `__getattr__`."""

    __slots__ = ()

    def __init__(self) -> None:
        """Nothing is known."""

    def __getattr__(self, name: str) -> object:
        if name not in TensorSpec.__dataclass_fields__:
            raise AttributeError(name)
        raise ShapeError(
            "symbol",
            got=f"{name} of a symbol without a spec",
            need="a spec",
            fix="set it, or that of the inputs behind it, with specify()",
            origin=caller_origin(),
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> str:
        # By this name in this module: copied or pickled, it is the same object.
        return "AUTO"

    def __repr__(self) -> str:
        return "AUTO"

    def __str__(self) -> str:
        return "auto"


AUTO: TensorSpec = _Auto()
