"""What loading an ONNX model with external data takes: one JSON line, bytes over the weights, of a fresh process.

    python benchmarks/onnx_load.py [--matrices 8] [--size 2896]

`loaded` is after `load` and `memory`, `ran` after a first run. `anonymous` memory is what no file is behind.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import onnx
from nnc.onnx import load
from onnx import helper


def standing() -> dict[str, int]:
    """Resident bytes of this process, now and at the most, and those that no file is behind."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(rows[name].split()[0]) << 10 for name in ("VmHWM", "VmRSS", "RssAnon")}


def write(path: Path, matrices: int, size: int) -> int:
    """A chain of products with weights beside the file; the bytes of the weights."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((size, size)).astype(np.float32) for _ in range(matrices)]
    names = ["x", *(f"h{place}" for place in range(matrices))]
    nodes = [helper.make_node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(matrices)]
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size]) for name in (names[0], names[-1])]
    weights = [onnx.numpy_helper.from_array(one, f"w{k}") for k, one in enumerate(arrays)]
    graph = helper.make_graph(nodes, "chain", infos[:1], infos[1:], weights)
    onnx.save(helper.make_model(graph), path, save_as_external_data=True, location="weights")
    return sum(one.nbytes for one in arrays)


def measure(path: str, size: int, answers: Connection) -> None:
    before = standing()
    model = load(path)
    model.memory(n=1)
    loaded = standing()
    model.run({"x": np.ones((1, size), np.float32)})
    answers.send((before, loaded, standing()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matrices", type=int, default=8)
    parser.add_argument("--size", type=int, default=2896)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        weights = write(path, arguments.matrices, arguments.size)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=measure, args=(str(path), arguments.size, theirs))
        process.start()
        before, *stages = ours.recv()
        process.join()
    facts: dict[str, object] = {"weight_bytes": weights}
    for name, found in zip(("loaded", "ran"), stages, strict=True):
        facts[f"{name}_peak"] = round((found["VmHWM"] - before["VmRSS"]) / weights, 4)
        facts[f"{name}_anonymous"] = round((found["RssAnon"] - before["RssAnon"]) / weights, 4)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
