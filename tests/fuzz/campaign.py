"""Random calls in sessions; only exceptions of nnc may come out.

A session is a world and twenty calls on it, both fixed by its number. A call is at fault when it

    raises anything but an NncError (or Python's TypeError for an argument too few or too many), warns, does not come
    back in ten seconds, or takes the process down with it.
"""

from __future__ import annotations

import inspect
import json
import multiprocessing
import resource
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, chdir, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import GeneratorType

from tests.fuzz.limits import Overtime, describe, processor_limit, time_limit
from tests.fuzz.surface import Arguments, Target, arguments, targets
from tests.fuzz.world import World

from nnc.errors import NncError, VerificationError
from nnc.symbolic import Compiled

CALLS = 20
RETURNED = "returned"
# Seconds of a processor, and of any clock however busy the machine is.
SECONDS, PATIENCE = 10, 120
MEMORY = 4 << 30
# Compiled graphs of more bytes are not run: what they would do is known, what they would take is not there.
RUNNABLE = 1 << 20


# Arguments for a target.
Chooser = Callable[[World, Target], Arguments]


@dataclass(frozen=True, slots=True)
class Offence:
    """A call that did what no call may do."""

    session: int
    call: str
    what: str

    def __str__(self) -> str:
        return f"session {self.session}: {self.call}\n    {self.what}"


@dataclass(slots=True)
class Summary:
    """What came out of all calls, by name: RETURNED, or the name of the exception."""

    outcomes: Counter[str] = field(default_factory=Counter)
    offences: list[Offence] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return self.outcomes.total()

    def note(self, session: int, target: Target, attempt: Attempt) -> None:
        """Count a call in."""
        self.targets.add(target.name)
        self.outcomes[attempt.outcome] += 1
        if attempt.fault:
            self.offences.append(Offence(session, f"{target.name}({attempt.given})", attempt.fault))

    def add(self, other: Summary) -> None:
        """Count another part of the campaign in."""
        self.outcomes.update(other.outcomes)
        self.offences.extend(other.offences)
        self.targets |= other.targets

    def __str__(self) -> str:
        """One line of JSON."""
        offences = [str(offence) for offence in self.offences]
        return json.dumps(
            {
                "calls": self.calls,
                "targets": len(self.targets),
                "outcomes": dict(self.outcomes.most_common()),
                "offences": offences,
            }
        )


def run_session(number: int, table: list[Target]) -> Summary:
    """Twenty calls on one world; on the next one behind a value of a wrong type, which may have been let in."""
    summary = Summary()
    # Names drawn as text may be taken for files: let them be files of a folder that goes away.
    with TemporaryDirectory(prefix="nnc-fuzz-") as folder, chdir(folder):
        world = World(number)
        for _ in range(CALLS):
            target = world.random.choice(table)
            attempt = attempt_call(world, target)
            summary.note(number, target, attempt)
            if not attempt.given.sound:
                world.close()
                world = World(world.random.getrandbits(64))
        world.close()
    return summary


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call: its arguments, the name of what came out, and in words what may not, if it did."""

    given: Arguments
    outcome: str
    fault: str = ""


def attempt_call(world: World, target: Target, choose: Chooser = arguments) -> Attempt:
    """Call it, and do with the result what its receiver would."""
    given = Arguments((), {}, True)
    try:
        silent = redirect_stdout(StringIO())
        with silent, time_limit(PATIENCE), processor_limit(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            callee = target.callee(world)
            given = choose(world, target)
            _use(callee(*given.positional, **given.named))
        return Attempt(given, RETURNED)
    except (Exception, Overtime) as error:
        told = _is_told(error, target, given)
        return Attempt(given, type(error).__name__, "" if told else describe(error))


def _is_told(error: BaseException, target: Target, given: Arguments) -> bool:
    """Whether this may come out of the call."""
    if isinstance(error, VerificationError):
        # Said of the caller's graph by `verify` alone; anywhere else it says that we are at fault.
        return target.name.endswith(".verify")
    as_int = any(words in str(error) for words in ("int()", "interpreted as an integer"))
    if as_int and any(value is int for value in (*given.positional, *given.named.values())):
        # What the caller handed in as a function does not take what it is for.
        return True
    if isinstance(error, TypeError):
        return not _takes(target, given) or _is_of_class(error, given)
    return isinstance(error, NncError) and len(str(error)) > 10


def _is_of_class(error: TypeError, given: Arguments) -> bool:
    """Whether a class that was drawn for a function says what it takes."""
    drawn = [one for one in (*given.positional, *given.named.values()) if inspect.isclass(one)]
    classes = [base.__name__ for one in drawn for base in one.__mro__]
    return any(str(error).startswith(f"{name}.__init__() takes") for name in classes)


def _takes(target: Target, given: Arguments) -> bool:
    """Whether there are neither too few nor too many arguments, whatever they are."""
    signature = inspect.Signature(target.parameters)
    try:
        signature.bind(*given.positional, **given.named)
    except TypeError:
        return False
    return True


def _use(result: object) -> None:
    """Do with a result what its receiver would: enter it, read it, run it, print it."""
    if isinstance(result, AbstractContextManager) and not (hasattr(result, "close") or isinstance(result, Path)):
        with result:
            pass
    elif isinstance(result, GeneratorType):
        for _, _ in zip(range(100), result, strict=False):
            pass
    elif isinstance(result, Compiled):
        if result.memory().arena + result.memory().bound < RUNNABLE:
            result.run()
    else:
        repr(result)


def run_sessions(numbers: Iterable[int]) -> Summary:
    """Sessions in this process, one after another."""
    table, summary = targets(), Summary()
    for number in numbers:
        summary.add(run_session(number, table))
    return summary


def _run_bounded(numbers: range) -> Summary:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return run_sessions(numbers)


def run_campaign(count: int, seed: int, workers: int) -> Summary:
    """At least `count` calls in processes of their own, so that a crash is an offence and not the end."""
    sessions = range(seed, seed + -(-count // CALLS))
    parts = [sessions[start : start + 50] for start in range(0, len(sessions), 50)]
    summary = Summary()
    while parts:
        parts = _run_parts(parts, workers, summary)
    return summary


def _run_parts(parts: list[range], workers: int, summary: Summary) -> list[range]:
    """Run what can be run; after a crash the parts that are left, the first of them halved until it is one session."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = [(part, pool.submit(_run_bounded, part)) for part in parts]
        left: list[range] = []
        for part, future in futures:
            try:
                summary.add(future.result())
            except BrokenProcessPool:
                left.append(part)
    if not left:
        return []
    if workers > 1:
        # Who crashed is not known yet: once more, one at a time.
        return _run_parts(left, 1, summary)
    first, *rest = left
    if len(first) == 1:
        summary.offences.append(Offence(first[0], "one of its calls", "took the process down"))
        return rest
    middle = len(first) // 2
    return [first[:middle], first[middle:], *rest]
