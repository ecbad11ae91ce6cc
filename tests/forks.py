"""Programs in processes of their own, forked from a Python that has imported what they need.

    forking(COMMANDS).start(COMMAND_LINE, "train", "digits")        what `subprocess.Popen` gives
    forking(LIBRARIES).run("import nnc; print(nnc.__version__)")    the exit code and both outputs

To import what `nnc train` needs takes 2 s of a processor, and a fork 5 ms. Everything else is as it is for a program of
its own: its arguments, folder, environment, outputs, signals, and how the interpreter ends.

That Python waits for requests at a socket. For each it forks a keeper, which forks the program, tells its number and
waits for its end: whoever asked is not its parent, and cannot.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from types import MappingProxyType, ModuleType
from typing import IO, Any

# What is not ours, and what the command line imports as well. No engine is made, which takes its cache folder then.
LIBRARIES = "import inspect, json, ml_dtypes, numpy, typer"
COMMANDS = """
import contextlib, io
import nnc.cli.operators, nnc.cli.predict, nnc.cli.train, nnc.nn.model.summary, nnc.nn.training.sources
import nnc.backends.blas.backend, nnc.backends.llvm.backend, nnc.backends.onednn.backend, nnc.backends.transfer.backend
import nnc.backends.reference.kernels, nnc.codegen.kernels.table, nnc.codegen.program.claims
from nnc.backends.llvm.run.engine import engine
from nnc.cli.main import main
with contextlib.redirect_stderr(io.StringIO()):
    main(["memplan", "nothing.csv"])
assert not engine.cache_info().currsize
"""
NOTHING: Mapping[str, int] = MappingProxyType({})
COMMAND_LINE = "import sys; from nnc.cli.main import process; sys.exit(process())"


class ForkedProgram:
    """A started program: what the tests use of `subprocess.Popen`."""

    def __init__(self, control: socket.socket, stdout: IO[str] | None, stderr: IO[str] | None) -> None:
        self.control = control
        self.answers = control.makefile("r")
        self.pid = int(self.answers.readline())
        self.stdout, self.stderr = stdout, stderr
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it now."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, or minus the number of the signal that ended it."""
        if self.returncode is None:
            self.control.settimeout(timeout)
            try:
                self.returncode = int(self.answers.readline())
            except TimeoutError:
                self.answers = self.control.makefile("r")
                raise subprocess.TimeoutExpired("a program", timeout or 0.0) from None
            self.answers.close()
            self.control.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Both outputs to their ends."""
        outputs = ["", ""]

        def read(place: int, file: IO[str]) -> None:
            with suppress(ValueError), file:
                outputs[place] = file.read()

        files = [(place, file) for place, file in enumerate((self.stdout, self.stderr)) if file is not None]
        readers = [Thread(target=read, args=(place, file), daemon=True) for place, file in files if not file.closed]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return outputs[0], outputs[1]


class ForkingPython:
    """A Python that has run `preparation` and starts programs by forking."""

    def __init__(self, preparation: str) -> None:
        self.channel, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno()), preparation]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        atexit.register(self.close)

    def close(self) -> None:
        """Let it end."""
        self.channel.close()
        self.process.wait()

    def start(
        self,
        program: str,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] = os.environ,
        stdout: int = PIPE,
        stderr: int = PIPE,
        passed: Mapping[str, int] = NOTHING,
    ) -> ForkedProgram:
        """Run the text of a program; variables of its environment name the descriptors that are `passed`, there."""
        ours, control = socket.socketpair()
        request = {
            "program": program, "arguments": arguments, "cwd": str(cwd or Path.cwd()), "environment": dict(env),
            "passed": [*passed],
        }  # fmt: skip
        given, files = [os.open(os.devnull, os.O_RDONLY)], list[IO[str] | None]()
        for output in (stdout, stderr):
            ours_end, theirs_end = os.pipe() if output == PIPE else (None, os.dup(output))
            files.append(None if ours_end is None else os.fdopen(ours_end, encoding="utf-8"))
            given.append(theirs_end)
        with control:
            socket.send_fds(self.channel, [b"!"], [*given, *passed.values(), control.fileno()])
        for descriptor in given:
            os.close(descriptor)
        ours.sendall(json.dumps(request).encode() + b"\n")
        return ForkedProgram(ours, *files)

    def run(self, program: str, *arguments: str, **options: Any) -> tuple[int, str, str]:
        """The exit code and both outputs."""
        started = self.start(program, *arguments, **options)
        out, err = started.communicate(120)
        return started.wait(), out, err


@cache
def forking(preparation: str) -> ForkingPython:
    """One for all tests of this process; it ends with it."""
    return ForkingPython(preparation)


def _serve(channel: socket.socket) -> str | None:
    """In a process that is to run a program, its text; None where nobody can ask any more."""
    while True:
        asked, descriptors, *_ = socket.recv_fds(channel, 1, 8)
        if not asked:
            return None
        if os.fork() == 0:
            channel.close()
            return _keep(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _keep(descriptors: list[int]) -> str:
    """Start what is asked for and tell how it ends; returns in the new process alone."""
    with socket.socket(fileno=descriptors.pop()) as control:
        request = json.loads(control.makefile().readline())
        child = os.fork()
        if child:
            for descriptor in descriptors:
                os.close(descriptor)
            control.sendall(b"%d\n" % child)
            status = os.waitpid(child, 0)[1]
            with suppress(OSError):
                control.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
    _become(request, descriptors)
    return str(request["program"])


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """What the system and the interpreter set up for a program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    for name in reversed(request["passed"]):
        os.environ[name] = str(descriptors.pop())
    os.chdir(request["cwd"])
    sys.argv = ["-c", *request["arguments"]]
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdout, sys.stderr = (
        os.fdopen(place, "w", encoding=encoding, errors=errors, closefd=False, buffering=1 if line else -1)
        for place, errors, line in ((1, "strict", os.isatty(1)), (2, "backslashreplace", True))
    )
    if settings := sys.modules.get("nnc.core.settings"):
        fresh = settings.from_environment()
        for name in settings.Settings.__slots__:
            setattr(settings.SETTINGS, name, getattr(fresh, name))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exec(sys.argv[2], {"__name__": "preparation"})
    if text := _serve(socket.socket(fileno=int(sys.argv[1]))):
        sys.modules["__main__"] = ModuleType("__main__")
        exec(text, vars(sys.modules["__main__"]))
