from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.parallel.conftest import PROGRAMS, Launched
from tests.parallel.forked_ranks import forked_launches

from nnc.errors import ArgumentError, UsageError
from nnc.parallel.launching import command_of, launch

mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="no mpi4py")


@mpi
def test_the_line_names_ranks_hosts_and_the_program() -> None:
    line = command_of(4, ["train.py", "--epochs", "3"], Path("hosts.txt"))
    assert line[1:] == [
        "-n", "4", "-hostfile", "hosts.txt", sys.executable, "-m", "nnc.parallel.rank", "train.py", "--epochs", "3",
    ]  # fmt: skip


def test_what_raises_on_one_rank_ends_all_with_its_traceback(launched: Launched) -> None:
    result = launched(2, "failing.py", "raises")
    assert result.returncode == 1
    assert "[rank 1] ValueError: the second rank's own trouble" in result.stderr


@mpi
def test_ranks_that_fail_say_so_begin_anew_so_often_and_print_to_files(tmp_path: Path) -> None:
    script = tmp_path / "once.py"
    script.write_text(
        "import os, sys\nprint('start', os.environ['NNC_RESTART'])\nsys.exit(os.environ['NNC_RESTART'] == '0')\n"
    )
    told: list[str] = []
    with forked_launches():
        assert launch(2, [str(script)], logs=tmp_path / "logs", restarts=2, told=told.append) == 0
    assert told == ["ended with 1; start 2 of 3"]
    logs = [(tmp_path / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]
    assert all("start 1" in text for text in logs)
    assert any(f"[rank {rank}] ended with 1" in text for rank, text in enumerate(logs))


def test_what_cannot_be_launched_says_so() -> None:
    with pytest.raises(UsageError, match="got no program"):
        launch(2, [])
    with pytest.raises(UsageError, match=r"got no file nothing\.py; need a script"):
        launch(2, ["nothing.py"])
    with pytest.raises(UsageError, match=r"got no file no-hosts; need a file of hosts"):
        launch(2, [str(PROGRAMS / "failing.py")], hosts=Path("no-hosts"))
    with pytest.raises(ArgumentError):
        launch(0, [str(PROGRAMS / "failing.py")])
