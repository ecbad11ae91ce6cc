"""What ranks will take: seconds of a step for any number of them, of a wire's two numbers, without a launch.

    wire = nnc.parallel.measure_wire()                      of the ranks of this launch; or Wire(alpha=2e-6, beta=1e-10)
    simulate(graph, wire, computing=0.1)                    of a graph's operations among ranks
    model.simulate(16, wire, computing=0.1)                 of a training step, for the ranks of its mesh

A trade of k messages and b bytes, as a rank sends them, takes k · alpha + b · beta seconds (Hockney 1994), and a step
its computing and one trade behind the other:

    a sum of B bytes on n ranks        2 (n - 1) alpha + 2 (n - 1)/n B beta, for each part of 4 MiB
    a short sum (up to 16 KiB)         (n - 1) (alpha + B beta)
    pieces gathered or scattered       (n - 1) alpha + (n - 1)/n B beta

Sums that go on beside computing (`nnc.parallel.beside`) take theirs one behind the other, from where they begin, and
the rank waits for what is left of them where they end; computing is spread over the commands by their operations.

So it is assumed that all ranks compute as long as one, come at once, and send to all others at the same rate wherever
these are: nothing of a network's shape. What goes on beside computing is taken not to slow it down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from nnc.arguments import Count, checked
from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.errors import ArgumentError, UsageError
from nnc.graph import Op
from nnc.ops.rules import Specs
from nnc.ops.work import present, work
from nnc.parallel.beside import BEGIN_SUMS, END_SUMS
from nnc.parallel.block_operators import JOIN_BLOCKS, LEAVE
from nnc.parallel.collectives import (
    ALL_GATHER,
    ALL_TO_ALL,
    ALLREDUCE,
    BROADCAST,
    REDUCE,
    REDUCE_SCATTER,
    REGISTRY,
    SHIFT,
    SMALL_BYTES,
)
from nnc.parallel.communicator import PART_BYTES, WHOLE_BYTES, Communicator, world
from nnc.parallel.compression import COMPRESSED_SUM, CompressionAttrs, encoded_bytes
from nnc.parallel.ordering import ALONE
from nnc.parallel.tensor_shards import SHARD_SUM, UNSHARD, shard_size
from nnc.symbolic import SymbolicGraph
from nnc.symbolic.ir import bodies_of

# What a wire is measured with: messages that cost their start, and messages that cost their bytes.
SHORT_BYTES, LONG_BYTES = 1 << 10, 32 << 20


@checked
@dataclass(frozen=True, slots=True)
class Wire:
    """`alpha` seconds to start a message, `beta` seconds for each byte of it, what is added on the way included."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 <= value < float("inf"):
                raise ArgumentError("Wire", got=f"{name}={value}", need="seconds, zero or more")

    def seconds(self, trade: Trade) -> float:
        """k · alpha + b · beta."""
        return trade.messages * self.alpha + trade.nbytes * self.beta


@dataclass(frozen=True, slots=True)
class Trade:
    """What one rank sends to all others at once, of those that send most."""

    messages: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """A step of `ranks`: seconds of each, and what a rank sends.

    `hidden` are the seconds of communicating that go by while the rank computes. `memory` are the bytes of a rank's
    arena, weights and state, where a model was asked; 0 of a graph alone.
    """

    ranks: int
    computing: float
    communicating: float
    messages: int
    sent: int
    hidden: float = 0.0
    memory: int = 0

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.computing + self.communicating - self.hidden

    @property
    def efficiency(self) -> float:
        """The part of the time in which ranks compute: that of weak scaling, where each has as much to do as one."""
        return self.computing / self.seconds if self.seconds else 1.0

    def __str__(self) -> str:
        hidden = f", {self.hidden * 1e3:.1f} hidden" if self.hidden else ""
        times = f"{self.seconds * 1e3:.1f} ms ({self.computing * 1e3:.1f} computing{hidden})"
        memory = f", {self.memory} B of memory" if self.memory else ""
        return f"{self.ranks} ranks: {times}, {self.messages} messages and {self.sent} B sent by each{memory}"


