"""The start of scripts/nnc: until the imports are done, Ctrl-C ends the process at once and without a trace."""

import signal
import sys

if __name__ == "__main__":
    handler = signal.getsignal(signal.SIGINT)
    # The handler comes before the imports. A process started in the background ignores SIGINT; that stays so.
    if handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nnc.cli.main import main

    signal.signal(signal.SIGINT, handler)
    sys.exit(main())
