"""Commands: an operator with its attributes, a plain value."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from nnc.arguments import explained, shown
from nnc.classes import dataclass
from nnc.core.values.exact import Hashed, are_the_same
from nnc.errors import AttributeValueError
from nnc.graph import Op

A = TypeVar("A")


@explained
@dataclass(frozen=True, slots=True, eq=False)
class Command(Hashed, Generic[A]):
    """What to compute, without tensors: `op` with its typed `attrs`. Equal commands mean equal work.

    Attributes are compared exactly: 0.0 is not -0.0, and 1 is neither 1.0 nor True.
    """

    op: Op[A]
    attrs: A

    def __post_init__(self) -> None:
        if not isinstance(self.attrs, self.op.attributes):
            raise AttributeValueError(
                self.op.name, got=type(self.attrs).__name__, need=f"attributes of type {self.op.attributes.__name__}"
            )
        for name in _flags(self.op):
            if not isinstance(value := getattr(self.attrs, name), bool | np.bool_):
                raise AttributeValueError(self.op.name, got=f"{name}={shown(value)}", need="True or False")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Command) and self.op is other.op and are_the_same(self.attrs, other.attrs)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((self.op, self.attrs))
            object.__setattr__(self, "_hash", value)
            return value

    def __str__(self) -> str:
        fields = dataclasses.fields(self.attrs) if dataclasses.is_dataclass(self.attrs) else ()
        shown = [
            f"{field.name}={getattr(self.attrs, field.name)!r}"
            for field in fields
            if getattr(self.attrs, field.name) != field.default
        ]
        return f"{self.op.name}({', '.join(shown)})" if shown else self.op.name


@lru_cache(maxsize=1024)
def _flags(op: Op[Any]) -> tuple[str, ...]:
    """The attributes that are true or false."""
    fields = dataclasses.fields(op.attributes) if dataclasses.is_dataclass(op.attributes) else ()
    return tuple(field.name for field in fields if field.type in ("bool", bool))


# A command whose attribute type is not known statically; rules get it back typed through their op.
AnyCommand = Command[Any]
