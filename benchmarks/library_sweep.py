"""Networks as C libraries on processors of several kinds: built, linked, run by an emulator, compared with our own run.

    python benchmarks/library_sweep.py [--cases digits light_squeezenet] [--targets aarch64 wasm32,small]
                                       [--files FOLDER] [--bytes]

One JSON line per case and target: `same` says whether check.c, or check.mjs in node, met the recorded answers. Networks
of the zoo take small inputs. With --bytes nothing is run, and targets may be any. It needs the tools of
`scripts/test-targets`; silero_vad.onnx is looked for in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import nnc
import nnc.onnx
from nnc import export, nn
from nnc.core.values.dtype import F32, I32, DType
from nnc.core.values.spec import Shape
from nnc.errors import NncError
from nnc.export.program_ports import Source
from nnc.nn.layers.layer import Input
from nnc.nn.zoo import NETWORKS

# How a program of each target is compiled and run.
RUNNERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "x86-64": ("gcc", ()),
    "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")),
    "armv7": ("arm-linux-gnueabihf-gcc", ("qemu-arm", "-L", "/usr/arm-linux-gnueabihf")),
    "riscv64": ("riscv64-linux-gnu-gcc", ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu")),
    "wasm32": ("node", ()),
}
SMALL_IMAGE, SHORT = (64, 64, 3), 8
# More than these are no matter of 32 bits.
MOST_PARAMETERS = 150_000_000
SECONDS = 600


@dataclass(frozen=True, slots=True)
class SweepCase:
    """What a library is made of, and its further arguments."""

    name: str
    make: Callable[[], Source]
    arguments: Mapping[str, object]


def zoo_case(name: str) -> SweepCase:
    """A network of the zoo on small pictures or short texts."""
    row = NETWORKS[name]

    def make() -> nn.Model:
        return nn.Model(
            row.build(), _small(row.input_shape, row.input_dtype), loss=row.loss, input_dtype=row.input_dtype
        )

    return SweepCase(name, make, {})


def _small(shape: Shape | tuple[Input, ...], dtype: DType) -> Shape | tuple[Input, ...]:
    several = [part for part in shape if isinstance(part, Input)]
    if several:
        return tuple(Input((SHORT,), I32) if part.dtype is I32 else part for part in several)
    if dtype is F32:
        return min(SMALL_IMAGE, shape)
    return (SHORT,)


def _gru() -> nn.Model:
    return nn.Model(nn.Sequential(nn.Embedding(50, 24), nn.GRU(24), nn.Dense(50)), (12,), input_dtype=I32)


def _loop() -> Source:
    layer = nn.Dense(16)
    return nnc.compile(lambda x: nnc.while_loop(lambda x: x.sum() < 12.0, lambda x: nnc.tanh(x) + 0.5, layer(x)))


def _trained() -> nn.Model:
    layers = nn.Sequential(nn.Convolution(8), nn.BatchNorm(), nn.ReLU(), nn.Flatten(), nn.Dense(10))
    return nn.Model(layers, (8, 8, 1), optimizer=nn.Adam(1e-3))


def _file(path: Path) -> Callable[[], Source]:
    def make() -> Source:
        return nnc.onnx.load(path)

    return make


def cases(files: Path) -> list[SweepCase]:
    """All of them, small ones first."""
    programs = [
        SweepCase("GRU", _gru, {"batch": 2}),
        SweepCase("while_loop", _loop, {"example": (np.ones((2, 16), np.float32),)}),
        SweepCase("training step", _trained, {"function": "train", "batch": 4}),
    ]
    voice = {"sizes": {"input.0": 1, "input.1": 576, "state.1": 1, "sr": 16000}}
    programs.append(SweepCase("silero_vad", _file(files / "silero_vad.onnx"), voice))
    found = find_spec("onnx")
    light = Path(found.origin or "").parent / "backend/test/data/light" if found else files
    programs += [SweepCase(path.stem, _file(path), {}) for path in sorted(light.glob("light_*.onnx"))]
    small = [name for name, row in NETWORKS.items() if row.parameters <= MOST_PARAMETERS]
    return [*programs, *(zoo_case(name) for name in sorted(small, key=lambda name: NETWORKS[name].parameters))]


def ran(made: export.CLibrary, folder: Path) -> bool:
    """True where the check that was written met the recorded answers."""
    made.write(folder)
    compiler, emulator = RUNNERS[made.target.name.split(",")[0]]
    command: Sequence[str] = (compiler, "check.mjs")
    if compiler != "node":
        build = [compiler, "-std=c11", "-O1", "check.c", "-L.", f"-l{made.name}", "-o", "check"]
        subprocess.run(build, cwd=folder, check=True, capture_output=True)
        command = (*emulator, "./check")
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    return told.returncode == 0 and told.stdout.strip().endswith("the recorded answers")


def result(case: SweepCase, source: Source, target: str, *, runs: bool = True) -> dict[str, object]:
    """One row: what it takes in bytes, and whether the answers are ours; or why there is none."""
    row: dict[str, object] = {"case": case.name, "target": target}
    began = time.perf_counter()
    try:
        made = export.library(source, "swept", target=target, **case.arguments)  # type: ignore[arg-type]  # by case
        if runs:
            with tempfile.TemporaryDirectory() as folder:
                row["same"] = ran(made, Path(folder))
    except (NncError, subprocess.SubprocessError) as error:
        return row | {"error": str(error)[:300]}
    row |= {"code": made.code_bytes, "arena": made.arena_bytes, "plan": made.plan_bytes}
    row |= {"constants": made.constant_bytes, "stack": made.stack_bytes, "undefined": list(made.undefined)}
    return row | {"seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--targets", nargs="*", default=list(RUNNERS))
    parser.add_argument("--files", type=Path, default=Path())
    parser.add_argument("--bytes", action="store_true")
    options = parser.parse_args()
    wrong = 0
    for case in cases(options.files):
        if options.cases and case.name not in options.cases:
            continue
        source = case.make()
        for target in options.targets:
            row = result(case, source, target, runs=not options.bytes)
            wrong += "error" in row or row.get("same") is False
            print(json.dumps(row), flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
