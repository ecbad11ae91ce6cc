"""Commands: an operator with its attributes, a plain value."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nnc.errors import AttributeValueError
from nnc.graph import Op

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Command(Generic[A]):
    """What to compute, without tensors: `op` with its typed `attrs`. Equal values mean equal work."""

    op: Op[A]
    attrs: A

    def __post_init__(self) -> None:
        if not isinstance(self.attrs, self.op.attributes):
            raise AttributeValueError(
                self.op.name, got=type(self.attrs).__name__, need=f"attributes of type {self.op.attributes.__name__}"
            )

    def __str__(self) -> str:
        fields = dataclasses.fields(self.attrs) if dataclasses.is_dataclass(self.attrs) else ()
        shown = [
            f"{field.name}={getattr(self.attrs, field.name)!r}"
            for field in fields
            if getattr(self.attrs, field.name) != field.default
        ]
        return f"{self.op.name}({', '.join(shown)})" if shown else self.op.name


# A command whose attribute type is not known statically; rules get it back typed through their op.
AnyCommand = Command[Any]
