"""Tokens per second of a language model's file, beside llama.cpp: each in a process of its own, one after the other.

    python benchmarks/language.py model.gguf --threads 1 2 [--peer PYTHON]

PYTHON is an interpreter whose packages have xllamacpp, which times itself. A row: decoding of 40 tokens behind 16,
reading 256 and 16 tokens, seconds from the start of the process to the first token (with what was compiled before on
the disk), and the most memory of the process. Best of three, but for the start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from llama_peer import LLAMA_CPP
from process import PAUSE, last_row

from nnc.language.architectures import open_files
from nnc.language.text.tokenizer import text_tokenizer

TEXT = "The history of the world is long and full of stories. " * 40
OURS = """
import time; began = time.time()
import json, resource, sys
import nnc
from nnc.core.settings import SETTINGS
from nnc.language.kept_tokens import KeptTokens
path, threads, text = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
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
PEER = f"""
import time; began = time.time()
import json, resource, sys
{LLAMA_CPP}
path, threads, tokens = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
server = llama_server(path, threads)
def timings(prompt, count):
    return asked(server, prompt, count)["timings"]
timings(tokens[:4], 1)
first = time.time() - began
def read(count):
    return timings(tokens[:count], 1)["prompt_per_second"]
def decode():
    return timings(tokens[:16], 41)["predicted_per_second"]
"""
MEASURE = """
rows = {name: max(work() for _ in range(3)) for name, work in (
    ("decode", decode), ("read 256", lambda: read(256)), ("read 16", lambda: read(16)))}
rows |= {"first token, s": first, "process, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
print(json.dumps(rows))
"""


def measured(python: str, program: str, path: Path, threads: int, text: object) -> dict[str, float]:
    """The numbers of a process."""
    command = [python, "-c", program + MEASURE, str(path), str(threads), json.dumps(text)]
    # As where a package is installed: modules are compiled once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    numbers: dict[str, float] = last_row(command, environment)
    return numbers


def main() -> None:
    """A line for each thread count and program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--peer", help="an interpreter that has xllamacpp")
    options = parser.parse_args()
    tokens = text_tokenizer(open_files(options.file)).encode(TEXT, start=False)
    for threads in options.threads:
        rows = {"nnc": measured(sys.executable, OURS, options.file, threads, TEXT)}
        if options.peer:
            time.sleep(PAUSE)
            rows["llama.cpp"] = measured(options.peer, PEER, options.file, threads, tokens)
        for name, numbers in rows.items():
            shown = ", ".join(f"{what} {value:,.1f}" for what, value in numbers.items())
            print(f"{threads} threads, {name}: {shown}", flush=True)


if __name__ == "__main__":
    main()
