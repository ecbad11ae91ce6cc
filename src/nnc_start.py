"""The start of the `nnc` command: until the imports are done, Ctrl-C ends the process at once and without a trace.

A module of its own, because the package's own import is a part of what takes time.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module


def main() -> int:
    """Import the command line and run it; the exit code."""
    handler = signal.getsignal(signal.SIGINT)
    # A process started in the background ignores SIGINT; that stays so.
    if handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    command_line = import_module("nnc.cli.main")
    signal.signal(signal.SIGINT, handler)
    code: int = command_line.process()
    return code


if __name__ == "__main__":
    sys.exit(main())
