"""The numbers of a wire, and of the machine around it, measured by the ranks of a launch.

    wire = nnc.parallel.measure_wire()

`alpha` and `beta` are of sums of 1 KiB and 32 MiB. `start` is what such a sum takes longer within a program, behind
about a millisecond of computing: it is called, its operands are looked at, and ranks that share cores, or are held up
by others, do not come at once.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

from nnc.arguments import Count, checked
from nnc.classes import dataclass
from nnc.core.values.spec import spec
from nnc.errors import ArgumentError, UsageError
from nnc.graph import Registry
from nnc.ops import add, gemm, reduce_max, tanh
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.movement.broadcast import broadcast_to
from nnc.ops.operand import apply
from nnc.parallel.collectives import Outputs, copy_to_outputs, reduce_all
from nnc.parallel.communicator import Communicator, world
from nnc.parallel.simulating.trades import Trade, sum_trades, total_of
from nnc.symbolic import SymbolicGraph, compile

# What a wire is measured with: messages that cost their start, and messages that cost their bytes.
SHORT_BYTES, LONG_BYTES = 1 << 10, 32 << 20
# Of the programs that are timed: how many pieces, and rows of the square whose product is one.
PIECES, ROWS = 12, 256


@checked
@dataclass(frozen=True, slots=True)
class Wire:
    """`alpha` seconds to start a message, `beta` seconds for each byte of it, what is added on the way included.

    Each operation takes `start` seconds beside its messages.
    """

    alpha: float
    beta: float
    start: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta), ("start", self.start)):
            if not 0 <= value < float("inf"):
                raise ArgumentError("Wire", got=f"{name}={value}", need="seconds, zero or more")

    def seconds(self, trade: Trade) -> float:
        """k · alpha + b · beta."""
        return trade.messages * self.alpha + trade.nbytes * self.beta


@dataclass(frozen=True, slots=True)
class CommunicatorAttrs:
    """The ranks themselves, which may be no group of a mesh."""

    ranks: Communicator


def _largest(attrs: CommunicatorAttrs, inputs: Arrays, outputs: Outputs) -> None:
    copy_to_outputs(inputs, outputs)
    reduce_all(attrs.ranks, outputs, "max")


LARGEST_AMONG = custom_operator(
    "largest_among",
    CommunicatorAttrs,
    infer=lambda attrs, specs: specs,
    kernel=_largest,
    registry=Registry("nnc.parallel.wire"),
    doc="y = the largest elements of all x, as `allreduce` takes them",
)


@checked
def measure_wire(ranks: Communicator | None = None, rounds: Count = 15) -> Wire:
    """The wire of these ranks, each number of medians of rounds; all ranks call it. UsageError for one rank alone."""
    ranks = ranks or world()
    size = ranks.size
    if size == 1:
        need, fix = "two ranks", "nnc launch -n 2, or Wire(alpha=…, beta=…)"
        raise UsageError("measure_wire", got="one rank", need=need, fix=fix)
    short, long = (_seconds_of_sum(ranks, nbytes, rounds) for nbytes in (SHORT_BYTES, LONG_BYTES))
    # Two equations: short = k₁ alpha + b₁ beta, long = k₂ alpha + b₂ beta.
    few, many = (total_of(sum_trades(nbytes, size)) for nbytes in (SHORT_BYTES, LONG_BYTES))
    determinant = many.nbytes * few.messages - few.nbytes * many.messages
    beta = max((long * few.messages - short * many.messages) / determinant, 0.0)
    alpha = max((short - few.nbytes * beta) / few.messages, 0.0)
    bound, free = (_seconds_of_pieces(ranks, rounds, is_summed) for is_summed in (True, False))
    return Wire(alpha, beta, max((bound - free) / PIECES - short, 0.0))


def _median_seconds(ranks: Communicator, work: Callable[[], object], rounds: int) -> float:
    """Of `work` that all ranks begin together, over rounds behind the first; the mean of the ranks."""
    taken = []
    for _ in range(rounds + 1):
        ranks.barrier()
        began = perf_counter()
        work()
        taken.append(perf_counter() - began)
    return float(ranks.allreduce(np.array([median(taken[1:])]), "mean")[0])


def _seconds_of_sum(ranks: Communicator, nbytes: int, rounds: int) -> float:
    values = np.ones(nbytes // 4, np.float32)
    return _median_seconds(ranks, lambda: ranks.allreduce_into(values, "max"), rounds)


def _seconds_of_pieces(ranks: Communicator, rounds: int, is_summed: bool) -> float:
    """Of a program of pieces of computing, behind each of which a short sum is taken if it `is_summed`."""
    graph = SymbolicGraph("pieces")
    x = y = graph.input(spec((ROWS, ROWS)), "x")
    for _ in range(PIECES):
        y = tanh(gemm(y, x))
        row = reduce_max(y, 0, keepdims=True)
        row = apply(LARGEST_AMONG, CommunicatorAttrs(ranks), row) if is_summed else row
        y = add(y, broadcast_to(row, y.shape))
    program, values = compile(graph, [y]), np.ones(x.shape, np.float32)
    return _median_seconds(ranks, lambda: program({x: values}), rounds)
