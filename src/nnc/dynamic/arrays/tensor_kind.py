"""`nnc.Tensor`: what all arrays, eager, traced and mapped, are instances of, as annotations and `isinstance` ask.

def forward(self, x: torch.Tensor) -> torch.Tensor: …          isinstance(x, torch.Tensor)
torch.Tensor([1, 2]), torch.Tensor(2, 3)                       f32, of values or of sizes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnc.core.values.dtype import F32
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import tensor
from nnc.dynamic.tree import Tree
from nnc.dynamic.variable import Variable

if TYPE_CHECKING:
    Tensor = Variable
else:

    class TensorKind(type):
        """The class of `Tensor`, which makes variables."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, ArrayOperand)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, ArrayOperand)

        def __call__(cls, *data: Tree, **options: Tree) -> Variable:
            """Of values in f32 unless `dtype` is given, or zeros of these sizes."""
            if data and all(type(size) is int for size in data):
                return tensor(np.zeros(data, np.float32), **options)
            if not data:
                return tensor(np.zeros(0, np.float32), **options)
            if isinstance(data[0], ArrayOperand) or hasattr(data[0], "dtype"):
                return tensor(*data, **options)
            return tensor(*data, **{"dtype": F32, **options})

        def __getattr__(cls, name: str) -> object:
            """Methods of variables, `Tensor.add(x, y)`."""
            return getattr(Variable, name)

    Tensor = TensorKind("Tensor", (), {"__doc__": "An array: `isinstance(x, Tensor)`, `Tensor([1, 2])` in f32."})
