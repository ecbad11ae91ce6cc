"""A board without a system, in an emulator of all of it: digits are learned there by our libraries alone."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import tool

from nnc import export, nn
from nnc.nn.data import load_digits

BOARD = Path(__file__).parent / "board"
FLAGS = (
    "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-mthumb", "-mfloat-abi=hard", "-nostdlib", "-ffreestanding",
)  # fmt: skip
QUIET = ("-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")


@dataclass(frozen=True, slots=True)
class Board:
    """A machine of qemu's, whose map of memory is MACHINE.ld."""

    machine: str
    target: str
    processor: tuple[str, ...]


BOARDS = (
    Board("mps2-an500", "thumbv7em", ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16")),
    Board("mps3-an547", "thumbv8.1m", ("-mcpu=cortex-m55",)),
)


@pytest.mark.nightly("a library for thumb runs in every run")
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.machine)
def test_digits_are_learned_on_a_board(board: Board, tmp_path: Path) -> None:
    compiler, emulator = tool("arm-none-eabi-gcc"), tool("qemu-system-arm")
    layers = nn.Sequential(nn.Flatten(), nn.Dense(64), nn.BatchNorm(), nn.ReLU(), nn.Dropout(0.1), nn.Dense(10))
    model, digits = nn.Model(layers, (8, 8, 1), optimizer=nn.Adam(5e-3)), load_digits()
    learn = export.library(model, "learn", target=board.target, function="train", batch=64)
    tell = export.library(model, "tell", target=board.target, function="apply")
    learn.write(tmp_path)
    tell.write(tmp_path)
    shutil.copytree(BOARD, tmp_path, dirs_exist_ok=True)
    parts = {"train": digits.train, "test": digits.test}
    for name, part in parts.items():
        (tmp_path / f"{name}_inputs.bin").write_bytes(np.ascontiguousarray(part.inputs, np.float32).tobytes())
        (tmp_path / f"{name}_labels.bin").write_bytes(part.labels.astype(np.int32).tobytes())
    (tmp_path / "counts.bin").write_bytes(np.array([len(part.labels) for part in parts.values()], np.int32).tobytes())
    own = ["-T", f"{board.machine}.ld", "main.c", "data.S", "-L.", "-llearn", "-ltell", "-lgcc", "-o", "image.elf"]
    build = [compiler, *FLAGS, *board.processor, *own]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    run = [emulator, "-M", board.machine, *QUIET, "-kernel", "image.elf"]
    ran = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=300)
    before, learned, fresh, again, count = map(int, (ran.stdout + ran.stderr).split())
    assert count == len(digits.test.labels)
    assert before == fresh
    assert before <= 0.25 * count
    assert learned == again
    assert learned >= 0.95 * count
    assert learn.arena_bytes + 2 * learn.state_bytes + tell.arena_bytes < 512 << 10