@checked
def simulate(graph: SymbolicGraph, wire: Wire, computing: float = 0.0, *, ranks: Count | None = None) -> Simulation:
    """Seconds of a run of `graph`, of which `computing` are what one rank takes alone for its part.

    The ranks are those that the graph was built for, or so many where its shapes depend on no number of ranks: sums,
    copies and shifts. UsageError for a graph with pieces of another number, and for operations in a loop, whose count
    no graph says.
    """
    if not 0 <= computing < float("inf"):
        raise ArgumentError("simulate", got=f"computing={computing}", need="seconds, zero or more")
    trades, most, clock = list[Trade](), 1, _Clock(wire)
    steps = list(_steps(graph))
    operations = sum(work(*step) for step in steps if step[0].op.registry is not REGISTRY) or 1
    for command, inputs, outputs in steps:
        if command.op is END_SUMS:
            clock.wait(command.attrs.number)
        elif command.op.registry is not REGISTRY:
            clock.now += computing * work(command, inputs, outputs) / operations
        if not _is_together(command):
            continue
        size = command.attrs.group.size if ranks is None else ranks
        if size != command.attrs.group.size and command.op not in _OF_ANY_NUMBER:
            got = f"{command.op.name} of {command.attrs.group.size} ranks, asked for {size}"
            raise UsageError("simulate", got=got, need="a graph for so many", fix=f"build it with Mesh(data={size})")
        most = max(most, size)
        given = tuple(map(present, inputs))
        own = [*_TRADES[command.op](command.attrs, given, outputs, size)] if size > 1 else []
        clock.trade(command, own)
        trades += own
    total = _total(trades)
    communicating = wire.seconds(total)
    hidden = max(communicating - clock.waited, 0.0)
    return Simulation(ranks or most, computing, communicating, total.messages, total.nbytes, hidden)


@checked
def measure_wire(ranks: Communicator | None = None, rounds: Count = 15) -> Wire:
    """alpha and beta of sums among ranks, the median of rounds; all ranks call it. UsageError for one rank alone."""
    ranks = ranks or world()
    size = ranks.size
    if size == 1:
        need, fix = "two ranks", "nnc launch -n 2, or Wire(alpha=…, beta=…)"
        raise UsageError("measure_wire", got="one rank", need=need, fix=fix)
    short, long = (_seconds_of_sum(ranks, nbytes, rounds) for nbytes in (SHORT_BYTES, LONG_BYTES))
    # Two equations: short = k₁ alpha + b₁ beta, long = k₂ alpha + b₂ beta.
    few, many = (_total(_sum_trades(nbytes, size)) for nbytes in (SHORT_BYTES, LONG_BYTES))
    determinant = many.nbytes * few.messages - few.nbytes * many.messages
    beta = max((long * few.messages - short * many.messages) / determinant, 0.0)
    return Wire(max((short - few.nbytes * beta) / few.messages, 0.0), beta)


def _total(trades: Iterable[Trade]) -> Trade:
    """Messages and bytes of all."""
    held = list(trades)
    return Trade(sum(trade.messages for trade in held), sum(trade.nbytes for trade in held))


