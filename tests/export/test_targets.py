"""Libraries for other processors: run by qemu, or by node, where these and a compiler are installed.

`scripts/test-targets` installs the tools of Debian and runs this.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import checked, tool

from nnc import export, nn
from nnc.codegen.ir.targets import TARGETS
from nnc.core.values.dtype import I32
from nnc.core.values.platform import ObjectFormat
from nnc.export.program_ports import Function


@dataclass(frozen=True, slots=True)
class Runner:
    """How the programs of a target are run here."""

    target: str
    compiler: str
    emulator: tuple[str, ...] = ()


RUNNERS = (
    Runner("x86-64", "gcc"),
    Runner("aarch64", "aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")),
    Runner("armv7", "arm-linux-gnueabihf-gcc", ("qemu-arm", "-L", "/usr/arm-linux-gnueabihf")),
    Runner("riscv64", "riscv64-linux-gnu-gcc", ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu")),
    Runner(
        "riscv64v", "riscv64-linux-gnu-gcc",
        ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128", "-L", "/usr/riscv64-linux-gnu"),
    ),
)  # fmt: skip
LAYERS = nn.Sequential(
    nn.Convolution(16), nn.BatchNorm(), nn.ReLU(), nn.MaxPool(2), nn.Convolution(8), nn.GELU(),
    nn.Flatten(), nn.Dense(32), nn.Tanh(), nn.LayerNorm(), nn.Softmax(), nn.Dense(10),
)  # fmt: skip


SEQUENCE = nn.Sequential(
    nn.Embedding(50, 24), nn.GRU(24), nn.LSTM(24), nn.MultiHeadAttention(4, causal=True), nn.LayerNorm(), nn.Dense(50),
    nn.LogSoftmax(),
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> nn.Model:
    return nn.Model(LAYERS, (12, 12, 3))


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.target)
def test_a_network_gives_the_recorded_answers(model: nn.Model, runner: Runner, tmp_path: Path) -> None:
    made = export.library(model, "mixed", target=runner.target)
    if runner.emulator:
        tool(runner.emulator[0])
    assert checked(made, tmp_path, runner.compiler, runner=runner.emulator) == "mixed: the recorded answers\n"


@pytest.mark.turns(6)
@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.target)
def test_a_network_of_sequences_gives_the_recorded_answers(runner: Runner, tmp_path: Path) -> None:
    made = export.library(nn.Model(SEQUENCE, (12,), input_dtype=I32), "sequence", target=runner.target, batch=2)
    if runner.emulator:
        tool(runner.emulator[0])
    assert checked(made, tmp_path, runner.compiler, runner=runner.emulator) == "sequence: the recorded answers\n"


@pytest.mark.turns(6)
@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.target)
def test_an_update_gives_the_recorded_answers(model: nn.Model, runner: Runner, tmp_path: Path) -> None:
    made = export.library(model, "update", target=runner.target, function="train", batch=2)
    if runner.emulator:
        tool(runner.emulator[0])
    assert checked(made, tmp_path, runner.compiler, runner=runner.emulator) == "update: the recorded answers\n"


@dataclass(frozen=True, slots=True)
class BareRunner:
    """How programs without a C library of a target are linked and run here, as programs of Linux."""

    target: str
    compiler: str
    flags: tuple[str, ...]
    emulator: str


BARE_RUNNERS = (
    BareRunner(
        "thumbv7em", "arm-none-eabi-gcc",
        ("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16", "-lgcc"), "qemu-arm",
    ),
    # This compiler has no library for 32 bits, and nobody sets the pointer that relaxed addresses start from.
    BareRunner(
        "riscv32", "riscv64-linux-gnu-gcc",
        ("-march=rv32imafdc", "-mabi=ilp32d", "-static", "-Wl,-melf32lriscv,--no-relax"), "qemu-riscv32",
    ),
)  # fmt: skip
BARE = Path(__file__).parent / "bare"


@pytest.mark.turns(4)
@pytest.mark.parametrize("function", ["predict", "train"])
@pytest.mark.parametrize("runner", BARE_RUNNERS, ids=lambda runner: runner.target)
def test_the_recorded_answers_are_met_without_a_c_library(
    model: nn.Model, runner: BareRunner, function: Function, tmp_path: Path
) -> None:
    """The instructions of a Cortex-M7 or of 32-bit RISC-V, with the memory functions of the archive."""
    export.library(model, "mixed", target=runner.target, function=function).write(tmp_path)
    for file in BARE.iterdir():
        shutil.copy(file, tmp_path)
    compiler, emulator, ends = tool(runner.compiler), tool(runner.emulator), []
    own = ["-std=c11", "-O1", "-nostdlib", "-ffreestanding", "-I.", "check.c", "start.c", "-L.", "-lmixed"]
    for wrong in (False, True):
        if wrong:
            text = (tmp_path / "check.c").read_text()
            (tmp_path / "check.c").write_text(text.replace("_recorded[] = {", "_recorded[] = {1.0 + "))
        command = [compiler, *own, *runner.flags, "-o", "check"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        ends.append(subprocess.run([emulator, "./check"], cwd=tmp_path).returncode)
    assert ends == [0, 1]


RUN = {runner.target for runner in RUNNERS}


@pytest.mark.turns(4)
@pytest.mark.parametrize("target", [row.name for row in TARGETS if row.name not in RUN])
def test_a_library_of_every_other_target_needs_no_other(model: nn.Model, target: str) -> None:
    made = export.library(model, "mixed", target=target)
    own = {"memcpy", "memset", "memmove"} | ({"__stack_pointer"} if made.target.format is ObjectFormat.WASM else set())
    assert set(made.undefined) <= own
    assert made.code_bytes < 64 << 10
    assert np.frombuffer(made.files["libmixed.a"][:8], np.uint8).tobytes() == b"!<arch>\n"
