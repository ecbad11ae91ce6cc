"""What layers that are told their sizes begin with, and that they take one input."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.spec import Shape
from nnc.dynamic import eager
from nnc.dynamic.state import assign
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.variable import Variable
from nnc.errors import ArityError, OutOfMemoryError
from nnc.nn.layers.initializers import Initializer, uniform
from nnc.nn.layers.layer import T
from nnc.nn.modules.module import Module, Parameter
from nnc.nn.state.generators import generator_for


def empty_parameter(module: Module, shape: Shape) -> NDArray[np.float32]:
    """Room for the elements of a parameter; NumPy has two errors for the lack of it."""
    try:
        return np.empty(shape, np.float32)
    except (ValueError, MemoryError):
        got, need = f"{4 * math.prod(shape)} bytes for {list(shape)}", "memory that this machine has"
        raise OutOfMemoryError(type(module).__name__, got=got, need=need) from None


def start_uniform(module: Module, weight: Shape, fan_in: int, units: int, *, bias: bool) -> None:
    """Make `weight` and `bias`[units], uniform in ±1/√fan_in; without `bias` that attribute is None."""
    start_uniform_tensors(module, {"weight": weight, "bias": (units,)}, fan_in)
    if not bias:
        module.bias = None


def start_uniform_tensors(module: Module, shapes: Mapping[str, Shape], fan_in: int) -> None:
    """Make parameters of these names and shapes, uniform in ±1/√fan_in."""
    seed, draw = int(next_counter()), uniform(-1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))
    for name, shape in shapes.items():
        values = empty_parameter(module, shape)
        draw(generator_for(seed, name), values)
        setattr(module, name, Parameter(values))
    module.own.called = True


def renewed(parameter: Variable, name: str, initializer: Initializer) -> None:
    """Give a parameter other starting values, drawn by `nnc.seed` and a name."""
    values = np.empty(parameter.shape, np.float32)
    initializer(generator_for(int(next_counter()), name), values)
    assign(parameter, eager.tensor(values, parameter.dtype))


def only_input(module: Module, inputs: tuple[T, ...]) -> T:
    """The input; ArityError for several."""
    if len(inputs) != 1:
        raise ArityError(type(module).__name__, got=f"{len(inputs)} inputs", need="one input")
    return inputs[0]
