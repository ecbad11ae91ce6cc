"""Seconds from a network of `nnc.nn.zoo` to its first prediction, with an empty and with a filled cache of objects.

    python benchmarks/compile_time.py [--only NAME ...]

Each line is two processes with one fresh cache folder: `cold` compiles everything, `cached` finds it. Both hold the
graph, the planning of memory, the kernels and one run. The import is not counted, and the making of the first weights
is told apart, as `weights`. Bytecode is there, as where a package is installed. `_processor` is the time on processors
of all threads, which other processes lengthen less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

from import_time import with_bytecode

CACHE_VARIABLE = "NNC_CACHE_DIR"
PROGRAM = """
import sys, time
import numpy as np
import nnc
from nnc.nn.zoo import NETWORKS, network
row = NETWORKS[sys.argv[1]]
start = time.perf_counter()
model = network(sys.argv[1])
model.tensors()
made, busy = time.perf_counter(), time.process_time()
model.prediction_step(1).run(np.zeros((1, *row.input_shape), row.input_dtype.numpy))
print(made - start, time.perf_counter() - made, time.process_time() - busy)
"""


def seconds(name: str, folder: str, bytecode: str) -> tuple[float, float, float]:
    """Making the weights, and the rest, also as time on processors."""
    environment = with_bytecode(bytecode) | {CACHE_VARIABLE: folder}
    command = [sys.executable, "-c", PROGRAM, name]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    weights, rest, processor = map(float, done.stdout.split())
    return weights, rest, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["digits", "resnet20", "resnet50"], help="names of networks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as bytecode:
        seconds("digits", bytecode, bytecode)
        for name in options.only:
            with tempfile.TemporaryDirectory() as folder:
                weights, cold, cold_processor = seconds(name, folder, bytecode)
                _, cached, cached_processor = seconds(name, folder, bytecode)
            row = {"cold": cold, "cached": cached, "weights": weights, "load": os.getloadavg()[0]}
            row |= {"cold_processor": cold_processor, "cached_processor": cached_processor}
            print(json.dumps({"network": name} | {key: round(value, 3) for key, value in row.items()}), flush=True)


if __name__ == "__main__":
    main()
