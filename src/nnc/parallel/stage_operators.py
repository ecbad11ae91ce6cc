"""Operators between the stages of a pipeline: a value goes from the stage that computes it to those that read it.

    transfer   y = x, on another stage; its gradient goes back. Graphs of one rank have a `hand_over` or a `take_in`
    share      y = x of the stage that has it, on all stages

Who hands over goes on at once: the message waits for who takes it in.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.dtype import F32
from nnc.core.values.spec import TensorSpec
from nnc.graph import Op
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.rules import NotDifferentiable
from nnc.parallel.collectives import REGISTRY, Outputs, rank_kernel, transposed_gradient
from nnc.parallel.mesh import RankGroup, joined

LAST = NotDifferentiable("it stands behind gradients")


@dataclass(frozen=True, slots=True)
class StageTransferAttrs:
    """Among which stages, from which to which, and which value it is: of which part of the batch, and in which pass."""

    group: RankGroup
    source: int
    destination: int
    number: int
    part: int = 0
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class TakingAttrs:
    """A transfer, and what comes."""

    transfer: StageTransferAttrs
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class ShareAttrs:
    """Among which stages, which of them has the value, and which value it is: on the others all are alike."""

    group: RankGroup
    source: int
    number: int


def _unrun(attrs: StageTransferAttrs, inputs: Arrays, outputs: Outputs) -> None:
    raise AssertionError("graphs of one rank have no transfers")


def _hand_over(attrs: StageTransferAttrs, inputs: Arrays, outputs: Outputs) -> None:
    (x,) = inputs
    assert x is not None
    joined(attrs.group).hand_over(x, attrs.destination, _label(attrs))
    outputs[0][...] = 0


def _take_in(attrs: TakingAttrs, inputs: Arrays, outputs: Outputs) -> None:
    source = attrs.transfer.source
    outputs[0][...] = joined(attrs.transfer.group).take_in(
        outputs[0].shape, outputs[0].dtype, source, _label(attrs.transfer)
    )


def _label(attrs: StageTransferAttrs) -> str:
    return f"{attrs.number} {attrs.part} {attrs.is_backward}"


def _back(attrs: StageTransferAttrs) -> StageTransferAttrs:
    return replace(attrs, source=attrs.destination, destination=attrs.source, is_backward=not attrs.is_backward)


TRANSFER: Op[StageTransferAttrs] = custom_operator(
    "transfer",
    StageTransferAttrs,
    infer=lambda attrs, specs: specs,
    kernel=_unrun,
    gradient=transposed_gradient(lambda: TRANSFER, _back),
    registry=REGISTRY,
    doc="y = x on another stage",
)
HAND_OVER: Op[StageTransferAttrs] = custom_operator(
    "hand_over",
    StageTransferAttrs,
    outputs=("done",),
    infer=lambda attrs, specs: (replace(specs[0], shape=(), dtype=F32),),
    kernel=_hand_over,
    gradient=LAST,
    registry=REGISTRY,
    doc="done = 0, once x is on its way to another stage",
)
TAKE_IN: Op[TakingAttrs] = custom_operator(
    "take_in",
    TakingAttrs,
    inputs=(),
    infer=lambda attrs, specs: (attrs.spec,),
    kernel=_take_in,
    gradient=LAST,
    registry=REGISTRY,
    doc="y = what another stage hands over",
)
SHARE: Op[ShareAttrs] = custom_operator(
    "share",
    ShareAttrs,
    infer=lambda attrs, specs: specs,
    kernel=rank_kernel(lambda ranks, attrs, x: ranks.broadcast(x, attrs.source)),
    gradient=LAST,
    registry=REGISTRY,
    doc="y = x of one stage, on all",
)
