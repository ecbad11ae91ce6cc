"""Inputs and what layers give for them, before there are any values: `keras.Input(shape=(8,))`.

Shapes come from the layer itself, which is traced on a batch of two examples; sizes that are not known stand as None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from nnc.arguments import Count, Size, checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32, AnyDType, DType
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.traced import FunctionTrace
from nnc.dynamic.tree import flatten, map_leaves
from nnc.errors import ArgumentError
from nnc.numerics.conversion import chosen_dtype

Sizes = tuple[int | None, ...]
# What stands for sizes that are not known: an axis whose size differs between the two is one of them.
STAND_INS = (12, 16)


@dataclass(slots=True, eq=False)
class Node:
    """A layer, or another function of operands, applied to values, in which KerasTensors stand for arrays."""

    function: Callable[..., Any]
    values: tuple[Any, ...]
    options: dict[str, Any]
    outputs: list[KerasTensor] = field(default_factory=list)

    @property
    def inputs(self) -> list[KerasTensor]:
        """The tensors among the values."""
        leaves, _ = flatten((self.values, self.options))
        return [leaf for leaf in leaves if isinstance(leaf, KerasTensor)]


class KerasTensor:
    """What stands for an array [batch, …] of a shape whose unknown sizes are None.

    >>> from nnc import keras
    >>> x = keras.Input(shape=(8,))
    >>> keras.layers.Dense(4)(x).shape
    (None, 4)
    >>> (x * 2.0).shape
    (None, 8)
    """

    __array_ufunc__ = None
    # Python would ask for one more element for ever.
    __iter__ = None

    @checked
    def __init__(
        self,
        shape: Sequence[Size | None],
        dtype: AnyDType | None = "float32",
        name: str = "",
        node: Node | None = None,
        index: int = 0,
    ) -> None:
        self.shape: Sizes = tuple(None if size is None else int(size) for size in shape)
        self.dtype: DType = chosen_dtype(dtype, F32)
        self.name, self.node, self.index = name, node, index

    @property
    def ndim(self) -> int:
        """How many axes there are, the batch among them."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype.name}, name={self.name}>"

    def __bool__(self) -> bool:
        fix = "keras.ops.where(condition, a, b)"
        raise ArgumentError(
            "KerasTensor", got="a question about its values", need="values", fix=fix, origin=caller_origin()
        )

    def __add__(self, other: Any) -> Any:
        return applied(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return applied(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return applied(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return applied(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return applied(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return applied(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return applied(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return applied(operator.truediv, other, self)

    def __matmul__(self, other: Any) -> Any:
        return applied(operator.matmul, self, other)

    def __pow__(self, other: Any) -> Any:
        return applied(operator.pow, self, other)

    def __neg__(self) -> Any:
        return applied(operator.neg, self)

    def __gt__(self, other: Any) -> Any:
        return applied(operator.gt, self, other)

    def __lt__(self, other: Any) -> Any:
        return applied(operator.lt, self, other)

    def __getitem__(self, place: Any) -> Any:
        return applied(operator.getitem, self, place)


@checked
def Input(  # noqa: N802  # as Keras calls it
    shape: Sequence[Count | None] | Count | None = None,
    batch_size: Count | None = None,
    dtype: AnyDType | None = None,
    sparse: bool = False,
    batch_shape: Sequence[Count | None] | None = None,
    name: str | None = None,
    tensor: Any = None,
    **others: Any,
) -> KerasTensor:
    """An input of a model: the shape of an example, whose unknown sizes are None."""
    if sparse or tensor is not None or others:
        got = "sparse=True" if sparse else "tensor=…" if tensor is not None else ", ".join(others)
        raise ArgumentError("Input", got=got, need="shape, batch_size, dtype, name", origin=caller_origin())
    if shape is None and batch_shape is None:
        raise ArgumentError("Input", got="no shape", need="that of an example", fix="keras.Input(shape=(28, 28))")
    example: Any = () if shape is None else shape
    if not hasattr(example, "__len__"):
        fix = f"keras.Input(shape=({shape},))"
        raise ArgumentError("Input", got=f"shape={shape!r}", need="a tuple", fix=fix, origin=caller_origin())
    sizes = tuple(batch_shape) if batch_shape is not None else (batch_size, *example)
    return KerasTensor(sizes, dtype, name or "")


def applied(function: Callable[..., Any], *values: Any, **options: Any) -> Any:
    """What a function of operands, such as a layer, gives for values among which are KerasTensors."""
    node = Node(function, values, options)
    unknown = any(None in tensor.shape[1:] for tensor in node.inputs)
    outputs = [_traced(node, stand_in) for stand_in in STAND_INS[: 1 + unknown]]
    leaves, structure = flatten(outputs[0])
    others, _ = flatten(outputs[-1])
    name = getattr(function, "name", "")
    node.outputs = [
        KerasTensor(_sizes(spec, other), spec.dtype, name, node, index)
        for index, (spec, other) in enumerate(zip(leaves, others, strict=True))
    ]
    return structure.unflatten(node.outputs)


def _sizes(spec: TensorSpec, other: TensorSpec) -> Sizes:
    if not spec.shape:
        return ()
    pairs = zip(spec.shape[1:], other.shape[1:], strict=True)
    return (None, *(size if size == again else None for size, again in pairs))


def _traced(node: Node, stand_in: int) -> Any:
    """The specs of what the function gives, where `stand_in` is each unknown size."""
    trace = FunctionTrace("shapes")
    with trace.active():

        def value(leaf: Any) -> Any:
            if not isinstance(leaf, KerasTensor):
                return leaf
            batch, *sizes = leaf.shape or (2,)
            shape = (batch or 2, *(stand_in if size is None else size for size in sizes))
            return trace.input(TensorSpec(shape, leaf.dtype), "input")

        values, options = map_leaves(value, (node.values, node.options))
        return map_leaves(lambda output: output.spec, node.function(*values, **options))
