"""The command behind scripts/fuzz. The same options give the same calls, graphs or interrupts.

The last line of the output is JSON: how many there were, what each check has seen, and what was at fault.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

from tests.fuzz.allocations.campaign import run_campaign as run_allocation_campaign
from tests.fuzz.campaign import run_campaign, run_sessions
from tests.fuzz.files.campaign import run_campaign as run_file_campaign
from tests.fuzz.graphs.campaign import CAMPAIGNS, Campaign, fault_of, run_graphs, smallest
from tests.fuzz.graphs.campaign import run_campaign as run_graph_campaign
from tests.fuzz.graphs.checks import CHECKS
from tests.fuzz.interleavings.campaign import run_campaign as run_interleaving_campaign
from tests.fuzz.interrupts.campaign import run_campaign as run_interrupt_campaign
from tests.fuzz.loops import run_campaign as run_loop_campaign
from tests.fuzz.ranks import run_campaign as run_rank_campaign
from tests.fuzz.threads import run_campaign as run_thread_campaign
from tests.fuzz.wrong_types import run_campaign as run_wrong_types

OF_ALL = (
    "calls",
    "files",
    "allocations",
    "interrupts",
    "interleavings",
    "loops",
    "ranks",
    "threads",
    "types",
    *CAMPAIGNS,
)


def main() -> int:
    """Run, print the summary; 0 when nothing was at fault."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument(
        "campaign",
        nargs="?",
        choices=OF_ALL,
        default="calls",
        help="what is random",
    )
    parser.add_argument("--count", type=int, default=100_000, help="at least so many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first session or graph (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--session", type=int, help="run this session of calls alone, in this process")
    parser.add_argument("--check", choices=tuple(CHECKS), action="append", help="of graphs: these checks alone")
    parser.add_argument("--reduce", type=int, metavar="GRAPH", help="print the smallest form of a graph that fails")
    options = parser.parse_args()
    if options.campaign == "calls":
        return _calls(options)
    if options.campaign == "files":
        return _files(options)
    if options.campaign == "allocations":
        return _allocations(options)
    if options.campaign == "interleavings":
        return _interleavings(options)
    if options.campaign == "loops":
        return _loops(options)
    if options.campaign == "ranks":
        return _ranks(options)
    if options.campaign == "types":
        return _wrong_types(options)
    if options.campaign == "threads":
        return _threads(options)
    return _interrupts(options) if options.campaign == "interrupts" else _graphs(options)


def _calls(options: argparse.Namespace) -> int:
    if options.session is not None:
        summary = run_sessions([options.session])
    else:
        summary = run_campaign(options.count, options.first, options.workers)
    print(summary)
    return 1 if summary.offences else 0


def _wrong_types(options: argparse.Namespace) -> int:
    summary = run_wrong_types(options.first, options.workers)
    print(summary)
    return 1 if summary.offences else 0


def _files(options: argparse.Namespace) -> int:
    report = run_file_campaign(options.first, options.count, options.workers)
    print(report)
    return 1 if report.failures else 0


def _allocations(options: argparse.Namespace) -> int:
    report = run_allocation_campaign(options.first, options.count, options.workers)
    print(report)
    return 1 if report.failures else 0


def _interrupts(options: argparse.Namespace) -> int:
    tell = partial(print, file=sys.stderr, flush=True)
    report = run_interrupt_campaign(options.first, options.count, options.workers, tell)
    print(report)
    return 1 if report.failures else 0


def _interleavings(options: argparse.Namespace) -> int:
    report = run_interleaving_campaign(options.first, options.count, options.workers)
    print(report)
    return 1 if report.failures else 0


def _loops(options: argparse.Namespace) -> int:
    report = run_loop_campaign(options.first, options.count, options.workers)
    print(report)
    return 1 if report.failures else 0


def _ranks(options: argparse.Namespace) -> int:
    report = run_rank_campaign(options.first, options.count, partial(print, file=sys.stderr, flush=True))
    print(report)
    return 1 if report.failures else 0


def _threads(options: argparse.Namespace) -> int:
    report = run_thread_campaign(options.count, options.first)
    print(report)
    return 0 if report.is_right else 1


def _graphs(options: argparse.Namespace) -> int:
    campaign = Campaign(tuple(options.check)) if options.check else CAMPAIGNS[options.campaign]
    if options.reduce is not None:
        return _reduce(options.reduce, campaign)
    tell = partial(print, file=sys.stderr, flush=True)
    report = run_graph_campaign(options.first, options.count, options.workers, campaign, tell)
    print(report)
    return 1 if report.failures else 0


def _reduce(seed: int, campaign: Campaign) -> int:
    for failure in run_graphs([seed], campaign).failures:
        case = smallest(failure.seed, failure.check)
        print(failure, case.program.steps, case.built.graph, case.built.wanted, sep="\n")
        print(fault_of(case, failure.check, failure.seed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
