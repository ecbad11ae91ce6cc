"""From the start of a process to the first answer of an ONNX model, and the process's peak: ours and the peers'.

    python benchmarks/onnx_first_answer.py [FILE.onnx --size NAME=N ...] [--openvino PYTHON] [--repeats 3]

One JSON line per model: seconds, those on processors, and bytes of each runtime, the least of the repeats, which go in
turn through the runtimes, in a fresh process each time; ours also with an empty cache of kernels. Modules are compiled
to bytecode, as pip leaves them. OpenVINO is asked for by an interpreter that has it. Without a file: the light models
of the package `onnx`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from first_step import processor_seconds

import onnx
from nnc.onnx import load

# What each process does; it knows the runtime, the file and the shapes from its arguments.
CHILD = """
import json, sys
import numpy as np
runtime, path, shapes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
feeds = {name: np.zeros(shape, kind) for name, (shape, kind) in shapes.items()}
if runtime == "ours":
    from nnc.onnx import load
    load(path).run(feeds)
elif runtime == "onnxruntime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)
else:
    import openvino
    openvino.compile_model(path, "CPU")(feeds)
rows = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(rows["VmHWM"].split()[0]) << 10)
"""


def first(python: str, runtime: str, path: Path, shapes: str, cache: str, kernels: str) -> tuple[float, float, int]:
    """Seconds from the start of a process to its end, which the first answer is, those on processors, and its peak."""
    began, before = time.perf_counter(), processor_seconds()
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{cache}/bytecode"}
    environment = {**os.environ, "NNC_CACHE_DIR": f"{cache}/{kernels}", **bytecode}
    found = subprocess.run(
        [python, "-c", CHILD, runtime, str(path), shapes], env=environment, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - began, processor_seconds() - before, int(found.stdout.split()[-1])


def measure(path: Path, sizes: dict[str, int], openvino: str, repeats: int) -> dict[str, object]:
    inputs = load(path, sizes).placeholders()
    shapes = json.dumps({name: (one.shape, one.dtype.str) for name, one in inputs.items()})
    peers = ["onnxruntime"] if find_spec("onnxruntime") is not None else []
    facts: dict[str, object] = {"model": path.name}
    with tempfile.TemporaryDirectory() as cache:
        first(sys.executable, "ours", path, shapes, cache, "warm")
        seconds, processor, peak = first(sys.executable, "ours", path, shapes, cache, "cold")
        facts |= {"cold_seconds": seconds, "cold_processor": processor, "cold_peak": peak}
        runtimes = ["ours", *peers, *(["openvino"] if openvino else [])]
        rows: dict[str, list[tuple[float, float, int]]] = {runtime: [] for runtime in runtimes}
        for _ in range(repeats):
            for runtime in runtimes:
                python = openvino if runtime == "openvino" else sys.executable
                rows[runtime].append(first(python, runtime, path, shapes, cache, "warm"))
        for runtime, row in rows.items():
            names = (f"{runtime}_seconds", f"{runtime}_processor", f"{runtime}_peak")
            facts |= zip(names, map(min, zip(*row, strict=True)), strict=True)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--openvino", default="", metavar="PYTHON")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    sizes = {name: int(size) for name, size in (one.split("=") for one in arguments.size)}
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for path in [arguments.file] if arguments.file else sorted(light.glob("light_*.onnx")):
        print(json.dumps(measure(path, sizes, arguments.openvino, arguments.repeats)), flush=True)


if __name__ == "__main__":
    main()
