"""Commands run at once by the reference kernels: what every graph of these tests is compared with, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

import nnc
from nnc.concrete import ConcreteGraph
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import AFFINE, AffineAttrs, add, exp, log, multiply, reciprocal
from nnc.ops.movement.copy import contiguous
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

BACKEND = "reference"
ADDITION = Command(add, NoAttrs())
PRODUCT = Command(multiply, NoAttrs())
EXPONENTIAL = Command(exp, NoAttrs())
LOGARITHM = Command(log, NoAttrs())
INVERSE = Command(reciprocal, NoAttrs())
IDENTITY = Command(contiguous, NoAttrs())
MATRIX_PRODUCT = Command(GEMM, GemmAttrs())
CONVOLVE = Command(CONVOLUTION, ConvolutionAttrs(Window((1, 1), ((1, 1), (1, 1)), (1, 1))))


def affine(scale: float, shift: float = 0.0) -> AnyCommand:
    """y = scale · x + shift."""
    return Command(AFFINE, AffineAttrs(scale, shift))


def graph(name: str = "") -> ConcreteGraph:
    """An empty graph whose commands run on the reference backend."""
    return ConcreteGraph(backend=BACKEND, name=name)


def tensor(value: ArrayLike) -> Tensor:
    """f32 memory of its own with these elements."""
    return Tensor.from_numpy(np.array(value, dtype=np.float32))


def room(*shape: int) -> Tensor:
    """f32 memory in which nothing is a number yet."""
    found = Tensor.empty(spec(shape))
    found.numpy()[...] = np.nan
    return found


def rooms(count: int, *shape: int) -> list[Tensor]:
    """Several of them."""
    return [room(*shape) for _ in range(count)]


def noise(seed: int, *shape: int) -> Tensor:
    """f32 numbers in [-1, 1)."""
    return tensor(np.random.default_rng(seed).uniform(-1.0, 1.0, shape))


def elements(place: Tensor) -> NDArray[np.float32]:
    """A copy of the elements."""
    return np.array(place.numpy(), dtype=np.float32)


def number(place: Tensor) -> float:
    """The single element."""
    return float(place.numpy().item())


def run(command: AnyCommand, *inputs: Tensor | None) -> Tensor:
    """The command's output, computed now by the reference kernel."""
    specs = tuple(None if one is None else one.spec for one in inputs)
    (result,) = infer(command.op, command.attrs, specs)
    output = Tensor.empty(result)
    claim = DISPATCHER.claim(command, specs, (result,), BACKEND)
    claim.kernel.run(tuple(inputs), (output,), None)
    return output
