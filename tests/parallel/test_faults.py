"""Ranks that are killed, stopped or have no disk left: nobody hangs, no checkpoint is lost, and training goes on."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from tests.parallel.conftest import PROGRAMS, Launched
from tests.parallel.forked_ranks import forked_launches

from nnc import nn
from nnc.nn import read_position
from nnc.parallel.launching import launch

EPOCHS = "4"


@pytest.fixture(scope="module")
def calm(launched: Launched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What comes out where nothing happens."""
    folder = tmp_path_factory.mktemp("calm")
    assert launched(2, "resumable.py", str(folder), "1", EPOCHS, "60").returncode == 0
    return folder


@contextmanager
def started(folder: Path, timeout: str, **options: Any) -> Iterator[Future[int]]:
    """A launch beside us, whose exit code is to come."""
    pytest.importorskip("mpi4py")
    script = [str(PROGRAMS / "resumable.py"), str(folder), "1", EPOCHS, timeout]
    with forked_launches(), ThreadPoolExecutor(1) as threads:
        yield threads.submit(launch, 2, script, **options)


def rank_in_training(folder: Path) -> int:
    """The second rank, once there is a checkpoint."""
    began = monotonic()
    while not (folder / "last.safetensors").exists():
        assert monotonic() - began < 200
        sleep(0.01)
    return int((folder / "pid1").read_text())


def test_after_a_rank_is_killed_and_named_training_goes_on_to_the_same_bits(
    calm: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    with started(tmp_path, "60", restarts=1, told=told.append) as ended:
        os.kill(rank_in_training(tmp_path), signal.SIGKILL)
        assert ended.result(200) == 0
    assert told == ["ended with 9; start 2 of 2"]
    assert "[rank 1] killed by SIGKILL (Killed); where nobody sent it, look for out of memory" in capfd.readouterr().err
    assert (tmp_path / "result").read_text() == (calm / "result").read_text()


def test_a_rank_that_stands_still_is_named_when_time_is_up_and_ends_with_the_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, "1") as ended:
        os.kill(rank_in_training(tmp_path), signal.SIGSTOP)
        assert ended.result(200) != 0
    told = capfd.readouterr().err
    assert "rank 0 waiting 1 s in" in told
    assert "for rank 1" in told


def test_a_full_disk_of_one_rank_leaves_the_checkpoint_that_was_there(
    calm: Path, launched: Launched, tmp_path: Path
) -> None:
    shutil.copytree(calm, tmp_path, dirs_exist_ok=True)
    before = read_position(tmp_path / "last.safetensors")
    failed = launched(2, "resumable.py", str(tmp_path), "1", str(int(EPOCHS) + 1), "60", "full")
    assert failed.returncode != 0
    assert "file too large; need a file that can be written" in failed.stderr
    assert read_position(tmp_path / "last.safetensors") == before
    # One process reads what two ranks wrote.
    net = nn.Sequential(nn.Dense(32), nn.BatchNorm(), nn.ReLU(), nn.Dense(3))
    alone = nn.Model(net, (10,), optimizer=nn.Adam(0.01))
    assert nn.load_checkpoint(tmp_path / "last.safetensors", alone) == before
    assert alone.updates == 4 * int(EPOCHS)
