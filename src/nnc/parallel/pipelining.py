"""Pipelines: a network cut into stages, one for each rank along the axis `pipe`, that work on parts of a batch in turn.

The graph of a step is built whole on every rank, with a transfer where a value of one stage is read by another; the
gradient of a transfer goes back. `of_stage` leaves what one stage computes: transfers become messages, and what nobody
of that stage needs is pruned.

    gpipe    F0 F1 F2 F3 B0 B1 B2 B3               all parts forward, then all backward (Huang et al. 2019)
    1f1b     F0 F1 B0 F2 B1 F3 B2 B3               backward as soon as it can be: fewer parts are alive (Fan 2021)

Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, TypeAlias

from nnc.arguments import Count, checked, shown
from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.errors import UsageError
from nnc.ops.movement.fill import fill_like
from nnc.ops.rules import NoAttrs
from nnc.ops.work import work
from nnc.parallel.collectives import AFTER, REGISTRY
from nnc.parallel.mesh import RankGroup
from nnc.parallel.ordering import ALONE, gather_in_turns
from nnc.parallel.stage_operators import (
    HAND_OVER,
    SHARE,
    TAKE_IN,
    TRANSFER,
    ShareAttrs,
    StageTransferAttrs,
    TakingAttrs,
)
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.records import Dependency, ExecKey, ExecSymbol, TensorKey

Schedule: TypeAlias = Literal["gpipe", "1f1b"]
SCHEDULES: tuple[Schedule, ...] = ("gpipe", "1f1b")
# A part of a batch, and whether its gradients are computed.
Unit: TypeAlias = tuple[int, bool]
# Operations that take as long as a byte between ranks: 10 GFLOP/s and 1 GB/s (docs/parallel.md, "Measured").
OPERATIONS_PER_BYTE = 10


@checked
@dataclass(frozen=True, slots=True)
class Pipeline:
    """How the ranks along `pipe` share a network: `parts` of a batch, and the paths of layers that begin a stage.

    Without `starts` stages are cut where they cost nearly the same; without a `schedule` it is the one whose step takes
    less memory. More parts leave ranks waiting less: (stages - 1) of (parts + stages - 1) turns.

    >>> deep = nn.Sequential(nn.Dense(4), nn.ReLU(), nn.Dense(4), nn.ReLU(), nn.Dense(2))
    >>> pipeline = nnc.parallel.Pipeline(parts=2, starts=("4",))
    >>> model = nn.Model(deep, (4,), mesh=nnc.parallel.Mesh(pipe=2), pipeline=pipeline)
    >>> [row.stage for path, row in model.specs.items() if path.endswith("weight")]
    [0, 0, 1]
    """

    parts: Count = 4
    starts: tuple[str, ...] = ()
    schedule: Schedule | None = None


def units_of(schedule: Schedule, stage: int, stages: int, parts: int) -> list[Unit]:
    """What a stage does, in its order.

    >>> units_of("1f1b", 0, 2, 3)
    [(0, False), (1, False), (0, True), (2, False), (1, True), (2, True)]
    """
    first = parts if schedule == "gpipe" else min(stages - 1 - stage, parts)
    units: list[Unit] = [(part, False) for part in range(first)]
    for part in range(first, parts):
        units += [(part, False), (part - first, True)]
    return units + [(part, True) for part in range(parts - first, parts)]


def spans_of(batch: int, parts: int) -> list[tuple[int, int]]:
    """The examples of each part, nearly as many."""
    parts = min(parts, batch)
    return list(pairwise(batch * part // parts for part in range(parts + 1)))


# ---- stages of a graph


def cross(
    graph: SymbolicGraph,
    group: RankGroup,
    stages: Mapping[TensorKey, int],
    execs: Iterable[ExecKey],
    results: Sequence[Symbol],
    part: int,
) -> tuple[tuple[Symbol, ...], dict[TensorKey, int]]:
    """Transfers in a forward graph, whose weights have stages: a value is computed where the last of its operands is.

    Results are on the last stage; and of which stage each value is.
    """
    crossing = _Crossing(graph, group, dict(stages), part)
    for key in execs:
        crossing.visit(key)
    return tuple([graph.symbol(crossing.on(symbol.key, group.size - 1)) for symbol in results]), crossing.stages


class _Crossing:
    def __init__(self, graph: SymbolicGraph, group: RankGroup, stages: dict[TensorKey, int], part: int) -> None:
        self._graph, self._group, self.stages, self._part = graph, group, stages, part
        self._moved: dict[tuple[TensorKey, int], TensorKey] = {}

    def visit(self, key: ExecKey) -> None:
        record = self._graph.execs[key]
        known = [self.stages.get(self._graph.root(each)) for each in record.inputs if each is not None]
        stage = max((each for each in known if each is not None), default=None)
        if stage is None:
            return
        inputs = tuple([None if each is None else self.on(each, stage) for each in record.inputs])
        if inputs != record.inputs:
            self._graph.replace_exec(key, replace(record, inputs=inputs))
        self.stages.update((self._graph.root(out), stage) for out in record.outputs)

    def on(self, key: TensorKey, stage: int) -> TensorKey:
        """The value on this stage; what depends on no weight is computed on each."""
        own = self.stages.get(self._graph.root(key))
        if own is None or own == stage:
            return key
        if (key, stage) not in self._moved:
            attrs = StageTransferAttrs(self._group, own, stage, len(self._moved), self._part)
            (moved,) = self._graph.apply(Command(TRANSFER, attrs), [self._graph.symbol(key)])
            self._moved[key, stage] = moved.key
            self.stages[moved.key] = stage
        return self._moved[key, stage]


def leave_out_unneeded(graph: SymbolicGraph, wanted: Iterable[Symbol]) -> None:
    """No transfers of what nobody on any stage needs."""
    needed = set(graph.needed_for([symbol.key for symbol in wanted]))
    for key in [key for key, record in graph.execs.items() if record.command.op is TRANSFER and key not in needed]:
        graph.remove_exec(key)


def of_stage(graph: SymbolicGraph, stage: int, results: Sequence[Symbol]) -> tuple[Symbol, ...]:
    """The graph of one stage, and its results: the first of them waits for all that is handed over."""
    done = list[Symbol]()
    for key, record in [(key, record) for key, record in graph.execs.items() if record.command.op in (TRANSFER, SHARE)]:
        attrs, x, y = record.command.attrs, record.inputs[0], record.outputs[0]
        assert x is not None
        if record.command.op is SHARE:
            if attrs.source != stage:
                nothing = fill_like(graph.symbol(x), 0.0)
                graph.replace_exec(key, replace(record, inputs=(nothing.key,)))
            continue
        graph.remove_exec(key)
        if attrs.source == stage:
            done += graph.apply(Command(HAND_OVER, attrs), [graph.symbol(x)])
        elif attrs.destination == stage:
            command = Command(TAKE_IN, TakingAttrs(attrs, graph.tensors[y].spec))
            graph.add_exec(ExecSymbol(command, (), (y,), record.name, record.origin))
    if not done or not results:
        return tuple(results)
    (first,) = graph.apply(Command(AFTER, NoAttrs()), [results[0], *done])
    return (first, *results[1:])


def shared(values: Sequence[Symbol], group: RankGroup, source: int) -> tuple[Symbol, ...]:
    """What one stage has, on all."""
    pairs = enumerate(values)
    return tuple([x.apply(Command(SHARE, ShareAttrs(group, source, number)), (x,))[0] for number, x in pairs])


def order_units(graph: SymbolicGraph, units: Mapping[ExecKey, Unit], order: Sequence[Unit]) -> None:
    """One unit of a schedule behind the other, and what belongs to none behind them; passes have left their execs.

    What waits for other ranks is in one order on all ranks of a stage, and between stages as it is handed over.
    """
    number = {unit: turn for turn, unit in enumerate(order)}
    known = {key: number[unit] for key, unit in units.items() if unit in number}
    for key, record in graph.execs.items():
        transfer = _transfer_of(record)
        if transfer is not None:
            known[key] = number[transfer.part, transfer.is_backward]
    known |= gather_in_turns(graph, _turns(graph, known, len(order)))
    turns = _turns(graph, known, len(order))
    rows = list[tuple[int, int, int, ExecKey]]()
    members: list[list[ExecKey]] = [[] for _ in order]
    for place, key in enumerate(graph.execs.toposort()):
        turn, command = turns[key], graph.execs[key].command
        if 0 <= turn < len(order):
            members[turn].append(key)
        if command.op.registry is not REGISTRY or command.op in (*ALONE, AFTER):
            continue
        transfer = _transfer_of(graph.execs[key])
        if transfer is not None:
            # What comes in comes first, and both sides count alike.
            rows.append((turn, 2 * (command.op is HAND_OVER), transfer.number, key))
        else:
            # Ranks that share a unit have the same graph; all others have what stands behind in the order of building.
            rows.append((turn, 1, place if turn < len(order) else int(key), key))
    for earlier, later in pairwise([key for *_, key in sorted(rows)]):
        graph.connect(earlier, later)
    _one_behind_the_other(graph, [unit for unit in members if unit])


def _transfer_of(record: ExecSymbol) -> StageTransferAttrs | None:
    """The transfer that a message is of."""
    attrs = record.command.attrs
    attrs = attrs.transfer if isinstance(attrs, TakingAttrs) else attrs
    return attrs if isinstance(attrs, StageTransferAttrs) else None


def _turns(graph: SymbolicGraph, known: Mapping[ExecKey, int], behind: int) -> dict[ExecKey, int]:
    """The turn of each exec: its unit's, or that of the last of what it follows from; -1 for what follows from none."""
    turns: dict[ExecKey, int] = {}
    for key in graph.execs.toposort():
        record = graph.execs[key]
        writers = [writer for each in record.inputs if each is not None for writer in graph.writers(each)]
        before = max((turns[writer] for writer in writers if writer != key), default=-1)
        own = record.command.op.registry is REGISTRY and key not in known
        turns[key] = max(known.get(key, behind if own else -1), before)
    return turns


