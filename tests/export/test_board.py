"""A board without a system, in an emulator of all of it: digits are learned there by our libraries alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import tool

from nnc import export, nn
from nnc.nn.data import load_digits

BOARD = Path(__file__).parent / "board"
FLAGS = (
    "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard",
    "-mfpu=fpv5-sp-d16", "-nostdlib", "-ffreestanding", "-T", "image.ld",
)  # fmt: skip
MACHINE = ("-M", "mps2-an500", "-nographic", "-monitor", "none", "-serial", "none")


@pytest.mark.nightly("a library for thumb runs in every run")
def test_digits_are_learned_on_a_board(tmp_path: Path) -> None:
    compiler, emulator = tool("arm-none-eabi-gcc"), tool("qemu-system-arm")
    layers = nn.Sequential(nn.Flatten(), nn.Dense(64), nn.BatchNorm(), nn.ReLU(), nn.Dropout(0.1), nn.Dense(10))
    model, digits = nn.Model(layers, (8, 8, 1), optimizer=nn.Adam(5e-3)), load_digits()
    learn = export.library(model, "learn", target="thumbv7em", function="train", batch=64)
    tell = export.library(model, "tell", target="thumbv7em", function="apply")
    learn.write(tmp_path)
    tell.write(tmp_path)
    shutil.copytree(BOARD, tmp_path, dirs_exist_ok=True)
    parts = {"train": digits.train, "test": digits.test}
    for name, part in parts.items():
        (tmp_path / f"{name}_inputs.bin").write_bytes(np.ascontiguousarray(part.inputs, np.float32).tobytes())
        (tmp_path / f"{name}_labels.bin").write_bytes(part.labels.astype(np.int32).tobytes())
    (tmp_path / "counts.bin").write_bytes(np.array([len(part.labels) for part in parts.values()], np.int32).tobytes())
    build = [compiler, *FLAGS, "main.c", "data.S", "-L.", "-llearn", "-ltell", "-lgcc", "-o", "image.elf"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    run = [emulator, *MACHINE, "-semihosting-config", "enable=on,target=native", "-kernel", "image.elf"]
    ran = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=300)
    before, learned, fresh, again, count = map(int, (ran.stdout + ran.stderr).split())
    assert count == len(digits.test.labels)
    assert before == fresh
    assert before <= 0.25 * count
    assert learned == again
    assert learned >= 0.95 * count
    assert learn.arena_bytes + 2 * learn.state_bytes + tell.arena_bytes < 512 << 10
