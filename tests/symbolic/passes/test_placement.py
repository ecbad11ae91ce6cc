"""Placement: where execs run, by scope, by what devices claim, and as a whole; the transfers in between."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.simulated_device import SimulatedMachine, simulated

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.settings import SETTINGS
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import I64
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import ShapeError
from nnc.ops.movement.transfer import TO_DEVICE, to_device
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.control import while_loop
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.passes import DEFAULT, Pass, place, simplify
from nnc.symbolic.scopes import scope
from nnc.symbolic.verification import verify

HERE, THERE = Device("cuda"), Device("cuda", 1)
X = np.random.default_rng(0).random((4, 4), np.float32)


@pytest.fixture(params=["plain", "debug"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedMachine]:
    monkeypatch.setattr(SETTINGS, "debug", request.param == "debug")
    with simulated(count=2) as made:
        yield made


def devices_of(graph: SymbolicGraph) -> dict[str, str]:
    """Where each exec writes, by its name."""
    return {
        record.name or record.command.op.name: str(graph.tensors[record.outputs[0]].spec.device)
        for _, record in graph.execs.items()
    }


def transfers_in(graph: SymbolicGraph) -> int:
    return sum(record.command.op is TO_DEVICE for _, record in graph.execs.items())


def network() -> tuple[SymbolicGraph, Symbol, Symbol, Symbol]:
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4)), "x"), graph.input(spec((4, 4)), "w")
    with scope("encoder"):
        h = ops.exp(ops.gemm(x, w))
    with scope("decoder"):
        y = ops.sqrt(ops.tanh(h) * ops.tanh(h) + h)
    return graph, x, w, y


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    h = np.exp(x @ w)
    return np.sqrt(np.tanh(h) ** 2 + h)


def test_a_whole_graph_goes_to_a_device(machine: SimulatedMachine) -> None:
    graph, x, w, y = network()
    done = place(graph, "cuda:1")
    assert done == {"placed": 7, "transfers": 2, "refused": 0}
    assert {device for name, device in devices_of(graph).items()} == {"cuda:1"}
    compiled = compile(graph, [y])
    np.testing.assert_allclose(compiled({x: X, w: X}, y)[0], expected(X, X), rtol=1e-5)
    assert compiled.memory().arenas.keys() == {"cpu:0", "cuda:1"}


def test_scopes_are_placed_apart_with_one_transfer_each(machine: SimulatedMachine) -> None:
    graph, x, w, y = network()
    assert place(graph, {"encoder": HERE, "decoder": "cuda:1"})["transfers"] == 3
    devices = devices_of(graph)
    assert devices["encoder.exp"] == "cuda:0"
    assert devices["decoder.sqrt"] == "cuda:1"
    verify(graph, "placement")
    compiled = compile(graph, [y])
    np.testing.assert_allclose(compiled({x: X, w: X}, y)[0], expected(X, X), rtol=1e-5)


def test_what_is_not_named_stays(machine: SimulatedMachine) -> None:
    graph, x, w, y = network()
    place(graph, {"enc": HERE, "decoder": HERE, "decoder.sqrt": CPU})
    devices = devices_of(graph)
    assert (devices["encoder.gemm"], devices["decoder.tanh"], devices["decoder.sqrt"]) == ("cpu:0", "cuda:0", "cpu:0")
    np.testing.assert_allclose(compile(graph, [y])({x: X, w: X}, y)[0], expected(X, X), rtol=1e-5)


def test_weights_that_are_there_are_not_moved_in_a_run(machine: SimulatedMachine) -> None:
    graph, x, w, y = network()
    assert place(graph, HERE, inputs={w: HERE})["transfers"] == 1
    assert w.spec.device == HERE
    compiled = compile(graph, [y], given={w: Tensor.from_numpy(X).to(HERE)})
    for _ in range(2):
        machine.driver.counts.clear()
        np.testing.assert_allclose(compiled({x: X}, y)[0], expected(X, X), rtol=1e-5)
    assert (machine.driver.counts["upload"], machine.driver.counts["download"]) == (1, 1)


def test_what_no_backend_claims_runs_on_the_host(machine: SimulatedMachine) -> None:
    machine.refused = {ops.tanh}
    graph, x, w, y = network()
    done = place(graph, HERE)
    assert (done["refused"], done["placed"]) == (2, 5)
    # x and w there, h back, and both results there.
    assert done["transfers"] == 5
    np.testing.assert_allclose(compile(graph, [y])({x: X, w: X}, y)[0], expected(X, X), rtol=1e-5)


def test_a_chain_of_refused_execs_passes_the_border_once(machine: SimulatedMachine) -> None:
    machine.refused = {ops.tanh, ops.sin}
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4), device="cuda"))
    y = ops.exp(ops.tanh(ops.sin(ops.tanh(x))))
    simplify(graph, [y], [Pass.PLACEMENT])
    assert transfers_in(graph) == 2
    assert y.spec.device == HERE
    result = compile(graph, [y])({x: X}, y)[0]
    np.testing.assert_allclose(result, np.exp(np.tanh(np.sin(np.tanh(X)))), rtol=1e-5)


def test_wanted_values_and_parts_stay_where_they_were(machine: SimulatedMachine) -> None:
    machine.refused = {ops.tanh}
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4), device="cuda"))
    y = ops.tanh(ops.slice_axis(ops.transpose(x), 0, 1, 4))
    z = ops.concatenate([ops.tanh(x), ops.exp(x)])
    simplify(graph, [y, z], [*DEFAULT])
    assert y.spec.device == z.spec.device == HERE
    compiled = compile(graph, [y, z])
    first, second = compiled({x: X}, y, z)
    np.testing.assert_allclose(first, np.tanh(X.T[1:]), rtol=1e-5)
    np.testing.assert_allclose(second, np.concatenate([np.tanh(X), np.exp(X)]), rtol=1e-5)


def test_transfers_there_and_back_go(machine: SimulatedMachine) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4), device="cuda"))
    y = ops.exp(to_device(to_device(x, "cpu"), "cuda"))
    simplify(graph, [y], [Pass.DATA_TRANSFER])
    assert transfers_in(graph) == 0


@pytest.mark.parametrize("refused", [False, True])
def test_loops_and_branches_are_placed_whole(machine: SimulatedMachine, refused: bool) -> None:
    machine.refused = {ops.tanh} if refused else set()
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4))), graph.input(spec((4, 4)))
    with while_loop(graph, CountBelow(3)) as loop:
        h = loop.carry(x)
        loop.next(h, ops.tanh(ops.gemm(h, w)))
    (y,) = (loop.result(h),)
    chosen = graph.input(spec((), I64))
    place(graph, HERE)
    assert y.spec.device == HERE
    for _, record in graph.execs.items():
        for _, body in bodies_of(record.command):
            assert {body.graph.tensors[key].spec.device for key in body.parameters} == {HERE}
    assert chosen.spec.device == CPU
    compiled, want = compile(graph, [y]), X
    for _ in range(3):
        want = np.tanh(want @ X)
    np.testing.assert_allclose(compiled({x: X, w: X}, y)[0], want, rtol=1e-5)


def test_gradients_of_mixed_graphs(machine: SimulatedMachine) -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4)), "x"), graph.input(spec((4, 4)), "w")
    y = ops.reduce_sum(ops.exp(to_device(ops.gemm(x, w), "cuda:1")))
    (slope,) = backward(graph, [y], [w])
    assert slope.spec.device == CPU
    result = compile(graph, [slope])({x: X, w: X}, slope)[0]
    np.testing.assert_allclose(result, X.T @ np.exp(X @ X), rtol=1e-5)


def test_tensors_of_another_device_are_refused(machine: SimulatedMachine) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4), device="cuda"))
    with pytest.raises(ShapeError, match=r"f32\[4, 4\] for .*@cuda:0; need a contiguous tensor of .*@cuda:0"):
        compile(graph, [ops.exp(x)], given={x: Tensor.from_numpy(X)})


def test_graphs_of_the_host_are_left_alone() -> None:
    graph, _, _, y = network()
    before = graph.version
    (report,) = simplify(graph, [y], [Pass.PLACEMENT])
    assert (graph.version, report.fired) == (before, {})
