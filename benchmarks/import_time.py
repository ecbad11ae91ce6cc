"""Seconds that `import nnc` takes in a fresh process, median and best of some; one JSON line.

    python benchmarks/import_time.py [--repeats N]

`interpreter` is a process that imports nothing; `numpy` one that imports NumPy alone, which every import of nnc needs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

PROGRAMS = {"interpreter": "pass", "numpy": "import numpy", "nnc": "import nnc"}


def seconds(program: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="processes per program")
    options = parser.parse_args()
    row: dict[str, object] = {"load": round(os.getloadavg()[0], 2)}
    for name, program in PROGRAMS.items():
        times = [seconds(program) for _ in range(options.repeats)]
        row |= {name: round(statistics.median(times), 4), f"{name}_best": round(min(times), 4)}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
