"""Allocation k of a program fails, for every k: an error of ours, no byte more is held, a retry gives the same bits.

A seed is one of the programs and its variant; all of its allocations fail, one after another. What a program does
without the memory that it did not get, such as keeping an older choice, is counted as absorbed.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.fuzz.allocations.injection import counted
from tests.fuzz.allocations.programs import PROGRAMS
from tests.fuzz.interrupts.phases import Answer, Case
from tests.fuzz.limits import Overtime, describe, time_limit

from nnc.core.settings import SETTINGS
from nnc.errors import OutOfMemoryError

SECONDS = 120
ALL = sys.maxsize


@dataclass
class Report:
    """How many allocations failed in each program, in how many an error came out, and what was wrong."""

    failed: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count another part of the campaign in."""
        self.failed.update(other.failed)
        self.raised.update(other.raised)
        self.failures.extend(other.failures)

    def __str__(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "allocations": self.failed.total(),
                "programs": dict(self.failed),
                "raised": dict(self.raised),
                "failures": self.failures,
            }
        )


def program_of(seed: int) -> str:
    """Programs take turns."""
    return tuple(PROGRAMS)[seed % len(PROGRAMS)]


def case_of(seed: int, folder: Path) -> Case:
    """The program of a seed, as if nothing had happened yet."""
    folder.mkdir()
    return PROGRAMS[program_of(seed)](Random(seed), folder)


def whole(seed: int, folder: Path) -> tuple[Answer, int, int]:
    """Without a failure: the answer, the number of allocations of the work, and the bytes that are held in the end."""
    with counted() as source:
        case = case_of(seed, folder)
        before = source.calls
        case.work()
        count = source.calls - before
        answer = case.answer()
        del case
        return answer, count, source.live()


def fail(seed: int, turn: int, expected: int, folder: Path) -> tuple[Answer, bool, int]:
    """Allocation `turn` of the work fails: the answer of the same objects, whether an error came out, bytes held."""
    raised = False
    with counted() as source:
        case = case_of(seed, folder)
        source.fails = source.calls + turn
        try:
            case.work()
        except OutOfMemoryError:
            raised = True
        assert source.calls >= source.fails, "another number of allocations than before"
        answer = case.answer()
        del case
        return answer, raised, source.live(expected)


def turns(count: int, most: int) -> list[int]:
    """1 to `count`, or as many as `most` of them, from the first to the last."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(place * (count - 1) / (most - 1)) for place in range(most)})


def sweep(seed: int, folder: Path, report: Report, most: int) -> None:
    """All allocations of one program, or `most` of them."""
    name = program_of(seed)
    whole(seed, folder / "first")
    wanted, count, held = whole(seed, folder / "wanted")
    for turn in turns(count, most):
        answer, raised, still = fail(seed, turn, held, folder / str(turn))
        report.failed[name] += 1
        report.raised[name] += raised
        wrong = [key for key in wanted if answer.get(key) != wanted[key]]
        wrong += [f"{still} bytes held in place of {held}"] if still > held else []
        report.failures += [f"program {seed}, {name}, allocation {turn} of {count}: {one}" for one in wrong]


def run_programs(seeds: Iterable[int], most: int = ALL) -> Report:
    """The programs of some seeds, in this process."""
    report = Report()
    threads = SETTINGS.threads
    for seed in seeds:
        try:
            with TemporaryDirectory(prefix="nnc-allocations-") as folder, time_limit(SECONDS):
                sweep(seed, Path(folder), report, most)
        except (Exception, Overtime) as error:
            report.failures.append(f"program {seed}, {program_of(seed)}: {describe(error)}")
        finally:
            SETTINGS.threads = threads
    return report


def run_campaign(first: int, count: int, workers: int) -> Report:
    """Programs `first` to `first + count`, each in a process of its own."""
    report = Report()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1) as pool:
        for part in pool.map(run_programs, ([seed] for seed in range(first, first + count))):
            report.add(part)
    return report
