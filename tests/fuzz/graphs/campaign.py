"""Random graphs through the checks of a campaign: some look at every graph, one more at each in turn."""

from __future__ import annotations

import gc
import json
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.fuzz.graphs.case import Case
from tests.fuzz.graphs.checks import CHECKS, short_search
from tests.fuzz.graphs.reduce import reduce
from tests.fuzz.limits import Overtime, describe, time_limit
from tests.symbolic.programs import Program, random_program
from tests.symbolic.rows.control import ALL, UNROLLABLE

from nnc.core.values.dtype import F32, F64, DType

SECONDS = 60
PART = 50
# Differentiated so often, and of so many steps then.
ORDERS = (0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2)
STEPS = (12, 8, 5)
# Checks that take programs of their own kind.
OF_THEIR_OWN = frozenset(("llvm", "derivatives", "unrolled"))
# Few shapes of one type for native code: each other one is a kernel to compile.
NATIVE: tuple[DType, ...] = (F32, F64)


@dataclass(frozen=True, slots=True)
class Campaign:
    """Names of checks: those of every graph, and those of which each graph gets one."""

    always: tuple[str, ...]
    in_turn: tuple[str, ...] = ()

    def of(self, seed: int) -> tuple[str, ...]:
        """The checks of a graph."""
        return (*self.always, self.in_turn[seed % len(self.in_turn)]) if self.in_turn else self.always


CAMPAIGNS: Mapping[str, Campaign] = {
    "plans": Campaign(("planned",)),
    "damage": Campaign(("damaged",)),
    "moved": Campaign(("moved",)),
    "passes": Campaign(
        ("all passes", "llvm"),
        ("compiled", "one pass", "some passes", "texts", "unrolled", "derivatives", "carried", "streams", "limited"),
    ),
}


@dataclass(frozen=True)
class Failure:
    """A graph that failed a check, and how."""

    seed: int
    check: str
    what: str

    def __str__(self) -> str:
        return f"graph {self.seed}, {self.check}: {self.what}"


@dataclass
class Report:
    """How many graphs there were, how many commands they had, how many each check has seen, and which failed.

    `outcomes` says in how many graphs something came up: a row of programs, or what checks note.
    """

    graphs: int = 0
    commands: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count another part of the campaign in."""
        self.graphs += other.graphs
        self.commands += other.commands
        self.seen.update(other.seen)
        self.outcomes.update(other.outcomes)
        self.failures.extend(other.failures)

    def __str__(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "graphs": self.graphs,
                "commands": self.commands,
                "checks": dict(self.seen),
                "outcomes": dict(self.outcomes.most_common()),
                "failures": [str(failure) for failure in self.failures],
            }
        )


def case_of_seed(seed: int, check: str = "") -> Case:
    """The program that a seed stands for."""
    order = ORDERS[seed % len(ORDERS)]
    if check == "llvm":
        return Case(random_program(seed, dtypes=(NATIVE[seed % 4 // 3],), most=STEPS[1]), order)
    dtypes = (F64,) if check == "derivatives" else ()
    table = UNROLLABLE if check == "unrolled" else ALL
    return Case(random_program(seed, table=table, dtypes=dtypes, most=STEPS[order]), order)


def fault_of(case: Case, check: str, seed: int) -> str:
    """What the check says of the case; empty when it passes."""
    try:
        with time_limit(SECONDS), short_search():
            CHECKS[check](case, random.Random(seed))
    except (Exception, Overtime) as error:
        return describe(error)
    return ""


def run_campaign(
    first: int, count: int, workers: int, campaign: Campaign, tell: Callable[[str], object] = lambda line: None
) -> Report:
    """Graphs `first` to `first + count` in processes of their own, shared out in small parts; each part is told."""
    parts = [range(start, min(start + PART, first + count)) for start in range(first, first + count, PART)]
    report = Report()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_settle) as pool:
        for part, found in zip(parts, pool.map(run_graphs, parts, [campaign] * len(parts)), strict=True):
            report.add(found)
            tell(f"up to {part.stop}: {len(report.failures)} failures")
            for failure in found.failures:
                tell(str(failure))
    return report


def _settle() -> None:
    """What is imported stays: collections of garbage need not look at it."""
    gc.freeze()
    gc.set_threshold(50_000)


def run_graphs(seeds: Iterable[int], campaign: Campaign) -> Report:
    """Each seed is one graph, looked at by the checks of the campaign up to the first that fails."""
    report = Report()
    for seed in seeds:
        report.graphs += 1
        cases: dict[str, Case] = {}
        for check in campaign.of(seed):
            kind = check if check in OF_THEIR_OWN else ""
            if kind not in cases:
                cases[kind] = case_of_seed(seed, check)
            report.seen[check] += 1
            if what := fault_of(cases[kind], check, seed):
                report.failures.append(Failure(seed, check, what))
                break
        else:
            report.commands += sum(len(case.built.graph.execs) for case in cases.values())
            report.outcomes.update(set[str]().union(*(case.outcomes | case.built.rows for case in cases.values())))
    return report


def smallest(seed: int, check: str) -> Case:
    """The failing graph of a seed made small: the check still fails, in the same words up to the first colon."""
    case = case_of_seed(seed, check)
    said = _kind(fault_of(case, check, seed))

    def fails(program: Program) -> bool:
        return _kind(fault_of(Case(program, case.order), check, seed)) == said

    return Case(reduce(case.program, fails), case.order)


def _kind(what: str) -> str:
    return ":".join(what.split(":")[:2])
