"""What loading 268 MB of weights takes: a JSON line per form, bytes over the weights, of a fresh process.

    python benchmarks/onnx_load.py [--matrices 8] [--size 2896]

`loaded` is after `load` and `memory`, `ran` after a first run, or a sum over all weights. `anonymous` memory is what no
file is behind. `onnx` has weights beside the file, read or mapped (`onnx mapped`), `inline` in it; `tensors` are a
safetensors file, read or `mapped`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import nnc
import onnx
from nnc.onnx import load
from onnx import helper


def standing() -> dict[str, int]:
    """Resident bytes of this process, now and at the most, and those that no file is behind."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(rows[name].split()[0]) << 10 for name in ("VmHWM", "VmRSS", "RssAnon")}


def write(folder: Path, matrices: int, size: int) -> int:
    """A chain of products in each form; the bytes of the weights."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((size, size)).astype(np.float32) for _ in range(matrices)]
    names = ["x", *(f"h{place}" for place in range(matrices))]
    nodes = [helper.make_node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(matrices)]
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size]) for name in (names[0], names[-1])]
    weights = [onnx.numpy_helper.from_array(one, f"w{k}") for k, one in enumerate(arrays)]
    graph = helper.make_graph(nodes, "chain", infos[:1], infos[1:], weights)
    onnx.save(helper.make_model(graph), folder / "inline.onnx")
    onnx.save(helper.make_model(graph), folder / "model.onnx", save_as_external_data=True, location="weights")
    nnc.save(folder / "tensors.safetensors", {f"w{k}": array for k, array in enumerate(arrays)})
    return sum(array.nbytes for array in arrays)


def measure_model(path: str, size: int, mapped: bool, answers: Connection) -> None:
    before = standing()
    model = load(path, mapped=mapped)
    model.memory(n=1)
    loaded = standing()
    model.run({"x": np.ones((1, size), np.float32)})
    answers.send((before, loaded, standing()))


def measure_tensors(path: str, mapped: bool, answers: Connection) -> None:
    before = standing()
    tensors = nnc.load(path, mapped=mapped)
    loaded = standing()
    for tensor in tensors.values():
        tensor.numpy().sum()
    answers.send((before, loaded, standing()))


def over(weights: int, work: Callable[..., None], *arguments: object) -> dict[str, float]:
    """What a process of its own takes beyond what it took before, in bytes of the weights."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(*arguments, theirs))
    process.start()
    before, *stages = ours.recv()
    process.join()
    facts = {}
    for name, stage in zip(("loaded", "ran"), stages, strict=True):
        facts[f"{name}_peak"] = round((stage["VmHWM"] - before["VmRSS"]) / weights, 4)
        facts[f"{name}_anonymous"] = round((stage["RssAnon"] - before["RssAnon"]) / weights, 4)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=int, default=8)
    parser.add_argument("--size", type=int, default=2896)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = write(folder, arguments.matrices, arguments.size)
        rows: dict[str, tuple[Callable[..., None], *tuple[object, ...]]] = {
            "onnx": (measure_model, str(folder / "model.onnx"), arguments.size, False),
            "onnx mapped": (measure_model, str(folder / "model.onnx"), arguments.size, True),
            "inline": (measure_model, str(folder / "inline.onnx"), arguments.size, False),
            "tensors": (measure_tensors, str(folder / "tensors.safetensors"), False),
            "mapped": (measure_tensors, str(folder / "tensors.safetensors"), True),
        }
        for form, (work, *given) in rows.items():
            print(json.dumps({"form": form, "weight_bytes": weights, **over(weights, work, *given)}), flush=True)


if __name__ == "__main__":
    main()
