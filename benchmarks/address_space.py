"""A process with little address space left behind its imports (RLIMIT_AS): how a first training and a first sum end.

    python benchmarks/address_space.py [--megabytes N ...]

A JSON line per case, each in a process of its own with cold caches: `ends` is "ok", the name of the error, or the code
of a process that a library ended; `ours` says whether the error is of nnc, `told` is the last line it wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import nnc
from nnc import nn
from nnc.errors import NncError

MEGABYTES, KINDS = (2, 8, 16, 40, 80, 150, 200), ("training", "eager")


def work(kind: str) -> None:
    """What needs kernels for the first time."""
    x = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    if kind == "eager":
        value = nnc.array(x)
        float((nnc.exp(value) @ value.T).sum().numpy())
        return
    model = nn.Model(nn.Sequential(nn.Dense(16), nn.ReLU(), nn.Dense(3)), (8,))
    model.fit(x, np.zeros(32, np.int32), epochs=1)


def limited(megabytes: int, kind: str) -> dict[str, object]:
    """What this process ends with."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        work(kind)
    except Exception as error:
        return {"ends": type(error).__name__, "ours": isinstance(error, NncError)}
    return {"ends": "ok", "ours": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", nargs="*", type=int, default=MEGABYTES)
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(limited(int(options.here[0]), options.here[1])), flush=True)
        return
    for kind in KINDS:
        for megabytes in options.megabytes:
            with TemporaryDirectory() as folder:
                command = [sys.executable, __file__, "--here", str(megabytes), kind]
                cold = os.environ | {"XDG_CACHE_HOME": folder}
                done = subprocess.run(command, env=cold, capture_output=True, text=True)
            lines = done.stdout.splitlines()
            row = json.loads(lines[-1]) if lines else {"ends": f"code {done.returncode}", "ours": False}
            told = (done.stderr.strip().splitlines() or [""])[-1]
            print(json.dumps({"kind": kind, "megabytes": megabytes, **row, "told": told[:120]}), flush=True)


if __name__ == "__main__":
    main()
