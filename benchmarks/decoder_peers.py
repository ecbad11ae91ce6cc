"""GPT-2 small of random weights in f32: tokens a second of prompts and of what follows, beside other runtimes.

    python benchmarks/decoder_peers.py [--threads 2] [--rounds 3] [--torch PYTHON] [--onnxruntime PYTHON]
        [--openvino PYTHON] [--processor]

For 1 and 8 rows: `read` 128 tokens of each, then `decode` 32 tokens behind 16, all rows together. A side is a process
of its own, one after the other in each round, and the best of its rounds counts. torch is transformers' GPT2LMHeadModel
with its cache, the others run the graph of `decoder_graph.py`. Tokens are fed, none is chosen. `--processor` counts
processor time of one thread, for machines with other work: a direction.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

from decoder_graph import decoder
from process import PAUSE, last_row

import onnx

BATCHES = (1, 8)
MEASURE = """
import json, sys, time
threads, batches = int(sys.argv[1]), json.loads(sys.argv[2])
READ, BEHIND, COUNT, RUNS = 128, 16, 32, 2
clock = time.process_time if sys.argv[4:] else time.perf_counter
def measured(read, decode):
    row = {}
    for batch in batches:
        read(batch, READ)
        decode(batch, BEHIND, 2)
        row[f"read, {batch} rows"] = max(batch * READ / read(batch, READ) for _ in range(RUNS))
        row[f"decode, {batch} rows"] = max(batch * COUNT / decode(batch, BEHIND, COUNT) for _ in range(RUNS))
    print(json.dumps(row))
"""
OURS = """
import numpy as np
from nnc import nn
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import I32
from nnc.nn.generation import CachedReader
from nnc.nn.zoo.language import gpt2_small
SETTINGS.threads = threads
model = nn.Model(gpt2_small(), (nn.UpTo(256),), input_dtype=I32).freeze_generation()
tokens = np.random.default_rng(0).integers(0, 50257, (8, 256)).tolist()
def read(batch, count):
    reader = CachedReader(model, batch, 256)
    began = clock()
    reader.read([row[:count] for row in tokens[:batch]])
    return clock() - began
def decode(batch, behind, count):
    reader = CachedReader(model, batch, 256)
    reader.read([row[:behind] for row in tokens[:batch]])
    began = clock()
    for place in range(behind, behind + count):
        reader.follow([row[place] for row in tokens[:batch]])
    return clock() - began
measured(read, decode)
"""
TORCH = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(threads)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config()).eval()
tokens = torch.randint(0, 50257, (8, 256))
@torch.inference_mode()
def read(batch, count):
    began = clock()
    model(tokens[:batch, :count], use_cache=True, logits_to_keep=1)
    return clock() - began
@torch.inference_mode()
def decode(batch, behind, count):
    kept = model(tokens[:batch, :behind], use_cache=True, logits_to_keep=1).past_key_values
    began = clock()
    for place in range(behind, behind + count):
        kept = model(tokens[:batch, place : place + 1], past_key_values=kept, use_cache=True).past_key_values
    return clock() - began
measured(read, decode)
"""
ONNX = """
import numpy as np
path = sys.argv[3]
names = [f"{name}_{layer}" for layer in range(12) for name in ("key", "value")]
tokens = np.random.default_rng(0).integers(0, 50257, (8, 256))
def step(kept, batch, first, count):
    mask = np.where(np.arange(first + count) <= first + np.arange(count)[:, None], 0, -np.inf).astype(np.float32)
    new = slice(first, first + count)
    feeds = {"tokens": tokens[:batch, new], "positions": np.arange(new.start, new.stop), "mask": mask}
    return run({**feeds, **{f"past_{name}": array for name, array in zip(names, kept)}})[1:]
def empty(batch):
    return [np.zeros((batch, 12, 0, 64), np.float32)] * len(names)
def read(batch, count):
    began = clock()
    step(empty(batch), batch, 0, count)
    return clock() - began
def decode(batch, behind, count):
    kept = step(empty(batch), batch, 0, behind)
    began = clock()
    for place in range(behind, behind + count):
        kept = step(kept, batch, place, 1)
    return clock() - began
"""
ONNXRUNTIME = (
    ONNX
    + """
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = threads, 3
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
run = lambda feeds: session.run(None, feeds)
measured(read, decode)
"""
)
OPENVINO = (
    ONNX
    + """
import openvino
options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
request = openvino.Core().compile_model(path, "CPU", options).create_infer_request()
def run(feeds):
    request.infer(feeds, share_inputs=True)
    return [np.array(request.get_output_tensor(place).data) for place in range(1 + len(names))]
measured(read, decode)
"""
)


def measured(python: str, program: str, threads: int, graph: str, *, processor: bool) -> dict[str, float]:
    """The numbers of a process."""
    words = [str(threads), json.dumps(BATCHES), graph, *["processor"] * processor]
    command = [python, "-P", "-c", MEASURE + program, *words]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    numbers: dict[str, float] = last_row(command, environment)
    return numbers


def main() -> None:
    """A line for each side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch", help="an interpreter that has torch and transformers")
    parser.add_argument("--onnxruntime", help="an interpreter that has it")
    parser.add_argument("--openvino", help="an interpreter that has it")
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    threads = 1 if options.processor else options.threads
    sides = {"nnc": (sys.executable, OURS)}
    peers = (("torch", TORCH), ("onnxruntime", ONNXRUNTIME), ("openvino", OPENVINO))
    sides |= {name: (python, program) for name, program in peers if (python := getattr(options, name))}
    best: dict[str, dict[str, float]] = {name: {} for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        graph = os.path.join(folder, "gpt2_small.onnx")
        if options.onnxruntime or options.openvino:
            onnx.save(decoder(), graph)
        for _ in range(options.rounds):
            for name, (python, program) in sides.items():
                rates = measured(python, program, threads, graph, processor=options.processor)
                for what, rate in rates.items():
                    best[name][what] = max(best[name].get(what, 0.0), rate)
                time.sleep(PAUSE)
    for name, rates in best.items():
        print(f"{name}: " + ", ".join(f"{what} {rate:,.1f}" for what, rate in rates.items()), flush=True)


if __name__ == "__main__":
    main()
