"""Sums over ranks that go on while a program computes: begun when their values are final, ended where these are read.

    y… = begin_sums(x…)         x as they are on this rank, which a thread of its own adds up in their place
    z… = end_sums(y…)           the sums, in the same place

Everything between the two computes meanwhile. Nobody else may read or write y, and nobody does: between the two
commands it is alive, and has no other reader. All ranks begin in one order, and each sum is the one that `allreduce`
takes, so bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.shield import Shield
from nnc.core.running.stream import Signal, Stream
from nnc.core.values.command import Command
from nnc.graph import Op
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.operand import T
from nnc.ops.rules import Inplace, NotDifferentiable, Specs
from nnc.parallel.collectives import REGISTRY, copy_to_outputs, reduce_all
from nnc.parallel.communicator import Communicator
from nnc.parallel.mesh import RankGroup, joined


class BesideRanks:
    """What goes on beside the thread that asks for it, one behind the other: on a stream, with messages of its own."""

    def __init__(self, ranks: Communicator) -> None:
        self.ranks = ranks
        # Who does not come is told of by the barrier: making a communicator waits for ever.
        ranks.barrier()
        self._twin = ranks.split(0, f"{ranks.name}, beside")
        self._twin.spinning = 0.0
        self._stream = Stream(self._twin.name)
        self._begun: dict[int, Signal] = {}

    def begin(self, number: int, work: Callable[[Communicator], None]) -> None:
        """Let `work` go on behind what was begun before. RanksError where its number never ended."""
        if number in self._begun:
            self.ranks.break_off("a run that was broken off")
        self.ranks.check_whole()
        self._twin.timeout = self.ranks.timeout
        signal = Signal(f"{self._twin.name} {number}")
        with Shield():
            self._stream.submit(lambda: work(self._twin))
            self._begun[number] = self._stream.emit(signal)

    def end(self, number: int) -> None:
        """Wait for what was begun with this number, and raise what it raised."""
        try:
            self._begun[number].wait()
        except Exception as error:
            self.ranks.break_off(f"{type(error).__name__}: {error}")
            raise
        del self._begun[number]


_BESIDE: dict[Communicator, BesideRanks] = {}


def beside(ranks: Communicator) -> BesideRanks:
    """What goes on beside these ranks; the first time, all of them come here together."""
    if ranks not in _BESIDE:
        _BESIDE[ranks] = BesideRanks(ranks)
    return _BESIDE[ranks]


@dataclass(frozen=True, slots=True)
class BesideAttrs:
    """Among whom, which of a program's sums, and how many tensors."""

    group: RankGroup
    number: int
    tensors: int


def _same(attrs: BesideAttrs, specs: Specs) -> Specs:
    return specs


def _begin_kernel(attrs: BesideAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
    copy_to_outputs(inputs, outputs)
    ranks = joined(attrs.group)
    if ranks.size > 1:
        beside(ranks).begin(attrs.number, lambda twin: reduce_all(twin, outputs))


def _end_kernel(attrs: BesideAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
    ranks = joined(attrs.group)
    if ranks.size > 1:
        beside(ranks).end(attrs.number)
    copy_to_outputs(inputs, outputs)


def _in_place(attrs: BesideAttrs) -> Inplace:
    return Inplace(allowed=tuple((place, place) for place in range(attrs.tensors)))


NO_GRADIENT = NotDifferentiable("it is for gradients, which are not differentiated again")
BEGIN_SUMS: Op[BesideAttrs] = custom_operator(
    "begin_sums",
    BesideAttrs,
    variadic=True,
    infer=_same,
    kernel=_begin_kernel,
    gradient=NO_GRADIENT,
    inplace=_in_place,
    registry=REGISTRY,
    doc="y = x, where sums over ranks are taken from now on, beside what computes",
)
END_SUMS: Op[BesideAttrs] = custom_operator(
    "end_sums",
    BesideAttrs,
    variadic=True,
    infer=_same,
    kernel=_end_kernel,
    gradient=NO_GRADIENT,
    inplace=_in_place,
    registry=REGISTRY,
    doc="y_r = x_0 + x_1 + … + x_(n-1) of what `begin_sums` of the same number was given",
)


def sums_beside(operands: Sequence[T], group: RankGroup, number: int) -> tuple[T, ...]:
    """The sums of several tensors, which are taken while a program computes."""
    attrs = BesideAttrs(group, number, len(operands))
    begun = operands[0].apply(Command(BEGIN_SUMS, attrs), tuple(operands))
    return operands[0].apply(Command(END_SUMS, attrs), begun)
