from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.parallel.conftest import PROGRAMS, Launched
from tests.parallel.forked_ranks import forked_launches

from nnc.errors import ArgumentError, UsageError
from nnc.parallel import launching
from nnc.parallel.launching import command_of, launch
from nnc.parallel.starting import watching

mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="no mpi4py")
FAILS_TWICE = """
import ctypes, os, sys
from nnc import parallel
start, rank = os.environ["NNC_RESTART"], parallel.world().rank
print("start", start, flush=True)
def fault():
    ctypes.string_at(0)
if start == "1" and rank == 1:
    fault()
sys.exit(start == "0")
"""


@mpi
def test_the_line_names_ranks_hosts_and_the_program() -> None:
    line = command_of(4, ["train.py", "--epochs", "3"], Path("hosts.txt"))
    assert line[1:] == [
        "-n", "4", "-hostfile", "hosts.txt", sys.executable, "-I", "-S", watching.__file__,
        sys.executable, "-m", "nnc.parallel.rank", "train.py", "--epochs", "3",
    ]  # fmt: skip


def test_what_raises_on_one_rank_ends_all_with_its_traceback(launched: Launched) -> None:
    result = launched(2, "failing.py", "raises")
    assert result.returncode == 1
    assert "[rank 1] ValueError: the second rank's own trouble" in result.stderr


@mpi
def test_ranks_that_fail_say_so_begin_anew_so_often_and_print_to_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "once.py"
    script.write_text(FAILS_TWICE)
    told: list[str] = []
    with forked_launches():
        assert launch(2, [str(script)], logs=tmp_path / "logs", restarts=2, told=told.append) == 0
    assert told == ["ended with 1; start 2 of 3", "ended with 11; start 3 of 3"]
    words = capfd.readouterr().err
    assert "[rank 1] killed by SIGSEGV (Segmentation fault)\n[rank 1] the last lines of" in words
    assert "[rank 1] start 1\n[rank 1] Fatal Python error: Segmentation fault" in words
    assert f'File "{script}", line 7 in fault' in words
    logs = [(tmp_path / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]
    assert all("start 2" in text for text in logs)
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


@pytest.mark.parametrize("own", ["exit 0", ""], ids=["ends", "ends not"])
@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_signal_that_ends_us_ends_the_ranks_and_is_the_exit_code(
    name: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child signals us until we have handlers, and then again: who does not end by that is killed."""
    monkeypatch.setattr(launching, "TERMINAL_SECONDS", 0.01)
    number = signal.Signals[f"SIG{name}"]
    before = signal.signal(number, handler := lambda *_: None)
    try:
        text = f"trap '{own}' {name}; while :; do kill -{name} $PPID; sleep 0.05; done"
        assert launching._run(["/bin/sh", "-c", text], {}) == 128 + number
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
