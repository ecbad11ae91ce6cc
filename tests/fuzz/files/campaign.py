"""Mutated files, read under a limit of memory: an error of ours or a whole result, within five seconds."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.fuzz.files.kinds import KINDS
from tests.fuzz.limits import Overtime, describe, processor_limit, time_limit

from nnc.errors import NncError, VerificationError

# Seconds of a processor, and of any clock however busy the machine is.
SECONDS, PATIENCE = 5, 120
MEMORY = 2 << 30
PART = 5000
READ = "read"


@dataclass(slots=True)
class Report:
    """How many files of each kind were read, and what came out; what was wrong, by file."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, other: Report) -> None:
        """Count another part of the campaign in."""
        self.outcomes.update(other.outcomes)
        self.failures.extend(other.failures)
        self.slowest = max(self.slowest, other.slowest)

    @property
    def files(self) -> int:
        """How many files there were."""
        return self.outcomes.total()

    def __str__(self) -> str:
        """One line of JSON."""
        kinds: dict[str, dict[str, int]] = {}
        for (kind, outcome), count in self.outcomes.most_common():
            kinds.setdefault(kind, {})[outcome] = count
        slowest = round(self.slowest, 3)
        return json.dumps({"files": self.files, "kinds": kinds, "slowest": slowest, "failures": self.failures})


def read_file(seed: int, report: Report, folder: Path) -> None:
    """Write the file of a seed into the folder, read it, and count what came out."""
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    content = kind.mutate(random, random.choice(kind.whole()))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place = folder / "file"
        place.write_bytes(content)
        outcome = READ
        try:
            with time_limit(PATIENCE), processor_limit(SECONDS):
                kind.read(place)
        except (Exception, Overtime) as error:
            outcome = type(error).__name__
            if not isinstance(error, NncError) or isinstance(error, VerificationError):
                report.failures.append(f"file {seed} ({kind.name}): {describe(error)}")
    report.slowest = max(report.slowest, time.perf_counter() - began)
    report.outcomes[kind.name, outcome] += 1


def read_files(seeds: Iterable[int]) -> Report:
    """The files of these seeds, in this process."""
    report = Report()
    with TemporaryDirectory(prefix="nnc-fuzz-") as folder:
        for seed in seeds:
            read_file(seed, report, Path(folder))
            for left in os.scandir(folder):
                os.unlink(left)
    return report


def _read_bounded(seeds: range) -> Report:
    for kind in KINDS:
        kind.whole()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return read_files(seeds)


def run_campaign(first: int, count: int, workers: int) -> Report:
    """Files in processes of their own with `MEMORY` bytes each; a process that dies is a failure of its part."""
    parts = [range(start, min(start + PART, first + count)) for start in range(first, first + count, PART)]
    report = Report()
    for start in range(0, len(parts), workers):
        batch = parts[start : start + workers]
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            for part, future in [(part, pool.submit(_read_bounded, part)) for part in batch]:
                try:
                    report.add(future.result())
                except BrokenProcessPool:
                    report.failures.append(f"one of the files {part.start} to {part.stop - 1} took the process down")
    return report