def _one_behind_the_other(graph: SymbolicGraph, units: Sequence[Sequence[ExecKey]]) -> None:
    """The ends of each unit in front of one of the beginnings of the next, and this in front of the others."""
    for earlier, later in pairwise(units):
        inside, before = set(later), set(earlier)
        begins = [key for key in later if not inside.intersection(_preceding(graph, key))]
        ends = [key for key in earlier if not any(reader in before for reader in _following(graph, key))]
        begins.sort(key=lambda key: _sooner(graph.execs[key]))
        for key in ends:
            graph.execs.add_edge(key, begins[0], Dependency())
        for key in begins[1:]:
            graph.execs.add_edge(begins[0], key, Dependency())


def _sooner(record: ExecSymbol) -> tuple[int, int]:
    """Messages that come first, by their numbers, and those that go last."""
    transfer = _transfer_of(record)
    return (1, 0) if transfer is None else (2 * (record.command.op is HAND_OVER), transfer.number)


def _preceding(graph: SymbolicGraph, key: ExecKey) -> list[ExecKey]:
    return [writer for each in graph.execs[key].inputs if each is not None for writer in graph.writers(each)]


def _following(graph: SymbolicGraph, key: ExecKey) -> list[ExecKey]:
    return [reader for each in graph.execs[key].outputs for reader in graph.readers(each)]


