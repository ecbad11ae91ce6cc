"""Programs on several ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from nnc.parallel.launching import command_of

# They are run by ranks, not imported.
collect_ignore = ["programs"]
PROGRAMS = Path(__file__).parent / "programs"
Launched = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def launched() -> Launched:
    """Runs a program of this folder on so many ranks, one thread each."""
    if find_spec("mpi4py") is None:
        pytest.skip("no mpi4py")

    def run(ranks: int, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        script = [str(PROGRAMS / program), *arguments]
        command = command_of(ranks, script) if ranks > 1 else [sys.executable, *script]
        environment = os.environ | {"NNC_THREADS": "1"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    return run
