"""Ranks that mpiexec starts, forked from a Python that has imported what they need: 30 ms of a processor each, not 900.

mpiexec starts a few lines of Python, `STANDS_FOR`, which hand all that mpiexec gave them to this process and end as the
rank ends. It is as if mpiexec had started the rank: its environment, outputs, the pipe to mpiexec, its end by a
signal; and a rank ends when mpiexec ends what stands for it.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Thread
from unittest.mock import patch

from tests.forks import forking

from nnc.parallel import launching

IMPORTS = """
import nnc.backends.blas.backend, nnc.backends.llvm.backend, nnc.backends.onednn.backend, nnc.backends.transfer.backend
import nnc.backends.reference.kernels, nnc.codegen.kernels.table, nnc.codegen.program.claims
import nnc.nn.data, nnc.nn.files.sharded_checkpoint, nnc.nn.steps.step_builder, nnc.nn.training.training
import nnc.nn.zoo.language, nnc.parallel.rank, nnc.parallel
from nnc.parallel.communicator import world
assert not world.cache_info().currsize
"""
RANK = "import sys; from nnc.parallel.rank import main; main(sys.argv[1:])"
STANDS_FOR = """
import json, os, signal, socket, sys
asked = {"arguments": sys.argv[2:], "cwd": os.getcwd(), "environment": dict(os.environ)}
with socket.socket(socket.AF_UNIX) as keeper:
    keeper.connect(sys.argv[1])
    socket.send_fds(keeper, [json.dumps(asked).encode() + b"\\n"], [1, 2, int(os.environ["PMI_FD"])])
    code = int(keeper.makefile().readline() or 1)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -9 else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def command_of(ranks: int, arguments: Sequence[str], hosts: Path | None = None) -> list[str]:
    """The line that starts them."""
    command = _COMMAND_OF(ranks, arguments, hosts)
    place = command.index(sys.executable, command.index(sys.executable) + 1)  # behind what watches the rank
    return [*command[:place], sys.executable, "-S", "-E", "-c", STANDS_FOR, _listening(), *arguments]


@contextmanager
def forked_launches() -> Iterator[None]:
    """`nnc.parallel.launch` starts its ranks so."""
    with patch.object(launching, "command_of", command_of):
        yield


_COMMAND_OF = launching.command_of


@cache
def _listening() -> str:
    """The address that this process listens at, to its end."""
    address = os.path.join(tempfile.mkdtemp(prefix="ranks"), "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    Thread(target=_listen, args=(listener,), daemon=True).start()
    return address


def _listen(listener: socket.socket) -> None:
    while True:
        Thread(target=_keep, args=(listener.accept()[0],), daemon=True).start()


def _keep(client: socket.socket) -> None:
    """Start a rank, and end it with what stands for it; tell that how the rank ended."""
    with client:
        text, descriptors, *_ = socket.recv_fds(client, 1 << 16, 3)
        while not text.endswith(b"\n"):
            text += client.recv(1 << 16)
        asked = json.loads(text)
        out, err, launcher = descriptors
        rank = forking(IMPORTS).start(
            RANK, *asked["arguments"], cwd=Path(asked["cwd"]), env=asked["environment"], stdout=out, stderr=err,
            passed={"PMI_FD": launcher},
        )  # fmt: skip
        for descriptor in descriptors:
            os.close(descriptor)
        if client in select.select([client, rank.control], [], [])[0]:
            rank.kill()
        code = rank.wait()
        with suppress(OSError):
            client.sendall(b"%d\n" % code)