# ---- where a network is cut


def choose_stages(
    graph: SymbolicGraph, weights: Mapping[TensorKey, str], stages: int, starts: Sequence[str]
) -> dict[str, int]:
    """The stage of each weight, by path, from the graph of one process: cut by `starts`, or where stages cost the same.

    UsageError where there are fewer places than stages, or where no weight has a path of `starts`.
    """
    rows = _first_reads(graph, weights)
    if starts:
        cuts = _asked_cuts([paths[0] for paths in rows.values()], stages, starts)
    else:
        costs, crossing = _costs(graph, [*rows])
        cuts = _balanced(costs, crossing, stages)
    numbered = enumerate(rows.values())
    return {path: sum(cut <= number for cut in cuts) for number, paths in numbered for path in paths}


def _first_reads(graph: SymbolicGraph, weights: Mapping[TensorKey, str]) -> dict[int, list[str]]:
    """The weights that are read first at each place, in order."""
    rows: dict[int, list[str]] = {}
    seen = set[str]()
    for place, key in enumerate(graph.execs.toposort()):
        for each in graph.execs[key].inputs:
            path = None if each is None else weights.get(graph.root(each))
            if path is not None and path not in seen:
                seen.add(path)
                rows.setdefault(place, []).append(path)
    return rows


def _asked_cuts(order: Sequence[str], stages: int, starts: Sequence[str]) -> list[int]:
    if len(starts) != stages - 1:
        got, need = f"{len(starts)} starts", f"{stages - 1}, one for each stage behind the first"
        raise UsageError("Pipeline", got=got, need=need)
    cuts = list[int]()
    for start in starts:
        cut = next((at for at, path in enumerate(order) if path == start or path.startswith(f"{start}.")), None)
        if not cut or (cuts and cut <= cuts[-1]):
            got = f"a stage that begins with {shown(start)}"
            need = "the path of a layer with weights, behind the one before"
            raise UsageError(
                "Pipeline", got=got, need=need, fix=f"one of {', '.join(_layers(order)[1:]) or 'more layers'}"
            )
        cuts.append(cut)
    return cuts


