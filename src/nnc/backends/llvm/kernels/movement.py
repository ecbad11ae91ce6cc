"""Movement of elements: copies, transposes, broadcasts, concatenation, embedding.

y[i...] = x[i...], with strides that say where the elements are: pointwise identities, and transpositions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnc.backends.llvm.frame.access import Shape, StridedAccess, contiguous
from nnc.backends.llvm.frame.kernel import Phase
from nnc.backends.llvm.ir.builder import Module, Scalar
from nnc.backends.llvm.ir.expression import CONSTANT, Instruction
from nnc.backends.llvm.ir.target import TargetDescription
from nnc.backends.llvm.kernels.pointwise import Pointwise
from nnc.backends.llvm.kernels.transposition import Transposition

Move = Pointwise | Transposition


def move(shape: Shape, source: StridedAccess, target: StridedAccess, arguments: tuple[int, int] = (0, 1)) -> Move:
    """target[i...] = source[i...] for i in shape"""
    turned = Transposition.of(shape, source, target, arguments)
    return turned or Pointwise(shape, (source,), (target,), (), (0,), arguments)


def fill(shape: Shape, value: float, target: StridedAccess, arguments: tuple[int, ...] = ()) -> Pointwise:
    """target[i...] = value for i in shape"""
    constant = Instruction(CONSTANT, numbers=(value,), result=target.scalar.name)
    return Pointwise(shape, (), (target,), (constant,), (0,), arguments)


@dataclass(frozen=True, slots=True)
class Moves:
    """Several movements as phases of one kernel, in order."""

    parts: tuple[Move, ...]

    def workspace(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """The phases of all parts."""
        return tuple(phase for index, part in enumerate(self.parts) for phase in part.emit(module, f"{name}_{index}"))


def concatenate(scalar: Scalar, shapes: Sequence[Shape], strides: Sequence[Shape], axis: int, result: Shape) -> Moves:
    """y = x_0, x_1, ... one after another along `axis`; y has strides `result`"""
    parts = []
    start = 0
    for index, (shape, steps) in enumerate(zip(shapes, strides, strict=True)):
        target = StridedAccess(scalar, result, start * result[axis])
        parts.append(move(shape, StridedAccess(scalar, steps), target, (index, len(shapes))))
        start += shape[axis]
    return Moves(tuple(parts))


def embed(scalar: Scalar, shape: Shape, strides: Shape, whole: Shape, offset: int, inside: Shape) -> Moves:
    """y = 0 but for y.flat[offset + sum(i * inside)] = x[i...]; y has shape `whole` and is contiguous"""
    clear = fill(whole, 0.0, StridedAccess(scalar, contiguous(whole)), (1,))
    return Moves((clear, move(shape, StridedAccess(scalar, strides), StridedAccess(scalar, inside, offset), (0, 1))))
