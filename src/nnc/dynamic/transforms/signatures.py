"""What a call of a compiled function is told apart by: structure, specs and static values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.state import HasParameters
from nnc.dynamic.traced import TracedValue, is_array
from nnc.dynamic.tree import Structure, Tree
from nnc.dynamic.variable import Variable
from nnc.errors import UsageError


class Itself:
    """A layer or module in a signature: two that are equal as configurations have weights of their own."""

    __slots__ = ("owner",)

    def __init__(self, owner: HasParameters) -> None:
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.owner is self.owner

    def __hash__(self) -> int:
        return id(self.owner)


def key_of_variables(parts: Iterable[Any], arrays: list[Any]) -> tuple[Hashable, ...] | None:
    """What says all of the signature where the leaves are eager values one and all, which go to `arrays`; else None.

    Specs, and each container as its kind, what is in it and, of a dictionary, the keys.
    """
    key: list[Any] = []
    for part in parts:
        kind = type(part)
        if kind is Variable:
            arrays.append(part)
            key.append(part.tensor.spec)
            continue
        if kind is not list and kind is not tuple and kind is not dict:
            return None
        inner = key_of_variables(part.values() if kind is dict else part, arrays)
        if inner is None:
            return None
        key += (kind, inner, tuple(part) if kind is dict else ())
    return tuple(key)


def is_tensor(leaf: object) -> bool:
    """Whether a leaf is an array, or the spec of one."""
    return is_array(leaf) or isinstance(leaf, TensorSpec)


def spec_of(leaf: Tree) -> TensorSpec:
    """Shape and element type of a leaf."""
    if isinstance(leaf, TensorSpec):
        return leaf
    if isinstance(leaf, Variable | TracedValue | Tensor):
        return leaf.spec
    array = np.asarray(leaf)
    return TensorSpec(array.shape, dtype_of(array.dtype.newbyteorder("=")))


def kind_of(leaf: object) -> Hashable:
    """What a signature says of an argument: its spec, or its value and the type of that (1 and 1.0 are two)."""
    if is_tensor(leaf):
        return spec_of(leaf)
    if isinstance(leaf, HasParameters):
        return Itself(leaf)
    value = leaf.hex() if isinstance(leaf, float) else leaf
    try:
        hash(value)
    except TypeError:
        raise UsageError(
            "compile",
            got=f"an argument of type {type(leaf).__name__}",
            need="arrays, containers of arrays, or values that can be hashed",
            fix="make it a tuple or a frozen dataclass",
            origin=caller_origin(),
        ) from None
    return (type(leaf), value)


def names_of(function: Callable[..., Any], structure: Structure) -> Iterator[str]:
    """For each leaf of (args, kwargs) the parameter it comes from, and its place in that."""
    try:
        parameters = [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        parameters = []
    for path in structure.paths():
        kind, first, *rest = path.split(".")
        place = int(first) if kind == "0" else -1
        yield ".".join([parameters[place] if 0 <= place < len(parameters) else first, *rest])
