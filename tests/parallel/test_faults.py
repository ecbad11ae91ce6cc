"""Ranks that are killed, stopped or have no disk left: nobody hangs, no checkpoint is lost, and training goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.parallel.conftest import PROGRAMS, Launched

from nnc import nn
from nnc.nn import read_position

EPOCHS = "4"


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What comes out where nothing happens."""
    folder = tmp_path_factory.mktemp("calm")
    with started(folder, "0", "60") as process:
        assert process.wait(200) == 0
    return folder


def started(folder: Path, restarts: str, timeout: str) -> subprocess.Popen[str]:
    pytest.importorskip("mpi4py")
    script = [str(PROGRAMS / "resumable.py"), str(folder), "1", EPOCHS, timeout]
    line = [sys.executable, "-m", "nnc", "launch", "-n", "2", "--restarts", restarts, *script]
    return subprocess.Popen(line, env=os.environ | {"NNC_THREADS": "1"}, stderr=subprocess.PIPE, text=True)


def rank_in_training(folder: Path) -> int:
    """The second rank, once there is a checkpoint."""
    began = monotonic()
    while not (folder / "last.safetensors").exists():
        assert monotonic() - began < 200
        sleep(0.01)
    return int((folder / "pid1").read_text())


def test_after_a_rank_is_killed_training_goes_on_to_the_same_bits(calm: Path, tmp_path: Path) -> None:
    with started(tmp_path, "1", "60") as process:
        os.kill(rank_in_training(tmp_path), signal.SIGKILL)
        _, told = process.communicate(timeout=200)
    assert process.returncode == 0, told
    assert "start 2 of 2" in told
    assert (tmp_path / "result").read_text() == (calm / "result").read_text()


def test_a_rank_that_stands_still_is_named_when_time_is_up_and_ends_with_the_others(tmp_path: Path) -> None:
    with started(tmp_path, "0", "1") as process:
        still = rank_in_training(tmp_path)
        os.kill(still, signal.SIGSTOP)
        _, told = process.communicate(timeout=200)
    assert process.returncode != 0
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
