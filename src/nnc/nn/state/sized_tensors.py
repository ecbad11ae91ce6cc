"""Parameters of layers that are told their sizes: there as soon as somebody asks, before any call."""

from __future__ import annotations

from collections.abc import Mapping

from nnc.core.values.dtype import F32
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.state import parameter_over
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.variable import Variable
from nnc.nn.state.generators import Initializer, generator_for

# By name: the shape, and how it begins.
SizedTensors = Mapping[str, tuple[tuple[int, ...], Initializer]]


def make_sized(tensors: SizedTensors, variables: dict[str, Variable]) -> None:
    """Make those of the tensors that there are not yet, in f32."""
    missing = {name: row for name, row in tensors.items() if name not in variables}
    seed = int(next_counter()) if missing else 0
    for name, (shape, initializer) in missing.items():
        tensor = Tensor.empty(TensorSpec(shape, F32), "parameter")
        initializer(generator_for(seed, name), tensor.numpy())
        variables[name] = parameter_over(tensor)
