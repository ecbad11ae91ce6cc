"""Memory of several devices: an arena, a statement and a limit for each, and the same plan as on the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.simulated_device import SimulatedMachine, simulated

from nnc import ops
from nnc.concrete import ConcreteGraph
from nnc.core.running import copy_rates
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError, MemoryLimitError, ShapeError, UsageError
from nnc.ops.movement.transfer import to_device
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph, compile, faults
from nnc.symbolic.compiler.place.memory_statement import ArenaLimit
from nnc.symbolic.gradient import backward

HERE, THERE = Device("cuda"), Device("cuda", 1)
X = np.random.default_rng(0).random((32, 32), np.float32) / 8


@pytest.fixture(params=["plain", "debug"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedMachine]:
    monkeypatch.setattr(SETTINGS, "debug", request.param == "debug")
    with simulated(count=2) as made:
        yield made


def chain(device: str, steps: int = 8) -> tuple[SymbolicGraph, Symbol, Symbol]:
    """Products and tanh one after another, and the gradient of the first value."""
    graph = SymbolicGraph()
    x = graph.input(spec((32, 32), device=device), "x")
    h = x
    for _ in range(steps):
        h = ops.tanh(ops.gemm(h, x))
    (slope,) = backward(graph, [ops.reduce_sum(h)], [x])
    return graph, x, slope


def test_a_plan_is_the_same_on_every_device(machine: SimulatedMachine) -> None:
    plans = {}
    for device in ("cpu", "cuda", "cuda:1"):
        graph, x, slope = chain(device)
        compiled = compile(graph, [slope], backend="" if device != "cpu" else "reference")
        problem, plan = compiled.plan()
        plans[device] = plan.offsets
        statement = compiled.memory()
        assert statement.on(device).arena == statement.arena == plan.arena_bytes
        assert statement.on(device).lower_bound == plan.lower_bound
        assert compiled.memory().arenas == {str(x.spec.device): plan.arena_bytes}
        assert len(problem.blocks) == len(plan.offsets)
    assert plans["cpu"] == plans["cuda"] == plans["cuda:1"]


def test_each_device_has_what_the_statement_says(machine: SimulatedMachine) -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((32, 32)), "x"), graph.input(spec((32, 32), device="cuda"), "w")
    y = ops.exp(to_device(ops.gemm(to_device(x, HERE), w), THERE))
    compiled = compile(graph, [y], given={w: Tensor.from_numpy(X).to(HERE)})
    statement = compiled.memory()
    assert statement.arenas == {"cpu:0": 4096, "cuda:0": 8192, "cuda:1": 4096}
    assert {device: statement.on(device).bound for device in statement.devices} == {
        "cpu:0": 0, "cuda:0": 4096, "cuda:1": 0,
    }  # fmt: skip
    assert statement.on("vulkan").arena == 0
    assert "cuda:0: 8192 B" in str(statement)
    before = {device: machine.driver.used(device) for device in (HERE, THERE)}
    np.testing.assert_allclose(compiled({x: X}, y)[0], np.exp(X @ X), rtol=1e-5)
    assert machine.driver.used(HERE) - before[HERE] == 8192
    assert machine.driver.used(THERE) - before[THERE] == 4096
    compiled.clear()
    assert "cuda:1" in compiled.page("two devices")


@pytest.mark.parametrize("form", ["bytes", "device", "text"])
def test_a_limit_on_a_device_is_met_bit_by_bit(machine: SimulatedMachine, form: str) -> None:
    graph, x, slope = chain("cuda")
    free = compile(graph, [slope])
    most = free.memory().arena * 3 // 4
    limits: dict[str, ArenaLimit] = {"bytes": most, "device": {HERE: most, "cpu": 0}, "text": {"cuda": f"{most}B"}}
    limited = compile(graph, [slope], memory_limit=limits[form])
    assert limited.memory().on("cuda").arena <= most < free.memory().arena
    assert limited.budget is not None
    assert limited.budget.repeated > 0
    np.testing.assert_array_equal(limited({x: X}, slope)[0], free({x: X}, slope)[0])


def test_values_wait_on_the_host_where_that_is_cheaper(
    machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_rates, "_RATES", {HERE: (1e-3, 1e-6)})
    graph, x, slope = chain("cuda")
    free = compile(graph, [slope])
    most = free.memory().arena * 6 // 10
    limited = compile(graph, [slope], memory_limit={"cuda": most})
    assert limited.memory().on("cuda").arena <= most
    assert limited.budget is not None
    assert limited.budget.offloaded > 0
    assert f"{limited.budget.offloaded} B offloaded" in str(limited.budget)
    want = free({x: X}, slope)[0]
    machine.driver.counts.clear()
    np.testing.assert_array_equal(limited({x: X}, slope)[0], want)
    moves = limited.budget.offloaded // X.nbytes
    assert (machine.driver.counts["upload"], machine.driver.counts["download"]) == (1 + moves, 1 + moves)
    assert limited.budget.offload_seconds == pytest.approx(moves * (1e-3 + X.nbytes * 1e-6))
    assert f"({limited.budget.offload_seconds:.3f} s)" in str(limited.budget)
    # All arenas together do not shrink by moving values from one to another.
    with pytest.raises(MemoryLimitError):
        compile(graph, [slope], memory_limit=most)


@pytest.mark.turns(4)
def test_large_products_wait_and_small_ones_are_computed_again(machine: SimulatedMachine) -> None:
    repeated = []
    for size in (32, 4096):
        graph = SymbolicGraph()
        x = graph.input(spec((size, size), device="cuda"), "x")
        h = x
        for _ in range(8):
            h = ops.gemm(ops.tanh(h), x)
        (slope,) = backward(graph, [ops.reduce_sum(h)], [x])
        most = compile(graph, [slope]).memory().arena * 8 // 10
        budget = compile(graph, [slope], memory_limit={"cuda": most}).budget
        assert budget is not None
        repeated.append((budget.offloaded > 0, budget.repeated > 0))
    assert repeated == [(False, True), (True, False)]


def test_a_limit_of_another_device_asks_for_nothing(machine: SimulatedMachine) -> None:
    graph, _, slope = chain("cuda")
    assert compile(graph, [slope], memory_limit={"cuda:1": 0}).budget is None


def test_limits_that_cannot_be_met(machine: SimulatedMachine) -> None:
    graph, _, slope = chain("cuda")
    with pytest.raises(MemoryLimitError, match="memory_limit=100; need at least"):
        compile(graph, [slope], memory_limit={"cuda": 100})
    with pytest.raises(DeviceError, match="device"):
        compile(graph, [slope], memory_limit={"gpu": 100})
    with pytest.raises(UsageError, match="bytes"):
        compile(graph, [slope], memory_limit={"cuda": "many"})
    with pytest.raises(UsageError, match="memory_limit"):
        compile(graph, [slope], memory_limit={"cuda": -1})


def test_no_library_is_made_of_a_program_on_a_device(machine: SimulatedMachine) -> None:
    graph, _, slope = chain("cuda")
    with pytest.raises(DeviceError, match="a program on cuda:0"):
        compile(graph, [slope]).laid_out()


def test_what_may_stand_for_what() -> None:
    assert TensorSpec((4,), device=HERE).on(HERE).fits(TensorSpec((4,), device=HERE))
    assert not TensorSpec((4,), device=HERE).fits(TensorSpec((4,), device=THERE))
    assert TensorSpec((4,), device=Device("cpu", 1)).fits(TensorSpec((4,)))


def test_a_program_never_touches_memory_of_another_device(machine: SimulatedMachine) -> None:
    graph, _, slope = chain("cuda", 2)
    assert faults(graph) == ()
    record = graph.tensors[slope.key]
    graph.tensors.replace(slope.key, replace(record, spec=record.spec.on(THERE)))
    assert any("cuda:1; inferred" in fault or "one device" in fault for fault in faults(graph))
    host = Tensor.from_numpy(X)
    wrong = Tensor(TensorSpec((32, 32), device=HERE), host.storage)
    with pytest.raises(DeviceError, match=r"f32\[32, 32\]@cuda:0 in memory of cpu:0"):
        ConcreteGraph().add(Command(ops.exp, NoAttrs()), [wrong], [Tensor.empty(wrong.spec)])
    here, there = (Tensor.empty(TensorSpec((32, 32), device=device)) for device in (HERE, THERE))
    with pytest.raises(DeviceError, match="need operands on one device"):
        ConcreteGraph().add(Command(ops.add, NoAttrs()), [here, there], [Tensor.empty(here.spec)])
    with pytest.raises(ShapeError, match="outputs .*cuda:1"):
        ConcreteGraph().add(Command(ops.exp, NoAttrs()), [here], [there])
