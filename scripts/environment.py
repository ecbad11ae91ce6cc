"""Makes or updates the environment of this checkout: `environment.py CALLER CHECKOUT ENVIRONMENT EXTRA`.

Runs on the standard library alone. Everything happens under a kernel lock that the installer inherits, so
two calls never meet and a killed call releases it. The stamps are taken away first and written back last:
an environment without its stamp is unfinished, and the next call makes it anew.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOCK = "nnc-environment.lock"
LOG = "nnc-environment.log"


class RefusedError(Exception):
    """The environment cannot be made; the message is the one line that the user reads."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks for which environment of which checkout; `extra` names optional dependencies or is empty."""

    caller: str
    checkout: Path
    environment: Path
    extra: str

    @property
    def python(self) -> Path:
        """The interpreter inside the environment."""
        return self.environment / "bin" / "python"

    def say(self, text: str) -> None:
        """One line on standard error: standard output belongs to the command that runs afterwards."""
        print(f"{self.caller}: {text}", file=sys.stderr, flush=True)


def stamp_path(request: Request, extra: str) -> Path:
    """The file whose presence says that the install with `extra` was finished."""
    return request.environment / f"nnc-environment{'-' if extra else ''}{extra}.stamp"


def birthplace(request: Request) -> bytes:
    """The head of a stamp: where the environment lives and the version of its Python.

    When this part differs no update can help. `environment.sh` builds the same bytes.
    """
    version = subprocess.run([request.python, "-V"], capture_output=True, check=False).stdout
    return b"".join(os.fsencode(path) + b"\n" for path in (request.checkout, request.environment)) + version


def fingerprint(request: Request) -> bytes:
    """The whole stamp: the birthplace, then the two files that decide what is installed and how."""
    files = (request.checkout / "pyproject.toml", Path(__file__))
    return birthplace(request) + b"".join(file.read_bytes() for file in files)


def is_fresh(request: Request) -> bool:
    """Whether the stamp is what this call would write."""
    stamp = stamp_path(request, request.extra)
    return stamp.is_file() and request.python.exists() and stamp.read_bytes() == fingerprint(request)


def can_update(request: Request) -> bool:
    """Whether the environment is a finished one of this place, so that installing over it is enough."""
    stamp = stamp_path(request, "")
    return stamp.is_file() and request.python.exists() and stamp.read_bytes().startswith(birthplace(request))


def check_ownership(request: Request) -> None:
    """Refuses a folder that holds something else: what is cleared here must have been made here."""
    folder = request.environment
    if folder.exists() and not (folder.is_dir() and ((folder / LOCK).exists() or not any(folder.iterdir()))):
        raise RefusedError(f"{folder} was not made by this script. Fix: remove it, or set NNC_VENV to a new path.")


@contextmanager
def locked(request: Request) -> Iterator[int]:
    """Holds the environment's lock; the descriptor is for the children that must hold it as well."""
    request.environment.mkdir(parents=True, exist_ok=True)
    with open(request.environment / LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            request.say(f"waiting for another call that is making {request.environment}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def clear(request: Request) -> None:
    """Removes all but the lock, which others may be waiting for."""
    for entry in list(request.environment.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()


def create(request: Request, lock: int) -> None:
    """An empty environment with pip."""
    version = ".".join(map(str, sys.version_info[:3]))
    request.say(f"making {request.environment} with Python {version} (once, about a minute)")
    clear(request)
    venv.create(request.environment, symlinks=True)
    run_module(request, lock, "ensurepip", fix="install python3-venv (Debian, Ubuntu: apt install python3-venv).")


def install(request: Request, lock: int) -> None:
    """`pip install --editable CHECKOUT[EXTRA]`.

    With an extra each module is compiled when it is first imported: all 10,000 at once took 32 of 74 s.
    """
    place, options = str(request.checkout), ["--disable-pip-version-check"]
    if request.extra:
        place, options = f"{place}[{request.extra}]", [*options, "--no-compile"]
    fix = "check the network, then call again."
    run_module(request, lock, "pip", "install", *options, "--editable", place, fix=fix)


def run_module(request: Request, lock: int, module: str, *arguments: str, fix: str) -> None:
    """Runs a module of the environment's Python; its talk goes to the log, its last error into the refusal."""
    log = request.environment / LOG
    command: list[str | Path] = [request.python, "-I", "-m", module, *arguments]
    with open(log, "wb") as output:
        code = subprocess.run(command, stdout=output, stderr=output, pass_fds=[lock], check=False).returncode
    if code:
        _, error, reason = log.read_text(errors="replace").rpartition("ERROR: ")
        reason = reason.splitlines()[0].rstrip(".") if error else f"it ended with code {code}"
        raise RefusedError(f"{module} failed: {reason}. The whole log: {log}. Fix: {fix}")


def write_stamp(request: Request, extra: str) -> None:
    """Writes beside and renames, so that a stamp is whole or absent."""
    path = stamp_path(request, extra)
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(fingerprint(request))
    unfinished.replace(path)


def make(request: Request) -> None:
    """Brings the environment up to the checkout: nothing, an install over it, or all anew."""
    check_ownership(request)
    with locked(request) as lock:
        if is_fresh(request):
            return
        update = can_update(request)
        for stamp in request.environment.glob("*.stamp"):
            stamp.unlink()
        if update:
            request.say(f"updating {request.environment}")
        else:
            create(request, lock)
        install(request, lock)
        for extra in {"", request.extra}:
            write_stamp(request, extra)


def main(caller: str, checkout: str, environment: str, extra: str) -> int:
    """The exit code: 0 when the environment is fresh, 1 when it cannot be made, 130 when interrupted."""
    request = Request(caller, Path(checkout), Path(environment), extra)
    try:
        make(request)
    except RefusedError as refusal:
        request.say(str(refusal))
        return 1
    except OSError as error:
        request.say(f"cannot make {request.environment}: {error}. Fix: set NNC_VENV to a path that can be written.")
        return 1
    except KeyboardInterrupt:
        request.say("interrupted; the next call makes the environment anew")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
