"""Each parameter of each public call once with each value of a wrong type; the others are drawn as ever.

What random calls meet by chance, a wrong type in one place, is here gone through in an order: who takes a value that
is no value of its annotation has to say so in words of nnc.
"""

from __future__ import annotations

import inspect
import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
from tests.fuzz.campaign import MEMORY, Summary, attempt_call
from tests.fuzz.surface import Arguments, Target, argument_of, targets
from tests.fuzz.world import ODD, World

WRONG: tuple[object, ...] = (
    *ODD, np.arange(2), np.ones((2, 2)), np.ones(0), np.array(1), np.float64(2), [None], [1.5], ("a",), {1: 2},
    {"a": None}, range(2), -1, "\ud800", "a\0b", ..., slice(None), Exception("x"),
)  # fmt: skip


def given_wrong(world: World, target: Target, *, place: int, wrong: object) -> Arguments:
    """The arguments that have no default, and in one place the wrong value."""
    positional: list[object] = []
    named: dict[str, object] = {}
    gap = False
    for number, parameter in enumerate(target.parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [wrong] if number == place and not gap else []
        elif number != place and parameter.default is not inspect.Parameter.empty:
            gap = True
        else:
            value = wrong if number == place else argument_of(world, parameter)
            if gap or parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
    return Arguments(tuple(positional), named, False)


def run_target(number: int, target: Target, seed: int = 0) -> Summary:
    """All wrong values in all places of one target, each on a world of its own."""
    summary = Summary()
    with TemporaryDirectory(prefix="nnc-fuzz-") as folder, chdir(folder):
        for place in range(len(target.parameters)):
            for which, wrong in enumerate(WRONG):
                world = World(seed + 10_000 * number + 100 * place + which)
                made = attempt_call(world, target, partial(given_wrong, place=place, wrong=wrong))
                summary.note(number, target, made)
                world.close()
    return summary


def run_targets(numbers: range, seed: int = 0) -> Summary:
    """The targets of these numbers, in this process."""
    table, summary = targets(), Summary()
    for number in numbers:
        summary.add(run_target(number, table[number], seed))
    return summary


def _run_bounded(numbers: range, seed: int) -> Summary:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return run_targets(numbers, seed)


def run_campaign(seed: int, workers: int) -> Summary:
    """All targets, in processes of their own."""
    count, summary = len(targets()), Summary()
    parts = [range(start, min(start + 100, count)) for start in range(0, count, 100)]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(_run_bounded, parts, [seed] * len(parts)):
            summary.add(part)
    return summary
