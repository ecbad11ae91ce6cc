"""The engine: what a process needs once: target, JIT with its cache, and the pool of workers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache

from nnc.backends.llvm.ir.library import undisturbed
from nnc.backends.llvm.ir.target import TargetDescription, runnable_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.runtime import WorkerPool, make_pool
from nnc.core.disk_cache import DiskCache
from nnc.core.recorder import CLOCK
from nnc.core.settings import SETTINGS


@dataclass(frozen=True, slots=True)
class Engine:
    """Target, JIT and workers of this process."""

    target: TargetDescription
    jit: Jit
    pool: WorkerPool


_MAKING = threading.Lock()


@lru_cache(maxsize=1)
def engine() -> Engine:
    """The engine of this process, made at the first call; by one of the threads where several call at once."""
    with undisturbed(), _MAKING:
        return made()


@lru_cache(maxsize=1)
def traced_pool() -> WorkerPool:
    """Workers that note their times: of their own, so that those of everybody else do not have to ask."""
    with undisturbed(), _MAKING:
        return make_pool(made().jit, CLOCK)


@lru_cache(maxsize=1)
def made() -> Engine:
    """The same, for one thread at a time."""
    with undisturbed():
        target = runnable_target()
        jit = Jit(target, DiskCache(SETTINGS.cache_folder))
        return Engine(target, jit, make_pool(jit))
