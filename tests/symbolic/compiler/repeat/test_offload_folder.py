"""Values of the host that wait in a file: the same bits, less of an arena, and nothing left behind."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from nnc import nn, ops
from nnc.core.running import file_device
from nnc.core.settings import SETTINGS
from nnc.core.values.device import Device
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError, MemoryLimitError, OutOfMemoryError, UsageError
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile
from nnc.symbolic.gradient import backward

SIZE = 32
X = np.random.default_rng(0).random((SIZE, SIZE), np.float32) / 8
BLOCK = X.nbytes


@pytest.fixture(autouse=True)
def cheap_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files cost next to nothing, whatever else this machine does."""
    monkeypatch.setattr(file_device, "_seconds", lambda folder: 1e-9)
    monkeypatch.setattr(file_device, "_RATES", {})


def chain(steps: int = 8) -> tuple[SymbolicGraph, Symbol, Symbol]:
    """Products and tanh one after another, and the gradient of the first value."""
    graph = SymbolicGraph()
    x = graph.input(spec((SIZE, SIZE)), "x")
    h = x
    for _ in range(steps):
        h = ops.tanh(ops.gemm(h, x))
    (slope,) = backward(graph, [ops.reduce_sum(h)], [x])
    return graph, x, slope


def program(folder: Path | None, limit: int | None) -> tuple[Compiled, Symbol, Symbol]:
    graph, x, slope = chain()
    return compile(graph, [slope], memory_limit=limit, offload_folder=folder, backend="reference"), x, slope


def ran(made: tuple[Compiled, Symbol, Symbol]) -> bytes:
    compiled, x, slope = made
    return compiled({x: X}, slope)[0].tobytes()


def offloading(folder: Path) -> tuple[Compiled, Symbol, Symbol]:
    """One that leaves values in a file."""
    whole = program(None, None)[0].memory().arena
    made = program(folder, whole * 6 // 10)
    assert made[0].budget is not None
    assert made[0].budget.offloaded > 0
    return made


@pytest.mark.parametrize("debug", [False, True])
def test_values_wait_in_a_file_without_a_name(tmp_path: Path, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "debug", debug)
    made = offloading(tmp_path)
    statement, budget = made[0].memory(), made[0].budget
    files = {kind: nbytes for kind, nbytes in statement.arenas.items() if kind.startswith("file:")}
    assert sum(files.values()) == budget.offloaded
    assert statement.arena == statement.arenas["cpu:0"] <= budget.limit
    assert f"{budget.offloaded} B offloaded" in str(budget)
    assert statement.lower_bound <= statement.arena < statement.process
    assert ran(made) == ran(made) == ran(program(None, None))
    assert [*tmp_path.iterdir()] == []


def test_what_costs_more_than_computing_again_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_device, "_seconds", lambda folder: 1e3)
    whole = program(None, None)[0].memory().arena
    budget = program(tmp_path, whole * 8 // 10)[0].budget
    assert budget is not None
    assert budget.offloaded == 0
    assert budget.repeated > 0


def test_without_a_limit_nothing_waits(tmp_path: Path) -> None:
    assert program(tmp_path, None)[0].budget is None


def test_a_limit_that_cannot_be_met_names_the_smallest(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        program(tmp_path, BLOCK)
    assert program(tmp_path, caught.value.smallest)[0].memory().arena <= caught.value.smallest


@pytest.mark.parametrize("folder", ["", "missing", 5, "file"])
def test_what_is_no_folder_is_refused(tmp_path: Path, folder: object) -> None:
    (tmp_path / "file").write_text("")
    named = tmp_path / folder if isinstance(folder, str) and folder else folder
    with pytest.raises(UsageError, match=r"offload_folder"):
        nn.Model(nn.Dense(2), (2,), offload_folder=named)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"offload_folder") as caught:
        program(named, 1)  # type: ignore[arg-type]
    assert "Errno" not in str(caught.value)


def test_a_system_without_pwrite_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pwrite")
    with pytest.raises(UsageError, match=r"a system that has pwrite"):
        nn.Model(nn.Dense(2), (4,), offload_folder=tmp_path)


def test_a_folder_that_went_is_told_of_and_may_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "values"
    folder.mkdir()
    made = offloading(folder)
    folder.rmdir()
    with pytest.raises(UsageError, match=r": no such file or directory; need"):
        ran(made)
    folder.mkdir()
    assert ran(made) == ran(program(None, None))


def test_a_full_disk_is_an_error_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = offloading(tmp_path)

    def full(file: int, begin: int, nbytes: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OutOfMemoryError, match=r": no space left on device; need.*another folder"):
            ran(made)
    assert ran(made) == ran(program(None, None))


def test_a_disk_that_fails_is_an_error_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = offloading(tmp_path)
    expected = ran(made)

    def failing(file: int, parts: object, place: int) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", failing)
        with pytest.raises(DeviceError, match=r": input/output error; need"):
            ran(made)
    assert ran(made) == expected


@pytest.mark.nightly("copies and pickles of models have tests of their own")
def test_a_model_is_copied_and_pickled_and_trains_with_the_same_bits(tmp_path: Path) -> None:
    def trained(model: nn.Model) -> list[float]:
        rows, labels = np.ones((16, 8), np.float32), np.arange(16) % 4
        return [float(model.train_on_batch(rows, labels)[0]) for _ in range(3)]

    def made(limit: int | None, folder: Path | None) -> nn.Model:
        layers = {f"dense{row}": nn.Dense(64, activation="tanh") for row in range(6)}
        layer = nn.Sequential(**layers, last=nn.Dense(4))
        return nn.Model(layer, (8,), memory_limit=limit, offload_folder=folder, backend="reference")

    limit = made(None, None).memory(16).step.arena * 3 // 4
    model = made(limit, tmp_path)
    memory = model.memory(16)
    assert memory.budget is not None
    assert memory.budget.offloaded > 0
    assert memory.process < memory.total + memory.budget.offloaded + memory.step.process
    others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    expected = trained(made(None, None))
    assert [trained(each) for each in (model, *others)] == [expected] * 3
    model.offload_folder = None
    assert model.offload_folder is None
    with pytest.raises(UsageError, match=r"offload_folder"):
        model.offload_folder = str(tmp_path / "missing")


def test_threads_and_children_have_files_of_their_own(tmp_path: Path) -> None:
    first, second = offloading(tmp_path), offloading(tmp_path)
    expected = ran(program(None, None))
    assert ran(first) == ran(second) == expected
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda each=each: results.extend(ran(each) for _ in range(20)))
        for each in (first, second)
    ]
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(ran(first) != expected))
    child.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child.join()
    assert child.exitcode == 0
    assert set(results) == {expected}
    assert len(results) == 40


def test_a_folder_is_a_device_for_tensors_too(tmp_path: Path) -> None:
    device = file_device.file_device(tmp_path)
    assert file_device.file_device(str(tmp_path)) == device
    there = Tensor.from_numpy(X).to(device)
    np.testing.assert_array_equal(there.to(Device()).numpy(), X)
    np.testing.assert_array_equal(there.clone().to(Device()).numpy(), X)
    assert Tensor.empty(spec((0,)).on(device)).to(Device()).shape == (0,)
    with pytest.raises(BufferError, match=r"need memory\. Fix: x\.cpu\(\)"):
        np.from_dlpack(there, device="cpu")
    with pytest.raises(DeviceError, match=r"one of cpu:0"):
        Tensor.from_numpy(X).to(Device("file", 10**6))
