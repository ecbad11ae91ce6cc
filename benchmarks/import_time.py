"""Seconds that `import nnc` and `from nnc import nn` take in a fresh process, median and best of some; one JSON line.

    python benchmarks/import_time.py [--repeats N]

`interpreter` is a process that imports nothing, `numpy` one that imports NumPy alone, which every import of nnc needs.
`nnc` imports the front door, `nn` the face of the layers; `value` makes a first value and `model` a first model, which
import what they need. `_megabytes` is the most memory in use of one process.
Bytecode is there, as where a package is installed: a run before the first counted one writes it to a folder of its own.
`processor` is the time on processors of all runs that count, which other processes lengthen less, per run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = {"interpreter": "pass", "numpy": "import numpy", "nnc": "import nnc", "nn": "from nnc import nn"}
PROGRAMS["value"] = "import nnc; nnc.array([1.0])"
PROGRAMS["model"] = "from nnc import nn; nn.Model(nn.Dense(10), (64,))"


def with_bytecode(folder: str) -> dict[str, str]:
    """The environment of a process that finds and leaves bytecode in `folder`."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": folder}


def seconds(program: str, environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    return time.perf_counter() - start


def megabytes(program: str, environment: dict[str, str]) -> float:
    """The high-water mark of a process of the program."""
    report = "\nprint(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    command = [sys.executable, "-c", program + report]
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    return int(done.stdout) * 1024 / 1e6


def processor_seconds() -> float:
    """What the processes that have ended took."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="processes per program")
    options = parser.parse_args()
    row: dict[str, object] = {"load": round(os.getloadavg()[0], 2)}
    with tempfile.TemporaryDirectory() as folder:
        environment = with_bytecode(folder)
        for name, program in PROGRAMS.items():
            seconds(program, environment)
            start = processor_seconds()
            times = [seconds(program, environment) for _ in range(options.repeats)]
            processor = (processor_seconds() - start) / options.repeats
            row |= {name: round(statistics.median(times), 4), f"{name}_best": round(min(times), 4)}
            row |= {f"{name}_processor": round(processor, 4)}
            row |= {f"{name}_megabytes": round(megabytes(program, environment), 1)}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
