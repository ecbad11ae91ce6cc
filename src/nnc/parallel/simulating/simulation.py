"""What ranks will take: seconds of a step for any number of them, of a wire's numbers, without a launch.

    wire = nnc.parallel.measure_wire()                      of the ranks of this launch; or Wire(alpha=2e-6, beta=1e-10)
    simulate(graph, wire, computing=0.1)                    of a graph's operations among ranks
    simulate_stages(graphs, wire, computing=0.1)            of the graphs of a pipeline's stages
    model.simulate(16, wire, computing=0.1)                 of a training step, for the ranks of its mesh

A trade of k messages and b bytes, as a rank sends them, takes k · alpha + b · beta seconds (Hockney 1994), an operation
`start` and its trades, and a step its computing and one operation behind the other:

    a sum of B bytes on n ranks        2 (n - 1) alpha + 2 (n - 1)/n B beta, for each part of 4 MiB
    a short sum (up to 16 KiB)         (n - 1) (alpha + B beta)
    pieces gathered or scattered       (n - 1) alpha + (n - 1)/n B beta

Sums that go on beside computing (`nnc.parallel.beside`) take theirs one behind the other, from where they begin, and
the rank waits for what is left of them where they end; computing is spread over the commands by their operations.

Stages of a pipeline have a clock each. Who takes a value in waits until it was handed over, and then alpha + b · beta
for it; who hands over goes on. What all stages do together begins when the last of them is there.

So it is assumed that all ranks of a stage compute as long as one, come at once, and send to all others at the same rate
wherever these are: nothing of a network's shape. What goes on beside computing is taken not to slow it down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from nnc.arguments import Count, checked
from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import OptionalSpecs
from nnc.errors import ArgumentError, UsageError
from nnc.ops.rules import Specs
from nnc.ops.work import present, work
from nnc.parallel.beside import BEGIN_SUMS, END_SUMS
from nnc.parallel.collectives import REGISTRY
from nnc.parallel.simulating.trades import Trade, is_together, total_of, trades_of
from nnc.parallel.simulating.wire import Wire
from nnc.parallel.stage_operators import HAND_OVER, TAKE_IN, StageTransferAttrs
from nnc.symbolic import SymbolicGraph
from nnc.symbolic.ir import bodies_of


@dataclass(frozen=True, slots=True)
class Simulation:
    """A step of `ranks`: seconds of each, and what a rank sends; of stages, of the one that ends last.

    `hidden` are the seconds of communicating that go by while the rank computes, `waiting` those in which it waits for
    other stages. `memory` are the bytes of a rank's arena, weights and state, where a model was asked; 0 of a graph.
    """

    ranks: int
    computing: float
    communicating: float
    messages: int
    sent: int
    hidden: float = 0.0
    memory: int = 0
    waiting: float = 0.0

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.computing + self.communicating + self.waiting - self.hidden

    @property
    def efficiency(self) -> float:
        """The part of the time in which ranks compute: that of weak scaling, where each has as much to do as one."""
        return self.computing / self.seconds if self.seconds else 1.0

    def __str__(self) -> str:
        hidden = f", {self.hidden * 1e3:.1f} hidden" if self.hidden else ""
        waiting = f", {self.waiting * 1e3:.1f} waiting" if self.waiting else ""
        times = f"{self.seconds * 1e3:.1f} ms ({self.computing * 1e3:.1f} computing{hidden}{waiting})"
        memory = f", {self.memory} B of memory" if self.memory else ""
        return f"{self.ranks} ranks: {times}, {self.messages} messages and {self.sent} B sent by each{memory}"


Step: TypeAlias = "tuple[AnyCommand, OptionalSpecs, Specs]"


@checked
def simulate(graph: SymbolicGraph, wire: Wire, computing: float = 0.0, *, ranks: Count | None = None) -> Simulation:
    """Seconds of a run of `graph`, of which `computing` are what one rank takes alone for its part.

    The ranks are those that the graph was built for, or so many where its shapes depend on no number of ranks: sums,
    copies and shifts. UsageError for a graph with pieces of another number, for operations in a loop, whose count
    no graph says, and for one of several stages.
    """
    (simulation,) = _run([[*_steps(graph)]], wire, computing, ranks)
    return simulation


@checked
def simulate_stages(
    graphs: Sequence[SymbolicGraph], wire: Wire, computing: float = 0.0, *, alone: SymbolicGraph | None = None
) -> Simulation:
    """Seconds of a run of a pipeline, of which `computing` are what one rank takes alone for the work of all stages.

    `graphs` are those of the stages, in their order; `alone` is the graph that one rank would run, where ranks share
    its products too. UsageError where a stage takes in what none hands over.
    """
    if alone is not None:
        computing *= sum(map(operations_of, graphs)) / (operations_of(alone) or 1)
    return max(_run([[*_steps(graph)] for graph in graphs], wire, computing), key=lambda stage: stage.seconds)


def operations_of(graph: SymbolicGraph) -> int:
    """What a run of it computes."""
    return sum(map(_operations, _steps(graph)))


def _run(stages: Sequence[Sequence[Step]], wire: Wire, computing: float, ranks: int | None = None) -> list[Simulation]:
    """What each stage takes."""
    if not 0 <= computing < float("inf"):
        raise ArgumentError("simulate", got=f"computing={computing}", need="seconds, zero or more")
    operations = [sum(map(_operations, steps)) for steps in stages]
    total, pipeline = sum(operations), _Pipeline(len(stages))
    shares = [own / total if total else 1 / len(stages) for own in operations]
    clocks = [
        _Clock(pipeline, wire, computing * share, own, ranks) for share, own in zip(shares, operations, strict=True)
    ]
    going = [clock.run(steps) for clock, steps in zip(clocks, stages, strict=True)]
    while going:
        before = sum(clock.steps for clock in clocks)
        going = [run for run in going if next(run, None) is not None]
        if going and before == sum(clock.steps for clock in clocks):
            got, need = "a stage that takes in what none hands over", "the graphs of all stages"
            raise UsageError("simulate", got=got, need=need, fix="simulate_stages, or Model.simulate")
    return [clock.simulation(ranks) for clock in clocks]


@dataclass(slots=True)
class _Pipeline:
    """What stages have of each other: when values were handed over, and who came to what all do together."""

    stages: int
    handed: dict[StageTransferAttrs, float] = field(default_factory=dict)
    came: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))


@dataclass(slots=True)
class _Clock:
    """The time of a stage that computes, and of what goes on beside it: a rank waits `spent` of `communicating`."""

    pipeline: _Pipeline
    wire: Wire
    computing: float
    operations: int
    asked: int | None
    now: float = 0.0
    communicating: float = 0.0
    spent: float = 0.0
    waiting: float = 0.0
    beside: float = 0.0
    ends: dict[int, float] = field(default_factory=dict)
    sent: list[Trade] = field(default_factory=list)
    most: int = 1
    meetings: int = 0
    steps: int = 0

    def run(self, steps: Sequence[Step]) -> Generator[bool]:
        """One command behind the other; yields where it waits for other stages."""
        for step in steps:
            command, inputs, outputs = step
            if command.op is END_SUMS:
                self._spend(max(self.ends[command.attrs.number] - self.now, 0.0))
            elif command.op is HAND_OVER:
                self.pipeline.handed[command.attrs] = self.now
                self.sent.append(Trade(1, present(inputs[0]).nbytes))
            elif command.op is TAKE_IN:
                while command.attrs.transfer not in self.pipeline.handed:
                    yield True
                self._wait(self.pipeline.handed[command.attrs.transfer])
                self._communicate(self.wire.start + self.wire.seconds(Trade(1, outputs[0].nbytes)))
            elif is_together(command):
                yield from self._meet(command)
                self._trade(command, trades_of(command, inputs, outputs, self.asked))
            else:
                self.now += self.computing * _operations(step) / (self.operations or 1)
            self.steps += 1

    def _size(self, command: AnyCommand) -> int:
        """How many ranks come to it."""
        return command.attrs.group.size if self.asked is None else self.asked

    def _meet(self, command: AnyCommand) -> Generator[bool]:
        """Wait for the other stages where all of them come."""
        if command.attrs.group.axis != "pipe" or self.pipeline.stages == 1:
            return
        came = self.pipeline.came[self.meetings]
        self.meetings += 1
        came.append(self.now)
        while len(came) < self.pipeline.stages:
            yield True
        self._wait(max(came))

    def _trade(self, command: AnyCommand, trades: Sequence[Trade]) -> None:
        """What ranks do together, here or beside."""
        self.most = max(self.most, self._size(command))
        self.sent += trades
        seconds = self.wire.start * bool(trades) + sum(self.wire.seconds(trade) for trade in trades)
        if command.op is BEGIN_SUMS:
            self.communicating += seconds
            self.beside = max(self.beside, self.now) + seconds
            self.ends[command.attrs.number] = self.beside
        else:
            self._communicate(seconds)

    def _communicate(self, seconds: float) -> None:
        self.communicating += seconds
        self._spend(seconds)

    def _spend(self, seconds: float) -> None:
        self.spent += seconds
        self.now += seconds

    def _wait(self, until: float) -> None:
        """For another stage."""
        seconds = max(until - self.now, 0.0)
        self.waiting += seconds
        self.now += seconds

    def simulation(self, ranks: int | None) -> Simulation:
        """What it took."""
        total, hidden = total_of(self.sent), max(self.communicating - self.spent, 0.0)
        count = ranks or max(self.most, self.pipeline.stages)
        return Simulation(
            count, self.computing, self.communicating, total.messages, total.nbytes, hidden, waiting=self.waiting
        )


def _operations(step: Step) -> int:
    """What a command computes; what ranks do among each other is no computing."""
    return 0 if step[0].op.registry is REGISTRY else work(*step)


def _steps(graph: SymbolicGraph) -> Iterator[Step]:
    """The commands of a run, with the specs that are given and made; UsageError for trades in a loop."""
    for key in graph.execs.toposort():
        record = graph.execs[key]
        inputs, outputs = graph.specs(record.inputs), graph.specs(record.outputs)
        yield record.command, inputs, tuple(map(present, outputs))
        for name, body in bodies_of(record.command):
            if any(is_together(step[0]) for step in _steps(body.graph)):
                got, need = f"operations among ranks in the {name} of {record.command.op.name}", "them outside of loops"
                raise UsageError("simulate", got=got, need=need)
