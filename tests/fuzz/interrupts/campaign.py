"""KeyboardInterrupt at seeded random instants: the same objects and the process go on, to the same answer.

A seed is a phase, the case in it and the instant. Of four instants three are places in the code, which are the same in
each run, and one is a time.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from tests.fuzz.interrupts.injection import chosen, interrupted, interrupted_by_clock, places
from tests.fuzz.interrupts.phases import PHASES, Case
from tests.fuzz.limits import Overtime, describe, time_limit

from nnc.core.settings import SETTINGS

SECONDS = 60
PART = 16


@dataclass
class Report:
    """How many interrupts each phase has seen, how many came out of it, and what was wrong afterwards."""

    seen: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count another part of the campaign in."""
        self.seen.update(other.seen)
        self.raised.update(other.raised)
        self.failures.extend(other.failures)

    def __str__(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "interrupts": self.seen.total(),
                "phases": dict(self.seen),
                "raised": dict(self.raised),
                "failures": self.failures,
            }
        )


@contextmanager
def _settled() -> Iterator[None]:
    """Without a cache on disk, with the settings as they were, and quiet where an interrupt met a finalizer."""
    before = SETTINGS.threads, SETTINGS.cache_folder, sys.unraisablehook
    SETTINGS.cache_folder = None
    sys.unraisablehook = lambda unraisable: None
    try:
        yield
    finally:
        SETTINGS.threads, SETTINGS.cache_folder, sys.unraisablehook = before


def case_of(seed: int, folder: Path) -> Case:
    """The case of a seed, as if nothing had happened yet."""
    phase = PHASES[phase_of(seed)]
    folder.mkdir()
    return phase(Random(seed), folder)


def phase_of(seed: int) -> str:
    """Phases take turns."""
    return tuple(PHASES)[seed % len(PHASES)]


def interrupt(seed: int, folder: Path) -> bool:
    """Interrupt the case of a seed; AssertionError unless it goes on to the right answer. Whether anything came out."""
    random, by_clock = Random(~seed), seed // len(PHASES) % 4 == 3
    rehearsal = case_of(seed, folder / "rehearsal")
    began = process_time()
    counts = places(rehearsal.work)
    seconds = process_time() - began
    case = case_of(seed, folder / "case")
    if by_clock:
        raised = interrupted_by_clock(case.work, max(random.random() * seconds / 2, 1e-6))
    else:
        raised = interrupted(case.work, *chosen(counts, random))
    gc.collect()
    got = case.answer()
    wanted = case_of(seed, folder / "wanted").answer()
    assert got == wanted, [name for name in wanted if got.get(name) != wanted[name]]
    return raised


def run_interrupts(seeds: Iterable[int]) -> Report:
    """One interrupt for each seed, in this process."""
    report = Report()
    for seed in seeds:
        phase = phase_of(seed)
        report.seen[phase] += 1
        try:
            with _settled(), TemporaryDirectory(prefix="nnc-interrupts-") as folder, time_limit(SECONDS):
                report.raised[phase] += interrupt(seed, Path(folder))
        except (Exception, KeyboardInterrupt, Overtime) as error:
            report.failures.append(f"interrupt {seed}, {phase}: {describe(error)}")
    return report


def run_campaign(first: int, count: int, workers: int, tell: Callable[[str], object] = lambda line: None) -> Report:
    """Interrupts `first` to `first + count` in processes of their own, shared out in small parts; each part is told."""
    parts = [range(start, min(start + PART, first + count)) for start in range(first, first + count, PART)]
    report = Report()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for part, found in zip(parts, pool.map(run_interrupts, parts), strict=True):
            report.add(found)
            tell(f"up to {part.stop}: {len(report.failures)} failures")
            for failure in found.failures:
                tell(failure)
    return report
