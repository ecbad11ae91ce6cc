"""The process that waits for a rank."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from time import sleep

import pytest

from nnc.parallel.starting import watching

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="children of a parent that is gone are killed on Linux")


def watched(*command: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-I", "-S", watching.__file__, *command]
    return subprocess.Popen(line, env={"PMI_RANK": "3"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_ends_as_the_rank_did_and_names_the_signal_that_nobody_sent_both() -> None:
    with watched("/bin/sh", "-c", "exit 7") as process:
        assert process.wait(20) == 7
    with (
        watched("/bin/sh", "-c", "kill -KILL $$") as killed,
        watched("/bin/sh", "-c", "kill -ABRT $$") as aborted,
    ):
        assert killed.communicate(timeout=20)[1].startswith("[rank 3] killed by SIGKILL (Killed)")
        assert aborted.communicate(timeout=20)[1].startswith("[rank 3] killed by SIGABRT (Aborted)")
    assert (killed.returncode, aborted.returncode) == (-signal.SIGKILL, -signal.SIGABRT)


def test_what_ends_it_ends_the_rank_and_is_not_told_of() -> None:
    with watched("/bin/sh", "-c", "echo started; exec sleep 60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.terminate()
        assert process.communicate(timeout=20)[1] == ""
    assert process.returncode == -signal.SIGTERM


@LINUX
def test_where_it_is_killed_the_rank_is_killed_too() -> None:
    with watched("/bin/sh", "-c", "echo $$; exec sleep 60") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    for _ in range(500):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        sleep(0.01)
    pytest.fail("the rank lives on")
