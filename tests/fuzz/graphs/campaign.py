"""Random graphs through all checks: every graph is compiled, and one more check of the table looks at it."""

from __future__ import annotations

import multiprocessing
import random
import signal
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from types import FrameType

from tests.fuzz.graphs.checks import CHECKS, Case
from tests.fuzz.graphs.reduce import reduce
from tests.symbolic.programs import Program, random_program
from tests.symbolic.rows.control import ALL, UNROLLABLE

from nnc.core.dtype import F32, F64, DType

SECONDS = 10
PART = 50
ALWAYS = "compiled"
# Differentiated so often.
ORDERS = (0, 0, 0, 1, 1, 2)
# Few shapes of one type for native code: each other one is a kernel to compile.
NATIVE: tuple[DType, ...] = (F32, F64)


class Overtime(BaseException):
    """A check took too long; not an Exception, so that nothing under test catches it."""


def _overtime(number: int, frame: FrameType | None) -> None:
    raise Overtime(f"no answer in {SECONDS} s")


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
    """How many graphs each check has seen, and which failed."""

    seen: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    commands: int = 0

    def add(self, other: Report) -> None:
        """Count another part of the campaign in."""
        self.seen.update(other.seen)
        self.failures.extend(other.failures)
        self.commands += other.commands

    def __str__(self) -> str:
        rows = [f"{count:9} {name}" for name, count in sorted(self.seen.items())]
        head = f"{self.seen[ALWAYS]} graphs of {self.commands} commands, {len(self.failures)} failures"
        return "\n".join([head, *rows, *map(str, self.failures)])


def case_of_seed(seed: int, check: str = "") -> Case:
    """The program that a seed stands for."""
    if check == "llvm":
        return Case(random_program(seed, dtypes=(NATIVE[seed % 4 // 3],), most=8), ORDERS[seed % len(ORDERS)])
    dtypes = (F64,) if check == "derivatives" else ()
    table = UNROLLABLE if check == "unrolled" else ALL
    return Case(random_program(seed, table=table, dtypes=dtypes), ORDERS[seed % len(ORDERS)])


def fault_of(case: Case, check: str, seed: int) -> str:
    """What the check says of the case; empty when it passes."""
    before = signal.signal(signal.SIGALRM, _overtime)
    signal.alarm(SECONDS)
    try:
        CHECKS[check](case, random.Random(seed))
    except (Exception, Overtime) as error:
        return _describe(error)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return ""


def _describe(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('nnc/')[2]}:{frame.lineno}"
    return f"{type(error).__name__}: {str(error)[:200]} at {place}"


def run_campaign(count: int, seed: int, workers: int, checks: Sequence[str]) -> Report:
    """Graphs `seed` to `seed + count` in processes of their own, shared out in small parts."""
    parts = [range(start, min(start + PART, seed + count)) for start in range(seed, seed + count, PART)]
    report = Report()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(run_graphs, parts, [checks] * len(parts)):
            report.add(part)
    return report


def run_graphs(seeds: Iterable[int], checks: Sequence[str]) -> Report:
    """Each seed is one graph: compiled, and looked at by the checks in turn."""
    report = Report()
    for seed in seeds:
        check = checks[seed % len(checks)]
        case = case_of_seed(seed, check)
        for name in dict.fromkeys((ALWAYS, check)):
            report.seen[name] += 1
            if what := fault_of(case, name, seed):
                report.failures.append(Failure(seed, name, what))
                break
        else:
            report.commands += len(case.built.graph.execs)
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
