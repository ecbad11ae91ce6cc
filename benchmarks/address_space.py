"""Programs in a process with few addresses left (RLIMIT_AS): how each ends, and whether it works when there are more.

    python benchmarks/address_space.py [--megabytes N ...] [--programs NAME ...]

A JSON line per case, each in a process of its own with cold caches: `ends` is "ok", the name of the error, or the code
of a process that a library ended, `told` what it says, and `again` whether the same work, with the limit lifted, gave
the bits of a process without one. In state `new` what the program imports itself is there, and nothing has run; `used`
has run it with other sizes before, and made kernels. The last line counts the cases and names those at fault.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import nnc
import onnx
from nnc import nn, ops
from nnc.core.values.dtype import I32
from nnc.core.values.spec import spec
from nnc.errors import OutOfMemoryError
from nnc.nn.zoo import GPT
from nnc.onnx import load
from nnc.symbolic import SymbolicGraph, backward, compile
from onnx import helper

MEGABYTES, STATES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 100, 150, 200), ("new", "used")
RANDOM = np.random.default_rng(0)
Work = Callable[[], list[bytes]]


def graph(size: int) -> Work:
    """A graph and its gradient, compiled and run."""
    values = np.linspace(-1.0, 1.0, size * 16, dtype=np.float32)

    def work() -> list[bytes]:
        symbols = SymbolicGraph()
        x, w = symbols.input(spec((size, 16)), "x"), symbols.input(spec((16, size)), "w")
        loss = ops.reduce_sum(ops.tanh(ops.gemm(x, w)))
        (slope,) = backward(symbols, [loss], [w])
        compiled = compile(symbols, [loss, slope])
        feeds = {x: values.reshape(size, 16), w: values.reshape(16, size)}
        return [value.tobytes() for value in compiled(feeds, loss, slope)]

    return work


def training(size: int) -> Work:
    """A model from nothing, and an epoch."""
    inputs, labels = RANDOM.standard_normal((32, size)).astype(np.float32), np.zeros(32, np.int32)

    def work() -> list[bytes]:
        layers = nn.Sequential(nn.Dense(16), nn.BatchNorm(), nn.ReLU(), nn.Dense(3))
        model = nn.Model(layers, (size,), optimizer=nn.Adam(0.05))
        model.fit(inputs, labels, batch_size=8, epochs=1)
        return [tensor.numpy().tobytes() for tensor in model.tensors().values()]

    return work


def file(size: int) -> Work:
    """An ONNX file, loaded and run with two batch sizes."""
    weight = RANDOM.standard_normal((size, 6)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, ["n", units]) for name, units in (("x", size), ("y", 6))]
    parts = helper.make_graph(nodes, "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(weight, "w")])
    imports = [helper.make_opsetid("", 20)]
    content = helper.make_model(parts, opset_imports=imports, ir_version=10).SerializeToString()

    def work() -> list[bytes]:
        model = load(content)
        feeds = [{"x": np.ones((rows, size), np.float32)} for rows in (2, 5)]
        return [np.asarray(model.run(feed)["y"]).tobytes() for feed in feeds]

    return work


def eager(size: int) -> Work:
    """A gradient of eager values."""
    values = RANDOM.standard_normal((4, size)).astype(np.float32)

    def work() -> list[bytes]:
        slope = nnc.grad(lambda w: (nnc.exp(w) @ w.T).sum())(nnc.variable(values))
        return [np.asarray(slope).tobytes()]

    return work


def generation(size: int) -> Work:
    """Tokens of a small language model."""

    def work() -> list[bytes]:
        model = nn.Model(GPT(11, 16, size, 1, 2), (nn.UpTo(16),), input_dtype=I32)
        return [str(nn.generate(model, [[1, 2, 3], [4, 5, 6, 7, 8]], 4)).encode()]

    return work


PROGRAMS: dict[str, Callable[[int], Work]] = {
    "graph": graph,
    "training": training,
    "file": file,
    "eager": eager,
    "generation": generation,
}


def limit_to(nbytes: int) -> None:
    """So many bytes of addresses beyond those in use; -1 for no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    soft = hard if nbytes < 0 else pages * resource.getpagesize() + nbytes
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def limited(name: str, state: str, megabytes: int) -> dict[str, object]:
    """What the work of this process ends with; without a limit where there are no megabytes."""
    work = PROGRAMS[name](8)
    if state == "used":
        PROGRAMS[name](12)()
    row: dict[str, object] = {"ends": "ok", "told": ""}
    limit_to(megabytes << 20 if megabytes else -1)
    try:
        work()
    except Exception as error:
        limit_to(-1)
        row = {"ends": type(error).__name__, "told": str(error)[:160], "ours": isinstance(error, OutOfMemoryError)}
    limit_to(-1)
    return row | {"again": digest(work())}


def case(name: str, state: str, megabytes: int) -> dict[str, object]:
    """The same, of a process of its own."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--here", name, state, str(megabytes)]
        cold = os.environ | {"XDG_CACHE_HOME": folder}
        done = subprocess.run(command, env=cold, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        row: dict[str, object] = json.loads(lines[-1])
        return row
    told = (done.stderr.strip().splitlines() or [""])[-1]
    return {"ends": f"code {done.returncode}", "told": told[:160], "ours": False, "again": ""}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", nargs="*", type=int, default=MEGABYTES)
    parser.add_argument("--programs", nargs="*", choices=tuple(PROGRAMS), default=tuple(PROGRAMS))
    parser.add_argument("--here", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        name, state, megabytes = options.here
        print(json.dumps(limited(name, state, int(megabytes))), flush=True)
        return 0
    counts, faults = dict.fromkeys(("cases", "ok", "told"), 0), []
    for name in options.programs:
        wanted = case(name, "new", 0)["again"]
        for state in STATES:
            for megabytes in options.megabytes:
                row = case(name, state, megabytes)
                right = bool(row.pop("ours", True)) and row.pop("again") == wanted
                key = {"program": name, "state": state, "megabytes": megabytes}
                print(json.dumps({**key, **row, "right": right}), flush=True)
                counts["cases"] += 1
                counts["ok" if row["ends"] == "ok" else "told"] += right
                faults += [] if right else [key]
    print(json.dumps({**counts, "faults": faults}))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
