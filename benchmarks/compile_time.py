"""Seconds from a network of `nnc.nn.zoo` to its first prediction, with an empty and with a filled cache of objects.

    python benchmarks/compile_time.py [--only NAME ...]

Each line is two processes with one fresh cache folder: `cold` compiles everything, `cached` finds it. Both hold the
planning of memory, the making of weights and one run; the import is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

CACHE_VARIABLE = "NNC_CACHE_DIR"
PROGRAM = """
import sys, time
import numpy as np
import nnc
from nnc.nn.zoo import NETWORKS, network
row = NETWORKS[sys.argv[1]]
start = time.perf_counter()
network(sys.argv[1]).prediction_step(1).run(np.zeros((1, *row.input_shape), row.input_dtype.numpy))
print(time.perf_counter() - start)
"""


def seconds(name: str, folder: str) -> float:
    environment = os.environ | {CACHE_VARIABLE: folder}
    command = [sys.executable, "-c", PROGRAM, name]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["digits", "resnet20", "resnet50"], help="names of networks")
    options = parser.parse_args()
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            cold, cached = seconds(name, folder), seconds(name, folder)
        load = round(os.getloadavg()[0], 2)
        print(
            json.dumps({"network": name, "cold": round(cold, 3), "cached": round(cached, 3), "load": load}), flush=True
        )


if __name__ == "__main__":
    main()
