"""One loss of several outputs: loss = f(outputs, targets), a scalar of two tuples, be it a class or any function.

model = nn.Model(net, loss=lambda outputs, targets: ops.reduce_mean(ops.square(outputs[0] * outputs[1] - targets[0])))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from nnc.arguments import checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.errors import ShapeError
from nnc.ops import affine
from nnc.ops.operand import Operand, T

__all__ = ["FunctionLoss", "JointLoss"]

# (outputs, targets), tuples of operands, or single ones of a network of one output: a scalar operand.
LossFunction: TypeAlias = Callable[[Any, Any], Any]


class JointLoss(HoldsFunctions, ABC):
    """How far all outputs of a network together are from the targets."""

    __slots__ = ()

    def __call__(self, outputs: Sequence[ArrayLike | ArrayOperand], targets: Sequence[ArrayLike | ArrayOperand]) -> Any:  # noqa: ANN401  # of the operands' world
        """The scalar loss of arrays, eager and traced values, for training loops of one's own."""
        return self.build(tuple(map(as_operand, outputs)), tuple(map(as_operand, targets)))

    def target_specs(self, outputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        """Shape and element type of each target beside these outputs: a target per output, like it, unless one says so.

        The first axis of each is the batch. There may be more or fewer targets than outputs, but one at least.
        """
        return outputs

    @abstractmethod
    def build(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        """The scalar loss: a mean over the batch."""

    def score(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        """A scalar that sums over the batch what users follow beside the loss; the loss itself, unless one says so."""
        return affine(self.build(outputs, targets), outputs[0].shape[0])


@checked
@dataclass(frozen=True, slots=True)
class FunctionLoss(JointLoss):
    """loss = function(outputs, targets): tuples, or an output and its target where there is one of each."""

    function: LossFunction

    def build(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> T:
        """What the function gives, which is to be a scalar."""
        alone = len(outputs) == len(targets) == 1
        loss = self.function(outputs[0], targets[0]) if alone else self.function(outputs, targets)
        if not isinstance(loss, Operand) or loss.spec.elements != 1 or loss.spec.rank or not loss.spec.dtype.is_float:
            got = str(loss.spec) if isinstance(loss, Operand) else shown(loss)
            fix = "ops.reduce_mean(…) is the mean over all axes"
            raise ShapeError("loss", got=got, need="a function that gives one real number", fix=fix)
        result: T = loss  # type: ignore[assignment]  # of the world of what it was given
        return result
