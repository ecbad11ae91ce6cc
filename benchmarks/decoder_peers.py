"""GPT-2 small of random weights in f32: tokens a second of prompts and of what follows, beside torch.

    python benchmarks/decoder_peers.py [--threads 2] [--rounds 3] [--torch PYTHON] [--processor]

For 1 and 8 rows: `read` 128 tokens of each, then `decode` 32 tokens behind 16, all rows together. A side is a process
of its own, one after the other in each round, and the best of its rounds counts. torch is transformers' GPT2LMHeadModel
with its cache. Tokens are fed, none is chosen. `--processor` counts processor time of one thread, for machines with
other work: a direction.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from process import PAUSE, last_row

BATCHES = (1, 8)
MEASURE = """
import json, sys, time
threads, batches = int(sys.argv[1]), json.loads(sys.argv[2])
READ, BEHIND, COUNT, RUNS = 128, 16, 32, 2
clock = time.process_time if sys.argv[3:] else time.perf_counter
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


def measured(python: str, program: str, threads: int, *, processor: bool) -> dict[str, float]:
    """The numbers of a process."""
    command = [python, "-P", "-c", MEASURE + program, str(threads), json.dumps(BATCHES), *["processor"] * processor]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    numbers: dict[str, float] = last_row(command, environment)
    return numbers


def main() -> None:
    """A line for each side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch", help="an interpreter that has torch and transformers")
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    threads = 1 if options.processor else options.threads
    sides = {"nnc": (sys.executable, OURS)}
    if options.torch:
        sides["torch"] = options.torch, TORCH
    best: dict[str, dict[str, float]] = {name: {} for name in sides}
    for _ in range(options.rounds):
        for name, (python, program) in sides.items():
            for what, rate in measured(python, program, threads, processor=options.processor).items():
                best[name][what] = max(best[name].get(what, 0.0), rate)
            time.sleep(PAUSE)
    for name, rates in best.items():
        print(f"{name}: " + ", ".join(f"{what} {rate:,.1f}" for what, rate in rates.items()), flush=True)


if __name__ == "__main__":
    main()
