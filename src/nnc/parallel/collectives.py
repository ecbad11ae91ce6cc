"""What ranks do together, as operators: on symbols, eager variables and in compiled programs, with gradients.

Every rank builds the same graph, so what is computed is the sum of what all ranks compute: gradients are of the sum
of the losses of all ranks. That of a sum is a sum, that of a gather a scattered sum, that of a copy to all a sum at its
root, each the other way round too.

    x_r   what rank r gives           y_r   what it gets           n   ranks of the group

Kernels are Python's, on every backend: they wait for other processes. Ranks must come to them in the same order, which
they do where they run the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.errors import NotDifferentiableError, ShapeError
from nnc.graph import Op, Registry
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.movement.fill import fill_like
from nnc.ops.operand import T, apply
from nnc.ops.rules import Applied, Gradients, Inplace, NoAttrs, Specs
from nnc.parallel.communicator import Communicator
from nnc.parallel.mesh import RankGroup, everyone, joined, own_rank
from nnc.parallel.messages.rank_sums import Reduction
from nnc.symbolic.sharing.rank_programs import NAMING

A = TypeVar("A")
G = TypeVar("G", bound="AmongRanks")
N = TypeVar("N", "ReductionAttrs", "GroupAttrs", "RootAttrs", "ShiftAttrs")
# `Any`: elements of any type.
Outputs = Sequence[NDArray[Any]]

REGISTRY = Registry("nnc.parallel")
# Tensors below this travel together, which costs a copy; others alone.
SMALL_BYTES = 64 << 10


class AmongRanks(Protocol):
    """What all attributes here say."""

    @property
    def group(self) -> RankGroup:
        """Among whom."""


@dataclass(frozen=True, slots=True)
class ReductionAttrs:
    """Among whom, and what of all values; how many tensors travel together."""

    group: RankGroup
    operation: Reduction = "sum"
    tensors: int = 1


@dataclass(frozen=True, slots=True)
class GroupAttrs:
    """Among whom."""

    group: RankGroup


@dataclass(frozen=True, slots=True)
class RootAttrs:
    """Among whom, and which of them has the value."""

    group: RankGroup
    root: int = 0


@dataclass(frozen=True, slots=True)
class ShiftAttrs:
    """Among whom, and how far."""

    group: RankGroup
    by: int = 1


@dataclass(frozen=True, slots=True)
class SendAttrs:
    """Among whom, from which of them, to which, and a number that both must give."""

    group: RankGroup
    source: int
    target: int
    tag: int = 0


def _same(attrs: object, specs: Specs) -> Specs:
    return specs


def _shorter(attrs: GroupAttrs, specs: Specs) -> Specs:
    (x,) = specs
    size = attrs.group.size
    if not x.rank or x.shape[0] % size:
        raise ShapeError("reduce_scatter", got=f"x={x}", need=f"a first axis that {size} ranks divide")
    return (replace(x, shape=(x.shape[0] // size, *x.shape[1:])),)


def _longer(attrs: GroupAttrs, specs: Specs) -> Specs:
    (x,) = specs
    if not x.rank:
        raise ShapeError("all_gather", got=f"x={x}", need="an axis to join", fix="reshape it to (1,)")
    return (replace(x, shape=(x.shape[0] * attrs.group.size, *x.shape[1:])),)


def _exchanged(attrs: GroupAttrs, specs: Specs) -> Specs:
    _shorter(attrs, specs)
    return specs


def _allreduce_kernel(attrs: ReductionAttrs, inputs: Arrays, outputs: Outputs) -> None:
    copy_to_outputs(inputs, outputs)
    reduce_all(joined(attrs.group), outputs, attrs.operation)


def copy_to_outputs(inputs: Arrays, outputs: Outputs) -> None:
    """y = x of each, nothing where both are one memory already."""
    for x, y in zip(inputs, outputs, strict=True):
        assert x is not None
        if x.ctypes.data != y.ctypes.data:
            np.copyto(y, x)


def reduce_all(ranks: Communicator, arrays: Outputs, operation: Reduction = "sum") -> None:
    """Arrays in their own memory: large ones alone, small ones of one type as one array, a trip for many."""
    small = [y for y in arrays if y.nbytes < SMALL_BYTES or not y.flags.c_contiguous]
    kinds = [[y for y in small if y.dtype == kind] for kind in dict.fromkeys(y.dtype for y in small)]
    joint = [np.concatenate([y.reshape(-1) for y in chosen]) for chosen in kinds]
    ranks.allreduce_all_into([y for y in arrays if y.nbytes >= SMALL_BYTES and y.flags.c_contiguous] + joint, operation)
    for chosen, whole in zip(kinds, joint, strict=True):
        begin = 0
        for y in chosen:
            y[...] = whole[begin : begin + y.size].reshape(y.shape)
            begin += y.size


def rank_kernel(
    compute: Callable[[Communicator, G, NDArray[Any]], NDArray[Any]],
) -> Callable[[G, Arrays, Outputs], None]:
    """y = compute(communicator, attrs, x): the kernel of an operator with one operand and one result."""

    def run(attrs: G, inputs: Arrays, outputs: Outputs) -> None:
        x = inputs[0]
        assert x is not None
        outputs[0][...] = compute(joined(attrs.group), attrs, x)

    return run


def _allreduce_gradient(call: Applied[ReductionAttrs], gradients: Gradients) -> Gradients:
    if call.attrs.operation not in ("sum", "mean"):
        need, fix = "a sum or a mean", "detach() it"
        raise NotDifferentiableError("allreduce", got=f"the {call.attrs.operation} of all ranks", need=need, fix=fix)
    return transposed_gradient(lambda: ALLREDUCE)(call, gradients)


def transposed_gradient(
    op: Callable[[], Op[A]], attrs: Callable[[A], A] = lambda attrs: attrs
) -> Callable[[Applied[A], Gradients], Gradients]:
    """dx = the operation that is the transpose of ours, of dy; zeros stand for a dy that nobody gives."""

    def gradient(call: Applied[A], gradients: Gradients) -> Gradients:
        given = [fill_like(y, 0.0) if g is None else g for g, y in zip(gradients, call.outputs, strict=True)]
        return given[0].apply(Command(op(), attrs(call.attrs)), given)

    return gradient


ALLREDUCE: Op[ReductionAttrs] = custom_operator(
    "allreduce",
    ReductionAttrs,
    variadic=True,
    infer=_same,
    kernel=_allreduce_kernel,
    gradient=_allreduce_gradient,
    inplace=lambda attrs: Inplace(allowed=tuple((place, place) for place in range(attrs.tensors))),
    registry=REGISTRY,
    doc="y_r = x_0 + x_1 + … + x_(n-1), in this order; or the mean, the largest, the smallest",
)
REDUCE_SCATTER: Op[GroupAttrs] = custom_operator(
    "reduce_scatter",
    GroupAttrs,
    infer=_shorter,
    kernel=rank_kernel(lambda ranks, _, x: ranks.reduce_scatter(x)),
    gradient=transposed_gradient(lambda: ALL_GATHER),
    registry=REGISTRY,
    doc="y_r = block r of x_0 + … + x_(n-1)",
)
ALL_GATHER: Op[GroupAttrs] = custom_operator(
    "all_gather",
    GroupAttrs,
    infer=_longer,
    kernel=rank_kernel(lambda ranks, _, x: ranks.all_gather(x)),
    gradient=transposed_gradient(lambda: REDUCE_SCATTER),
    registry=REGISTRY,
    doc="y_r = x_0, …, x_(n-1), one behind the other",
)
ALL_TO_ALL: Op[GroupAttrs] = custom_operator(
    "all_to_all",
    GroupAttrs,
    infer=_exchanged,
    kernel=rank_kernel(lambda ranks, _, x: ranks.all_to_all(x)),
    gradient=transposed_gradient(lambda: ALL_TO_ALL),
    registry=REGISTRY,
    doc="block i of y_r = block r of x_i",
)
BROADCAST: Op[RootAttrs] = custom_operator(
    "broadcast",
    RootAttrs,
    infer=_same,
    kernel=rank_kernel(lambda ranks, attrs, x: ranks.broadcast(x, attrs.root)),
    gradient=transposed_gradient(lambda: REDUCE),
    registry=REGISTRY,
    doc="y_r = x_root",
)
REDUCE: Op[RootAttrs] = custom_operator(
    "reduce",
    RootAttrs,
    infer=_same,
    kernel=rank_kernel(lambda ranks, attrs, x: ranks.reduce(x, attrs.root)),
    gradient=transposed_gradient(lambda: BROADCAST),
    registry=REGISTRY,
    doc="y_root = x_0 + … + x_(n-1), and 0 elsewhere",
)
SHIFT: Op[ShiftAttrs] = custom_operator(
    "shift",
    ShiftAttrs,
    infer=_same,
    kernel=rank_kernel(lambda ranks, attrs, x: ranks.shift(x, attrs.by)),
    gradient=transposed_gradient(lambda: SHIFT, lambda attrs: ShiftAttrs(attrs.group, -attrs.by)),
    registry=REGISTRY,
    doc="y_r = x_(r - by), in a ring",
)


def _after(attrs: NoAttrs, inputs: Arrays, outputs: Outputs) -> None:
    copy_to_outputs(inputs[:1], outputs)


AFTER: Op[NoAttrs] = custom_operator(
    "after",
    NoAttrs,
    variadic=True,
    outputs=("y",),
    infer=lambda attrs, specs: specs[:1],
    kernel=_after,
    gradient=lambda call, gradients: (gradients[0], *[None] * (len(call.inputs) - 1)),
    registry=REGISTRY,
    doc="y = x_0, once all others are there",
)


def _send_gradient(call: Applied[SendAttrs], gradients: Gradients) -> Gradients:
    """What the target has of dy, on the source: behind the message itself, which must go even where nobody reads y."""
    (y,) = call.outputs
    given = fill_like(y, 0.0) if gradients[0] is None else gradients[0]
    back = replace(call.attrs, source=call.attrs.target, target=call.attrs.source)
    return given.apply(Command(SEND, back), given.apply(Command(AFTER, NoAttrs()), (given, y)))


SEND: Op[SendAttrs] = custom_operator(
    "send",
    SendAttrs,
    infer=_same,
    kernel=rank_kernel(lambda ranks, attrs, x: ranks.send(x, attrs.source, attrs.target, attrs.tag)),
    gradient=_send_gradient,
    registry=REGISTRY,
    doc="y_target = x_source, and 0 elsewhere",
)


def _named(attrs: N, program: str) -> N:
    return replace(attrs, group=replace(attrs.group, program=program))


for _op in (ALLREDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, BROADCAST, REDUCE, SHIFT):
    NAMING.set(_op, _named)
# Two ranks alone come to it, perhaps by programs of their own, which nobody compares.
NAMING.set(SEND, lambda attrs, program: attrs)


@checked
def allreduce(x: T, operation: Reduction = "sum", group: RankGroup | None = None) -> T:
    """The sum (mean, largest, smallest elements) over all ranks of the group, on each; the same bits everywhere."""
    return apply(ALLREDUCE, ReductionAttrs(group or everyone(), operation), x)


@checked
def allreduce_all(operands: Sequence[T], operation: Reduction = "sum", group: RankGroup | None = None) -> tuple[T, ...]:
    """`allreduce` of several tensors in one trip."""
    if not operands:
        return ()
    attrs = ReductionAttrs(group or everyone(), operation, len(operands))
    return operands[0].apply(Command(ALLREDUCE, attrs), tuple(operands))


@checked
def reduce_scatter(x: T, group: RankGroup | None = None) -> T:
    """Block `rank` of the sum of x[n · k, …]: y[k, …]."""
    return apply(REDUCE_SCATTER, GroupAttrs(group or everyone()), x)


@checked
def all_gather(x: T, group: RankGroup | None = None) -> T:
    """y[n · k, …]: x[k, …] of all ranks, one behind the other."""
    return apply(ALL_GATHER, GroupAttrs(group or everyone()), x)


@checked
def all_to_all(x: T, group: RankGroup | None = None) -> T:
    """Block i of y[n · k, …] is our block of x on rank i."""
    return apply(ALL_TO_ALL, GroupAttrs(group or everyone()), x)


@checked
def broadcast(x: T, root: int = 0, group: RankGroup | None = None) -> T:
    """x of rank `root`, on every rank."""
    return apply(BROADCAST, RootAttrs(group or everyone(), root), x)


@checked
def reduce(x: T, root: int = 0, group: RankGroup | None = None) -> T:
    """The sum over all ranks on rank `root`, zeros on the others."""
    return apply(REDUCE, RootAttrs(group or everyone(), root), x)


@checked
def shift(x: T, by: int = 1, group: RankGroup | None = None) -> T:
    """x of the rank `by` before us, in a ring: what pipelines hand on."""
    return apply(SHIFT, ShiftAttrs(group or everyone(), by), x)


@checked
def send(x: T, source: int, target: int, tag: int = 0, group: RankGroup | None = None) -> T:
    """x of rank `source` on rank `target`, and zeros on the others, which need not call it.

    Its gradient goes from the target to the source. The source goes on before x has come. Where it has no other use of
    the zeros, it adds their sum to its loss, so that its gradient waits for the target's.
    """
    return apply(SEND, SendAttrs(group or everyone(), source, target, tag), x)


@checked
def receive(like: T, source: int, tag: int = 0, group: RankGroup | None = None) -> T:
    """What rank `source` sends us (`send`), of the shape and type of `like`, whose values nobody reads.

    The gradient of the result goes back to the source where one of `like` is asked for, which is zeros.
    DisagreementError where the other rank sends another tag, shape or type; RankTimeoutError where it sends nothing.
    """
    whole = group or everyone()
    return apply(SEND, SendAttrs(whole, source, own_rank(whole), tag), like)
