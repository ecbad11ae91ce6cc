"""Variables: operands that hold a tensor now, and remember the symbol that stands for it in the record."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nnc.core.command import AnyCommand
from nnc.core.origin import caller_origin
from nnc.core.spec import Shape, TensorSpec
from nnc.core.tensor import Tensor
from nnc.core.uncopied import Uncopied
from nnc.errors import ShapeError
from nnc.ops.arithmetic import ArithmeticOperand
from nnc.symbolic.ir import TensorKey


class Recorder(Protocol):
    """What a variable needs of its dynamic graph."""

    def execute(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run the command now and record it."""

    def view(self, of: Variable, spec: TensorSpec, offset: int, strides: Shape) -> Variable:
        """A variable over a part of the same memory."""

    def copied(self, variable: Variable) -> Variable:
        """A leaf or a constant like this one, in memory of its own."""

    def release(self, key: TensorKey) -> None:
        """The last handle of a variable is gone."""


class Variable(ArithmeticOperand, Uncopied):
    """An eager value. `key` is its symbol in the record, None for constants and under `no_grad`."""

    __slots__ = ("__weakref__", "graph", "key", "root", "tensor")
    instead: ClassVar[str] = "pickle its numpy(), and make a variable() of that"

    def __init__(self, graph: Recorder, tensor: Tensor, key: TensorKey | None, root: Tensor | None = None) -> None:
        self.graph = graph
        self.tensor = tensor
        self.root = tensor if root is None else root
        self.key = key
        if key is not None:
            weakref.finalize(self, graph.release, key).atexit = False

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""
        return self.tensor.spec

    @property
    def strides(self) -> Shape:
        """Strides in elements over the root's memory."""
        return self.tensor.strides

    @property
    def offset(self) -> int:
        """Elements between the root's first element and this variable's."""
        return (self.tensor.offset - self.root.offset) // self.spec.dtype.itemsize

    def apply(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run the command now."""
        return self.graph.execute(command, inputs)

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Variable:
        """A view of the same memory."""
        return self.graph.view(self, spec, offset, strides)

    def numpy(self) -> NDArray[np.generic]:
        """The elements as a NumPy array over the same memory."""
        return self.tensor.numpy()

    def item(self) -> float:
        """The only element, as a Python number."""
        if self.spec.elements != 1:
            raise ShapeError("item", got=str(self.spec), need="one element", origin=caller_origin())
        return float(self.tensor.numpy().item())

    def __copy__(self) -> Variable:
        return self.graph.copied(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Variable:
        return self.graph.copied(self)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return self.item()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return self.tensor.__array__(dtype, copy)

    def __repr__(self) -> str:
        kind = "constant" if self.key is None else "recorded"
        return f"Variable({self.spec}, {kind})\n{self.numpy()}"
