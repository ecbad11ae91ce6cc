"""Forks while other threads hold locks: the child goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
from tests.forks import COMMANDS, forking

from nnc.core.precautions.forking import fork_safe_lock, fork_safe_rlock, in_children

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def child(work: Callable[[], bool]) -> bool:
    """What a forked child says."""
    process = os.fork()
    if process == 0:
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@pytest.mark.parametrize("make", [fork_safe_lock, fork_safe_rlock])
def test_a_lock_of_another_thread_is_free_in_a_child(make: Callable[[], threading.Lock]) -> None:
    lock, held, gate = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            gate.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert child(lambda: lock.acquire(timeout=10.0))
    assert not lock.acquire(blocking=False)
    gate.set()
    thread.join()


def test_a_lock_of_the_forking_thread_stays_its_own() -> None:
    lock = fork_safe_rlock()
    with lock:
        assert child(lambda: lock.release() is None)


def test_an_owner_is_told_in_the_child_alone() -> None:
    class Owner:
        told = 0

        def forget_threads(self) -> None:
            self.told += 1

    owner = Owner()
    in_children(owner)
    assert child(lambda: owner.told == 1)
    assert owner.told == 0


FORKS = """
import os, sys, threading, warnings
import numpy as np
from nnc import nn
from nnc.core.settings import SETTINGS

warnings.simplefilter("ignore", DeprecationWarning)
SETTINGS.cache_folder, SETTINGS.threads = None, 2
x = np.ones((4, 3), np.float32)
shared = nn.Model(nn.Sequential(nn.Dense(300), nn.ReLU(), nn.Dense(2)), (3,))
wanted = shared.predict(x).copy()
going = True

def compile_all():
    units = 4
    while going:
        units += 1
        nn.Model(nn.Sequential(nn.Dense(units), nn.GELU(), nn.Dense(2)), (3,)).predict(x)
        shared.predict(np.ones((units, 3), np.float32))

thread = threading.Thread(target=compile_all)
thread.start()
codes = []
for number in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        right = np.array_equal(shared.predict(x), wanted)
        fresh = nn.Model(nn.Sequential(nn.Dense(7 + number), nn.Tanh(), nn.Dense(2)), (3,)).predict(x)
        os._exit(0 if right and np.isfinite(fresh).all() else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
going = False
thread.join()
print(codes)
"""


def test_a_child_of_a_process_that_compiles_works() -> None:
    assert forking(COMMANDS).run(FORKS, "4") == (0, "[0, 0, 0, 0]\n", "")
