"""Programs on several ranks."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.parallel.forked_ranks import command_of

# They are run by ranks, not imported.
collect_ignore = ["programs"]
PROGRAMS = Path(__file__).parent / "programs"
Launched = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def launched() -> Launched:
    """Runs a program of this folder on so many ranks, one thread each."""
    if find_spec("mpi4py") is None:
        pytest.skip("no mpi4py")

    def run(ranks: int, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = command_of(ranks, [str(PROGRAMS / program), *arguments])
        environment = os.environ | {"NNC_THREADS": "1"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.fixture(scope="session")
def of_three(launched: Launched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three ranks leave: one launch runs the programs one after another."""
    folder = tmp_path_factory.mktemp("three")
    programs = [["training.py", str(folder / "many.npy")], ["zero.py", str(folder), "1", "2", "3"], ["collectives.py"]]
    result = launched(3, "several.py", json.dumps(programs))
    assert (result.returncode, result.stdout) == (0, "3 ranks are done\n"), result.stderr
    return folder


@pytest.fixture(scope="session")
def of_two(launched: Launched, of_three: Path) -> Path:
    """What two ranks leave there: they go on from checkpoints of three."""
    adapters, products = (str(of_three / f"{name}2.npy") for name in ("adapters", "products"))
    programs = [["zero.py", str(of_three), "3=1", "1=2"], ["adapters.py", adapters], ["split_model.py", products]]
    result = launched(2, "several.py", json.dumps(programs))
    assert result.returncode == 0, result.stderr
    return of_three


def run_alone(program: str, *arguments: str) -> None:
    """Run a program of this folder in this process, which is a world of one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", [program, *arguments])
        runpy.run_path(str(PROGRAMS / program))
