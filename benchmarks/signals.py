"""SIGINT and SIGTERM at random instants of `nnc train digits`: how it ends and how soon; one JSON line.

    python benchmarks/signals.py [--count N] [--first SEED]

Seeds take turns: SIGINT, SIGTERM, SIGINT twice, SIGTERM twice, within a tenth of a second. A run is wrong where its
exit code is not 130 or 143, where it tells a trace, or where it leaves no checkpoint that can be read; of one signal it
must have come to the end of a step. `seconds` is from the last signal to the end of the process.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from nnc.nn import read_position

NUMBERS = (signal.SIGINT, signal.SIGTERM)
COMMAND = (sys.executable, "-P", "-m", "nnc", "train", "digits", "--epochs", "1000000", "--checkpoint")
WITHIN = 0.1


def run(seed: int, place: Path) -> tuple[float, list[str]]:
    """Seconds to the end, and what was wrong."""
    random = Random(seed)
    number, twice = NUMBERS[seed % 2], seed % 4 > 1
    process = subprocess.Popen([*COMMAND, place], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()
    while not place.exists():
        time.sleep(0.001)
    time.sleep(random.random() * WITHIN)
    before = read_position(place).updates
    process.send_signal(number)
    if twice:
        time.sleep(random.random() * WITHIN * random.choice((0.01, 0.1, 1.0)))
        process.send_signal(number)
    began = time.perf_counter()
    _, told = process.communicate(timeout=60)
    seconds = time.perf_counter() - began
    wrong = [] if process.returncode == 128 + number else [f"exit code {process.returncode}"]
    wrong += ["a trace"] if "Traceback" in told else []
    wrong += [] if read_position(place).updates >= before else ["an older checkpoint"]
    wrong += [] if twice or f"nnc: {number.name}: stopped after" in told else ["nothing was said"]
    return seconds, [f"seed {seed}: {fault}" for fault in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="runs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    options = parser.parse_args()
    kinds = islice(cycle((*(one.name for one in NUMBERS), *(f"{one.name} twice" for one in NUMBERS))), 4)
    longest = dict.fromkeys(kinds, 0.0)
    failures: list[str] = []
    for seed in range(options.first, options.first + options.count):
        with TemporaryDirectory() as folder:
            seconds, wrong = run(seed, Path(folder, "digits.safetensors"))
        kind = list(longest)[seed % 4]
        longest[kind] = max(longest[kind], round(seconds, 3))
        failures += wrong
    print(json.dumps({"runs": options.count, "longest_seconds": longest, "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