def _layers(order: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(path.rpartition(".")[0] or path for path in order))


def _costs(graph: SymbolicGraph, places: Sequence[int]) -> tuple[list[int], list[int]]:
    """The work from each weight's first reader to the next one's, and the bytes that pass in front of it."""
    costs, crossing = [0] * len(places), [0] * len(places)
    made: dict[TensorKey, int] = {}
    last_read: dict[TensorKey, int] = {}
    for place, key in enumerate(graph.execs.toposort()):
        record = graph.execs[key]
        specs = [None if each is None else graph.tensors[each].spec for each in record.inputs]
        outputs = [graph.tensors[each].spec for each in record.outputs]
        interval = max(sum(begin <= place for begin in places) - 1, 0)
        costs[interval] += work(record.command, specs, outputs)
        made.update((graph.root(out), place) for out in record.outputs)
        last_read.update((graph.root(each), place) for each in record.inputs if each is not None)
    for value, place in made.items():
        for number, begin in enumerate(places):
            if place < begin <= last_read.get(value, -1):
                crossing[number] += graph.tensors[value].spec.nbytes
    return costs, crossing


def _balanced(costs: Sequence[int], crossing: Sequence[int], stages: int) -> list[int]:
    """Cuts whose most expensive stage costs least, messages counted; then those with the fewest bytes."""
    count = len(costs)
    if count < stages:
        need, fix = f"{stages} of them", "fewer ranks along pipe"
        raise UsageError("Pipeline", got=f"{count} layers with weights for {stages} stages", need=need, fix=fix)
    # best[k][i]: the dearest of k stages that end in front of i, their bytes, and where the last of them begins.
    best: list[dict[int, tuple[float, int, int]]] = [{0: (0.0, 0, 0)}]
    for _ in range(stages):
        row: dict[int, tuple[float, int, int]] = {}
        for begin, (dearest, nbytes, _) in best[-1].items():
            if begin == count:
                continue
            total = float(crossing[begin] * OPERATIONS_PER_BYTE) if begin else 0.0
            for end in range(begin + 1, count + 1):
                total += costs[end - 1]
                passing = nbytes + (crossing[begin] if begin else 0)
                row[end] = min(row.get(end, (float("inf"), 0, 0)), (max(dearest, total), passing, begin))
        best.append(row)
    cuts, end = list[int](), count
    for row in reversed(best[1:]):
        end = row[end][2]
        cuts.append(end)
    return sorted(cuts)[1:]
