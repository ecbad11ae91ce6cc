"""The command behind scripts/fuzz. The same options give the same calls."""

from __future__ import annotations

import argparse
import os
import sys

from tests.fuzz.campaign import run_campaign, run_sessions


def main() -> int:
    """Run, print the summary; 0 when no call was at fault."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="calls at least (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first session (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--session", type=int, help="run this session alone, in this process")
    options = parser.parse_args()
    if options.session is not None:
        summary = run_sessions([options.session])
    else:
        summary = run_campaign(options.count, options.seed, options.workers)
    print(summary)
    return 1 if summary.offences else 0


if __name__ == "__main__":
    sys.exit(main())
