"""What training minimizes: the sum of a loss for each output, or one loss of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.core.values.dtype import DType
from nnc.core.values.spec import TensorSpec
from nnc.nn.optimization.joint_losses import JointLoss
from nnc.nn.optimization.losses import Loss, PointwiseLoss
from nnc.ops import sum_of
from nnc.ops.operand import T


@dataclass(frozen=True, slots=True)
class Objective:
    """`losses` of the outputs in order; none of them where there is a `joint` one."""

    losses: tuple[Loss, ...]
    joint: JointLoss | None = None

    @property
    def obstacle(self) -> str:
        """Why rows that only fill up a batch cannot be left out; empty where they can."""
        if self.joint is not None:
            return "one loss is of all outputs"
        return "" if all(isinstance(loss, PointwiseLoss) for loss in self.losses) else "a loss is no PointwiseLoss"

    def target_specs(self, outputs: Sequence[TensorSpec], dtype: DType) -> tuple[TensorSpec, ...]:
        """Of each target beside these outputs, the batch included; real ones of `dtype`."""
        if self.joint is not None:
            return self.joint.target_specs(tuple(outputs))
        pairs = zip(self.losses, outputs, strict=True)
        return tuple(TensorSpec(loss.target_shape(out.shape), loss.target_dtype or dtype) for loss, out in pairs)

    def build(self, outputs: tuple[T, ...], targets: tuple[T, ...]) -> tuple[T, T]:
        """The loss, and the score, which is that of the first output."""
        if self.joint is not None:
            return self.joint.build(outputs, targets), self.joint.score(outputs, targets)
        triples = tuple(zip(self.losses, outputs, targets, strict=True))
        losses = [loss.build(output, target) for loss, output, target in triples]
        loss, output, target = triples[0]
        return sum_of(*losses), loss.score(output, target)
