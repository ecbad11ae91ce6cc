"""What waits for a rank and says how it ended: which rank, by which signal, and what it was doing.

    python -I -S watching.py python -m nnc.parallel.rank script.py          as `nnc launch` starts each rank

A process that is killed can say nothing, and mpiexec knows its number alone. So each rank has a parent that computes
nothing and knows its rank and its log. It imports none of ours, so it starts in 30 ms and takes 10 MB. A rank that is
killed by a fault has left its stack in memory that both have open (`nnc.parallel.rank`). Behind the words the parent
ends by the same signal, so that the launcher ends the other ranks.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

# The rank, by launcher: MPICH, Intel MPI and `srun --mpi=pmi2`; Open MPI; what speaks PMIx.
RANK_NAMES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
# Where a rank writes the stack of a fault, and the folder that it prints to.
FAULTS, LOGS = "NNC_RANK_FAULTS", "NNC_RANK_LOGS"
SHOWN_LINES, SHOWN_BYTES = 10, 16_384
# The launcher hands on what was printed, unless it is ended before it has read it.
FORWARDING_SECONDS = 0.3
# What ends a launch from outside: Windows has no SIGHUP.
ENDING = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]
# Linux, prctl: the signal that a child has when its parent is gone, and whether core files are written.
PARENT_GONE, DUMPABLE = 1, 4


def watch(rank: str, command: list[str]) -> int:
    """The exit code of a command; where a signal ended it that nobody sent us too, the words for it on stderr."""
    is_linux = sys.platform == "linux"
    faults = os.memfd_create("faults") if is_linux else -1
    passed_on: list[int] = []
    child = _start(command, {**os.environ, FAULTS: f"/proc/{os.getpid()}/fd/{faults}"})

    def pass_on(number: int, frame: object) -> None:
        passed_on.append(number)
        if number != signal.SIGINT:  # terminals and launchers send that to the group, which the child is in
            os.kill(child, number)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    if -code not in passed_on:
        stack = os.pread(faults, SHOWN_BYTES, 0) if is_linux else b""
        _tell(rank, -code, stack.decode(errors="replace"))
    _end_by(-code)
    return 128 - code


def _start(command: list[str], environment: dict[str, str]) -> int:
    """The child, in our group, with all that the launcher opened for it; it is killed where we are."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    child = os.fork()
    if child == 0:
        if library is not None:
            library.prctl(PARENT_GONE, int(signal.SIGKILL))
        os.execve(command[0], command, environment)
    return child


def _tell(rank: str, number: int, stack: str) -> None:
    """[rank 1] killed by SIGKILL, its last lines where they are in a file, and the stack of a fault."""
    name = signal.Signals(number).name
    hint = "; where nobody sent it, look for out of memory in dmesg" if number == signal.SIGKILL else ""
    lines = [f"killed by {name} ({signal.strsignal(number)}){hint}"]
    log = os.path.join(os.environ.get(LOGS, ""), f"rank-{rank}.log")
    if os.path.isfile(log):
        lines += [f"the last lines of {log}:", *_last_lines(log)]
    lines += stack.splitlines()
    sys.stderr.write("".join(f"[rank {rank}] {line}\n" for line in lines))
    sys.stderr.flush()
    time.sleep(FORWARDING_SECONDS)


def _last_lines(log: str) -> list[str]:
    with open(log, "rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - SHOWN_BYTES, 0))
        return file.read().decode(errors="replace").splitlines()[-SHOWN_LINES:]


def _end_by(number: int) -> None:
    """End as the rank did, without a second core file."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DUMPABLE, 0)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(watch(next((os.environ[name] for name in RANK_NAMES if name in os.environ), "?"), sys.argv[1:]))
