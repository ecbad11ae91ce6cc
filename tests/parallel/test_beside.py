"""Sums that go on beside computing: begun as early, ended as late, with the bits of those that are waited for."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from tests.parallel.ranks_as_threads import run_ranks

from nnc import nn
from nnc.core.values.spec import spec
from nnc.errors import RanksError, RankTimeoutError
from nnc.ops import add, tanh
from nnc.parallel import Mesh, RankGroup, Simulation, Wire, buckets, joined
from nnc.parallel.beside import BEGIN_SUMS, END_SUMS, beside
from nnc.parallel.ordering import order_collectives
from nnc.symbolic import SymbolicGraph, compile

X, Y = np.random.default_rng(0).standard_normal((12, 6)).astype(np.float32), np.arange(12) % 3
LAYERS = 12


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "BESIDE_BYTES", 200)


def model(layers: int = LAYERS, **options: Any) -> nn.Model:
    tower = nn.Sequential(*[nn.Sequential(nn.Dense(8), nn.Tanh()) for _ in range(layers)], nn.Dense(3))
    return nn.Model(tower, (6,), optimizer=nn.Adam(0.05), mesh=Mesh(data=2), **options)


@pytest.mark.turns(4)
@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.5, "nan_guard": True}], ids=["plain", "clipped"])
def test_bits_are_those_of_sums_that_are_waited_for(options: dict[str, Any]) -> None:
    def run(rank: int) -> list[np.ndarray]:
        results = []
        for limit in (None, 1 << 40):
            made, own = model(4, memory_limit=limit, **options), slice(6 * rank, 6 * rank + 6)
            losses = [made.train_on_batch(X[own], Y[own])[0] for _ in range(4)]
            results.append(np.concatenate([losses, *(value.ravel() for value in made.state_dict().values())]))
        return results

    for going_on, waited_for in run_ranks(2, run):
        np.testing.assert_array_equal(going_on, waited_for)


def test_sums_begin_before_the_next_values_and_end_behind_others() -> None:
    graph, group, values = SymbolicGraph("gradients"), Mesh(data=2).group("data"), []
    x = graph.input(spec((8, 8)), "x")
    for _ in range(LAYERS):
        x = tanh(x)
        values.append(add(x, x))
    sums = [tanh(total) for total in buckets.sums_over(values[::-1], group, beside=True)]
    order_collectives(graph)
    planned = compile(graph, sums).planned
    names = [planned.graph.execs[key].command for key in planned.order]
    begins = [place for place, command in enumerate(names) if command.op is BEGIN_SUMS]
    ends = [place for place, command in enumerate(names) if command.op is END_SUMS]
    assert [names[place].attrs.number for place in begins] == [*range(LAYERS)]
    assert min(ends) > max(begins)
    # The value of the next sum is not computed before this one has begun.
    assert all(names[place - 1].op is not BEGIN_SUMS for place in begins[1:])


def test_what_was_broken_off_or_fails_beside_is_told() -> None:
    def run(rank: int) -> None:
        ranks = joined(RankGroup(2))
        going = beside(ranks)
        going.begin(0, lambda twin: twin.barrier())
        with pytest.raises(RanksError, match="broken off"):
            going.begin(0, lambda twin: twin.barrier())
        with pytest.raises(RanksError, match="broken off"):
            ranks.barrier()

    run_ranks(2, run)


def test_a_rank_that_does_not_come_is_named_where_the_sum_ends() -> None:
    done = threading.Barrier(2)

    def run(rank: int) -> None:
        ranks = joined(RankGroup(2))
        going = beside(ranks)
        if rank == 0:
            ranks.timeout = 0.05
            going.begin(0, lambda twin: twin.barrier())
            with pytest.raises(RankTimeoutError, match="rank 1"):
                going.end(0)
        done.wait(20)

    run_ranks(2, run)


def test_what_is_foretold_hides_all_but_the_last_sum() -> None:
    made = model()
    seconds = {limit: _foretold(made if limit is None else model(memory_limit=limit)) for limit in (None, 1 << 40)}
    beside, behind = seconds[None], seconds[1 << 40]
    assert behind.hidden == 0
    assert behind.seconds == behind.computing + behind.communicating
    # As many bytes are sent; those of the first layer have nothing to hide behind.
    assert beside.sent == behind.sent
    assert 0.9 * beside.communicating < beside.hidden < beside.communicating


def _foretold(made: nn.Model) -> Simulation:
    return made.simulate(6, Wire(0.0, 1e-9), 1.0)
