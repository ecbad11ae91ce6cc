"""Each network of the zoo as an ONNX file and back: relative differences to the model, ours and onnxruntime's.

    python benchmarks/onnx_round_trip.py [NETWORK ...]

One JSON line per network. The file passes ONNX's full check first; its batch is open.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

import onnx
from nnc.nn.zoo import NETWORKS, network
from nnc.onnx import load, save

# Small enough to be written twice.
SMALL = [name for name, row in NETWORKS.items() if row.parameters < 200e6]


def measure(name: str, folder: Path) -> dict[str, object]:
    model, random = network(name), np.random.default_rng(0)
    path = folder / f"{name}.onnx"
    began = time.perf_counter()
    save(model, path)
    seconds = time.perf_counter() - began
    onnx.checker.check_model(str(path), full_check=True)
    read = load(path)
    feeds = {
        one: (random.standard_normal(x.shape) if x.dtype.kind == "f" else random.integers(0, 60, x.shape)).astype(
            x.dtype
        )
        for one, x in read.placeholders(batch=1).items()
    }
    y = model.predict(tuple(feeds.values()) if len(feeds) > 1 else feeds["x"])
    again = np.asarray(read.run(feeds)["y"])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    theirs = session.run(None, feeds)[0]
    largest = np.abs(y).max()
    return {
        "network": name,
        "seconds": seconds,
        "bytes": path.stat().st_size,
        "ours": float(np.abs(again - y).max() / largest),
        "onnxruntime": float(np.abs(theirs - y).max() / largest),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", nargs="*", default=SMALL)
    for name in parser.parse_args().network:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(name, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
