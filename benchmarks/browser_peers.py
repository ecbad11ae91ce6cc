"""Modules of WebAssembly of ONNX files beside onnxruntime-web, in node: time, code, and the memory of each.

    npm install --prefix PEERS onnxruntime-web
    python benchmarks/browser_peers.py PEERS [--files squeezenet] [--threads 1 2]

One JSON line per file and number of threads. Files are the light models of the package `onnx` with random weights, as
in library_peers.py. Both run in one process of node in turns, with pauses, as the peer's threads spin for a while
behind a run: `ours` and `peer` are the medians in milliseconds, `code` the bytes of our module, whose weights are a
file, and `peer_code` those of the peer's. `off` is the largest difference of outputs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from library_peers import FILES, ports, write_filled

import nnc.onnx
from nnc import export

SCRIPT = """
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { load } from "./net.mjs";
const [peers, file, input, output, threads, runs] = process.argv.slice(2);
const ort = createRequire(peers + "/")("onnxruntime-web");
ort.env.wasm.numThreads = Number(threads);
ort.env.logLevel = "error";
const session = await ort.InferenceSession.create(readFileSync(file), { executionProviders: ["wasm"] });
const net = await load({ workers: Number(threads) });
const image = Float32Array.from({ length: 3 * 224 * 224 }, (_, n) => Math.sin(n * 12.9898) * 0.5 + 0.5);
const feeds = () => ({ [input]: new ort.Tensor("float32", image, [1, 3, 224, 224]) });
const names = { ours: [], peer: [] };
const pause = () => new Promise((done) => setTimeout(done, 60));
let off = 0;
for (let turn = 0; turn < Number(runs); ++turn) {
  await pause();
  for (let warm = 0; warm < 2; ++warm) {
    const began = performance.now(), made = net.run({ INPUT: image });
    if (warm) names.ours.push(performance.now() - began);
    names.made = Object.values(made)[0];
  }
  await pause();
  for (let warm = 0; warm < 2; ++warm) {
    const began = performance.now(), made = await session.run(feeds());
    if (warm) names.peer.push(performance.now() - began);
    const told = made[output].data;
    for (let n = 0; n < told.length; ++n) off = Math.max(off, Math.abs(told[n] - names.made[n]));
  }
}
const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];
console.log(JSON.stringify({ ours: median(names.ours), peer: median(names.peer), off, version: ort.env.versions.web }));
process.exit(0);
"""


def compared(peers: Path, name: str, threads: list[int], runs: int) -> None:
    """A line for each number of threads."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = folder / "net.onnx"
        write_filled(name, path)
        made = export.library(nnc.onnx.load(path), "net", target="browser", pool=True, constants_inside=False)
        made.write(folder)
        given, wanted = ports(path)
        (folder / "run.mjs").write_text(SCRIPT.replace("INPUT", made.inputs[0].name))
        peer_code = peers / "node_modules" / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
        for count in threads:
            command = ["node", "run.mjs", str(peers.resolve()), "net.onnx", given, wanted, str(count), str(runs)]
            told = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if told.returncode:
                raise SystemExit(told.stderr[-2000:])
            row = json.loads(told.stdout.splitlines()[-1])
            facts = {"file": name, "threads": count, **row, "ratio": row["ours"] / row["peer"]}
            sizes = {"code": len(made.files["net.wasm"]), "peer_code": peer_code.stat().st_size}
            print(json.dumps(facts | sizes | {"arena": made.arena_bytes, "weights": made.constant_bytes}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", type=Path)
    parser.add_argument("--files", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--runs", type=int, default=30)
    arguments = parser.parse_args()
    for name in arguments.files:
        compared(arguments.peers, name, arguments.threads, arguments.runs)


if __name__ == "__main__":
    main()
