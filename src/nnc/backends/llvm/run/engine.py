"""The engine: what a process needs once: target, JIT with its cache, and the pool of workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from nnc.backends.llvm.run.host import runnable_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.profile import MachineProfile, keep_profile, shipped, stored_profile
from nnc.backends.llvm.run.runtime import WorkerPool, make_pool
from nnc.classes import dataclass
from nnc.codegen.ir.target import TargetDescription
from nnc.core.precautions.disk_cache import DiskCache, can_write
from nnc.core.running.llvm_library import undisturbed
from nnc.core.settings import SETTINGS
from nnc.core.values.recorder import CLOCK


@dataclass(frozen=True, slots=True)
class Engine:
    """Target, JIT and workers of this process."""

    target: TargetDescription
    jit: Jit
    pool: WorkerPool

    def following(self, profile: MachineProfile) -> Engine:
        """With the plans that are the faster ones on this machine."""
        target = profile.followed(self.target)
        return Engine(target, Jit(target, self.jit.cache), self.pool)


Measure = Callable[[Engine], MachineProfile]
# Kernels that are measured stand above this module: whoever imports them says how.
_MEASURES: list[Measure] = []
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
        return new_traced_pool()


@lru_cache(maxsize=1)
def new_traced_pool() -> WorkerPool:
    """The same, for one thread at a time."""
    return make_pool(made().jit, CLOCK)


@lru_cache(maxsize=1)
def made() -> Engine:
    """The same, for one thread at a time."""
    with undisturbed():
        host, folder = runnable_target(), SETTINGS.cache_folder
        family = shipped(host)
        target = host if family is None else family
        jit = Jit(target, DiskCache(folder, most_bytes=SETTINGS.cached_code_bytes))
        machine = Engine(target, jit, make_pool(jit))
        known = stored_profile(target, folder)
        # A second, most of what a first answer took beside a family that is known (docs/design/0031).
        wanted = family is None and (known is None or known.is_doubtful)
        if wanted and folder is not None and _MEASURES and can_write(folder):
            measured = _MEASURES[0](machine)
            known = measured if known is None else measured.joined(known)
            keep_profile(target, folder, known)
        return machine if known is None else machine.following(known)


def measure_by(measure: Measure) -> None:
    """Measure a machine so, once, when its engine is made and neither a profile nor its family is known (a second)."""
    _MEASURES[:] = [measure]
