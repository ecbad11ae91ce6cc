"""Models of ONNX files on devices: weights are there once, inputs go there, outputs come back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.simulated_device import SimulatedMachine, simulated

import nnc
from nnc import nn
from nnc.core.values.device import Device
from nnc.errors import DeviceError

X = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)


@pytest.fixture
def machine() -> Iterator[SimulatedMachine]:
    with simulated(count=2, server="llvm") as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    network = nn.Sequential(nn.Dense(8), nn.BatchNorm(), nn.Tanh(), nn.Dense(3))
    nnc.onnx.save(nn.Model(network, (6,)), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_a_file_runs_on_a_device(machine: SimulatedMachine, file: Path) -> None:
    there, host = nnc.onnx.load(file, device="cuda:1"), nnc.onnx.load(file)
    for rows in (5, 2, 5):
        np.testing.assert_allclose(there.run({"x": X[:rows]})["y"], host.run({"x": X[:rows]})["y"], rtol=1e-5)
    assert there.device == Device("cuda", 1)
    assert "cuda:1" in there.memory(batch=5).arenas
    machine.driver.counts.clear()
    there.run({"x": X})
    assert (machine.driver.counts["upload"], machine.driver.counts["download"]) == (1, 1)


def test_what_a_device_refuses_runs_on_the_host(machine: SimulatedMachine, file: Path) -> None:
    machine.refused = {nnc.ops.tanh}
    there, host = nnc.onnx.load(file, device="cuda"), nnc.onnx.load(file)
    there.passes = host.passes = ()
    np.testing.assert_allclose(there.run({"x": X})["y"], host.run({"x": X})["y"], rtol=1e-5)


def test_copies_and_pickles_are_on_the_device(machine: SimulatedMachine, file: Path) -> None:
    with nnc.device("cuda"):
        model = nnc.onnx.load(file)
    want = model.run({"x": X})["y"]
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.device == Device("cuda")
        np.testing.assert_array_equal(twin.run({"x": X})["y"], want)


def test_a_device_that_is_not_there(file: Path) -> None:
    with simulated(), pytest.raises(DeviceError, match="cuda:3; need one of cpu:0"):
        nnc.onnx.load(file, device="cuda:3")
