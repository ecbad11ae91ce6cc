"""What a language model's statement says of a process, and what it takes: twelve generations, each in one of its own.

    python benchmarks/language_memory.py model.gguf [further.gguf …] [--threads 2]

A row for each file, context, batch and type of caches: `stated` is `language.memory(…).process`, `taken` by how much
the memory that no file is behind rises above that after the imports, the tokenizer and the start of LLVM, at its
highest, and `off` = taken - stated, in MB. Ends with 1 unless all are within 5 % or 8 MB.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from process import last_row

# Contexts, batches and types of caches.
CASES = ((256, 1, "f32"), (1024, 1, "f32"), (1024, 1, "int8"), (512, 4, "f32"), (512, 4, "bf16"), (2048, 2, "int8"))
FRACTION, LEAST = 0.05, 8 << 20
PROGRAM = """
import json, sys
from process import high_water, settled
import nnc
from nnc.backends.llvm.run.engine import engine
from nnc.core.settings import SETTINGS
from nnc.language.architectures import open_files
from nnc.language.text.tokenizer import text_tokenizer
from nnc.nn.generation import generate
path, context, batch, cache, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
SETTINGS.threads = threads
stated = nnc.language.memory(path, context=context, batch=batch, cache=cache).process
tokenizer = text_tokenizer(open_files(path))
tokens = tokenizer.encode("The history of the world is long and full of stories. " * 200)
engine()
before = settled()
model = nnc.language.load(path, context=context, cache=cache)
generate(model.tokens, [tokens[: context - 8]] * batch, 8)
print(json.dumps([stated, high_water() - before]))
"""


def main() -> int:
    """A row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    wrong = 0
    for path in options.files:
        for context, batch, cache in CASES:
            words = [str(path), str(context), str(batch), cache, str(options.threads)]
            command, home = [sys.executable, "-c", PROGRAM, *words], Path(__file__).parent
            stated, taken = last_row(command, folder=home)
            within = abs(taken - stated) <= max(FRACTION * taken, LEAST)
            wrong += not within
            numbers = f"stated {stated / 1e6:.1f}, taken {taken / 1e6:.1f}, off {(taken - stated) / 1e6:+.1f} MB"
            mark = "" if within else " !"
            print(f"{path.name} context {context}, batch {batch}, {cache}: {numbers}{mark}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
