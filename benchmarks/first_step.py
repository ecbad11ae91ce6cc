"""Seconds and memory from the start of a process to its first answer: a training step of 784-128-10, batch of 64.

    python benchmarks/first_step.py [--repeats N] [--case digits] [--gguf MODEL.gguf] [--context N] [--source FOLDER]

Other cases are a prediction and a training step of the digits network, a compiled function of 36 products, and the
first token of a file with room for `context`. With a `source` that folder of packages stands in front of this one, as
an older version does.

One JSON line: `cold` begins with an empty cache of compiled kernels, `warm` finds them. Seconds are the best of the
repeats, `_processor` those on processors, which other processes lengthen less, and `_megabytes` the most memory in use.
`numpy` is a process that imports NumPy alone. Bytecode is there, as where a package is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from compile_time import CACHE_VARIABLE
from import_time import with_bytecode

STEP = """
import numpy as np
from nnc import nn
model = nn.Model(nn.Sequential(nn.Dense(128), nn.ReLU(), nn.Dense(10)), (784,), optimizer=nn.SGD(0.1))
model.train_on_batch(np.zeros((64, 784), np.float32), np.zeros(64, np.int32))
"""
DIGITS = """
import numpy as np
from nnc import nn
model = nn.Model(nn.zoo.digits_network(), (8, 8, 1), optimizer=nn.Adam(0.01))
x = np.zeros((64, 8, 8, 1), np.float32)
"""
FUNCTION = """
import numpy as np
import nnc
weights = [np.full((64, 64), 1 / 64, np.float32) for _ in range(36)]
@nnc.compile
def function(x):
    for weight in weights:
        x = nnc.ops.tanh(x @ weight) + x
    return x.sum()
function(np.ones((8, 64), np.float32))
"""
TOKEN = """
from nnc.language import load
print(next(iter(load({path!r}, context={context}).stream("The capital of France is", 1))))
"""
CASES = {
    "step": STEP,
    "digits predict": DIGITS + "model.predict(x)",
    "digits train": DIGITS + "model.train_on_batch(x, np.zeros(64, np.int32))",
    "function": FUNCTION,
}
REPORT = """
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def measured(program: str, environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds, those on processors, and megabytes of one process."""
    start, before = time.perf_counter(), processor_seconds()
    command = [sys.executable, "-c", program + REPORT]
    told = subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout
    kilobytes = int(told.split()[-1])
    return time.perf_counter() - start, processor_seconds() - before, kilobytes * 1024 / 1e6


def processor_seconds() -> float:
    """What the processes that have ended took."""
    times = os.times()
    return times.children_user + times.children_system


def best(program: str, environment: dict[str, str], repeats: int, *, fresh: bool) -> dict[str, float]:
    """The least of each figure; with `fresh`, each run has a cache folder of its own."""
    found = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measured(program, {**environment, CACHE_VARIABLE: folder} if fresh else environment))
    names = ("seconds", "processor", "megabytes")
    return {name: round(min(column), 3) for name, column in zip(names, zip(*found, strict=True), strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case", choices=CASES, default="step")
    parser.add_argument("--gguf", default="", metavar="FILE")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--source", default="", metavar="FOLDER")
    given = parser.parse_args()
    case = TOKEN.format(path=given.gguf, context=given.context) if given.gguf else CASES[given.case]
    with tempfile.TemporaryDirectory() as bytecode, tempfile.TemporaryDirectory() as cache:
        environment = {**with_bytecode(bytecode), CACHE_VARIABLE: cache}
        if given.source:
            environment["PYTHONPATH"] = given.source
        for _ in range(2):
            measured(case, environment)
        line: dict[str, object] = {"case": given.gguf or given.case, "load": round(os.getloadavg()[0], 2)}
        rows = {"numpy": ("import numpy", False), "warm": (case, False), "cold": (case, True)}
        for name, (program, fresh) in rows.items():
            found = best(program, environment, given.repeats, fresh=fresh)
            line |= {f"{name}_{key}": number for key, number in found.items()}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
