"""Ranks that are killed, stopped, or whose disk is full at seeded instants of a training with checkpoints.

`launch` begins anew meanwhile, as often as it takes. Of each fault: the last checkpoint is there and says as many
updates as before, the next update comes within `LIMIT` seconds, and in the end weights are those of a training that
nobody disturbed, to the bit. By turns a checkpoint is one file, or parts of all ranks.

A fault's seed is its kind, its rank and how long after the start it comes; where that is within the training depends
on the machine.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from unittest.mock import patch

from nnc.nn import read_position
from nnc.parallel.launching import launch

PROGRAM = Path(__file__).parents[1] / "parallel/programs/resumable.py"
# Ranks wait so long for each other; a fault may cost that, what a stopped rank sleeps, and a start of all.
TIMEOUT, LIMIT = 20, 120.0
# Of fifty faults one is a stop for longer than ranks wait, one for less, and five are full disks.
LONG_STOP, SHORT_STOP, FULL_DISKS = 49, 24, (5, 15, 25, 35, 45)
LONG_SECONDS, SHORT_SECONDS = 30.0, 5.0
LATEST = 1.5


@dataclass
class Report:
    """How many faults of each kind there were, the longest until the next update, and what was wrong."""

    seen: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    trainings: int = 0
    failures: list[str] = field(default_factory=list)

    def note(self, kind: str, seconds: float) -> None:
        """Count a fault in."""
        self.seen[kind] += 1
        self.longest[kind] = max(self.longest.get(kind, 0.0), round(seconds, 1))

    def __str__(self) -> str:
        """One line of JSON."""
        rows = {"seen": dict(self.seen), "longest": self.longest, "trainings": self.trainings}
        return json.dumps({"faults": self.seen.total(), **rows, "failures": self.failures})


class Training:
    """A launch that begins anew until it has ended, in a folder of its own."""

    def __init__(self, folder: Path, ranks: int, stage: int, epochs: int, threads: ThreadPoolExecutor) -> None:
        self.folder, self.ranks = folder, ranks
        self.is_given_up = False
        script = [str(PROGRAM), str(folder), str(stage), str(epochs), str(TIMEOUT)]
        self.ended: Future[int] = threads.submit(
            launch, ranks, script, logs=folder / "logs", restarts=1000, told=self._again
        )

    def _again(self, text: str) -> None:
        if self.is_given_up:
            raise TimeoutError(text)

    def pids(self) -> list[int]:
        """The ranks that run, once all have said who they are."""
        files = [self.folder / f"pid{rank}" for rank in range(self.ranks)]
        texts = [file.read_text() if file.exists() else "" for file in files]
        return [int(text) for text in texts] if all(text and Path(f"/proc/{text}").exists() for text in texts) else []

    def updates(self) -> int:
        """Those of the last checkpoint."""
        path = self.folder / "last.safetensors"
        return read_position(path).updates if path.exists() else 0

    def waited(self, condition: Callable[[], object]) -> float:
        """Seconds until it holds or all is over; TimeoutError behind `LIMIT`."""
        began = monotonic()
        while not condition() and not self.ended.done():
            if monotonic() - began > LIMIT:
                self.give_up()
                raise TimeoutError(f"nothing in {LIMIT:.0f} s; {self.updates()} updates")
            sleep(0.01)
        return monotonic() - began

    def give_up(self) -> None:
        """End it for good."""
        self.is_given_up = True
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def result(self) -> str:
        """What came out, once all is over."""
        self.ended.result(LIMIT)
        return (self.folder / "result").read_text()


def kind_of(seed: int) -> str:
    """What happens to a rank."""
    place = seed % 50
    return "stop" if place in (LONG_STOP, SHORT_STOP) else "full disk" if place in FULL_DISKS else "kill"


def disturb(training: Training, seed: int) -> tuple[str, float] | None:
    """The fault of a seed, and seconds until the next update; None where the training ended before it."""
    draw, kind = Random(seed), kind_of(seed)
    training.waited(training.pids)
    sleep(draw.uniform(0.0, LATEST))
    pids = training.pids()
    if training.ended.done() or not pids:
        return None
    pid, before = draw.choice(pids), training.updates()
    with suppress(ProcessLookupError):
        if kind == "full disk":
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (64, 64))
        elif kind == "stop":
            os.kill(pid, signal.SIGSTOP)
            sleep(LONG_SECONDS if seed % 50 == LONG_STOP else SHORT_SECONDS)
            os.kill(pid, signal.SIGCONT)
        else:
            os.kill(pid, signal.SIGKILL)
    seconds = training.waited(lambda: training.updates() > before)
    assert training.updates() >= before, f"{training.updates()} updates behind {before}"
    return kind, seconds


def run_campaign(
    first: int, count: int, tell: Callable[[str], object] = lambda line: None, *, ranks: int = 2, epochs: int = 30
) -> Report:
    """Faults `first` to `first + count`, in as many trainings as that takes."""
    report, seed = Report(), first
    with patch.dict(os.environ, {"NNC_THREADS": "1"}), ThreadPoolExecutor(2) as threads:

        def training(folder: str, stage: int) -> Training:
            return Training(Path(folder), ranks, stage, epochs, threads)

        calm = []
        for stage in (0, 1):
            with TemporaryDirectory() as folder:
                calm.append(training(folder, stage).result())
        while seed < first + count:
            stage = report.trainings % 2
            with TemporaryDirectory(prefix="nnc-ranks-") as folder:
                disturbed = training(folder, stage)
                try:
                    while seed < first + count and not disturbed.ended.done():
                        if row := disturb(disturbed, seed):
                            report.note(*row)
                            seed += 1
                    assert disturbed.result() == calm[stage], "other weights"
                except Exception as error:
                    disturbed.give_up()
                    report.failures.append(f"fault {seed}, {kind_of(seed)}: {type(error).__name__}: {error}")
                    seed += 1
                report.trainings += 1
            tell(str(report))
    return report
