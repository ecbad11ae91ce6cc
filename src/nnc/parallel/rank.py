"""One rank of a launch: `python -m nnc.parallel.rank script.py ARGUMENTS`, as `nnc launch` starts it.

The script runs as it would alone. What it raises ends all ranks, after its traceback with the rank in front; of a rank
that is ended from outside its parent tells (`nnc.parallel.starting.watching`), and the launcher ends the others.
"""

from __future__ import annotations

import faulthandler
import os
import runpy
import sys
import time
import traceback
from pathlib import Path

from nnc.parallel.communicator import world
from nnc.parallel.places import QUIET
from nnc.parallel.starting.watching import FAULTS, FORWARDING_SECONDS, LOGS


def main(arguments: list[str]) -> None:
    """Run a script, or with `-m` a module, with its arguments."""
    _leave_stack_in(os.environ.pop(FAULTS, ""))
    ranks = world()
    if os.environ.get(QUIET) and ranks.rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _log_to(os.environ.get(LOGS, ""), ranks.rank)
    is_module = arguments[0] == "-m"
    name, sys.argv = arguments[is_module], arguments[is_module:]
    code = 0
    try:
        if is_module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(name).resolve().parent)
            runpy.run_path(name, run_name="__main__")
    except SystemExit as error:
        code = int(error.code) if isinstance(error.code, int) else int(error.code is not None)
        if code:
            told = f"ended with {code}" if isinstance(error.code, int) else error.code
            print(f"[rank {ranks.rank}] {told}", file=sys.stderr)
    except BaseException:
        text = traceback.format_exc()
        sys.stderr.write("".join(f"[rank {ranks.rank}] {line}\n" for line in text.splitlines()))
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if code and ranks.size > 1:
        # The launcher hands on what was printed, unless it is ended before it has read it.
        time.sleep(FORWARDING_SECONDS)
        ranks.abort(code)
    sys.exit(code)


def _leave_stack_in(memory: str) -> None:
    """Who watches this rank reads there where in the program a fault was."""
    if os.path.exists(memory):
        faulthandler.enable(os.open(memory, os.O_WRONLY))


def _log_to(folder: str, rank: int) -> None:
    """Everything that this rank prints, its libraries too, goes to a file of its own."""
    if not folder:
        return
    file = os.open(Path(folder) / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)


if __name__ == "__main__":
    main(sys.argv[1:])
