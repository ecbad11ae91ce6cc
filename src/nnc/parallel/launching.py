"""Starting the ranks of a program: by `mpiexec`, which comes with MPI libraries of all kinds.

    launch(4, ["train.py", "--epochs", "3"])          the exit code

That of our own environment is taken before that of PATH. In an allocation of Slurm or PBS mpiexec starts its ranks on
the nodes of the allocation by itself; a file of hosts names others.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from nnc.arguments import Count, Size, checked
from nnc.core.precautions.replacement import make_folder
from nnc.core.settings import usable_cores
from nnc.errors import BackendError, UsageError
from nnc.parallel.places import FIX, QUIET
from nnc.parallel.starting import watching
from nnc.parallel.starting.watching import ENDING, LOGS

# Exit codes of what was ended from outside, and how long mpiexec may take to end by what a terminal sent to all.
ENDED = [128 + number for number in ENDING]
TERMINAL_SECONDS = 3.0
# How often the ranks were started before.
RESTART = "NNC_RESTART"


@checked
def launch(
    ranks: Count,
    arguments: Sequence[str],
    *,
    hosts: Path | None = None,
    logs: Path | None = None,
    restarts: Size = 0,
    quiet: bool = False,
    told: Callable[[str], object] = lambda text: None,
) -> int:
    """Run a script (or `-m module`) on so many ranks, and again at most `restarts` times where that fails.

    A machine's threads are shared among its ranks, unless NNC_THREADS says otherwise. With `logs` each rank prints to a
    file there; `quiet` ranks print nothing but the first's. `told` hears of a start anew, and NNC_RESTART counts them
    for the program, which goes on from its checkpoint. A rank that a signal ends is named, with the last lines of its
    log and the stack of a fault. Ctrl-C, and SIGTERM to us, end all ranks and are no failure that is tried again.
    """
    check_program(arguments)
    if hosts is not None and not hosts.is_file():
        raise UsageError("launch", got=f"no file {hosts}", need="a file of hosts, one a line", fix="HOST or HOST:RANKS")
    command = command_of(ranks, arguments, hosts)
    environment = dict(os.environ)
    if hosts is None:
        environment.setdefault("NNC_THREADS", str(max(usable_cores() // ranks, 1)))
    if logs is not None:
        make_folder(logs)
        environment[LOGS] = str(logs.resolve())
    if quiet:
        environment[QUIET] = "1"
    for attempt in range(restarts + 1):
        code = _run(command, environment | {RESTART: str(attempt)})
        if code in (0, *ENDED) or attempt == restarts:
            return code
        told(f"ended with {code}; start {attempt + 2} of {restarts + 1}")
    return code


def check_program(arguments: Sequence[str]) -> None:
    """UsageError for what is no program."""
    if not arguments or (arguments[0] == "-m" and len(arguments) < 2):
        raise UsageError("launch", got="no program", need="a script, or -m and a module")
    if arguments[0] != "-m" and not os.path.isfile(arguments[0]):
        raise UsageError("launch", got=f"no file {arguments[0]}", need="a script")


def command_of(ranks: int, arguments: Sequence[str], hosts: Path | None = None) -> list[str]:
    """The line that starts them; BackendError where there is no mpiexec."""
    own = Path(sys.executable).parent / "mpiexec"
    mpiexec = str(own) if own.is_file() else shutil.which("mpiexec")
    if mpiexec is None:
        raise BackendError("launch", got="no mpiexec", need="an MPI library", fix=FIX)
    of_hosts = ["-hostfile", str(hosts)] if hosts is not None else []
    watcher = [sys.executable, "-I", "-S", watching.__file__] if os.name == "posix" else []
    rank = [sys.executable, "-m", "nnc.parallel.rank", *arguments]
    return [mpiexec, "-n", str(ranks), *of_hosts, *watcher, *rank]


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """The exit code; 128 + the number of a signal that ended it, or us: ranks end with us."""
    with subprocess.Popen(command, env=environment) as process, _ending_signals():
        try:
            code = process.wait()
        except _EndedBySignal as ended:
            _hand_on(process, ended.number)
            return 128 + ended.number
    return 128 - code if code < 0 else code


class _EndedBySignal(BaseException):
    """A signal that ends us came, which no `except Exception` should keep."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def _ending_signals() -> Iterator[None]:
    """Within, the first two signals that would end us raise: in the main thread, which alone may say so."""
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) <= 2:
            raise _EndedBySignal(number)

    is_main = threading.current_thread() is threading.main_thread()
    # What nohup lets us ignore, we ignore.
    numbers = [number for number in ENDING if is_main and signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _hand_on(process: subprocess.Popen[bytes], number: int) -> None:
    """Let mpiexec end its ranks. Ctrl-C of a terminal it has had already, and a second one would cut words short."""
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERMINAL_SECONDS if number == signal.SIGINT else 0)
            return
        process.send_signal(number)
        process.wait()
    except _EndedBySignal:  # again
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERMINAL_SECONDS)
        process.kill()
