"""A slice of `scripts/fuzz interleavings`, two orders of each kind, and that it would see what it looks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.fuzz.interleavings.campaign import run_campaign
from tests.fuzz.interleavings.scheduler import Scheduler

ROOT = Path(__file__).resolve().parents[3]
CIRCLE = """
import sys, threading
from tests.fuzz.interleavings import scheduler
scheduler.patch()
scheduler.PATIENCE = 0.2
one, other = threading.Lock(), threading.Lock()

def cross(first, second):
    for _ in range(200):
        with first:
            with second:
                pass

scheduler.Scheduler(1, 2).run([lambda: cross(one, other), lambda: cross(other, one)])
"""


def test_a_slice_of_the_campaign() -> None:
    report = run_campaign(0, 16, 1)
    assert report.failures == []
    assert (report.seen.total(), len(report.seen)) == (16, 8)
    assert report.switches > 500


def test_threads_that_wait_for_each_other_are_told() -> None:
    ended = subprocess.run([sys.executable, "-c", CIRCLE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("stuck:")) == (3, 2)


def test_a_seed_is_one_order() -> None:
    def order(seed: int) -> list[int]:
        scheduler, found = Scheduler(seed, 2), list[int]()

        def work(number: int) -> None:
            for _ in range(20):
                found.append(number)
                scheduler.pause()

        scheduler.run([lambda number=number: work(number) for number in range(3)])
        return found

    assert order(1) == order(1)
    assert order(1) != order(2)