def _seconds_of_sum(ranks: Communicator, nbytes: int, rounds: int) -> float:
    values, taken = np.ones(nbytes // 4, np.float32), []
    for _ in range(rounds + 1):
        ranks.barrier()
        began = perf_counter()
        ranks.allreduce_into(values, "max")
        taken.append(perf_counter() - began)
    return float(ranks.allreduce(np.array([median(taken[1:])]), "mean")[0])


@dataclass(slots=True)
class _Clock:
    """The time of a rank that computes, of what goes on beside it, and when each of these ends.

    `waited` are the seconds in which the rank does not compute.
    """

    wire: Wire
    now: float = 0.0
    beside: float = 0.0
    waited: float = 0.0
    ends: dict[int, float] = field(default_factory=dict)

    def wait(self, number: int) -> None:
        """For what was begun."""
        seconds = max(self.ends[number] - self.now, 0.0)
        self.waited += seconds
        self.now += seconds

    def trade(self, command: AnyCommand, trades: Sequence[Trade]) -> None:
        """What ranks do together, here or beside."""
        seconds = sum(self.wire.seconds(trade) for trade in trades)
        if command.op is BEGIN_SUMS:
            self.beside = max(self.beside, self.now) + seconds
            self.ends[command.attrs.number] = self.beside
        else:
            self.waited += seconds
            self.now += seconds


Step: TypeAlias = "tuple[AnyCommand, OptionalSpecs, Specs]"


def _is_together(command: AnyCommand) -> bool:
    """Whether ranks send each other something."""
    return command.op.registry is REGISTRY and command.op not in ALONE


def _steps(graph: SymbolicGraph) -> Iterator[Step]:
    """The commands of a run, with the specs that are given and made; UsageError for trades in a loop."""
    for key in graph.execs.toposort():
        record = graph.execs[key]
        inputs, outputs = graph.specs(record.inputs), graph.specs(record.outputs)
        yield record.command, inputs, tuple(map(present, outputs))
        for name, body in bodies_of(record.command):
            if any(_is_together(step[0]) for step in _steps(body.graph)):
                got, need = f"operations among ranks in the {name} of {record.command.op.name}", "them outside of loops"
                raise UsageError("simulate", got=got, need=need)


def _sum_trades(nbytes: int, size: int) -> Iterator[Trade]:
    """Of one array, part by part."""
    for begin in range(0, nbytes, PART_BYTES):
        part = min(PART_BYTES, nbytes - begin)
        if part <= WHOLE_BYTES:
            yield Trade(size - 1, (size - 1) * part)
        else:
            yield from (_pieces(part, size), _pieces(part, size))


def _pieces(nbytes: int, size: int) -> Trade:
    """Each rank gets its piece of each."""
    return Trade(size - 1, nbytes * (size - 1) // size)


def _split(specs: Iterable[TensorSpec]) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Large ones, which travel alone, and small ones."""
    parts: tuple[list[TensorSpec], list[TensorSpec]] = ([], [])
    for spec in specs:
        parts[spec.nbytes < SMALL_BYTES].append(spec)
    return parts


def _by_type(specs: Sequence[TensorSpec]) -> list[list[TensorSpec]]:
    return [[spec for spec in specs if spec.dtype is kind] for kind in dict.fromkeys(spec.dtype for spec in specs)]


def _allreduce(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    large, small = _split(outputs)
    for spec in large:
        yield from _sum_trades(spec.nbytes, size)
    for specs in _by_type(small):
        yield from _sum_trades(sum(spec.nbytes for spec in specs), size)


def _unshard(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    shards = [(shard, whole) for shard, whole in zip(inputs, outputs, strict=False)]
    for shard, whole in shards:
        if whole.nbytes >= SMALL_BYTES:
            yield Trade(size - 1, (size - 1) * shard.nbytes)
    small = sum(shard.nbytes for shard, whole in shards if whole.nbytes < SMALL_BYTES)
    if small:
        yield Trade(size - 1, (size - 1) * small)


def _shard_sum(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    large, small = _split(inputs)
    for spec in large:
        most = max(PART_BYTES // (spec.dtype.itemsize * size), 1)
        length = shard_size(spec.elements, size)
        for begin in range(0, length, most):
            yield Trade(size - 1, (size - 1) * min(most, length - begin) * spec.dtype.itemsize)
    for specs in _by_type(small):
        pieces = sum(shard_size(spec.elements, size) * spec.dtype.itemsize for spec in specs)
        yield Trade(size - 1, (size - 1) * pieces)


def _compressed_sum(attrs: CompressionAttrs, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    """Pieces go to whoever adds them, and sums back."""
    elements = sum(spec.elements for spec in inputs[: attrs.tensors])
    nbytes = encoded_bytes(attrs.kind, shard_size(elements, size))
    yield from (Trade(size - 1, (size - 1) * nbytes),) * 2


def _broadcast(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    nbytes = inputs[0].nbytes
    if nbytes <= WHOLE_BYTES:
        yield Trade(size - 1, (size - 1) * nbytes)
    else:
        yield from (_pieces(nbytes, size), _pieces(nbytes, size))


# What each operator trades: (attributes, specs given, specs made, ranks). `Any`: attributes of all operators.
_TRADES: dict[Op[Any], Callable[[Any, Specs, Specs, int], Iterable[Trade]]] = {
    ALLREDUCE: _allreduce,
    BEGIN_SUMS: _allreduce,
    REDUCE_SCATTER: lambda _, inputs, __, size: [_pieces(inputs[0].nbytes, size)],
    ALL_GATHER: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * inputs[0].nbytes)],
    ALL_TO_ALL: lambda _, inputs, __, size: [_pieces(inputs[0].nbytes, size)],
    BROADCAST: _broadcast,
    # The others send one message each; the root receives them all.
    REDUCE: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * inputs[0].nbytes)],
    SHIFT: lambda _, inputs, __, size: [Trade(1, inputs[0].nbytes)],
    UNSHARD: _unshard,
    SHARD_SUM: _shard_sum,
    COMPRESSED_SUM: _compressed_sum,
    LEAVE: lambda _, inputs, __, size: _sum_trades(inputs[0].nbytes, size),
    JOIN_BLOCKS: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * inputs[0].nbytes)],
}
_OF_ANY_NUMBER = (ALLREDUCE, BROADCAST, REDUCE, SHIFT)
