"""Which rank of how many this process is: what launchers leave in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from nnc.errors import BackendError

# By launcher: MPICH, Intel MPI and `srun --mpi=pmi2`; Open MPI; what speaks PMIx.
RANK_NAMES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
FIX = "pip install 'nnc[mpi]'"
# What a launch tells its ranks: the folder that they print to, and that none but the first prints.
LOGS, QUIET = "NNC_RANK_LOGS", "NNC_RANK_QUIET"


def rank_in(environment: Mapping[str, str] = os.environ) -> int | None:
    """The rank that a launcher gave this process; None where nobody launched it."""
    texts = (environment.get(name, "") for name in RANK_NAMES)
    return next((int(text) for text in texts if text.isdecimal()), None)


def mpi() -> ModuleType:
    """mpi4py's MPI, which is initialized by the import; BackendError where it is not installed."""
    try:
        return import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        got = f"no MPI ({error})"
        raise BackendError("parallel", got=got, need="the package mpi4py and an MPI library", fix=FIX) from None
