"""Ranks that are killed and stopped at random instants; one JSON line per training, which counts all so far.

    python benchmarks/rank_faults.py [--kills N] [--stops N] [--seconds S] [--ranks N]

`nnc launch --restarts` trains to the end meanwhile, with a checkpoint after each update, by turns whole and in parts.
`same_bits` says of how many endings the weights were those of a training that nobody disturbed, and `longest` is the
most seconds between a fault and the next update behind it. A checkpoint that does not load ends the training without a
result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep

from nnc.nn import read_position

PROGRAM = Path(__file__).parents[1] / "tests/parallel/programs/resumable.py"
EPOCHS, TIMEOUT = 30, 60.0


class Training:
    """One launch in a folder of its own."""

    def __init__(self, folder: Path, ranks: int, stage: int, timeout: float, *further: str) -> None:
        self.folder, self.ranks = folder, ranks
        script = [str(PROGRAM), str(folder), str(stage), str(EPOCHS), str(timeout), *further]
        line = [sys.executable, "-m", "nnc", "launch", "-n", str(ranks), "--restarts", "1000", *script]
        environment, nowhere = os.environ | {"NNC_THREADS": "1"}, subprocess.DEVNULL
        self.process = subprocess.Popen(line, env=environment, stdout=nowhere, stderr=nowhere)

    def pids(self) -> list[int]:
        """The ranks that run, once all have said who they are."""
        files = [self.folder / f"pid{rank}" for rank in range(self.ranks)]
        texts = [file.read_text() if file.exists() else "" for file in files]
        return [int(text) for text in texts] if all(text and Path(f"/proc/{text}").exists() for text in texts) else []

    def updates(self) -> int:
        """Those of the last checkpoint."""
        path = self.folder / "last.safetensors"
        return read_position(path).updates if path.exists() else 0

    def result(self) -> str:
        """What came out, if it ended."""
        file = self.folder / "result"
        return file.read_text() if file.exists() else ""


def disturb(training: Training, draw: random.Random, seconds: float) -> float:
    """Kill a rank (or stop it for so long) at some instant, and wait for the next update; seconds until then."""
    while not (pids := training.pids()):
        if training.process.poll() is not None:
            return 0.0
        sleep(0.02)
    sleep(draw.uniform(0.0, 1.5))
    pid = draw.choice(pids)
    if training.process.poll() is not None or not Path(f"/proc/{pid}").exists():
        return 0.0
    os.kill(pid, signal.SIGSTOP if seconds else signal.SIGKILL)
    if seconds:
        sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    began, before = perf_counter(), training.updates()
    while training.updates() <= before and training.process.poll() is None:
        sleep(0.05)
    return perf_counter() - began


def faults(count: int, seconds: float, ranks: int, calm: dict[int, str]) -> None:
    """So many faults in as many trainings as that takes."""
    draw, done, endings, same, longest = random.Random(0), 0, 0, 0, 0.0
    while done < count:
        stage = endings % 2
        with tempfile.TemporaryDirectory() as name:
            training = Training(Path(name), ranks, stage, TIMEOUT)
            while training.process.poll() is None and done < count:
                waited = disturb(training, draw, seconds)
                done += waited > 0
                longest = max(longest, waited)
            training.process.wait()
            endings += 1
            same += training.result() == calm[stage]
        kind = "stopped" if seconds else "killed"
        row = {"kind": kind, "faults": done, "endings": endings, "same_bits": same, "longest": round(longest, 1)}
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stops", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    calm = {}
    for stage in (0, 1):
        with tempfile.TemporaryDirectory() as name:
            training = Training(Path(name), options.ranks, stage, TIMEOUT)
            training.process.wait()
            calm[stage] = training.result()
    print(json.dumps({"kind": "calm", "results": calm}), flush=True)
    if options.kills:
        faults(options.kills, 0.0, options.ranks, calm)
    if options.stops:
        faults(options.stops, options.seconds, options.ranks, calm)


if __name__ == "__main__":
    main()
