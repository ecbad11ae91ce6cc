"""Leaves of arguments whose derivatives are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor, as_array
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import HasParameters
from nnc.dynamic.traced import is_array
from nnc.dynamic.transforms.batched import BatchedValue
from nnc.dynamic.tree import Structure, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, UsageError


class ArrayPlaces:
    """Nested values without their arrays, whose places others take: what outlives the arrays may keep it."""

    __slots__ = ("_rest", "places", "structure")

    def __init__(self, leaves: Sequence[Tree], structure: Structure) -> None:
        self.places = [place for place, leaf in enumerate(leaves) if is_array(leaf)]
        self.structure, self._rest = structure, [None if is_array(leaf) else leaf for leaf in leaves]

    def filled(self, arrays: Iterable[Tree]) -> Tree:
        """The containers with these in the arrays' places."""
        leaves = list(self._rest)
        for place, array in zip(self.places, arrays, strict=True):
            leaves[place] = array
        return self.structure.unflatten(leaves)


def trained_of(owner: HasParameters) -> dict[str, Variable]:
    """What is trained of a layer, by path; UsageError where that is nothing."""
    variables = owner.trainable_parameters()
    if not variables:
        got, fix = f"{type(owner).__name__} of which nothing is trained", "self.w = nn.Parameter(w); net.unfreeze()"
        raise UsageError("value_and_grad", got=got, need="parameters", fix=fix, origin=caller_origin())
    return variables


def unbatched(value: Tree) -> Tree:
    """The value of a batch, whatever axes were mapped."""
    while isinstance(value, BatchedValue):
        value = value.value
    return value


def as_array_like(value: Tree, like: ArrayOperand) -> Tree:
    """An array, in the element type of `like` where it is none yet."""
    if is_array(value):
        return value
    array = as_array(value)
    if array.dtype.kind not in "biufc":
        raise ArgumentError("vjp and jvp", got=shown(value), need="numbers and arrays", origin=caller_origin())
    return Tensor.from_numpy(array, like.dtype).copied()


def flatten_arrays(subject: str, result: Tree) -> tuple[list[Tree], Structure]:
    """What a function gives, and its containers; ArgumentError where something in it is no array."""
    outputs, structure = flatten(result)
    for output in outputs:
        if not is_array(output):
            got = f"a function that gives {shown(output)}"
            raise ArgumentError(subject, got=got, need="arrays that come of its arguments", origin=caller_origin())
    return outputs, structure
