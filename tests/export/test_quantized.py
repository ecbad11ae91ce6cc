"""Libraries of weights in 8 bits, and of floats of 16: what is recorded is met elsewhere, or the library is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.export.compiled_c import checked, tool
from tests.export.test_targets import RUNNERS, Runner

from nnc import export, nn
from nnc.core.values.dtype import BF16, F16
from nnc.errors import BackendError
from nnc.export.program_ports import Function
from nnc.symbolic.passes import QuantizationMode

ELSEWHERE = [runner for runner in RUNNERS if runner.target in ("x86-64", "aarch64", "armv7", "riscv64")]


def layers() -> nn.Layer:
    return nn.Sequential(nn.Convolution(16), nn.ReLU(), nn.Flatten(), nn.Dense(64), nn.ReLU(), nn.Dense(10))


@pytest.mark.turns(6)
@pytest.mark.parametrize("quantize", ["weights", "dynamic"])
@pytest.mark.parametrize("runner", ELSEWHERE, ids=lambda runner: runner.target)
def test_a_quantized_network_gives_the_recorded_answers(
    runner: Runner, quantize: QuantizationMode, tmp_path: Path
) -> None:
    model = nn.Model(layers(), (8, 8, 3))
    made = export.library(model, "small", target=runner.target, quantize=quantize)
    assert made.constant_bytes <= 0.3 * export.library(model, "small", target=runner.target).constant_bytes
    if runner.emulator:
        tool(runner.emulator[0])
    assert checked(made, tmp_path, runner.compiler, runner=runner.emulator) == "small: the recorded answers\n"


@pytest.mark.turns(5)
@pytest.mark.parametrize("function", ["predict", "train"])
@pytest.mark.parametrize("runner", ELSEWHERE, ids=lambda runner: runner.target)
def test_products_in_bf16_give_the_recorded_answers(runner: Runner, function: Function, tmp_path: Path) -> None:
    model = nn.Model(layers(), (8, 8, 3), precision=BF16)
    made = export.library(model, "half", target=runner.target, function=function)
    if runner.emulator:
        tool(runner.emulator[0])
    assert checked(made, tmp_path, runner.compiler, runner=runner.emulator) == "half: the recorded answers\n"


def test_f16_is_there_where_a_processor_converts_it_and_is_refused_elsewhere(tmp_path: Path) -> None:
    model = nn.Model(layers(), (8, 8, 3), precision=F16)
    runner = next(runner for runner in RUNNERS if runner.target == "aarch64")
    made = export.library(model, "half", target=runner.target)
    tool(runner.emulator[0])
    assert checked(made, tmp_path, runner.compiler, runner=runner.emulator) == "half: the recorded answers\n"
    for target in ("x86-64", "armv7", "riscv64", "thumbv7em", "wasm32"):
        with pytest.raises(BackendError, match="f16 on a processor that cannot convert it"):
            export.library(model, "half", target=target)
