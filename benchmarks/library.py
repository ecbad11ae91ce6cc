"""C libraries beside our own run: time, code, arena; and the bytes of code and arenas of other targets.

    python benchmarks/library.py [--networks digits mobilenet_v2] [--targets thumbv7em aarch64] [--seconds 3]

One JSON line per case. `ratio` is the library's time over that of the frozen step by the JIT on one worker, the fastest
of many calls of each, in turns, with one image; both copy their inputs and outputs. It needs gcc.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nnc import export
from nnc.core.settings import SETTINGS
from nnc.nn import Model
from nnc.nn.zoo import network

NETWORKS = ("digits", "resnet20", "mobilenet_v2", "squeezenet")
TARGETS = ("x86-64-v3", "aarch64", "armv7", "thumbv7em", "riscv64", "riscv64v", "wasm32", "wasm32-simd")


def aligned(nbytes: int) -> np.ndarray:
    """Bytes at a multiple of 64."""
    whole = np.zeros(nbytes + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + nbytes]


def runner(made: export.CLibrary, folder: Path, image: np.ndarray, result: np.ndarray) -> Callable[[], None]:
    """One run of the library, loaded into this process."""
    made.write(folder)
    shared = folder / f"{made.name}.so"
    subprocess.run(["gcc", "-shared", str(folder / f"{made.name}.o"), "-o", str(shared)], check=True)
    function = getattr(ctypes.CDLL(str(shared)), f"{made.name}_run")
    arena, weights = aligned(made.arena_bytes), aligned(made.constant_bytes)
    of_file = f"{made.name}.weights" in made.files
    if of_file:
        weights[:] = np.frombuffer(made.files[f"{made.name}.weights"], np.uint8)
    given = [*([weights.ctypes.data] if of_file else []), image.ctypes.data]
    inputs, outputs = (ctypes.c_void_p * len(given))(*given), (ctypes.c_void_p * 1)(result.ctypes.data)
    place = ctypes.c_void_p(arena.ctypes.data)
    kept = arena, weights

    def run() -> None:
        assert kept
        assert function(place, inputs, outputs) == 0

    return run


def fastest(functions: list[Callable[[], None]], seconds: float) -> list[float]:
    """The least time of each, called in turns."""
    least, end = [float("inf")] * len(functions), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for place, function in enumerate(functions):
            began = time.perf_counter()
            function()
            least[place] = min(least[place], time.perf_counter() - began)
    return least


def compared(name: str, model: Model, seconds: float) -> dict[str, object]:
    """The library of this processor beside the JIT's program."""
    made = export.library(model, "network", target="native")
    step = model.freeze(1)
    image = np.random.default_rng(0).random((1, *model.input_shape), np.float32)
    result = np.zeros(step.results[0].spec.shape, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        library = runner(made, Path(folder), image, result)
        ours, theirs = fastest([lambda: step.run(image) and None, library], seconds)
        same = result.tobytes() == step.run(image)[0].tobytes()
    memory = step.compiled.memory()
    return {
        "network": name,
        "target": "native",
        "jit_ms": 1e3 * ours,
        "library_ms": 1e3 * theirs,
        "ratio": theirs / ours,
        "same_bits": same,
        "code": made.code_bytes,
        "arena": made.arena_bytes,
        "plan": memory.arena,
        "bound": memory.lower_bound,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    SETTINGS.threads = 1
    for name in options.networks:
        model = network(name)
        print(json.dumps(compared(name, model, options.seconds)), flush=True)
        for target in options.targets:
            made = export.library(model, "network", target=target)
            bytes_of = {"code": made.code_bytes, "arena": made.arena_bytes, "plan": made.plan_bytes}
            row = {"network": name, "target": target, **bytes_of, "constants": made.constant_bytes}
            print(json.dumps({**row, "undefined": list(made.undefined)}), flush=True)


if __name__ == "__main__":
    main()
