"""What of some arrays went into a model, and what did not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Paths that were set, that the arrays lack, that the model lacks, and that do not fit by shape or kind."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    other_shape: tuple[str, ...]
    other_kind: tuple[str, ...]

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor | TensorSpec], arrays: Mapping[str, NDArray[np.generic]]) -> LoadReport:
        """What would go where."""
        shared = sorted(tensors.keys() & arrays.keys())
        shape = tuple(path for path in shared if arrays[path].shape != tensors[path].shape)
        kind = tuple(path for path in shared if not _fits(arrays[path], tensors[path]))
        return cls(
            tuple(path for path in shared if path not in {*shape, *kind}),
            tuple(sorted(tensors.keys() - arrays.keys())),
            tuple(sorted(arrays.keys() - tensors.keys())),
            shape,
            kind,
        )

    @property
    def complete(self) -> bool:
        """Whether all fits."""
        return not (self.missing or self.unexpected or self.other_shape or self.other_kind)

    def __str__(self) -> str:
        rows = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "of another shape": self.other_shape,
            "of another kind": self.other_kind,
        }
        told = [f"{kind}: {', '.join(names)}" for kind, names in rows.items() if names]
        return "; ".join(told) or f"all {len(self.loaded)} tensors fit"


def _fits(values: NDArray[np.generic], tensor: Tensor | TensorSpec) -> bool:
    """True when the values are numbers that the tensor's element type can take without a change of kind."""
    return bool(np.can_cast(values.dtype, tensor.dtype.numpy, "same_kind"))


def renamed(values: Mapping[str, V], rules: Mapping[str, str]) -> dict[str, V]:
    """The values by names in which each regular expression is replaced; FormatError where two come to one."""
    named: dict[str, V] = {}
    for path, value in values.items():
        for pattern, replacement in rules.items():
            path = re.sub(pattern, replacement, path)
        named[path] = value
    if len(named) < len(values):
        raise FormatError("state", got="two tensors of one name", need="a name for each", fix="look at `rename`")
    return named
