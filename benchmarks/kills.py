"""A training that is killed at random instants and taken up again from its checkpoint; one JSON line.

    python benchmarks/kills.py [--kills N] [--first SEED]

Dropout, shuffling, batch norm, a schedule and two batches an update; a checkpoint behind each update. A process that
dies of SIGKILL leaves a checkpoint that the next one loads, from update `updates` on; one that cannot load it is a
failure. `same_bits` counts the trainings, of `endings`, whose weights in the end are those of one that nobody killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import numpy as np

from nnc import nn
from nnc.core.settings import SETTINGS
from nnc.nn.data import Batches, Examples

EPOCHS = 30
# Of the time of a whole training, the most until a kill: a few kills each.
SHARE = 1.0


def train(folder: Path) -> None:
    """From the last checkpoint to the end, and the weights' digest as a file."""
    drawn = np.random.default_rng(0)
    x, y = drawn.standard_normal((48, 10)).astype(np.float32), drawn.integers(0, 3, 48)
    layers = nn.Sequential(nn.Dense(32), nn.BatchNorm(), nn.ReLU(), nn.Dropout(0.3), nn.Dense(3))
    model = nn.Model(layers, (10,), optimizer=nn.Adam(nn.Cosine(0.01, 100)))
    batches, path = Batches(Examples("noise", x, y), 8, seed=1), folder / "last.safetensors"
    if path.exists():
        batches.restore(nn.load_checkpoint(path, model).batches)
        (folder / "taken_up").write_text(str(model.updates), encoding="ascii")
    rest, keeper = EPOCHS - batches.state().epoch, nn.LastCheckpoint(path, updates=1)
    model.fit(batches, epochs=rest, accumulate=2, callbacks=[keeper])
    digest = hashlib.sha256(b"".join(values.tobytes() for values in model.state_dict().values())).hexdigest()
    (folder / "result").write_text(f"{model.updates} {digest}", encoding="ascii")


def child(folder: Path) -> int:
    """A process that trains, forked."""
    if number := os.fork():
        return number
    code = 1
    try:
        train(folder)
        code = 0
    finally:
        os._exit(code)


def ended(number: int) -> int:
    """How the process ended: 0, or what it was killed by, negative."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    SETTINGS.threads = 1
    draw, counts = random.Random(options.first), dict.fromkeys(("kills", "taken_up", "endings", "same_bits"), 0)
    failures = list[str]()
    for _ in range(2):
        # What is imported and compiled here the children have.
        with TemporaryDirectory() as name:
            began = perf_counter()
            train(Path(name))
            calm, longest = Path(name, "result").read_text(encoding="ascii"), SHARE * (perf_counter() - began)
    while counts["kills"] < options.kills and not failures:
        with TemporaryDirectory() as name:
            folder, code = Path(name), -signal.SIGKILL
            while code == -signal.SIGKILL:
                number = child(folder)
                if counts["kills"] < options.kills:
                    sleep(draw.uniform(0.0, longest))
                    os.kill(number, signal.SIGKILL)
                code = ended(number)
                counts["kills"] += code == -signal.SIGKILL
                counts["taken_up"] += (folder / "taken_up").exists()
                (folder / "taken_up").unlink(missing_ok=True)
            failures += [] if code == 0 else [f"code {code} after {counts['kills']} kills"]
            counts["endings"] += 1
            counts["same_bits"] += (folder / "result").read_text(encoding="ascii") == calm if code == 0 else 0
    print(json.dumps({**counts, "failures": failures}))
    return 1 if failures or counts["same_bits"] < counts["endings"] else 0


if __name__ == "__main__":
    sys.exit(main())
