"""Times of ranks that are not there: trades counted as they are sent, and what cannot be foretold refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.parallel.ranks_as_threads import run_ranks

from nnc import nn, parallel
from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.errors import ArgumentError, UsageError
from nnc.ops.composed.custom import KERNEL
from nnc.ops.operand import apply
from nnc.parallel import Mesh, Pipeline, RankGroup, Wire, joined, simulate
from nnc.parallel.block_operators import FIRST_LARGEST, JOIN_BLOCKS, JOIN_LOGSUMS, LEAVE, RankBlockAttrs
from nnc.parallel.collectives import GroupAttrs
from nnc.parallel.communicator import Communicator
from nnc.parallel.simulating import wire as measuring
from nnc.parallel.tensor_shards import shard_sums, unshard
from nnc.symbolic import Symbol, SymbolicGraph, while_loop

ONE, BYTES = Wire(1.0, 0.0), Wire(0.0, 1.0)
SIZE = 4


class Done:
    """A message that arrived."""

    def Test(self) -> bool:
        return True


class CountingWire:
    """A rank of four whose messages arrive at once; what it receives are zeros."""

    def __init__(self) -> None:
        self.messages = self.sent = 0

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return SIZE

    def Get_attr(self, name: int) -> int:
        return 32_767

    def Irecv(self, array: np.ndarray, rank: int, tag: int) -> Done:
        array[...] = 0
        return Done()

    def Isend(self, array: np.ndarray, rank: int, tag: int) -> Done:
        self.messages += 1
        self.sent += array.nbytes
        return Done()


GROUP = RankGroup(SIZE)
OPERATIONS: dict[str, Callable[[Symbol], object]] = {
    "sum": lambda x: parallel.allreduce(x, "sum", GROUP),
    "all_gather": lambda x: parallel.all_gather(x, GROUP),
    "reduce_scatter": lambda x: parallel.reduce_scatter(x, GROUP),
    "all_to_all": lambda x: parallel.all_to_all(x, GROUP),
    "broadcast": lambda x: parallel.broadcast(x, 0, GROUP),
    "shift": lambda x: parallel.shift(x, 1, GROUP),
    "unshard": lambda x: unshard([x], [spec((x.spec.elements * SIZE,))], GROUP),
    "leave": lambda x: apply(LEAVE, GroupAttrs(GROUP), x),
    "join_blocks": lambda x: apply(JOIN_BLOCKS, RankBlockAttrs(GROUP, 0, x.spec.elements * SIZE), x),
    "join_logsums": lambda x: apply(JOIN_LOGSUMS, GroupAttrs(GROUP), x),
    "first_largest": lambda x: apply(FIRST_LARGEST, RankBlockAttrs(GROUP, 0, x.spec.elements * SIZE), x, x),
    "shard_sum": lambda x: shard_sums([x], GROUP),
}


# Numbers of rows are few.
SIZES = dict.fromkeys(OPERATIONS, (64, 1 << 13, 1 << 16, 3 << 20)) | {"first_largest": (64, 1 << 13)}


@pytest.mark.parametrize(("name", "elements"), [(name, size) for name, sizes in SIZES.items() for size in sizes])
def test_trades_are_those_that_a_rank_sends(name: str, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SymbolicGraph()
    OPERATIONS[name](graph.input(spec((elements,)), "x"))
    (key,) = graph.execs.toposort()
    record = graph.execs[key]
    wire = CountingWire()
    monkeypatch.setattr("nnc.parallel.communicator.mpi", lambda: SimpleNamespace(TAG_UB=0))
    ranks = Communicator(wire)
    for module in ("block_operators", "collectives", "tensor_shards"):
        monkeypatch.setattr(f"nnc.parallel.{module}.joined", lambda group: ranks)
    outputs = [np.zeros(graph.tensors[made].spec.shape, np.float32) for made in record.outputs]
    KERNEL[record.command.op](record.command.attrs, [np.zeros(elements, np.float32) for _ in record.inputs], outputs)
    assert simulate(graph, ONE).messages == wire.messages
    assert simulate(graph, BYTES).sent == wire.sent
    assert simulate(graph, Wire(2.0, 3.0), 5.0).seconds == 5 + 2 * wire.messages + 3 * wire.sent


def test_a_model_is_simulated_for_ranks_that_are_not_there() -> None:
    layer = nn.Sequential(nn.Dense(64), nn.BatchNorm(), nn.ReLU(), nn.Dense(8))
    models = {ranks: nn.Model(layer, (32,), mesh=Mesh(data=ranks)) for ranks in (1, 4, 64)}
    alone, four, many = (models[ranks].simulate(4, Wire(1e-6, 1e-9), 0.001) for ranks in (1, 4, 64))
    assert (alone.ranks, alone.seconds, alone.sent, alone.efficiency) == (1, 0.001, 0, 1.0)
    assert (four.ranks, many.ranks) == (4, 64)
    assert many.messages == four.messages // 3 * 63
    assert alone.efficiency > four.efficiency > many.efficiency > 0
    assert "64 ranks: 2.1 ms (1.0 computing), 378 messages" in str(many)
    assert many.memory == models[64].memory(4).total
    shards = nn.Model(layer, (32,), mesh=Mesh(data=4), zero_stage=3).simulate(4, Wire(1e-6, 1e-9), 0.001)
    # Statistics of batches are on each rank in both; weights travel twice and gradients once, each to where it is kept.
    assert shards.memory < four.memory
    assert shards.sent > 0


def test_what_cannot_be_foretold_is_refused() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((8,)), "x")
    parallel.allreduce(x, "sum", GROUP)
    assert simulate(graph, ONE, ranks=8).messages == 7
    parallel.all_gather(x, GROUP)
    with pytest.raises(UsageError, match=r"all_gather of 4 ranks, asked for 8.*Mesh\(data=8\)"):
        simulate(graph, ONE, ranks=8)
    for alpha, beta in ((-1.0, 0.0), (0.0, float("nan")), (float("inf"), 0.0)):
        with pytest.raises(ArgumentError, match="seconds, zero or more"):
            Wire(alpha, beta)
    with pytest.raises(ArgumentError, match="computing=-1"):
        simulate(graph, ONE, -1.0)
    with pytest.raises(UsageError, match="nnc launch -n 2"):
        parallel.measure_wire()


def test_a_wire_is_measured_among_any_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "LONG_BYTES", 1 << 16)
    monkeypatch.setattr(measuring, "ROWS", 8)
    calls = list[tuple[int, bool]]()
    pieces = measuring._seconds_of_pieces

    def counted(ranks: Communicator, rounds: int, is_summed: bool) -> float:
        calls.append((ranks.size, is_summed))
        return pieces(ranks, rounds, is_summed) + is_summed

    monkeypatch.setattr(measuring, "_seconds_of_pieces", counted)

    def measured(rank: int) -> Wire | None:
        pair = joined(RankGroup(3)).split(rank // 2, "a pair and one alone")
        return parallel.measure_wire(pair, 1) if pair.size > 1 else None

    first, second, _ = run_ranks(3, measured)
    assert sorted(calls) == [(2, False), (2, False), (2, True), (2, True)]
    assert first is not None
    assert first == second
    assert first.start > 0.5 / measuring.PIECES


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_stages_wait_for_each_other_as_long_as_pipelines_take_to_fill(schedule: Any) -> None:
    tower, parts = nn.Sequential(*[nn.Dense(32) for _ in range(6)]), 4
    options: dict[str, Any] = {"loss": nn.MeanSquaredError(), "optimizer": nn.SGD(0.1)}
    pipeline = Pipeline(parts, starts=("2", "4"), schedule=schedule)
    model = nn.Model(tower, (32,), mesh=Mesh(pipe=3), pipeline=pipeline, **options)
    free = model.simulate(1024, Wire(0.0, 0.0), 3.0)
    # A third of the work each, in parts + stages - 1 turns of which `parts` are its own; loss and updates are the rest.
    assert free.ranks == 3
    assert free.seconds == pytest.approx((parts + 2) / parts, rel=0.05)
    assert free.waiting == pytest.approx(free.seconds - free.computing)
    slow = model.simulate(1024, Wire(0.0, 0.0, start=0.01), 3.0)
    assert slow.seconds > free.seconds + 4 * 0.01
    assert slow.sent == free.sent > 0
    assert slow.memory == model.memory(1024).total


def test_ranks_that_share_products_compute_less_than_one() -> None:
    tower = nn.Sequential(nn.Dense(256, bias=False), nn.ReLU(), nn.Dense(64, bias=False))
    options: dict[str, Any] = {"loss": nn.MeanSquaredError(), "optimizer": nn.SGD(0.1)}
    one, half = (
        nn.Model(tower, (64,), mesh=mesh, **options).simulate(64, Wire(0.0, 0.0), 1.0)
        for mesh in (None, Mesh(tensor=2))
    )
    assert (one.computing, one.ranks, half.ranks) == (1.0, 1, 2)
    # Losses and what is behind the sums is computed on both.
    assert 0.5 < half.computing < 0.55


def test_a_stage_alone_is_refused() -> None:
    tower = nn.Sequential(nn.Dense(4), nn.Tanh(), nn.Dense(2))
    model = nn.Model(tower, (3,), mesh=Mesh(pipe=2), pipeline=Pipeline(2, schedule="gpipe"))
    with pytest.raises(UsageError, match="takes in what none hands over"):
        simulate(model.training_step(4).compiled.planned.graph, ONE)


def test_operations_in_loops_are_refused() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((8,)), "x")
    with while_loop(graph, CountBelow(3)) as loop:
        a = loop.carry(x)
        loop.next(a, parallel.allreduce(a, "sum", GROUP))
    with pytest.raises(UsageError, match="them outside of loops"):
        simulate(graph, ONE)
