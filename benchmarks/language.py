"""Tokens per second of a language model's file, beside llama.cpp: each in a process of its own, one after the other.

    python benchmarks/language.py model.gguf --threads 1 2 [--peer PYTHON]

PYTHON is an interpreter whose packages have llama_cpp (llama-cpp-python). A row: decoding of 40 tokens behind 16,
reading 256 and 16 tokens, seconds from the start of the process to the first token (with what was compiled before on
the disk), and the most memory of the process. Best of three, but for the start.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

TEXT = "The history of the world is long and full of stories. " * 40
OURS = """
import time; began = time.time()
import json, resource, sys
import nnc
from nnc.core.settings import SETTINGS
from nnc.language.kept_tokens import KeptTokens
path, threads, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SETTINGS.threads = threads
model = nnc.language.load(path, context=512)
tokens = model.tokenizer.encode(text, start=False)
KeptTokens(model.tokens, 512).scores(tokens[:4])
first = time.time() - began
def read(count):
    kept = KeptTokens(model.tokens, 512)
    start = time.perf_counter()
    kept.scores(tokens[:count])
    return count / (time.perf_counter() - start)
def decode():
    kept, row = KeptTokens(model.tokens, 512), tokens[:16]
    kept.scores(row)
    start = time.perf_counter()
    for token in tokens[16:56]:
        row.append(token)
        kept.scores(row)
    return 40 / (time.perf_counter() - start)
"""
PEER = """
import time; began = time.time()
import json, resource, sys
import llama_cpp
path, threads, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
model = llama_cpp.Llama(path, n_ctx=512, verbose=False, n_threads=threads, n_threads_batch=threads)
tokens = model.tokenize(text.encode(), add_bos=False)
model.eval(tokens[:4])
first = time.time() - began
def read(count):
    model.reset()
    start = time.perf_counter()
    model.eval(tokens[:count])
    return count / (time.perf_counter() - start)
def decode():
    model.reset()
    model.eval(tokens[:16])
    start = time.perf_counter()
    for token in tokens[16:56]:
        model.eval([token])
    return 40 / (time.perf_counter() - start)
"""
MEASURE = """
rows = {name: max(work() for _ in range(3)) for name, work in (
    ("decode", decode), ("read 256", lambda: read(256)), ("read 16", lambda: read(16)))}
rows |= {"first token, s": first, "process, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
print(json.dumps(rows))
"""


def measured(python: str, program: str, path: Path, threads: int) -> dict[str, float]:
    """The numbers of a process."""
    command = [python, "-c", program + MEASURE, str(path), str(threads), TEXT]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    numbers: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return numbers


def main() -> None:
    """A line for each thread count and program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--peer", help="an interpreter that has llama_cpp")
    options = parser.parse_args()
    for threads in options.threads:
        rows = {"nnc": measured(sys.executable, OURS, options.file, threads)}
        if options.peer:
            rows["llama.cpp"] = measured(options.peer, PEER, options.file, threads)
        for name, numbers in rows.items():
            shown = ", ".join(f"{what} {value:,.1f}" for what, value in numbers.items())
            print(f"{threads} threads, {name}: {shown}", flush=True)


if __name__ == "__main__":
    main()
