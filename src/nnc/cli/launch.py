"""nnc launch: one program on several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnc.cli.terminal import complain
from nnc.parallel.launching import launch as launch_ranks


def launch(
    program: Annotated[list[str], typer.Argument(metavar="SCRIPT ARGUMENTS", help="A script, or -m and a module.")],
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, help="Processes.")] = 2,
    hosts: Annotated[Path | None, typer.Option(metavar="FILE", help="Machines to start them on, a line each.")] = None,
    logs: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write rank-N.log there.")] = None,
    restarts: Annotated[int, typer.Option(min=0, help="Begin anew so often where a rank fails.")] = 0,
) -> int:
    """Run a program on several ranks, by MPI (pip install 'nnc[mpi]').

    nnc launch -n 4 train.py --epochs 3
    """
    return launch_ranks(ranks, program, hosts=hosts, logs=logs, restarts=restarts, told=complain)
