"""Which rank of how many this process is: what launchers leave in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from nnc.errors import BackendError
from nnc.parallel.starting.watching import RANK_NAMES

FIX = "pip install 'nnc[mpi]'"
# What a launch tells its ranks beside LOGS: that none but the first prints.
QUIET = "NNC_RANK_QUIET"


def rank_in(environment: Mapping[str, str] = os.environ) -> int | None:
    """The rank that a launcher gave this process; None where nobody launched it."""
    texts = (environment.get(name, "") for name in RANK_NAMES)
    return next((int(text) for text in texts if text.isdecimal()), None)


def alone_beside(environment: Mapping[str, str] = os.environ) -> int:
    """How many tasks srun started beside this one that do not know of each other; 0 for ranks, and for one alone."""
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "1")
    return int(tasks) - 1 if tasks.isdecimal() and rank_in(environment) is None else 0


def mpi() -> ModuleType:
    """mpi4py's MPI, which is initialized by the import; BackendError where it is not installed."""
    try:
        return import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        got = f"no MPI ({error})"
        raise BackendError("parallel", got=got, need="the package mpi4py and an MPI library", fix=FIX) from None
