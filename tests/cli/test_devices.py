"""--device of all commands that run something."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Ran
from tests.simulated_device import SimulatedMachine, simulated

import nnc
from nnc import nn


@pytest.fixture
def machine() -> Iterator[SimulatedMachine]:
    with simulated(count=2, server="llvm") as made:
        yield made


def test_training_and_predictions(machine: SimulatedMachine, folder: Path, call: Callable[..., Ran]) -> None:
    rows = "a,b,y\n" + "".join(f"{k},{k * k % 7},{2 * k}\n" for k in range(40))
    (folder / "t.csv").write_text(rows)
    losses = []
    for device in ("cuda:1", "cpu"):
        ran = call("train", "table", "t.csv", "--target", "y", "--epochs", "2", "--device", device, "--json")
        assert ran.code == 0
        facts = json.loads(ran.out)
        assert facts["backend"] == (device if device == "cuda:1" else "llvm")
        losses.append(
            {name: value for name, value in facts.items() if "loss" in name or "bytes" in name or "r2" in name}
        )
        assert call("predict", "table", "t.csv", "--device", device, "--json").code == 0
    assert losses[0] == losses[1]
    assert machine.driver.counts["kernel"] > 10


def test_files(machine: SimulatedMachine, folder: Path, call: Callable[..., Ran]) -> None:
    nnc.onnx.save(nn.Model(nn.Dense(2), (3,)), folder / "net.onnx")
    np.save(folder / "x.npy", np.ones((4, 3), np.float32))
    for device in ("cuda", "cpu"):
        assert call("run", "net.onnx", "--input", "x=x.npy", "--output", device, "--device", device).code == 0
    np.testing.assert_allclose(np.load(folder / "cuda" / "y.npy"), np.load(folder / "cpu" / "y.npy"), rtol=1e-6)
    assert call("bench", "net.onnx", "--size", "batch=2", "--runs", "1", "--device", "cuda", "--json").code == 0
    planned = call("plan", "net.onnx", "--size", "batch=2", "--device", "cuda:1")
    assert planned.code == 0
    assert call("plan", "net.onnx", "--size", "batch=2", "--train", "--device", "cuda:1").code == 0
    assert call("plan", "net.onnx", "--size", "batch=1..2", "--device", "cuda:1").code == 0


@pytest.mark.parametrize(
    "command",
    [["train", "digits"], ["plan", "net.onnx"], ["plan", "net.onnx", "--size", "batch=1..4"], ["run", "net.onnx"]],
)
def test_a_device_that_is_not_there(folder: Path, call: Callable[..., Ran], command: list[str]) -> None:
    nnc.onnx.save(nn.Model(nn.Dense(2), (3,)), folder / "net.onnx")
    with simulated():
        ran = call(*command, "--device", "cuda:5")
    assert "got cuda:5; need one of cpu:0" in ran.complaint()
